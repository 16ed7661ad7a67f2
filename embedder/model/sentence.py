"""The module that the engines run: encoder, pooling and what follows it in one graph."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from embedder.errors import ModelError
from embedder.model.checkpoint import Array, read_encoder, read_step
from embedder.model.encoder import Encoder, ModernEncoder
from embedder.model.shape import shape_of
from embedder.model.spec import ModelSpec
from embedder.model.steps import ACTIVATIONS, Cut, Dense, LayerNorm, Step

_Module = TypeVar("_Module", bound=nn.Module)
_ACTIVATIONS = {name: getattr(nn, name) for name in ACTIVATIONS}


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


class DenseStep(nn.Module):
    """A linear layer with an activation, and what came in added where the model has it so."""

    def __init__(self, step: Dense, biased: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(step.inputs, step.outputs, bias=biased)
        self.activation = _ACTIVATIONS[step.activation]()
        self.residual: nn.Module | None = None
        if step.residual:
            same = step.inputs == step.outputs
            self.residual = nn.Identity() if same else nn.Linear(step.inputs, step.outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map float32 (b, inputs) to (b, outputs)."""
        y: Tensor = self.activation(self.linear(x))
        return y if self.residual is None else y + self.residual(x)


class NormStep(nn.Module):
    """Layer norm of a text's vector."""

    def __init__(self, step: LayerNorm) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(step.size)

    def forward(self, x: Tensor) -> Tensor:
        """Map float32 (b, size) to the same."""
        y: Tensor = self.norm(x)
        return y


class UnitStep(nn.Module):
    """Division by the Euclidean norm."""

    def forward(self, x: Tensor) -> Tensor:
        """Map float32 (b, d) to the same."""
        return F.normalize(x, dim=-1)


class CutStep(nn.Module):
    """The first numbers of a vector."""

    def __init__(self, step: Cut) -> None:
        super().__init__()
        self.outputs = step.outputs

    def forward(self, x: Tensor) -> Tensor:
        """Map float32 (b, d) to (b, outputs)."""
        return x[:, : self.outputs]


class SentenceEncoder(nn.Module):
    """Encoder from token ids to one float32 vector per text."""

    def __init__(self, encoder: nn.Module, pooling: Sequence[str], steps: Sequence[Step]) -> None:
        super().__init__()
        self.encoder = encoder
        self.pooling = tuple(pooling)
        self.steps = nn.Sequential(*map(_module_of, steps))

    def to_bf16(self) -> Self:
        """Convert the encoder's weights to bf16, except those that would cost accuracy; returns itself."""
        if isinstance(self.encoder, Encoder | ModernEncoder):
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
        vectors = self.steps(torch.cat([POOLERS[name](states, mask) for name in self.pooling], dim=-1))
        return vectors, states.float()


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
        weights = read_encoder(shape, spec.config["model_type"], spec.weights)
        modern = shape.modern
        encoder = _filled(lambda: ModernEncoder(shape, modern) if modern else Encoder(shape), weights)
    return SentenceEncoder(encoder, spec.pooling, spec.steps).eval().requires_grad_(False)


def load_in(spec: ModelSpec, precision: str) -> SentenceEncoder:
    """Load the module of a model in bf16 if that is the precision, else in fp32. Raises ModelError."""
    module = load_module(spec)
    return module.to_bf16() if precision == "bf16" else module


def _module_of(step: Step) -> nn.Module:
    if isinstance(step, Dense):
        weights = read_step(step)
        return _filled(lambda: DenseStep(step, "linear.bias" in weights), weights)
    if isinstance(step, LayerNorm):
        return _filled(lambda: NormStep(step), read_step(step))
    return CutStep(step) if isinstance(step, Cut) else UnitStep()


class _NotInitialised(TorchFunctionMode):
    """Parameters made under it keep no values: to draw them takes a compiler's imports, even where none are kept."""

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == nn.init.__name__:
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)


def _filled(make: Callable[[], _Module], weights: Mapping[str, Array]) -> _Module:
    """Make a module with these weights, without any others before."""
    with torch.device("meta"), _NotInitialised():
        module = make()
    module.load_state_dict({name: torch.from_numpy(weight) for name, weight in weights.items()}, assign=True)
    return module


def mean(hidden: Tensor, mask: Tensor) -> Tensor:
    """Average hidden (b, s, d) over the tokens of mask (b, s); float32 (b, d)."""
    weights = mask.unsqueeze(-1).float()
    return (hidden.float() * weights).sum(1) / weights.sum(1).clamp(min=1e-9)


def cls(hidden: Tensor, mask: Tensor) -> Tensor:
    """Take the first token of hidden (b, s, d); float32 (b, d)."""
    return hidden[:, 0].float()


def maximum(hidden: Tensor, mask: Tensor) -> Tensor:
    """Take the largest value per dimension of hidden (b, s, d) over the tokens of mask (b, s); float32 (b, d)."""
    return hidden.float().masked_fill(mask.unsqueeze(-1) == 0, torch.finfo(torch.float32).min).amax(1)


def mean_sqrt_len(hidden: Tensor, mask: Tensor) -> Tensor:
    """Sum hidden (b, s, d) over the tokens of mask (b, s), divided by the root of their number; float32 (b, d)."""
    weights = mask.unsqueeze(-1).float()
    return (hidden.float() * weights).sum(1) / weights.sum(1).clamp(min=1e-9).sqrt()


def weighted_mean(hidden: Tensor, mask: Tensor) -> Tensor:
    """Average hidden (b, s, d) over the tokens of mask (b, s), weighted by their position from 1; float32 (b, d)."""
    weights = (mask.cumsum(1) * mask).unsqueeze(-1).float()
    return (hidden.float() * weights).sum(1) / weights.sum(1).clamp(min=1e-9)


def last(hidden: Tensor, mask: Tensor) -> Tensor:
    """Take the last token of mask (b, s) in hidden (b, s, d); float32 (b, d)."""
    place = (mask.sum(1) - 1).clamp(min=0)[:, None, None].expand(-1, 1, hidden.shape[2])
    return hidden.gather(1, place).squeeze(1).float()


POOLERS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cls": cls,
    "max": maximum,
    "mean": mean,
    "mean_sqrt_len_tokens": mean_sqrt_len,
    "weightedmean": weighted_mean,
    "lasttoken": last,
}
