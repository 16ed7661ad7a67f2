"""Implement embedding models in PyTorch.

`Encoder` implements BERT, RoBERTa, XLM-R, CamemBERT, MPNet and DistilBERT. `ModernEncoder` implements ModernBERT. Both
can be compiled ahead of time for all batch sizes and sequence lengths, and do not import transformers. Layer equations
are from Devlin et al. 2018 (BERT), Song et al. 2020 (MPNet's relative position bias, after Raffel et al. 2019) and
Warner et al. 2024 (ModernBERT).
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from embedder.errors import ModelError
from embedder.model.checkpoint import read_dense, read_encoder
from embedder.model.files import Array
from embedder.model.modules import Dense, Step
from embedder.model.spec import ModelSpec, Shape

_Module = TypeVar("_Module", bound=nn.Module)


class Layer(nn.Module):
    """One post-norm transformer layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.gelu = shape.gelu
        self.qkv = nn.Linear(shape.hidden, 3 * shape.hidden)
        self.out = nn.Linear(shape.hidden, shape.hidden)
        self.norm1 = nn.LayerNorm(shape.hidden, eps=shape.eps)
        self.up = nn.Linear(shape.hidden, shape.intermediate)
        self.down = nn.Linear(shape.intermediate, shape.hidden)
        self.norm2 = nn.LayerNorm(shape.hidden, eps=shape.eps)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """Apply the layer to x, float32 (b, s, d). `bias` is added to the attention scores (b, heads, s, s)."""
        b, s, d = x.shape
        dtype = self.qkv.weight.dtype  # matrix products use the weights' type; residuals and norms use fp32
        q, k, v = self.qkv(x.to(dtype)).view(b, s, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        x = self.norm1(x + self.out(a.transpose(1, 2).reshape(b, s, d)).float())
        y: Tensor = self.norm2(x + self.down(F.gelu(self.up(x.to(dtype)), approximate=self.gelu)).float())
        return y


class Encoder(nn.Module):
    """The encoder of BERT's family, which maps token ids to hidden states."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.words = nn.Embedding(shape.vocabulary, shape.hidden)
        self.positions = nn.Embedding(shape.types * shape.positions, shape.hidden)
        self.norm = nn.LayerNorm(shape.hidden, eps=shape.eps)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        if shape.relative_buckets:
            length = shape.positions - shape.first_position
            self.register_buffer("relative", torch.zeros(shape.heads, length, length))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Map ids, int64 (b, s), and mask, int64 (b, s), to hidden states, float32 (b, s, d).

        The mask is 1 for tokens, and 0 for padding on the right. An id is token id + token type × vocabulary size.
        """
        s = ids.shape[1]
        first = self.shape.first_position
        if self.shape.types == 1:
            positions = self.positions.weight[first : first + s]
        else:
            kinds, ids = ids // self.shape.vocabulary, ids % self.shape.vocabulary
            positions = self.positions(kinds * self.shape.positions + torch.arange(first, first + s))
        x: Tensor = self.norm(self.words(ids).float() + positions)
        dtype = self.words.weight.dtype
        bias = torch.where(mask.bool(), 0.0, torch.finfo(dtype).min)[:, None, None, :]
        if self.shape.relative_buckets:
            bias = bias + self.get_buffer("relative")[:, :s, :s]
        bias = bias.clamp(min=torch.finfo(dtype).min).to(dtype)
        for layer in self.layers:
            x = layer(x, bias)
        return x


class ModernLayer(nn.Module):
    """One pre-norm transformer layer. The first layer of a model has no norm before its attention."""

    def __init__(self, shape: Shape, first: bool) -> None:
        super().__init__()
        self.heads = shape.heads
        self.activation = F.silu if shape.silu else partial(F.gelu, approximate=shape.gelu)
        self.norm1 = nn.Identity() if first else nn.LayerNorm(shape.hidden, eps=shape.eps)
        self.qkv = nn.Linear(shape.hidden, 3 * shape.hidden)
        self.out = nn.Linear(shape.hidden, shape.hidden)
        self.norm2 = nn.LayerNorm(shape.hidden, eps=shape.eps)
        self.up = nn.Linear(shape.hidden, 2 * shape.intermediate)
        self.down = nn.Linear(shape.intermediate, shape.hidden)

    def forward(self, x: Tensor, bias: Tensor, angles: Tensor) -> Tensor:
        """Apply the layer to x, float32 (b, s, d). Adds `bias` to attention scores. `angles` is from `angle_table`."""
        b, s, d = x.shape
        dtype = self.qkv.weight.dtype
        states = self.qkv(self.norm1(x).to(dtype)).view(b, s, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        q, k = rotate(states[0], angles), rotate(states[1], angles)
        a = F.scaled_dot_product_attention(q, k, states[2], attn_mask=bias)
        x = x + self.out(a.transpose(1, 2).reshape(b, s, d)).float()
        wide, gate = self.up(self.norm2(x).to(dtype)).chunk(2, dim=-1)
        y: Tensor = x + self.down(self.activation(wide) * gate).float()
        return y


class ModernEncoder(nn.Module):
    """The encoder of ModernBERT, which maps token ids to hidden states."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.words = nn.Embedding(shape.vocabulary, shape.hidden)
        self.norm = nn.LayerNorm(shape.hidden, eps=shape.eps)
        self.layers = nn.ModuleList(ModernLayer(shape, first=i == 0) for i in range(shape.layers))
        self.final = nn.LayerNorm(shape.hidden, eps=shape.eps)
        sizes = (shape.positions, shape.hidden // shape.heads)
        self.register_buffer("global_angles", torch.zeros(sizes))
        self.register_buffer("local_angles", torch.zeros(sizes))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Map ids, int64 (b, s), to hidden states, float32 (b, s, d). The mask (b, s) is 1 for tokens, else 0."""
        positions = torch.arange(ids.shape[1])
        x: Tensor = self.norm(self.words(ids).float())
        dtype = self.words.weight.dtype
        least = torch.finfo(dtype).min
        far = (positions[None, :] - positions[:, None]).abs() > self.shape.window
        padding = (mask == 0)[:, None, None, :]
        everywhere = torch.zeros((), dtype=dtype).masked_fill(padding, least)
        nearby = torch.zeros((), dtype=dtype).masked_fill(padding | far, least)
        wide = self.get_buffer("global_angles").index_select(0, positions)
        close = self.get_buffer("local_angles").index_select(0, positions)
        for i, layer in enumerate(self.layers):
            local = i % self.shape.global_every
            x = layer(x, nearby if local else everywhere, close if local else wide)
        y: Tensor = self.final(x)
        return y


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Rotate the component pairs (i, i + width / 2) of x (b, heads, s, width). `angles` is from `angle_table`."""
    cosines, sines = angles.chunk(2, dim=-1)
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat([first * cosines - second * sines, second * cosines + first * sines], dim=-1).to(x.dtype)


class TransformersEncoder(nn.Module):
    """An encoder that the library transformers runs, for models that this module does not implement."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        from transformers import AutoModel  # imported only if needed, because it takes 2 s and 200 MB

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
        """Map ids and mask, int64 (b, s), to hidden states (b, s, d). An id is token id + type × vocabulary size."""
        more = {}
        if self.types > 1:
            more["token_type_ids"], ids = ids // self.vocabulary, ids % self.vocabulary
        hidden: Tensor = self.inner(input_ids=ids, attention_mask=mask, **more).last_hidden_state
        return hidden


class SentenceEncoder(nn.Module):
    """An embedding model, which maps token ids to one float32 vector for each text."""

    def __init__(self, encoder: nn.Module, pooling: Sequence[str], steps: Sequence[Step]) -> None:
        super().__init__()
        self.encoder = encoder
        self.pooling = tuple(pooling)
        self.dense = nn.ModuleList(_dense(step) for step in steps if isinstance(step, Dense))
        dense = iter(self.dense)
        self.steps: list[Callable[[Tensor], Tensor]] = [
            next(dense) if isinstance(step, Dense) else partial(F.normalize, dim=-1) for step in steps
        ]

    def to_bf16(self) -> Self:
        """Convert weights to bf16 in place, and return this model. Norms and position embeddings stay in fp32."""
        if not isinstance(self.encoder, Encoder | ModernEncoder):
            self.encoder.to(torch.bfloat16)
        for module in self.encoder.modules():
            if isinstance(module, nn.Linear | nn.Embedding) and module is not getattr(self.encoder, "positions", None):
                module.to(torch.bfloat16)
        return self

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Map ids, int64 (b, s), and mask, int64 (b, s), to vectors, float32 (b, d)."""
        return self.with_states(ids, mask)[0]

    def with_states(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return the vectors that `forward` returns, and the last hidden states, float32 (b, s, hidden)."""
        states = self.encoder(ids, mask)
        vectors = torch.cat([pool(name, states, mask) for name in self.pooling], dim=-1)
        for step in self.steps:
            vectors = step(vectors)
        return vectors, states.float()


class WithStates(nn.Module):
    """A wrapper whose `forward` returns vectors and last hidden states. Engines compile and run this module."""

    def __init__(self, sentence: SentenceEncoder) -> None:
        super().__init__()
        self.sentence = sentence

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Map ids and mask, int64 (b, s), to vectors (b, d) and last hidden states (b, s, hidden), float32."""
        return self.sentence.with_states(ids, mask)


def load_module(spec: ModelSpec, precision: str = "fp32") -> SentenceEncoder:
    """Load a model as a PyTorch module with bf16 or fp32 weights. Raises ModelError if a file is damaged."""
    shape = spec.shape
    if shape is None:
        encoder: nn.Module = TransformersEncoder(spec)
    else:
        weights = read_encoder(shape, spec.config["model_type"], spec.weights)
        encoder = _create_module(lambda: ModernEncoder(shape) if shape.modern else Encoder(shape), weights)
    module = SentenceEncoder(encoder, spec.pooling, spec.steps).eval().requires_grad_(False)
    return module.to_bf16() if precision == "bf16" else module


def _dense(step: Dense) -> nn.Module:
    weights = read_dense(step)

    def make() -> nn.Module:
        linear = nn.Linear(step.inputs, step.outputs, bias="linear.bias" in weights)
        return nn.Sequential(OrderedDict(linear=linear, activation=getattr(nn, step.activation)()))

    return _create_module(make, weights)


class _NotInitialised(TorchFunctionMode):
    """Skip the initialisation of parameters, which are loaded later. Initialisation would import torch's compiler."""

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == nn.init.__name__:
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)


def _create_module(make: Callable[[], _Module], weights: Mapping[str, Array]) -> _Module:
    """Create a module with `make` and load these weights, without initialising the parameters first."""
    with torch.device("meta"), _NotInitialised():
        module = make()
    module.load_state_dict({name: torch.from_numpy(weight) for name, weight in weights.items()}, assign=True)
    return module


def pool(name: str, hidden: Tensor, mask: Tensor) -> Tensor:
    """Pool hidden states (b, s, d) where the mask (b, s) is 1. `name` is one of `POOLINGS`. Returns float32 (b, d)."""
    if name == "cls":
        return hidden[:, 0].float()
    if name == "lasttoken":
        last = (mask.sum(1) - 1).clamp(min=0)[:, None, None].expand(-1, 1, hidden.shape[2])
        return hidden.gather(1, last).squeeze(1).float()
    if name == "max":
        return hidden.float().masked_fill(mask.unsqueeze(-1) == 0, torch.finfo(torch.float32).min).amax(1)
    weights = mask.unsqueeze(-1).float()
    return (hidden.float() * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
