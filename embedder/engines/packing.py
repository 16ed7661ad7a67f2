"""Writes weights in the layout of the native encoder, in one file that processes share by mapping it.

A linear layer's weight (n, k) becomes panels of 32 output columns, (n/32, k/q, 32, q): q numbers of a column are
adjacent, as many as one instruction multiplies and adds (`library.INTERLEAVE`). On x86-64 that is the operand layout of
vdpbf16ps, vpdpbusd and AMX, on Arm that of BFMMLA and SMMLA. int8 weights are symmetric with a scale per column.
"""

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from embedder.engines.library import INTERLEAVE, PANEL
from embedder.engines.native import LAYOUT, WEIGHTS
from embedder.model.encoder import Encoder
from embedder.model.sentence import DenseStep, SentenceEncoder

ALIGNMENT = 64  # bytes; a cache line, and a vector register
Array = npt.NDArray[np.generic]


def write_weights(module: SentenceEncoder, precision: str, machine: str, folder: Path) -> None:
    """Write an fp32 module's weights, as kernels of a machine's architecture read them, to `weights.bin`,
    and to `layout.json` the offset of each in the kernel's order.

    An offset of -1 stands for a tensor the model does not have. Raises TypeError for an encoder of another family.
    """
    encoder = module.encoder
    if not isinstance(encoder, Encoder):
        raise TypeError("the native engine packs the weights of an embedder.model.encoder.Encoder")
    tensors: list[Array | None] = [
        _fp32(encoder.words.weight) if precision == "fp32" else _bf16(encoder.words.weight),
        _fp32(encoder.positions.weight),
        _fp32(encoder.norm.weight),
        _fp32(encoder.norm.bias),
        _fp32(encoder.get_buffer("relative")) if encoder.shape.relative_buckets else None,
    ]
    for layer in encoder.layers:
        for name in ("qkv", "out", "up", "down"):
            tensors += _linear(layer.get_submodule(name), precision, INTERLEAVE[machine][precision])
        for name in ("norm1", "norm2"):
            norm = layer.get_submodule(name)
            tensors += [_fp32(norm.get_parameter("weight")), _fp32(norm.get_parameter("bias"))]
    for step in module.steps:
        if isinstance(step, DenseStep):  # a few numbers of each text: not worth a lower precision
            tensors += _linear(step.linear, "fp32", INTERLEAVE[machine]["fp32"])
    offsets = []
    with (folder / WEIGHTS).open("wb") as file:
        for tensor in tensors:
            if tensor is None:
                offsets.append(-1)
                continue
            file.write(bytes(-file.tell() % ALIGNMENT))
            offsets.append(file.tell())
            file.write(np.ascontiguousarray(tensor).tobytes())
    (folder / LAYOUT).write_text(json.dumps(offsets), encoding="utf-8")


def _linear(linear: nn.Module, precision: str, together: int) -> list[Array | None]:
    """Weight, bias, and for int8 the columns' scales and scaled sums."""
    weight = linear.get_parameter("weight").data
    bias = _fp32(linear.bias if isinstance(linear.bias, Tensor) else torch.zeros(len(weight)))
    if precision == "int8":
        scale = weight.abs().amax(1).clamp(min=1e-12) / 127
        codes = (weight / scale[:, None]).round().clamp(-127, 127)
        return [_panels(codes, together).to(torch.int8).numpy(), bias, _fp32(scale), _fp32(scale * codes.sum(1))]
    panels = _panels(weight, together)
    return [_fp32(panels) if precision == "fp32" else _bf16(panels), bias, None, None]


def _panels(weight: Tensor, together: int) -> Tensor:
    """Order a weight (n, k) in panels, so many numbers of a column together."""
    n, k = weight.shape
    return weight.view(n // PANEL, PANEL, k // together, together).permute(0, 2, 1, 3).contiguous()


def _bf16(tensor: Tensor) -> Array:
    """The bits of a tensor in bf16; numpy has no such type."""
    bits: Array = tensor.data.to(torch.bfloat16).contiguous().view(torch.int16).numpy()
    return bits


def _fp32(tensor: Tensor) -> Array:
    values: Array = tensor.data.float().contiguous().numpy()
    return values
