"""int8 linear layers in an fp32 module, without calibration: weights are quantised once, activations per token at run
time, and everything else stays in fp32.

The graph is PT2E's reference representation, so Inductor lowers it to oneDNN's int8 linear layer with packed weights.
torchao's `X86InductorQuantizer` writes the same graph but measures activations over the whole batch: a vector would
depend on what it is batched with, and lose more. Activations are unsigned: for signed ones torch 2.13 packs the weights
in a layout that sends oneDNN to its reference loops, a thousand times slower.
"""

import torch
import torch.ao.quantization.fx._decomposed  # registers the operators below
from torch import Tensor, nn
from torch.nn import functional as F

_OPS = torch.ops.quantized_decomposed
_TINY = 1e-12  # a step of zero would divide by zero, where all values of a token or a column are equal


class QuantisedLinear(nn.Module):
    """Linear layer with int8 weights, scaled per output column, and uint8 activations, scaled per token."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.data.float()
        scales = weight.abs().amax(1).clamp(min=_TINY) / 127
        codes = (weight / scales[:, None]).round().to(torch.int8)
        self.register_buffer("codes", codes)
        self.register_buffer("scales", scales)
        self.register_buffer("zeros", torch.zeros(len(scales), dtype=torch.int64))
        self.register_buffer("sums", codes.float().sum(1) * scales)  # what an input of all ones gives
        self.biased = linear.bias is not None
        if self.biased:
            self.register_buffer("bias", linear.bias.data.float())

    @property
    def weight(self) -> Tensor:
        """A tensor of the layer's dtype, float32, because encoders read the dtype from a linear layer's weight."""
        return self.get_buffer("scales")

    def forward(self, x: Tensor) -> Tensor:
        """Map x float32 (…, k) to float32 (…, n)."""
        lowest = x.amin(-1, keepdim=True)
        step = ((x.amax(-1, keepdim=True) - lowest) / 255).clamp(min=_TINY)
        codes = ((x - lowest) / step).round().to(torch.uint8)
        # The kernel takes one scale for all tokens, so it multiplies bare codes; each token's own step comes after.
        activations = _OPS.dequantize_per_tensor.default(codes, 1.0, 0, 0, 255, torch.uint8)
        weight = _OPS.dequantize_per_channel.default(self.codes, self.scales, self.zeros, 0, -128, 127, torch.int8)
        y = F.linear(activations, weight) * step + lowest * self.get_buffer("sums")
        return y + self.get_buffer("bias") if self.biased else y


def quantise(module: nn.Module) -> None:
    """Replace every linear layer inside an fp32 module, in place."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, QuantisedLinear(child))
        else:
            quantise(child)
