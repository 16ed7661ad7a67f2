"""Build a package in a process that `package` starts with `python -m embedder.engines.build_worker JSON`.

For the engine `native`, the process packs a model's weights or compiles the library. For `aot`, it compiles the model
with PyTorch. The process prints each step and the result as lines of JSON to standard output. When the caller ends,
standard input is closed, and the process ends too.
"""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from embedder.config import EmbedderConfig
from embedder.engines import library
from embedder.engines.library import INTERLEAVE, PANEL
from embedder.engines.native import LAYOUT, WEIGHTS
from embedder.engines.plan import AOT_FILE, Plan
from embedder.errors import ModelError, PackageError
from embedder.model.checkpoint import read_dense, read_encoder
from embedder.model.files import Array
from embedder.model.modules import Dense
from embedder.model.spec import ModelSpec


def main() -> None:
    """Build the package that the first command-line argument describes in JSON."""
    request: dict[str, Any] = json.loads(sys.argv[1])
    folder = Path(request["folder"])
    # Compilers and libraries must not use standard input and output, which are pipes to the caller.
    caller_pipe, messages = os.dup(0), os.dup(1)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    threading.Thread(target=_end_with_caller, args=(caller_pipe, folder.parent), daemon=True).start()
    with os.fdopen(messages, "w", encoding="utf-8") as file:

        def send(**message: object) -> None:
            print(json.dumps(message), file=file, flush=True)

        try:
            _build(request, folder, lambda step: send(step=step))
        except Exception as error:  # noqa: BLE001 - reported to the caller
            send(error=type(error).__name__, text=str(error), trace=traceback.format_exc())
        else:
            send(done=True)


def _build(request: dict[str, Any], folder: Path, report: Callable[[str], None]) -> None:
    config = request["config"]
    plan = Plan(EmbedderConfig(**config | {"cache_dir": Path(config["cache_dir"])}))
    library_key = plan.library_key
    if library_key is not None and dataclasses.asdict(library_key) == request["key"]:
        report("compiling the native encoder")
        library.compile_library(folder / library.LIBRARY, library.architecture(), isas=[plan.isa])
        return
    if plan.package_key is None or dataclasses.asdict(plan.package_key) != request["key"]:
        raise PackageError(f"the model {plan.spec.folder} has just been changed: try again")
    if plan.engine == "native":
        report("packing the weights")
        write_weights(plan.spec, plan.precision, library.architecture(), folder)
        return
    build_aot(plan, folder, report)


def _end_with_caller(caller_pipe: int, scratch: Path) -> None:
    """Wait until the caller ends, then kill this process group and remove its scratch folder."""
    while os.read(caller_pipe, 1):
        pass
    # The shell starts its own process group, so it survives the kill and can remove the folder.
    line = ["sh", "-c", 'kill -9 "-$1"; rm -rf -- "$2"', "sh", str(os.getpgrp()), str(scratch)]
    try:
        subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    except OSError:
        os.killpg(0, signal.SIGKILL)


ALIGNMENT = 64  # bytes; the size of a cache line and of an AVX-512 register
BLOCK_NUMBERS = 1 << 20  # numbers of a tensor that are converted together
_SMALL = ("positions.weight", "norm.weight", "norm.bias", "relative", "global_angles", "local_angles")
_BF16_NAN = 0x7FC0


def write_weights(spec: ModelSpec, precision: str, machine: str, folder: Path) -> None:
    """Write a model's weights in the layout that the kernels of an architecture read.

    `weights.bin` contains the tensors. `layout.json` lists their offsets in bytes, in the order that the library
    expects; -1 is a missing tensor. Raises ModelError if weights are invalid or the native engine cannot run the model.
    """
    shape = spec.shape
    if shape is None:
        raise ModelError(f"the native engine does not run {spec.name}: it runs BERT's family and ModernBERT")
    weights = read_encoder(shape, spec.config["model_type"], spec.weights)
    with (folder / WEIGHTS).open("wb") as file:
        writer = _TensorWriter(file)
        writer.rows(weights["words.weight"], "fp32" if precision == "fp32" else "bf16")
        for name in (*_SMALL, "final.weight", "final.bias"):
            writer.add(weights.get(name))
        for layer in range(shape.layers):
            for name in ("qkv", "out", "up", "down"):
                weight, bias = (weights[f"layers.{layer}.{name}.{kind}"] for kind in ("weight", "bias"))
                if shape.modern and name == "up":
                    weight, bias = _interleave_gate(weight), _interleave_gate(bias)
                writer.linear(weight, bias, precision, INTERLEAVE[machine][precision])
            for name in ("norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"):
                writer.add(weights.get(f"layers.{layer}.{name}"))
        for step in spec.steps:
            if isinstance(step, Dense):
                tensors = read_dense(step)
                bias = tensors.get("linear.bias", np.zeros(step.outputs, np.float32))
                writer.linear(tensors["linear.weight"], bias, "fp32", INTERLEAVE[machine]["fp32"])
    (folder / LAYOUT).write_text(json.dumps(writer.offsets), encoding="utf-8")


