"""A BERT-family encoder in plain torch, loaded from a checkpoint by its config.

One module serves BERT, RoBERTa, XLM-R, CamemBERT, MPNet and DistilBERT checkpoints, without importing
transformers, and is written for ahead-of-time compilation: static structure, dynamic batch and sequence.
Layer equations: Devlin et al. 2018 (BERT), Song et al. 2020 (MPNet's relative position bias, after Raffel et al. 2019).
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from embedder.model.shape import Shape


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
