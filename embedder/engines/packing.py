"""Writes weights in the layout of the native encoder, in one file that processes share by mapping it.

A linear layer's weight (n, k) becomes panels of 32 output columns, (n/32, k/q, 32, q): q numbers of a column are
adjacent, as many as one instruction multiplies and adds (`library.INTERLEAVE`). On x86-64 that is the operand layout of
vdpbf16ps, vpdpbusd and AMX, on Arm that of BFMMLA and SMMLA. int8 weights are symmetric with a scale per column.
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from embedder.engines.library import INTERLEAVE, PANEL
from embedder.engines.native import LAYOUT, WEIGHTS
from embedder.model.encoder import Encoder
from embedder.model.modernbert import ModernEncoder
from embedder.model.sentence import DenseStep, SentenceEncoder

ALIGNMENT = 64  # bytes; a cache line, and a vector register
Array = npt.NDArray[np.generic]


def write_weights(module: SentenceEncoder, precision: str, machine: str, folder: Path) -> None:
    """Write an fp32 module's weights, as kernels of a machine's architecture read them, to `weights.bin`,
    and to `layout.json` the offset of each in the kernel's order.

    An offset of -1 stands for a tensor the model does not have. Raises TypeError for an encoder of another family.
    """
    encoder = module.encoder
    if not isinstance(encoder, Encoder | ModernEncoder):
        raise TypeError("the native engine packs the weights of BERT's family and of ModernBERT")
    modern = isinstance(encoder, ModernEncoder)
    tensors: list[Array | None] = [
        _fp32(encoder.words.weight) if precision == "fp32" else _bf16(encoder.words.weight),
        None if isinstance(encoder, ModernEncoder) else _fp32(encoder.positions.weight),
        *_norm(encoder.norm),
        _fp32(encoder.get_buffer("relative")) if encoder.shape.relative_buckets else None,
        *(_fp32(encoder.get_buffer(f"{kind}_angles")) if modern else None for kind in ("global", "local")),
        *_norm(encoder.final if isinstance(encoder, ModernEncoder) else None),
    ]
    for layer in encoder.layers:
        for name in ("qkv", "out", "up", "down"):
            linear = layer.get_submodule(name)
            order = _paired if modern and name == "up" else _as_it_is
            tensors += _linear(linear, precision, INTERLEAVE[machine][precision], order)
        for name in ("norm1", "norm2"):
            tensors += _norm(layer.get_submodule(name))
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


def _norm(norm: nn.Module | None) -> list[Array | None]:
    """Weight and bias of a layer norm, or nothing where a model has none."""
    if not isinstance(norm, nn.LayerNorm):
        return [None, None]
    return [_fp32(norm.weight), _fp32(norm.bias)]


def _as_it_is(tensor: Tensor) -> Tensor:
    return tensor


def _paired(tensor: Tensor) -> Tensor:
    """Put a panel of the activation's input and one of the gate in turn; a gated layer has all of one first."""
    return tensor.reshape(2, -1, PANEL, *tensor.shape[1:]).transpose(0, 1).reshape(tensor.shape)


def _linear(
    linear: nn.Module, precision: str, together: int, order: Callable[[Tensor], Tensor] = _as_it_is
) -> list[Array | None]:
    """Weight, bias, and for int8 the columns' scales and scaled sums; `order` is that of the outputs."""
    weight = order(linear.get_parameter("weight").data)
    bias = _fp32(order(linear.bias) if isinstance(linear.bias, Tensor) else torch.zeros(len(weight)))
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
