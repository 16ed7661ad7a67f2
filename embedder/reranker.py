"""`Reranker`: scores of pairs of texts by a cross-encoder, on the engines that embed texts."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from embedder.config import EmbedderConfig
from embedder.engines.plan import Plan
from embedder.errors import ModelError
from embedder.model.files import Array, Tensors, blaming
from embedder.model.spec import ModelSpec
from embedder.model.tokenizer import PairTokenizer
from embedder.text_embedder import finite, start_engine


class Reranker:
    """A cross-encoder: reads a query and a text together, and says how well the text answers.

    Raises ModelError, PrecisionError, TorchMissing, CompilerMissing, PackageError or CacheError while loading.
    """

    def __init__(self, config: EmbedderConfig) -> None:
        """Load the model of a config with `pairs`."""
        self.plan = Plan(config)
        self.spec = self.plan.spec
        self.name = self.spec.name
        self._head = read_head(self.spec)
        self._tokenizer = PairTokenizer(self.spec)
        self._engine = start_engine(self.plan)

    def pairs(self, query: str, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of the query with each text, truncated to the model's length, for `logits`."""
        return self._tokenizer(query, texts)

    def logits(self, rows: Sequence[list[int]]) -> npt.NDArray[np.float32]:
        """Return one number a pair, float32 (n,), the higher the better; all go through the model in one batch.

        Raises EmbedderError if the model gives NaN or infinity.
        """
        if not rows:
            return np.empty(0, np.float32)
        return finite(self._head(self._engine.encode(rows)), self.name)

    def activated(self, logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return logits as the model's own score: from 0 to 1, or as they are, as its config says."""
        if self.spec.activation == "identity":
            return logits
        return np.asarray(1 / (1 + np.exp(-logits.astype(np.float64))), np.float32)  # in float32 exp would overflow


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


def read_head(spec: ModelSpec) -> Callable[[Array], Array]:
    """Return what makes a logit of the vector of a pair: float32 (n, hidden) → (n,). Raises ModelError.

    It is a dense layer, its activation, in some models a norm without bias, and a layer of one output.
    """
    kind, d, tensors = str(spec.config.get("model_type")), spec.hidden, Tensors(spec.weights)
    names = _HEADS.get(kind)
    if names is None:
        raise ModelError(
            f"{spec.folder} has model_type {kind!r}, whose head is not known: use one of {', '.join(_HEADS)}"
        )

    def take(name: str, *shape: int) -> Array:
        if name not in tensors and name.endswith(".bias"):
            return np.zeros(shape, np.float32)
        if name not in tensors:
            raise ModelError(f"{spec.folder} has no tensor {name!r}: it is no cross-encoder, or fetch it again")
        if tensors[name].shape != shape:
            raise ModelError(f"{spec.folder} has {name} of the shape {tensors[name].shape}, not {shape}")
        return tensors[name]

    dense, dense_bias = take(f"{names.dense}.weight", d, d), take(f"{names.dense}.bias", d)
    weight, bias = take(f"{names.classifier}.weight", 1, d), take(f"{names.classifier}.bias", 1)
    norm = take(f"{names.norm}.weight", d) if names.norm else None
    with blaming(spec.folder / "config.json"):
        eps = float(spec.config.get("norm_eps", 1e-5))

    def head(vectors: Array) -> Array:
        x = names.activation(vectors @ dense.T + dense_bias)
        if norm is not None:
            x = x - x.mean(1, keepdims=True)
            x = x / np.sqrt((x * x).mean(1, keepdims=True) + eps) * norm
        return np.asarray(x @ weight[0] + bias[0], np.float32)

    return head
