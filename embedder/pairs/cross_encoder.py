"""A cross-encoder on disk, described from its own files: a transformer with one score for a pair of texts.

sentence-transformers' `CrossEncoder` saves it so, and so does transformers. Reads JSON only; imports no torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from embedder.errors import ModelError
from embedder.model.modules import read_modules, read_object
from embedder.model.spec import ModelSpec, read_transformer
from embedder.model.steps import POOLINGS

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
    modules = read_modules(folder, "document")
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
