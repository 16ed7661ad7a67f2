"""Hidden states to one vector per text. Pure tensor functions."""

from collections.abc import Callable

import torch
from torch import Tensor


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


POOLERS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"mean": mean, "cls": cls, "max": maximum}
