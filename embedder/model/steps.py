"""What a model does with a text's token vectors: poolings, then steps from vector to vector. Imports no torch."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedder.errors import ModelError
from embedder.model.modules import Module, read_object

POOLINGS = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
# What older versions write, in the order in which they put the parts of a vector.
_LEGACY_POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
# Last part of the names under which a Dense module's configuration has them.
ACTIVATIONS = ("Identity", "Tanh", "ReLU", "GELU", "Sigmoid", "SiLU")
_SENTENCE = "sentence_embedding"
_CARD = re.compile(r'"matryoshka_dims":\s*\[([\d,\s]+)\]')  # as a model card lists the parameters of its training


@dataclass(frozen=True, slots=True)
class Dense:
    """A linear layer and an activation."""

    inputs: int
    outputs: int
    activation: str  # one of ACTIVATIONS
    residual: bool  # whether what comes in is added, by a second linear layer where the sizes differ
    weights: Path


@dataclass(frozen=True, slots=True)
class LayerNorm:
    """Layer norm, with the default epsilon of torch."""

    size: int
    weights: Path


@dataclass(frozen=True, slots=True)
class Normalize:
    """Division by the Euclidean norm."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The first numbers of a vector: Matryoshka truncation (Kusupati et al. 2022)."""

    outputs: int


Step = Dense | LayerNorm | Normalize | Cut


def read_poolings(module: Module) -> tuple[str, ...]:
    """Return the poolings whose results a model concatenates. Raises ModelError."""
    path = module.folder / "config.json"
    config = read_object(path)
    mode = config.get("pooling_mode")
    if mode is None:
        mode = [name for key, name in _LEGACY_POOLINGS.items() if config.get(key)] or "mean"
    modes = tuple(map(str, mode)) if isinstance(mode, list) else (str(mode),)
    if not modes or not set(modes) <= set(POOLINGS):
        asked = " and ".join(modes) or "nothing"
        raise ModelError(f"{path} asks for the pooling {asked}, which is not supported: {', '.join(POOLINGS)} are")
    if config.get("include_prompt", True) is False:
        raise ModelError(f"{path} leaves the prompt out of pooling (include_prompt), which is not supported")
    return modes


def read_steps(modules: Sequence[Module], width: int) -> tuple[Step, ...]:
    """Return the steps that follow pooling, for pooled vectors of `width` numbers. Raises ModelError."""
    steps = tuple(_steps(modules))
    for module, step in zip((m for m in modules if m.kind != "Dropout"), steps, strict=True):
        needed = step.inputs if isinstance(step, Dense) else step.size if isinstance(step, LayerNorm) else width
        if needed != width:
            raise ModelError(f"{module.folder}/config.json takes {needed} numbers, and {width} come before it")
        width = step.outputs if isinstance(step, Dense) else width
    return steps


def cut(steps: tuple[Step, ...], dimensions: int) -> tuple[Step, ...]:
    """Return the steps with vectors cut to so many numbers, of unit length where they were so before."""
    if steps and isinstance(steps[-1], Normalize):
        return (*steps[:-1], Cut(dimensions), steps[-1])
    return (*steps, Cut(dimensions))


def trained_dimensions(folder: Path, config: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the sizes that a model says its vectors may be cut to, largest first; none where its files do not say.

    They are in config.json (`matryoshka_dimensions`), or in the model card that sentence-transformers writes.
    """
    named = config.get("matryoshka_dimensions")
    if isinstance(named, list) and all(isinstance(size, int) for size in named):
        return tuple(sorted(named, reverse=True))
    try:
        card = (folder / "README.md").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ()
    found = _CARD.search(card)
    return tuple(sorted(map(int, re.findall(r"\d+", found[1])), reverse=True)) if found else ()


def _steps(modules: Sequence[Module]) -> Iterator[Step]:
    for module in modules:
        path = module.folder / "config.json"
        if module.kind == "Dropout":  # does nothing once a model is trained
            continue
        config = read_object(path) if module.kind != "Normalize" or path.exists() else {}
        for key in ("module_input_name", "module_output_name"):
            if config.get(key) not in {None, _SENTENCE}:
                raise ModelError(
                    f"{path} works on {config[key]} ({key}), as models with a vector for each token do: "
                    "choose a model with one vector for a text"
                )
        try:
            if module.kind == "Dense":
                yield _dense(path, config)
            elif module.kind == "LayerNorm":
                yield LayerNorm(int(config["dimension"]), _weights(module.folder))
            else:
                yield Normalize()
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"{path} has no valid {error}: fetch the model again") from error


def _dense(path: Path, config: dict[str, Any]) -> Dense:
    name = str(config.get("activation_function") or "torch.nn.modules.activation.Tanh")
    package, _, activation = name.rpartition(".")
    if not package.startswith("torch.nn") or activation not in ACTIVATIONS:
        raise ModelError(
            f"{path} has the activation {name}, which is not supported: {', '.join(ACTIVATIONS)} of torch.nn are"
        )
    return Dense(
        inputs=int(config["in_features"]),
        outputs=int(config["out_features"]),
        activation=activation,
        residual=bool(config.get("use_residual", False)),
        weights=_weights(path.parent),
    )


def _weights(folder: Path) -> Path:
    path = folder / "model.safetensors"
    if not path.is_file():
        hint = " (a pytorch_model.bin is a pickle and is never loaded)" if any(folder.glob("*.bin")) else ""
        raise ModelError(f"{path} is missing{hint}: only safetensors weights are loaded")
    return path
