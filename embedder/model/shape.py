"""The sizes of a BERT-family encoder, from its config. Imports no torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_MODERN = "modernbert"
_ACTIVATIONS = {"gelu": "none", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh"}


@dataclass(frozen=True, slots=True)
class Modern:
    """What ModernBERT has beside the sizes of BERT's family."""

    global_every: int  # every so many layers attend to all tokens, from the first on
    window: int  # of the other layers: tokens to either side
    global_theta: float  # base of the rotary positions' angles
    local_theta: float
    silu: bool  # SiLU in place of GELU


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
    modern: Modern | None = None  # of ModernBERT alone
    types: int = 1  # of tokens; an id is a token plus its type times the size of the vocabulary


def shape_of(config: Mapping[str, Any], types: int = 1) -> Shape | None:
    """Return the encoder's shape for a transformers config, or None for models outside the family.

    `types` is how many types of tokens the ids may have.
    """
    kind = config.get("model_type")
    if kind == _MODERN:
        return _modern_shape(config)
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


def _modern_shape(config: Mapping[str, Any]) -> Shape | None:
    """Return the shape of a ModernBERT, from the names of transformers 4 and 5; None for angles that are scaled."""
    activation = config.get("hidden_activation", "gelu")
    layers, every = int(config["num_hidden_layers"]), int(config.get("global_attn_every_n_layers") or 0)
    if kinds := config.get("layer_types"):
        whole = [i for i, kind in enumerate(kinds) if kind == "full_attention"]
        every = whole[1] if len(whole) > 1 else layers
        if whole != list(range(0, layers, every)):
            return None
    angles = config.get("rope_parameters") or {}
    whole_angles, local_angles = angles.get("full_attention") or {}, angles.get("sliding_attention") or {}
    scaled = config.get("rope_scaling") or any(
        one.get("rope_type", "default") != "default" for one in (whole_angles, local_angles)
    )
    if scaled or activation not in {*_ACTIVATIONS, "silu"}:
        return None
    theta = float(whole_angles.get("rope_theta") or config.get("global_rope_theta") or 160_000)
    return Shape(
        hidden=config["hidden_size"],
        layers=layers,
        heads=config["num_attention_heads"],
        intermediate=config["intermediate_size"],
        vocabulary=config["vocab_size"],
        positions=config["max_position_embeddings"],
        first_position=0,
        eps=float(config.get("norm_eps", 1e-5)),
        gelu=_ACTIVATIONS.get(activation, "none"),
        relative_buckets=0,
        modern=Modern(
            global_every=every or 3,
            window=int(config.get("local_attention", 128)) // 2,
            global_theta=theta,
            local_theta=float(local_angles.get("rope_theta") or config.get("local_rope_theta") or 10_000),
            silu=activation == "silu",
        ),
    )
