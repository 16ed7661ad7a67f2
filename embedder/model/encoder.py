"""A model in plain torch: a sentence encoder, and the module that the engines run, in one graph.

One module serves checkpoints of BERT, RoBERTa, XLM-R, CamemBERT, MPNet and DistilBERT, another ModernBERT, without
importing transformers. Both suit ahead-of-time compilation: static structure, dynamic batch and sequence. Layer
equations: Devlin et al. 2018 (BERT), Song et al. 2020 (MPNet's relative position bias, after Raffel et al. 2019),
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
        """Map x, float32 (b, s, d), to the same shape. Bias is broadcast to (b, heads, s, s) and added to scores."""
        b, s, d = x.shape
        narrow = self.qkv.weight.dtype  # products run in the weights' type, the residual stream and norms in fp32
        q, k, v = self.qkv(x.to(narrow)).view(b, s, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        x = self.norm1(x + self.out(a.transpose(1, 2).reshape(b, s, d)).float())
        y: Tensor = self.norm2(x + self.down(F.gelu(self.up(x.to(narrow)), approximate=self.gelu)).float())
        return y


class Encoder(nn.Module):
    """Encoder from token ids to hidden states."""

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
        """Map ids int64 (b, s) and mask int64 (b, s; 1 = token, 0 = padding on the right) to float32 (b, s, d).

        An id is a token plus its type times the size of the vocabulary.
        """
        s = ids.shape[1]
        first = self.shape.first_position
        if self.shape.types == 1:
            positions = self.positions.weight[first : first + s]
        else:
            kinds, ids = ids // self.shape.vocabulary, ids % self.shape.vocabulary
            positions = self.positions(kinds * self.shape.positions + torch.arange(first, first + s))
        x: Tensor = self.norm(self.words(ids).float() + positions)
        narrow = self.words.weight.dtype
        bias = torch.where(mask.bool(), 0.0, torch.finfo(narrow).min)[:, None, None, :]
        if self.shape.relative_buckets:
            bias = bias + self.get_buffer("relative")[:, :s, :s]
        bias = bias.clamp(min=torch.finfo(narrow).min).to(narrow)
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
        """Map x, float32 (b, s, d), with angles (s, width), to x's shape. Bias (b, 1, s or 1, s) is added to scores."""
        b, s, d = x.shape
        narrow = self.qkv.weight.dtype
        states = self.qkv(self.norm1(x).to(narrow)).view(b, s, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        q, k = turn(states[0], angles), turn(states[1], angles)
        a = F.scaled_dot_product_attention(q, k, states[2], attn_mask=bias)
        x = x + self.out(a.transpose(1, 2).reshape(b, s, d)).float()
        wide, gate = self.up(self.norm2(x).to(narrow)).chunk(2, dim=-1)
        y: Tensor = x + self.down(self.activation(wide) * gate).float()
        return y


class ModernEncoder(nn.Module):
    """Encoder from token ids to hidden states."""

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
        """Map ids int64 (b, s) and mask int64 (b, s; 1 = token, 0 = padding on the right) to float32 (b, s, d)."""
        places = torch.arange(ids.shape[1])
        x: Tensor = self.norm(self.words(ids).float())
        narrow = self.words.weight.dtype
        least = torch.finfo(narrow).min
        far = (places[None, :] - places[:, None]).abs() > self.shape.window
        padding = (mask == 0)[:, None, None, :]
        everywhere = torch.zeros((), dtype=narrow).masked_fill(padding, least)
        nearby = torch.zeros((), dtype=narrow).masked_fill(padding | far, least)
        wide = self.get_buffer("global_angles").index_select(0, places)
        close = self.get_buffer("local_angles").index_select(0, places)
        for i, layer in enumerate(self.layers):
            local = i % self.shape.global_every
            x = layer(x, nearby if local else everywhere, close if local else wide)
        y: Tensor = self.final(x)
        return y


def turn(x: Tensor, angles: Tensor) -> Tensor:
    """Rotate the pairs (i, i + width / 2) of x (b, heads, s, width) by the cosines and sines in `angles` (s, width)."""
    cosines, sines = angles.chunk(2, dim=-1)
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat([first * cosines - second * sines, second * cosines + first * sines], dim=-1).to(x.dtype)


class TransformersEncoder(nn.Module):
    """Any encoder that transformers supports, for models outside the family of `Encoder`."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        from transformers import AutoModel  # takes 2 s and 200 MB, so only if needed

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
        """Map ids and mask, int64 (b, s), to hidden states (b, s, d). `Encoder.forward` explains the ids."""
        more = {}
        if self.types > 1:
            more["token_type_ids"], ids = ids // self.vocabulary, ids % self.vocabulary
        hidden: Tensor = self.inner(input_ids=ids, attention_mask=mask, **more).last_hidden_state
        return hidden


class SentenceEncoder(nn.Module):
    """Encoder from token ids to one float32 vector per text."""

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
        """Convert large weights to bf16 in place, and return the model. Rounding the others would cost accuracy."""
        if not isinstance(self.encoder, Encoder | ModernEncoder):
            self.encoder.to(torch.bfloat16)
        for module in self.encoder.modules():
            if isinstance(module, nn.Linear | nn.Embedding) and module is not getattr(self.encoder, "positions", None):
                module.to(torch.bfloat16)
        return self

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Map ids int64 (b, s) and mask int64 (b, s; padding on the right is 0) to float32 (b, d)."""
        return self.with_states(ids, mask)[0]

    def with_states(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Map ids and mask to the vectors of `forward` and to the token states, float32 (b, s, hidden)."""
        states = self.encoder(ids, mask)
        vectors = torch.cat([pool(name, states, mask) for name in self.pooling], dim=-1)
        for step in self.steps:
            vectors = step(vectors)
        return vectors, states.float()


class WithStates(nn.Module):
    """A sentence encoder that also returns the token states. Engines compile and run this module."""

    def __init__(self, sentence: SentenceEncoder) -> None:
        super().__init__()
        self.sentence = sentence

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Map ids and mask, int64 (b, s), to vectors float32 (b, d) and states float32 (b, s, hidden)."""
        return self.sentence.with_states(ids, mask)


def load_module(spec: ModelSpec, precision: str = "fp32") -> SentenceEncoder:
    """Load the module of a model for inference, with weights in bf16 if the precision is bf16. Raises ModelError."""
    shape = spec.shape
    if shape is None:
        encoder: nn.Module = TransformersEncoder(spec)
    else:
        weights = read_encoder(shape, spec.config["model_type"], spec.weights)
        encoder = _filled(lambda: ModernEncoder(shape) if shape.modern else Encoder(shape), weights)
    module = SentenceEncoder(encoder, spec.pooling, spec.steps).eval().requires_grad_(False)
    return module.to_bf16() if precision == "bf16" else module


def _dense(step: Dense) -> nn.Module:
    weights = read_dense(step)

    def make() -> nn.Module:
        linear = nn.Linear(step.inputs, step.outputs, bias="linear.bias" in weights)
        return nn.Sequential(OrderedDict(linear=linear, activation=getattr(nn, step.activation)()))

    return _filled(make, weights)


class _NotInitialised(TorchFunctionMode):
    """Skips the initialisation of parameters, which would import torch's compiler for values that are replaced."""

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == nn.init.__name__:
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)


def _filled(make: Callable[[], _Module], weights: Mapping[str, Array]) -> _Module:
    """Make a module with these weights, skipping their initialisation."""
    with torch.device("meta"), _NotInitialised():
        module = make()
    module.load_state_dict({name: torch.from_numpy(weight) for name, weight in weights.items()}, assign=True)
    return module


def pool(name: str, hidden: Tensor, mask: Tensor) -> Tensor:
    """Pool hidden (b, s, d) over the tokens in mask (b, s) by one of `modules.POOLINGS`, to float32 (b, d)."""
    if name == "cls":
        return hidden[:, 0].float()
    if name == "lasttoken":
        place = (mask.sum(1) - 1).clamp(min=0)[:, None, None].expand(-1, 1, hidden.shape[2])
        return hidden.gather(1, place).squeeze(1).float()
    if name == "max":
        return hidden.float().masked_fill(mask.unsqueeze(-1) == 0, torch.finfo(torch.float32).min).amax(1)
    weights = mask.unsqueeze(-1).float()
    return (hidden.float() * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
