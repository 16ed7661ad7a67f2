"""The module that the engines run: encoder, pooling and normalisation in one graph."""

from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from embedder.errors import ModelError
from embedder.model.checkpoint import load_encoder
from embedder.model.encoder import Encoder
from embedder.model.pooling import POOLERS
from embedder.model.shape import shape_of
from embedder.model.spec import ModelSpec


class TransformersEncoder(nn.Module):
    """Any encoder that transformers supports, for models outside the family of `Encoder`."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        from transformers import AutoModel  # 2 s and 200 MB: only where it is needed

        try:
            self.inner: Any = AutoModel.from_pretrained(
                spec.folder, dtype=torch.float32, use_safetensors=True, trust_remote_code=False
            )
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            kind = spec.config.get("model_type")
            detail = " ".join(str(error).split())[:300]
            raise ModelError(f"{spec.folder}: transformers cannot load model_type {kind!r}: {detail}") from error
        self.types = spec.token_types
        self.vocabulary = int(spec.config.get("vocab_size", 0))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Map ids and mask, int64 (b, s), to hidden states (b, s, d); see `Encoder.forward` for the types of ids."""
        more = {}
        if self.types > 1:
            more["token_type_ids"], ids = ids // self.vocabulary, ids % self.vocabulary
        hidden: Tensor = self.inner(input_ids=ids, attention_mask=mask, **more).last_hidden_state
        return hidden


class SentenceEncoder(nn.Module):
    """Encoder from token ids to one float32 vector per text."""

    def __init__(self, encoder: nn.Module, pooling: str, normalize: bool) -> None:
        super().__init__()
        self.encoder = encoder
        self.pool = POOLERS[pooling]
        self.normalize = normalize

    def to_bf16(self) -> Self:
        """Convert the weights to bf16, except those that would cost accuracy; returns itself."""
        if isinstance(self.encoder, Encoder):
            self.encoder.to_bf16()
        else:
            self.encoder.to(torch.bfloat16)
        return self

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Map ids int64 (b, s) and mask int64 (b, s; padding on the right is 0) to float32 (b, d)."""
        return self.with_states(ids, mask)[0]

    def with_states(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Map ids and mask to what `forward` gives, and to the states it is made of, float32 (b, s, hidden)."""
        states = self.encoder(ids, mask)
        vectors = self.pool(states, mask)
        return F.normalize(vectors, dim=-1) if self.normalize else vectors, states.float()


class WithStates(nn.Module):
    """A sentence encoder that gives the states of the tokens too: what the engines compile and run."""

    def __init__(self, sentence: SentenceEncoder) -> None:
        super().__init__()
        self.sentence = sentence

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Map ids and mask, int64 (b, s), to vectors float32 (b, d) and states float32 (b, s, hidden)."""
        return self.sentence.with_states(ids, mask)


def load_module(spec: ModelSpec) -> SentenceEncoder:
    """Load the module of a model in fp32, ready for inference. Raises ModelError."""
    try:
        shape = shape_of(spec.config, spec.token_types)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{spec.folder}/config.json has no valid {error}: fetch the model again") from error
    if shape is None:
        encoder: nn.Module = TransformersEncoder(spec)
    else:
        encoder = load_encoder(shape, spec.config["model_type"], spec.weights)
    return SentenceEncoder(encoder, spec.pooling, spec.normalize).eval().requires_grad_(False)


def load_in(spec: ModelSpec, precision: str) -> SentenceEncoder:
    """Load the module of a model in bf16 if that is the precision, else in fp32. Raises ModelError."""
    module = load_module(spec)
    return module.to_bf16() if precision == "bf16" else module
