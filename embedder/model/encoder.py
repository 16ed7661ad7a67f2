"""A BERT-family encoder in plain torch, loaded from a checkpoint by its config.

One module serves BERT, RoBERTa, XLM-R, CamemBERT, MPNet and DistilBERT checkpoints, without importing
transformers, and is written for ahead-of-time compilation: static structure, dynamic batch and sequence.
Layer equations: Devlin et al. 2018 (BERT), Song et al. 2020 (MPNet's relative position bias, after Raffel et al. 2019).
"""

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from embedder.model.shape import Modern, Shape


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
        """Map x float32 (b, s, d) to the same; bias broadcasts to (b, heads, s, s) and is added to the scores."""
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
        self.positions = nn.Embedding(shape.types * shape.positions, shape.hidden)  # each type's are added to them
        self.norm = nn.LayerNorm(shape.hidden, eps=shape.eps)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        if shape.relative_buckets:
            length = shape.positions - shape.first_position
            self.register_buffer("relative", torch.zeros(shape.heads, length, length))

    def to_bf16(self) -> None:
        """Convert the large weights to bf16; norms and positions stay in fp32, because rounding them costs accuracy."""
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding) and module is not self.positions:
                module.to(torch.bfloat16)

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
