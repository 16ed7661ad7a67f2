"""The transformers model with pooling and normalisation in one graph, as the other runtimes are given it."""

import warnings
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Pooled(nn.Module):
    """Token ids to unit vectors by transformers' own model, averaged over the tokens."""

    def __init__(self, folder: Path, attention: str) -> None:
        super().__init__()
        from transformers import AutoModel

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                self.inner = AutoModel.from_pretrained(folder, attn_implementation=attention)
            except ValueError:  # MPNet has none but its own attention
                self.inner = AutoModel.from_pretrained(folder)
        self.eval().requires_grad_(False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Map ids and mask, int64 (b, s), to float32 (b, d)."""
        hidden = self.inner(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        weights = attention_mask.unsqueeze(-1).float()
        return F.normalize((hidden * weights).sum(1) / weights.sum(1), dim=-1)


def example() -> tuple[Tensor, Tensor]:
    """Return ids and mask to trace with, int64 (2, 8)."""
    ids = torch.arange(1000, 1016).view(2, 8)
    return ids, torch.ones_like(ids)
