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
