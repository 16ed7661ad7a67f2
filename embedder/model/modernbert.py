"""A ModernBERT encoder in plain torch (Warner et al. 2024), written for ahead-of-time compilation like `Encoder`.

Norms before the layers' parts instead of after, rotary positions instead of a table (Su et al. 2021), a gated linear
unit (Shazeer 2020), and layers that attend to all tokens alternating with ones that attend to a window.
"""

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from embedder.model.shape import Modern, Shape


class ModernLayer(nn.Module):
    """One pre-norm transformer layer. The first of a model has no norm before its attention."""

    def __init__(self, shape: Shape, modern: Modern, first: bool) -> None:
        super().__init__()
        self.heads = shape.heads
        self.activation = F.silu if modern.silu else partial(F.gelu, approximate=shape.gelu)
        self.norm1 = nn.Identity() if first else nn.LayerNorm(shape.hidden, eps=shape.eps)
        self.qkv = nn.Linear(shape.hidden, 3 * shape.hidden)
        self.out = nn.Linear(shape.hidden, shape.hidden)
        self.norm2 = nn.LayerNorm(shape.hidden, eps=shape.eps)
        self.up = nn.Linear(shape.hidden, 2 * shape.intermediate)  # the input of the activation, and the gate
        self.down = nn.Linear(shape.intermediate, shape.hidden)

    def forward(self, x: Tensor, bias: Tensor, angles: Tensor) -> Tensor:
        """Map x float32 (b, s, d) to the same; bias (b, 1, s or 1, s) is added to the scores, angles are (s, width)."""
        b, s, d = x.shape
        narrow = self.qkv.weight.dtype  # products run in the weights' type, the residual stream and norms in fp32
        states = self.qkv(self.norm1(x).to(narrow)).view(b, s, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        q, k = turn(states[0], angles), turn(states[1], angles)
        a = F.scaled_dot_product_attention(q, k, states[2], attn_mask=bias)
        x = x + self.out(a.transpose(1, 2).reshape(b, s, d)).float()
        wide, gate = self.up(self.norm2(x).to(narrow)).chunk(2, dim=-1)
        y: Tensor = x + self.down(self.activation(wide) * gate).float()
        return y


class ModernEncoder(nn.Module):
    """Encoder from token ids to hidden states."""

    def __init__(self, shape: Shape, modern: Modern) -> None:
        super().__init__()
        self.shape = shape
        self.modern = modern
        self.words = nn.Embedding(shape.vocabulary, shape.hidden)
        self.norm = nn.LayerNorm(shape.hidden, eps=shape.eps)
        self.layers = nn.ModuleList(ModernLayer(shape, modern, first=i == 0) for i in range(shape.layers))
        self.final = nn.LayerNorm(shape.hidden, eps=shape.eps)
        sizes = (shape.positions, shape.hidden // shape.heads)
        self.register_buffer("global_angles", torch.zeros(sizes))
        self.register_buffer("local_angles", torch.zeros(sizes))

    def to_bf16(self) -> None:
        """Convert the large weights to bf16; norms and angles stay in fp32."""
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                module.to(torch.bfloat16)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Map ids int64 (b, s) and mask int64 (b, s; 1 = token, 0 = padding on the right) to float32 (b, s, d)."""
        places = torch.arange(ids.shape[1])
        x: Tensor = self.norm(self.words(ids).float())
        narrow = self.words.weight.dtype
        least = torch.finfo(narrow).min
        far = (places[None, :] - places[:, None]).abs() > self.modern.window
        padding = (mask == 0)[:, None, None, :]
        everywhere = torch.zeros((), dtype=narrow).masked_fill(padding, least)
        nearby = torch.zeros((), dtype=narrow).masked_fill(padding | far, least)
        wide = self.get_buffer("global_angles").index_select(0, places)
        close = self.get_buffer("local_angles").index_select(0, places)
        for i, layer in enumerate(self.layers):
            local = i % self.modern.global_every
            x = layer(x, nearby if local else everywhere, close if local else wide)
        y: Tensor = self.final(x)
        return y


def turn(x: Tensor, angles: Tensor) -> Tensor:
    """Turn pairs (i, i + width / 2) of x (b, heads, s, width) by the cosines and sines of `angles` (s, width)."""
    cosines, sines = angles.chunk(2, dim=-1)
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat([first * cosines - second * sines, second * cosines + first * sines], dim=-1).to(x.dtype)
