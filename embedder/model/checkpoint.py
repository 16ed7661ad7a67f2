"""Reads safetensors files, and names the weights of every family of models alike. Needs numpy alone.

The names are those of the modules `Encoder` and `ModernEncoder` in `encoder`, which are filled from here, as the native
engine's files are.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from embedder.errors import ModelError
from embedder.model.shape import Modern, Shape
from embedder.model.steps import Dense, LayerNorm

Array = npt.NDArray[np.float32]

# canonical name: what BERT and RoBERTa, MPNet, DistilBERT, and ModernBERT call it
_BERT = {
    "layers": "encoder.layer.{}.",
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "out": "attention.output.dense",
    "norm1": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
    "norm2": "output.LayerNorm",
}
_MPNET = _BERT | {
    "q": "attention.attn.q",
    "k": "attention.attn.k",
    "v": "attention.attn.v",
    "out": "attention.attn.o",
    "norm1": "attention.LayerNorm",
}
_DISTILBERT = {
    "layers": "transformer.layer.{}.",
    "q": "attention.q_lin",
    "k": "attention.k_lin",
    "v": "attention.v_lin",
    "out": "attention.out_lin",
    "norm1": "sa_layer_norm",
    "up": "ffn.lin1",
    "down": "ffn.lin2",
    "norm2": "output_layer_norm",
}
_MODERN = {
    "qkv": "attn.Wqkv",
    "out": "attn.Wo",
    "up": "mlp.Wi",
    "down": "mlp.Wo",
    "norm1": "attn_norm",
    "norm2": "mlp_norm",
}
_WORDS, _MODERN_WORDS = "embeddings.word_embeddings.weight", "embeddings.tok_embeddings.weight"
_Parts = dict[str, Callable[[], Array]]
_Sizes = dict[str, tuple[int, ...]]


class Weights(Mapping[str, Array]):
    """Weights by our names, as float32, each made when it is asked for, so that they need not all be in memory.

    Raises ModelError where one is missing, damaged, or not of the size that the model's config gives it.
    """

    def __init__(self, parts: _Parts, sizes: _Sizes, misfit: str) -> None:
        self._parts = parts
        self._sizes = sizes
        self._misfit = misfit

    def __getitem__(self, name: str) -> Array:
        weight = self._parts[name]()
        if weight.shape != self._sizes[name]:
            raise ModelError(f"{self._misfit}: {name} has the shape {weight.shape}, not {self._sizes[name]}")
        return weight

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


class _Checkpoint:
    """The tensors of a model's files, without what checkpoints of larger models put before every name."""

    def __init__(self, files: Sequence[Path], anchor: str) -> None:
        self._folder = files[0].parent
        self._tensors = Tensors(files)
        self._prefix = next((name.removesuffix(anchor) for name in self._tensors if name.endswith(anchor)), "")

    def has(self, name: str) -> bool:
        return self._prefix + name in self._tensors

    def take(self, name: str) -> Array:
        try:
            return self._tensors[self._prefix + name]
        except KeyError:
            raise ModelError(f"{self._folder} has no tensor {name!r}: fetch the model again") from None

    def joined(self, names: Sequence[str]) -> Array:
        return np.concatenate([self.take(name) for name in names])


def read_encoder(shape: Shape, kind: str, files: Sequence[Path]) -> Weights:
    """Return the weights of an encoder from its safetensors files; `kind` is the config's `model_type`.

    Raises ModelError naming a file that is damaged.
    """
    sizes = _sizes(shape)
    if shape.modern:
        parts = _modern_parts(_Checkpoint(files, _MODERN_WORDS), shape, shape.modern, sizes)
    else:
        names = {"mpnet": _MPNET, "distilbert": _DISTILBERT}.get(kind, _BERT)
        parts = _parts(_Checkpoint(files, _WORDS), shape, names)
    return Weights(parts, sizes, f"{files[0].parent}: weights do not fit config.json")


