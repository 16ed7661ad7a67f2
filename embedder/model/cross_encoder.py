"""A cross-encoder on disk, described from its own files: a transformer with one score for a pair of texts.

sentence-transformers' `CrossEncoder` saves it so, and so does transformers. Reads JSON only; imports no torch.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from embedder.errors import ModelError
from embedder.model.checkpoint import Array, Tensors
from embedder.model.modules import read_modules, read_object
from embedder.model.spec import ModelSpec, read_transformer
from embedder.model.steps import POOLINGS
from embedder.model.tokenizer import load_tokenizer, tokenizable

# Their tokenizers give none, though some have weights for two.
_WITHOUT_TYPES = {"roberta", "xlm-roberta", "camembert", "modernbert"}
ACTIVATIONS = ("sigmoid", "identity")


@dataclass(frozen=True, kw_only=True)
class CrossEncoderSpec(ModelSpec):
    """Everything about a cross-encoder that determines its scores, except the arithmetic."""

    activation: str  # from the model's one number to a score: sigmoid or identity

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """Flat mapping of what determines a score."""
        return super().fingerprint | {"activation": self.activation, "token_types": self.token_types}


def read_cross_encoder(folder: Path) -> CrossEncoderSpec:
    """Describe the cross-encoder in a folder.

    Raises ModelError naming the file at fault, RemoteCodeRefused if the model brings code.
    """
    modules = read_modules(folder)
    spec = read_transformer(folder, modules[0].folder if modules else folder, "sequence-classification")
    config = spec.config
    labels = config.get("num_labels") or len(config.get("id2label") or (0, 1))  # transformers' default is two
    if labels != 1:
        raise ModelError(
            f"{spec.folder}/config.json has {labels} labels: a cross-encoder for reranking has one, a model that "
            "embeds texts has none"
        )
    if modules and [module.kind for module in modules] != ["Transformer"]:
        raise ModelError(f"{folder}/modules.json has more modules than a Transformer, which is not supported")
    saved = folder / "config_sentence_transformers.json"
    settings = read_object(saved) if saved.exists() else {}
    if settings.get("default_prompt_name"):
        raise ModelError(f"{saved} puts a prompt before each pair, which is not supported")
    kept = {field.name: getattr(spec, field.name) for field in fields(ModelSpec)}
    kept |= {"pooling": (_pooling(spec.folder, config),)}
    kept |= {"token_types": _token_types(spec.folder, config), "activation": _activation(folder, config, settings)}
    return CrossEncoderSpec(**kept)


def _pooling(folder: Path, config: Mapping[str, Any]) -> str:
    name = str(config.get("classifier_pooling", "cls"))  # as ModernBERT has it
    if name not in POOLINGS:
        raise ModelError(f"{folder}/config.json asks for the pooling {name}, which is not supported: cls and mean are")
    return name


def _token_types(folder: Path, config: Mapping[str, Any]) -> int:
    """Return how many types the model's own tokenizer tells apart, whatever the model has weights for."""
    path = folder / "tokenizer_config.json"
    inputs = (read_object(path) if path.exists() else {}).get("model_input_names") or ["token_type_ids"]
    if config.get("model_type") in _WITHOUT_TYPES or "token_type_ids" not in inputs:
        return 1
    return max(1, int(config.get("type_vocab_size") or 1))


def _activation(folder: Path, config: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Return the name of the activation, looked up as sentence-transformers does."""
    own = config.get("sentence_transformers") or {}
    before = config.get("sbert_ce_default_activation_function")
    path = settings.get("activation_fn") or own.get("activation_fn") or before or ""
    name = str(path).rpartition(".")[2].lower()
    if not str(path).startswith("torch."):  # none, or code of the model's own, which is never run
        return "sigmoid"
    if name not in ACTIVATIONS:
        raise ModelError(f"{folder} asks for the activation {path}, which is not supported: Sigmoid and Identity are")
    return name


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


class PairTokenizer:
    """A cross-encoder's tokenizer, with truncation. Safe to share between threads.

    The type of a token, 1 in the second text for a model that has types, is written into its id, which is then the
    token plus the type times the size of the vocabulary: so a row of ids says everything, for every engine.
    """

    def __init__(self, spec: CrossEncoderSpec) -> None:
        self._types = spec.token_types
        self._vocabulary = int(spec.config["vocab_size"])
        self._tokenizer = load_tokenizer(spec.tokenizer)
        # what is too long is cut token by token off the longer of the two, as transformers does
        self._tokenizer.enable_truncation(spec.max_length, strategy="longest_first")
        self._tokenizer.no_padding()

    def __call__(self, query: str, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of the query with each text, special tokens included, truncated to the model's length."""
        query = tokenizable(query)
        encodings = self._tokenizer.encode_batch_fast([(query, tokenizable(text)) for text in texts])
        if self._types == 1:
            return [encoding.ids for encoding in encodings]
        size = self._vocabulary
        return [
            [token + size * kind for token, kind in zip(encoding.ids, encoding.type_ids, strict=True)]
            for encoding in encodings
        ]
