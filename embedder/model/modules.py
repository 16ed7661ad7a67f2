"""Read which poolings a sentence-transformers model uses, and which layers follow the poolings."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from embedder.errors import ModelError, RemoteCodeRefused
from embedder.model.files import errors_naming, read_json, read_object, weights_in

SUPPORTED = ("Transformer", "Pooling", "Dense", "Normalize", "Dropout")
POOLINGS = ("cls", "max", "mean", "lasttoken")
# Settings of older sentence-transformers versions. If several are true, their results are concatenated in this order.
_LEGACY_POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_MAX_WIDTH = 1 << 17
ACTIVATIONS = ("Identity", "Tanh")


@dataclass(frozen=True, slots=True)
class Module:
    """An entry of a model's modules.json."""

    kind: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Dense:
    """A linear layer with an activation."""

    inputs: int
    outputs: int
    activation: str
    weights: Path


@dataclass(frozen=True, slots=True)
class Normalize:
    """Division by the Euclidean norm."""


Step = Dense | Normalize


def read_modules(folder: Path) -> list[Module]:
    """Return the modules in modules.json, or [] if that file is missing. Raises ModelError or RemoteCodeRefused."""
    path = folder / "modules.json"
    if not path.exists():
        return []
    with errors_naming(path):
        return [_module(path, str(row["type"]), PurePosixPath(str(row["path"]))) for row in read_json(path)]


def _module(file: Path, kind: str, inside: PurePosixPath) -> Module:
    if not kind.startswith("sentence_transformers."):
        raise RemoteCodeRefused(f"{file} names the module {kind}, code that came with the model, which is never run")
    name = kind.rpartition(".")[2]
    if name not in SUPPORTED:
        raise ModelError(
            f"{file} names the module {kind}, which is not supported: choose a model that gives one vector for a "
            f"text, with only the modules {', '.join(SUPPORTED)}"
        )
    if inside.is_absolute() or ".." in inside.parts:
        raise ModelError(f"{file} names the folder {inside}, which is outside of the model: fetch the model again")
    return Module(name, file.parent / inside)


def check_order(folder: Path, modules: Sequence[Module]) -> None:
    """Raise ModelError if modules.json does not list one Transformer, then one Pooling, then only other modules."""
    path, kinds = folder / "modules.json", [module.kind for module in modules]
    if path.exists() and (kinds[:2] != ["Transformer", "Pooling"] or {"Transformer", "Pooling"} & set(kinds[2:])):
        raise ModelError(
            f"{path} has the modules {', '.join(kinds) or 'none'}, in an order that is not supported: "
            "they must be Transformer, Pooling, then any of Dense and Normalize"
        )


def read_poolings(module: Module) -> tuple[str, ...]:
    """Return the poolings of a model. Their results are concatenated. Raises ModelError if one is not supported."""
    path = module.folder / "config.json"
    config = read_object(path)
    mode = config.get("pooling_mode")
    if mode is None:
        mode = [name for key, name in _LEGACY_POOLINGS.items() if config.get(key)] or "mean"
    modes = tuple(map(str, mode)) if isinstance(mode, list) else (str(mode),)
    if not modes or not set(modes) <= set(POOLINGS):
        listed = " and ".join(modes) or "nothing"
        raise ModelError(f"{path} has the pooling {listed}, which is not supported: only {', '.join(POOLINGS)} are")
    if config.get("include_prompt", True) is False:
        raise ModelError(f"{path} leaves the prompt out of pooling (include_prompt), which is not supported")
    return modes


def read_steps(modules: Sequence[Module], width: int) -> tuple[Step, ...]:
    """Return the layers after pooling. Pooled vectors have `width` numbers. Raises ModelError if a layer is invalid."""
    steps: list[Step] = []
    for module in modules:
        if module.kind == "Normalize":
            steps.append(Normalize())
        elif module.kind == "Dense":
            steps.append(dense := _read_dense(module.folder, width))
            width = dense.outputs
    return tuple(steps)


def _read_dense(folder: Path, width: int) -> Dense:
    path = folder / "config.json"
    config = read_object(path)
    name = str(config.get("activation_function") or "torch.nn.modules.activation.Tanh")
    package, _, activation = name.rpartition(".")
    if not package.startswith("torch.nn") or activation not in ACTIVATIONS or config.get("use_residual"):
        raise ModelError(
            f"{path} has the activation {name}, or use_residual, which is not supported: "
            f"choose a model with {' or '.join(ACTIVATIONS)} of torch.nn"
        )
    with errors_naming(path):
        dense = Dense(int(config["in_features"]), int(config["out_features"]), activation, weights_in(folder))
    if not 0 < dense.outputs <= _MAX_WIDTH:
        raise ModelError(f"{path} returns vectors of {dense.outputs:,} numbers: 1 to {_MAX_WIDTH:,} are supported")
    if dense.inputs != width:
        raise ModelError(f"{path} takes vectors of {dense.inputs} numbers, but the module before it returns {width}")
    return dense
