"""The classification head of a cross-encoder, from the vector of a pair to one number. Arithmetic of numpy alone.

A few hundred numbers a pair are not worth an engine, so every engine gives the vector, and this the score.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from embedder.errors import ModelError
from embedder.model.spec import ModelSpec
from embedder.model.tensors import Array, Tensors

_erf = np.frompyfunc(math.erf, 1, 1)


def _gelu(x: Array) -> Array:
    return np.asarray(x / 2 * (1 + _erf(x / math.sqrt(2)).astype(np.float32)), np.float32)


def _relu(x: Array) -> Array:
    return np.maximum(x, 0)


class _Names(NamedTuple):
    """What a family calls the parts of its head."""

    dense: str
    activation: Callable[[Array], Array]
    classifier: str
    norm: str = ""


_ROBERTA = _Names("classifier.dense", np.tanh, "classifier.out_proj")
_HEADS = {  # by the config's `model_type`, after transformers' classes for sequence classification
    "bert": _Names("bert.pooler.dense", np.tanh, "classifier"),
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "camembert": _ROBERTA,
    "mpnet": _ROBERTA,
    "electra": _Names("classifier.dense", _gelu, "classifier.out_proj"),
    "distilbert": _Names("pre_classifier", _relu, "classifier"),
    "deberta-v2": _Names("pooler.dense", _gelu, "classifier"),
    "modernbert": _Names("head.dense", _gelu, "classifier", norm="head.norm"),
}


@dataclass(frozen=True, slots=True)
class Head:
    """A dense layer, its activation, a norm in some models, and the layer of one output."""

    dense: Array  # (hidden, hidden), as rows of outputs
    dense_bias: Array
    activation: Callable[[Array], Array]
    norm: Array | None  # weight of a layer norm without bias
    eps: float
    weight: Array  # (hidden,)
    bias: float

    def __call__(self, vectors: Array) -> Array:
        """Map vectors of pairs, float32 (n, hidden), to their logits, float32 (n,)."""
        x = self.activation(vectors @ self.dense.T + self.dense_bias)
        if self.norm is not None:
            x = x - x.mean(1, keepdims=True)
            x = x / np.sqrt((x * x).mean(1, keepdims=True) + self.eps) * self.norm
        return np.asarray(x @ self.weight + self.bias, np.float32)


def read_head(spec: ModelSpec) -> Head:
    """Read the head from a cross-encoder's weights. Raises ModelError where it is unknown, or not there."""
    kind = spec.config.get("model_type")
    names = _HEADS.get(str(kind))
    if names is None:
        raise ModelError(
            f"{spec.folder} has model_type {kind!r}, whose head is not known: use one of {', '.join(_HEADS)}"
        )
    found = Tensors(spec.weights)
    weight = _taken(found, f"{names.classifier}.weight", spec)
    if weight.shape[0] != 1:
        raise ModelError(f"{spec.folder} gives {weight.shape[0]} numbers for a pair: a cross-encoder gives one")
    dense = _taken(found, f"{names.dense}.weight", spec)
    bias = found.get(f"{names.classifier}.bias")
    return Head(
        dense=dense,
        dense_bias=found.get(f"{names.dense}.bias", np.zeros(len(dense), np.float32)),
        activation=names.activation,
        norm=_taken(found, f"{names.norm}.weight", spec) if names.norm else None,
        eps=float(spec.config.get("norm_eps", 1e-5)),
        weight=weight[0],
        bias=0.0 if bias is None else float(bias[0]),
    )


def _taken(tensors: Mapping[str, Array], name: str, spec: ModelSpec) -> Array:
    if name not in tensors:
        raise ModelError(f"{spec.folder} has no tensor {name!r}: it is no cross-encoder, or fetch it again")
    return tensors[name]
