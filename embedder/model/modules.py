"""The modules of a sentence-transformers model, as each of its versions writes them. Reads JSON only; imports no torch.

`modules.json` lists classes and folders. A `Router` (before version 5: `Asym`) has routes of its own, by task, so the
list of a model can differ for queries and documents.
"""

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from embedder.errors import ModelError, RemoteCodeRefused

if TYPE_CHECKING:  # which brings numpy, and this is read for any --help
    from embedder.protocol import Role

ROUTERS = ("Router", "Asym")
SUPPORTED = ("Transformer", "Pooling", "Dense", "LayerNorm", "Normalize", "Dropout", *ROUTERS)
_SPARSE = ("SpladePooling", "MLMTransformer", "SparseAutoEncoder", "CSRSparsity", "SparseStaticEmbedding", "IDF")
# Names of a role's route, in the order of preference; `Asym` let authors choose them.
_ROUTES: Mapping["Role", tuple[str, ...]] = {
    "query": ("query",),
    "document": ("document", "passage", "corpus", "doc"),
}


@dataclass(frozen=True, slots=True)
class Module:
    """A module of a model."""

    kind: str  # name of its class
    folder: Path


def read_modules(folder: Path, role: "Role") -> list[Module]:
    """Return the modules that a model applies to the texts of a role, in order; none for a plain transformers folder.

    Raises ModelError naming the file at fault, RemoteCodeRefused for a module of another package.
    """
    path = folder / "modules.json"
    if not path.exists():
        return []
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        modules = [_module(path, folder, row["type"], row["path"]) for row in rows]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ModelError(f"{path} cannot be read ({error}): fetch the model again") from error
    return [leaf for module in modules for leaf in _leaves(module, role)]


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
            "choose a dense model, whose vectors are searched beside the words of the lexical half"
        )
    if name not in SUPPORTED:
        raise ModelError(f"{file} names the module {kind}, which is not supported: {', '.join(SUPPORTED)} are")
    if inside.is_absolute() or ".." in inside.parts:
        raise ModelError(f"{file} names the folder {inside}, which is outside of the model: fetch the model again")
    return Module(name, folder / inside)


def _leaves(module: Module, role: "Role") -> Iterator[Module]:
    """Yield the module, or what the role's route of a router consists of."""
    if module.kind not in ROUTERS:
        yield module
        return
    path = module.folder / "router_config.json"
    if not path.exists():
        path = module.folder / "config.json"  # of an Asym, and of routers before version 5
    config = read_object(path)
    try:
        structure: Mapping[str, list[str]] = config["structure"]
        route = _route(path, structure, config.get("parameters") or {}, role)
        inner = [_module(path, module.folder, config["types"][name], name) for name in structure[route]]
    except (TypeError, KeyError, AttributeError, ValueError, SyntaxError) as error:
        raise ModelError(f"{path} cannot be read ({error!r}): fetch the model again") from error
    for one in inner:
        yield from _leaves(one, role)


def _route(path: Path, structure: Mapping[str, list[str]], parameters: Mapping[str, Any], role: "Role") -> str:
    """Return the name of a role's route, by the order in which sentence-transformers looks it up."""
    mappings = {ast.literal_eval(key): route for key, route in (parameters.get("route_mappings") or {}).items()}
    for key in ((role, "text"), (role, None), (None, "text"), (None, None)):
        if key in mappings:
            return str(mappings[key])
    for name in (*_ROUTES[role], "text"):
        if name in structure:
            return name
    raise ModelError(
        f"{path} has no route for a {role}, only {', '.join(structure)}: "
        "choose a model whose routes are named query and document"
    )
