"""Loads safetensors weights into an `Encoder`, mapping the tensor names of each model family."""

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from embedder.errors import ModelError
from embedder.model.encoder import Encoder, relative_position_bias
from embedder.model.shape import Shape

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


def load_encoder(shape: Shape, kind: str, files: tuple[Path, ...]) -> Encoder:
    """Build an fp32 encoder from safetensors files; `kind` is the config's `model_type`.

    Raises ModelError naming the file or tensor that is truncated, missing or of the wrong shape.
    """
    tensors = _without_prefix(read_tensors(files))
    names = {"mpnet": _MPNET, "distilbert": _DISTILBERT}.get(kind, _BERT)

    def take(name: str) -> Tensor:
        try:
            return tensors[name].float()
        except KeyError:
            raise ModelError(f"{files[0].parent} has no tensor {name!r}: fetch the model again") from None

    state: dict[str, Tensor] = {
        "words.weight": take("embeddings.word_embeddings.weight"),
        "positions.weight": take("embeddings.position_embeddings.weight"),
    }
    if "embeddings.token_type_embeddings.weight" in tensors:
        state["positions.weight"] = state["positions.weight"] + take("embeddings.token_type_embeddings.weight")[0]
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
    try:
        encoder.load_state_dict(state, assign=True)
    except RuntimeError as error:
        detail = " ".join(str(error).split())
        raise ModelError(f"{files[0].parent}: weights do not fit config.json: {detail}") from error
    return encoder.eval().requires_grad_(False)


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


def _without_prefix(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Take off the prefix that checkpoints of larger models put before every name."""
    anchor = "embeddings.word_embeddings.weight"
    prefix = next((name.removesuffix(anchor) for name in tensors if name.endswith(anchor)), "")
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
