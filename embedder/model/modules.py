"""The modules of a sentence-transformers model, as each of its versions writes them. Imports no torch."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from embedder.errors import ModelError, RemoteCodeRefused

SUPPORTED = ("Transformer", "Pooling", "Dense", "LayerNorm", "Normalize", "Dropout")
_ROUTERS = ("Router", "Asym")  # the name since version 5, and before
_SPARSE = ("SpladePooling", "MLMTransformer", "SparseAutoEncoder", "CSRSparsity", "SparseStaticEmbedding", "IDF")


@dataclass(frozen=True, slots=True)
class Module:
    """A module of a model."""

    kind: str  # name of its class
    folder: Path


def read_modules(folder: Path) -> list[Module]:
    """Return the modules of a model, in order; none for a plain transformers folder.

    Raises ModelError naming the file at fault, RemoteCodeRefused for a module of another package.
    """
    path = folder / "modules.json"
    if not path.exists():
        return []
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        return [_module(path, folder, row["type"], row["path"]) for row in rows]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ModelError(f"{path} cannot be read ({error}): fetch the model again") from error


def check_order(folder: Path, modules: Sequence[Module]) -> None:
    """Refuse what is not a transformer, its pooling, and modules that map a vector to a vector. Raises ModelError."""
    path, kinds = folder / "modules.json", [module.kind for module in modules]
    if path.exists() and (kinds[:2] != ["Transformer", "Pooling"] or {"Transformer", "Pooling"} & set(kinds[2:])):
        raise ModelError(
            f"{path} has the modules {', '.join(kinds) or 'none'}, in an order that is not supported: "
            "Transformer, Pooling, then any of Dense, LayerNorm and Normalize are"
        )


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object. Raises ModelError."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read ({error}): fetch the model again") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path} is not a JSON object: fetch the model again")
    return value


def _module(file: Path, folder: Path, kind: object, place: object) -> Module:
    kind, inside = str(kind), PurePosixPath(str(place))
    if not kind.startswith("sentence_transformers."):
        raise RemoteCodeRefused(f"{file} names the module {kind}, code that came with the model, which is never run")
    name = kind.rpartition(".")[2]
    if name in _SPARSE:
        raise ModelError(
            f"{file} names the module {kind}: a sparse encoder gives weights of words, not vectors; "
            "choose a dense model, whose vectors are searched together with the words of the lexical half"
        )
    if name in _ROUTERS:
        raise ModelError(f"{file} names a router, with a model for queries and one for documents: choose one for both")
    if name not in SUPPORTED:
        raise ModelError(f"{file} names the module {kind}, which is not supported: {', '.join(SUPPORTED)} are")
    if inside.is_absolute() or ".." in inside.parts:
        raise ModelError(f"{file} names the folder {inside}, which is outside of the model: fetch the model again")
    return Module(name, folder / inside)