class _TensorWriter:
    """Write tensors to a file, and record their offsets in bytes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.offsets: list[int] = []

    def add(self, tensor: npt.NDArray[Any] | None) -> None:
        """Write a tensor. If it is None, only record the offset -1."""
        if tensor is None:
            self.offsets.append(-1)
        else:
            self._write([tensor])

    def rows(self, tensor: Array, precision: str) -> None:
        """Write a tensor (n, k) in row-major order, in fp32 or bf16."""
        rows = max(1, BLOCK_NUMBERS // tensor.shape[1])
        blocks = (tensor[start : start + rows] for start in range(0, len(tensor), rows))
        self._write(block if precision == "fp32" else _bf16(block) for block in blocks)

    def linear(self, weight: Array, bias: Array, precision: str, interleave: int) -> None:
        """Write a linear layer: the weight (n, k) in panels of `PANEL` outputs, the bias, for int8 scales and sums."""
        (n, k), scale, sums = weight.shape, None, None
        values: npt.NDArray[Any] = _bf16(weight) if precision == "bf16" else weight
        if precision == "int8":
            scale = np.maximum(np.abs(weight).max(1), 1e-12) / 127
            codes = np.rint(weight / scale[:, None]).clip(-127, 127)
            values, sums = codes.astype(np.int8), scale * codes.sum(1)
        self.add(values.reshape(n // PANEL, PANEL, k // interleave, interleave).transpose(0, 2, 1, 3))
        for tensor in (bias, scale, sums):
            self.add(tensor)

    def _write(self, blocks: Iterable[npt.NDArray[Any]]) -> None:
        self._file.write(bytes(-self._file.tell() % ALIGNMENT))
        self.offsets.append(self._file.tell())
        for block in blocks:
            self._file.write(np.ascontiguousarray(block).data)


def _interleave_gate(tensor: Array) -> Array:
    """Reorder the outputs of a gated layer: 32 values, the 32 gates of these values, the next 32 values, and so on."""
    return tensor.reshape(2, -1, PANEL, *tensor.shape[1:]).swapaxes(0, 1).reshape(tensor.shape)


def _bf16(tensor: Array) -> npt.NDArray[np.uint16]:
    """Round a tensor to bf16, ties to even, and return its bits."""
    bits = tensor.view(np.uint32)
    rounded = (bits + (0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    rounded[np.isnan(tensor)] = _BF16_NAN
    return rounded


_AOT_OPTIONS: dict[str, Any] = {
    "freezing": True,
    # Precompiling headers takes more time than it saves. On Arm with SVE, it crashes GCC 12 and 14.
    "aot_inductor.precompile_headers": False,
    "cpp_cache_precompile_headers": False,
}
_LARGEST_BATCH = 4096
# Instruction set → option -march of g++. By default, torch would use instructions that only this processor model has.
_ARCHITECTURES = {
    "amx": "sapphirerapids",
    "avx512_bf16": "x86-64-v4",
    "avx512_vnni": "x86-64-v4",
    "avx512": "x86-64-v4",
    "avx_vnni": "x86-64-v3",
    "avx2": "x86-64-v3",
}


def build_aot(plan: Plan, folder: Path, report: Callable[[str], None]) -> None:
    """Compile a plan's model into a folder with AOTInductor, for all batch sizes and sequence lengths.

    When a step begins, `report` is called with its name. Raises CompilerMissing, ModelError or errors of torch.
    """
    library.require_compiler("the engine aot")
    report("importing torch")
    import torch
    from torch.nn import functional as F

    from embedder.model.encoder import Encoder, WithStates, load_module

    report("loading the weights")
    module = load_module(plan.spec, plan.precision)
    # The example input has two texts, because torch.export treats a batch size of one as a constant.
    ids = torch.zeros(2, 8, dtype=torch.int64)
    sizes = {
        0: torch.export.Dim("batch", min=1, max=_LARGEST_BATCH),
        1: torch.export.Dim("sequence", min=2, max=plan.spec.max_length),
    }
    if isinstance(module.encoder, Encoder) and module.encoder.shape.relative_buckets:
        # Without a spare row and column, torch.export rejects sequences of the maximum length.
        module.encoder.relative = F.pad(module.encoder.get_buffer("relative"), (0, 1, 0, 1))
    options = _AOT_OPTIONS | {"cpp.threads": plan.threads, "cpp.march": _ARCHITECTURES.get(plan.isa)}
    with torch.no_grad():  # AOTInductor freezes weights only if no gradients are recorded
        report("exporting the model")
        shapes = {"ids": sizes, "mask": sizes}
        program = torch.export.export(WithStates(module), (ids, torch.ones_like(ids)), dynamic_shapes=shapes)
        report("compiling the model with AOTInductor")
        torch._inductor.aoti_compile_and_package(program, package_path=str(folder / AOT_FILE), inductor_configs=options)


if __name__ == "__main__":
    main()