def read_step(step: Dense | LayerNorm) -> Weights:
    """Return the weights of a step after the encoder, as its file names them. Raises ModelError."""
    tensors = Tensors((step.weights,))
    if isinstance(step, LayerNorm):
        sizes: _Sizes = {"norm.weight": (step.size,), "norm.bias": (step.size,)}
    else:
        sizes = {"linear.weight": (step.outputs, step.inputs)}
        if "linear.bias" in tensors:
            sizes["linear.bias"] = (step.outputs,)
        if step.residual and step.inputs != step.outputs:
            sizes["residual.weight"] = (step.outputs, step.inputs)
    misfit = f"{step.weights} does not fit its config.json"
    if tensors.keys() != sizes.keys():
        raise ModelError(f"{misfit}: it has {', '.join(tensors) or 'no tensors'}, not {', '.join(sizes)}")
    return Weights({name: partial(tensors.__getitem__, name) for name in sizes}, sizes, misfit)


def _parts(source: _Checkpoint, shape: Shape, names: Mapping[str, str]) -> _Parts:
    parts: _Parts = {
        "words.weight": partial(source.take, _WORDS),
        "positions.weight": partial(_positions, source, shape.types),
    }
    for part in ("weight", "bias"):
        parts[f"norm.{part}"] = partial(source.take, f"embeddings.LayerNorm.{part}")
        for layer in range(shape.layers):
            prefix = names["layers"].format(layer)
            three = [f"{prefix}{names[x]}.{part}" for x in "qkv"]
            parts[f"layers.{layer}.qkv.{part}"] = partial(source.joined, three)
            for ours in ("out", "norm1", "up", "down", "norm2"):
                parts[f"layers.{layer}.{ours}.{part}"] = partial(source.take, f"{prefix}{names[ours]}.{part}")
    if shape.relative_buckets:
        length = shape.positions - shape.first_position
        table = "encoder.relative_attention_bias.weight"
        parts["relative"] = lambda: relative_position_bias(source.take(table), length)
    return parts


def _modern_parts(source: _Checkpoint, shape: Shape, modern: Modern, sizes: _Sizes) -> _Parts:
    width = shape.hidden // shape.heads
    parts: _Parts = {
        "words.weight": partial(source.take, _MODERN_WORDS),
        "global_angles": partial(angle_table, modern.global_theta, shape.positions, width),
        "local_angles": partial(angle_table, modern.local_theta, shape.positions, width),
    }
    named = {"norm": "embeddings.norm", "final": "final_norm"}
    for layer in range(shape.layers):
        named |= {f"layers.{layer}.{ours}": f"layers.{layer}.{theirs}" for ours, theirs in _MODERN.items()}
    del named["layers.0.norm1"]
    for ours, theirs in named.items():
        parts[f"{ours}.weight"] = partial(source.take, f"{theirs}.weight")
        bias = f"{theirs}.bias"  # no published model has one
        has = source.has(bias)
        parts[f"{ours}.bias"] = partial(source.take, bias) if has else partial(_zeros, sizes[f"{ours}.bias"])
    return parts


def _zeros(size: tuple[int, ...]) -> Array:
    return np.zeros(size, np.float32)


def _positions(source: _Checkpoint, types: int) -> Array:
    """The table of positions, with the vectors of types added, one type's after the other."""
    positions = source.take("embeddings.position_embeddings.weight")
    name = "embeddings.token_type_embeddings.weight"
    if not source.has(name):
        return positions
    return np.concatenate([positions + one for one in source.take(name)[:types]])


