"""Loads safetensors weights into an `Encoder`, mapping the tensor names of each model family."""

from pathlib import Path
from typing import TypeVar

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from embedder.errors import ModelError
from embedder.model.encoder import Encoder, relative_position_bias
from embedder.model.modernbert import ModernEncoder, angle_table
from embedder.model.shape import Modern, Shape

_Kind = TypeVar("_Kind", bound=nn.Module)
# canonical name: what BERT and RoBERTa, MPNet, and DistilBERT call it
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


def load_modern_encoder(shape: Shape, modern: Modern, files: tuple[Path, ...]) -> ModernEncoder:
    """Build an fp32 ModernBERT from safetensors files. Raises ModelError like `load_encoder`."""
    tensors = _without_prefix(read_tensors(files), "embeddings.tok_embeddings.weight")
    width = shape.hidden // shape.heads
    state = {
        "words.weight": _take(tensors, "embeddings.tok_embeddings.weight", files),
        "global_angles": angle_table(modern.global_theta, shape.positions, width),
        "local_angles": angle_table(modern.local_theta, shape.positions, width),
    }
    named = {"norm": "embeddings.norm", "final": "final_norm"}
    for layer in range(shape.layers):
        named |= {f"layers.{layer}.{ours}": f"layers.{layer}.{theirs}" for ours, theirs in _MODERN.items()}
    del named["layers.0.norm1"]
    for ours, theirs in named.items():
        state[f"{ours}.weight"] = weight = _take(tensors, f"{theirs}.weight", files)
        bias = tensors.get(f"{theirs}.bias")  # no published model has one
        state[f"{ours}.bias"] = torch.zeros(len(weight)) if bias is None else bias.float()
    with torch.device("meta"):
        encoder = ModernEncoder(shape, modern)
    return _filled(encoder, state, files)


def load_encoder(shape: Shape, kind: str, files: tuple[Path, ...]) -> Encoder:
    """Build an fp32 encoder from safetensors files; `kind` is the config's `model_type`.

    Raises ModelError naming the file or tensor that is truncated, missing or of the wrong shape.
    """
    tensors = _without_prefix(read_tensors(files), "embeddings.word_embeddings.weight")
    names = {"mpnet": _MPNET, "distilbert": _DISTILBERT}.get(kind, _BERT)

    def take(name: str) -> Tensor:
        return _take(tensors, name, files)

    state: dict[str, Tensor] = {
        "words.weight": take("embeddings.word_embeddings.weight"),
        "positions.weight": take("embeddings.position_embeddings.weight"),
    }
    if "embeddings.token_type_embeddings.weight" in tensors:
        types = take("embeddings.token_type_embeddings.weight")[: shape.types, None]
        state["positions.weight"] = (state["positions.weight"] + types).flatten(0, 1)
    for part in ("weight", "bias"):
        state[f"norm.{part}"] = take(f"embeddings.LayerNorm.{part}")
        for layer in range(shape.layers):
            prefix = names["layers"].format(layer)
            state[f"layers.{layer}.qkv.{part}"] = torch.cat([take(f"{prefix}{names[x]}.{part}") for x in "qkv"])
            for ours in ("out", "norm1", "up", "down", "norm2"):
                state[f"layers.{layer}.{ours}.{part}"] = take(f"{prefix}{names[ours]}.{part}")
    if shape.relative_buckets:
        table = take("encoder.relative_attention_bias.weight")
        state["relative"] = relative_position_bias(table, shape.positions - shape.first_position)
    with torch.device("meta"):
        encoder = Encoder(shape)
    return _filled(encoder, state, files)


def read_tensors(files: tuple[Path, ...]) -> dict[str, Tensor]:
    """Read every tensor of safetensors files by its name. Raises ModelError naming a damaged file."""
    tensors: dict[str, Tensor] = {}
    for path in files:
        try:
            with safe_open(path, framework="pt") as file:
                tensors.update((name, file.get_tensor(name)) for name in file.keys())  # noqa: SIM118 - not a mapping
        except (SafetensorError, OSError) as error:
            raise ModelError(f"{path} is damaged ({error}): fetch the model again") from error
    return tensors


def _take(tensors: dict[str, Tensor], name: str, files: tuple[Path, ...]) -> Tensor:
    try:
        return tensors[name].float()
    except KeyError:
        raise ModelError(f"{files[0].parent} has no tensor {name!r}: fetch the model again") from None


def _filled(encoder: _Kind, state: dict[str, Tensor], files: tuple[Path, ...]) -> _Kind:
    """Give an encoder its weights."""
    try:
        encoder.load_state_dict(state, assign=True)
    except RuntimeError as error:
        detail = " ".join(str(error).split())
        raise ModelError(f"{files[0].parent}: weights do not fit config.json: {detail}") from error
    return encoder.eval().requires_grad_(False)


def _without_prefix(tensors: dict[str, Tensor], anchor: str) -> dict[str, Tensor]:
    """Take off what checkpoints of larger models put before every name, as `anchor` shows."""
    prefix = next((name.removesuffix(anchor) for name in tensors if name.endswith(anchor)), "")
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
