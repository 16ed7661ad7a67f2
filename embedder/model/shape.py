"""The sizes of a BERT-family encoder, from its config. Imports no torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_ACTIVATIONS = {"gelu": "none", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh"}


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes and switches of an encoder, in the family's common terms."""

    hidden: int
    layers: int
    heads: int
    intermediate: int
    vocabulary: int
    positions: int
    first_position: int  # RoBERTa and MPNet count positions from padding index + 1
    eps: float
    gelu: str  # "none" (erf) or "tanh", as torch.nn.functional.gelu names its approximation
    relative_buckets: int  # 0 where there is no relative position bias
    types: int = 1  # of tokens; an id is a token plus its type times the size of the vocabulary


def shape_of(config: Mapping[str, Any], types: int = 1) -> Shape | None:
    """Return the encoder's shape for a transformers config, or None for models outside the family.

    `types` is how many types of tokens the ids may have.
    """
    kind = config.get("model_type")
    distil = kind == "distilbert"
    if kind not in {"bert", "roberta", "xlm-roberta", "camembert", "mpnet", "distilbert"}:
        return None
    activation = config.get("activation" if distil else "hidden_act", "gelu")
    if activation not in _ACTIVATIONS or config.get("position_embedding_type", "absolute") != "absolute":
        return None
    offset = kind in {"roberta", "xlm-roberta", "camembert", "mpnet"}
    return Shape(
        hidden=config["dim" if distil else "hidden_size"],
        layers=config["n_layers" if distil else "num_hidden_layers"],
        heads=config["n_heads" if distil else "num_attention_heads"],
        intermediate=config["hidden_dim" if distil else "intermediate_size"],
        vocabulary=config["vocab_size"],
        positions=config["max_position_embeddings"],
        first_position=2 if kind == "mpnet" else int(config.get("pad_token_id", 1)) + 1 if offset else 0,
        eps=float(config.get("layer_norm_eps", 1e-12)),
        gelu=_ACTIVATIONS[activation],
        relative_buckets=int(config.get("relative_attention_num_buckets", 32)) if kind == "mpnet" else 0,
        types=types,
    )