def _sizes(shape: Shape) -> _Sizes:
    """The size of every weight of an encoder."""
    d, f = shape.hidden, shape.intermediate
    sizes: _Sizes = {"words.weight": (shape.vocabulary, d)}
    linear = {"qkv": (3 * d, d), "out": (d, d), "up": (2 * f if shape.modern else f, d), "down": (d, f)}
    norms = ["norm"]
    if shape.modern:
        norms.append("final")
        sizes |= dict.fromkeys(("global_angles", "local_angles"), (shape.positions, d // shape.heads))
    else:
        sizes["positions.weight"] = (shape.types * shape.positions, d)
    if shape.relative_buckets:
        length = shape.positions - shape.first_position
        sizes["relative"] = (shape.heads, length, length)
    for layer in range(shape.layers):
        norms += [f"layers.{layer}.norm1", f"layers.{layer}.norm2"]
        for name, (n, k) in linear.items():
            sizes |= {f"layers.{layer}.{name}.weight": (n, k), f"layers.{layer}.{name}.bias": (n,)}
    return sizes | {f"{norm}.{part}": (d,) for norm in norms for part in ("weight", "bias")}


def relative_position_bias(table: Array, length: int) -> Array:
    """Expand MPNet's bias table (buckets, heads) to (heads, length, length), as its reference implementation does."""
    half = table.shape[0] // 2
    exact = half // 2
    distance = np.arange(length)[None, :] - np.arange(length)[:, None]  # key minus query
    n = np.arange(length, dtype=np.float32)
    far = exact + (np.log(np.maximum(n, 1) / exact) / math.log(128 / exact) * (half - exact)).astype(np.int64)
    buckets = np.where(n < exact, np.arange(length), np.minimum(far, half - 1))
    return np.ascontiguousarray(table[(distance > 0) * half + buckets[abs(distance)]].transpose(2, 0, 1))


def angle_table(theta: float, length: int, width: int) -> Array:
    """Return the cosines, then the sines, of the angles of rotary positions; float32 (length, width).

    Angles are rounded to float32, as those that models are trained with; their cosines and sines once, at the end.
    """
    exponents = np.arange(0, width, 2, dtype=np.float32) / np.float32(width)
    frequencies = 1 / (theta ** exponents.astype(np.float64)).astype(np.float32)
    angles = (np.arange(length, dtype=np.float32)[:, None] * frequencies).astype(np.float64)
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=-1).astype(np.float32)


_TYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
    "F64": np.dtype("<f8"),
}
_LONGEST_HEADER = 100_000_000  # bytes; the format's own limit


class _Place(NamedTuple):
    """Where a tensor is."""

    data: npt.NDArray[np.uint8]  # of its file
    kind: str
    shape: tuple[int, ...]
    path: Path


class Tensors(Mapping[str, Array]):
    """The tensors of safetensors files by their names, as float32, each read when it is asked for.

    float32 is not copied: it stays a private mapping of the file, of which only what is used gets into memory.
    Raises ModelError for a damaged file, and where a tensor that is asked for has numbers of another kind.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._places: dict[str, _Place] = {}
        for path in files:
            try:
                self._places.update(_places(path))
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                raise ModelError(f"{path} is damaged ({error}): fetch the model again") from error

    def __getitem__(self, name: str) -> Array:
        data, kind, shape, path = self._places[name]
        if kind not in _TYPES:
            raise ModelError(f"{path} has {name} in {kind}, which is not supported: {', '.join(_TYPES)} are")
        values = data.view(_TYPES[kind]).reshape(shape)
        if kind == "BF16":  # the upper half of a float32
            wide: Array = np.left_shift(values, 16, dtype=np.uint32).view(np.float32)
            return wide
        return np.require(values, np.float32, "A")  # files of other writers may leave numbers at odd places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _places(path: Path) -> Iterator[tuple[str, _Place]]:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > _LONGEST_HEADER:
            raise ValueError("its header is too long")
        header: dict[str, dict[str, Any]] = json.loads(file.read(length))
    header.pop("__metadata__", None)
    data = np.memmap(path, dtype=np.uint8, mode="c").view(np.ndarray)[8 + length :]
    if (end := max((entry["data_offsets"][1] for entry in header.values()), default=0)) != len(data):
        raise ValueError(f"it has {len(data):,} bytes of tensors, not {end:,}")
    for name, entry in header.items():
        (begin, end), kind, shape = entry["data_offsets"], entry["dtype"], tuple(entry["shape"])
        if begin < 0 or (kind in _TYPES and end - begin != math.prod(shape) * _TYPES[kind].itemsize):
            raise ValueError(f"{name} is not where it should be")
        yield name, _Place(data[begin:end], kind, shape, path)
