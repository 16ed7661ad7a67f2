"""Compiles a sentence encoder to a package of native code with PyTorch, for the engine `aot`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

from embedder import cpu
from embedder.engines.plan import Plan
from embedder.engines.pytorch import PACKAGE
from embedder.model.encoder import Encoder
from embedder.model.sentence import SentenceEncoder, WithStates, load_module

_OPTIONS: dict[str, Any] = {
    "freezing": True,  # folds the weights in and prepacks them in oneDNN's blocked layouts
    # Headers compiled ahead are used once here, and cost more than they save. (And GCC 12 and 14 crash on SVE's.)
    "aot_inductor.precompile_headers": False,
    "cpp_cache_precompile_headers": False,
}
_LARGEST_BATCH = 4096
# What Inductor asks of torch.cpu, and the instruction sets that have it. It looks at the processor and at
# ATEN_CPU_CAPABILITY, which knows AVX2 and AVX-512 alone.
_INDUCTOR_ASKS = {
    "_is_vnni_supported": {"amx", "avx512_bf16", "avx512_vnni"},
    "_is_avx512_bf16_supported": {"amx", "avx512_bf16"},
    "_is_amx_tile_supported": {"amx"},
    "_init_amx": {"amx"},
}
# What g++ may use for a package of an instruction set. Its default is whatever the building machine happens to have,
# and the package would end another machine of the same set with SIGILL.
_ARCHITECTURES = {
    "amx": "sapphirerapids",
    "avx512_bf16": "x86-64-v4",
    "avx512_vnni": "x86-64-v4",
    "avx512": "x86-64-v4",
    "avx_vnni": "x86-64-v3",
    "avx2": "x86-64-v3",
}


def build_aot(plan: Plan, folder: Path, report: Callable[[str], None]) -> None:
    """Write the file of a plan's package to a folder.

    `report` is called with each step as it begins. Raises ModelError, and what torch raises.
    """
    report("loading the weights")
    module = load_module(plan.spec)
    if plan.precision == "bf16":
        module.to_bf16()
    _compile(module, plan, folder, report)


def _compile(module: SentenceEncoder, plan: Plan, folder: Path, report: Callable[[str], None]) -> None:
    """Compile a module, in its final precision, with AOTInductor, for every batch and sequence length."""
    # An example of two texts and a dynamic range from one: export would otherwise fix a size of 1 for good.
    ids = torch.zeros(2, 8, dtype=torch.int64)
    sizes = {
        0: torch.export.Dim("batch", min=1, max=_LARGEST_BATCH),
        1: torch.export.Dim("sequence", min=2, max=plan.spec.max_length),
    }
    if isinstance(module.encoder, Encoder) and module.encoder.shape.relative_buckets:
        # A row and a column more than any text needs, or export refuses the longest: its slice would be the whole.
        module.encoder.relative = F.pad(module.encoder.get_buffer("relative"), (0, 1, 0, 1))
    if cpu.detect().forced:
        _keep_inductor_to(cpu.detect().isa)
    options = _OPTIONS | {"cpp.threads": plan.threads, "cpp.march": _ARCHITECTURES.get(plan.isa)}
    with torch.no_grad():  # freezing is refused where gradients are recorded
        report("exporting the model")
        program = torch.export.export(
            WithStates(module), (ids, torch.ones_like(ids)), dynamic_shapes={"ids": sizes, "mask": sizes}
        )
        report("compiling the model with AOTInductor")
        torch._inductor.aoti_compile_and_package(program, package_path=str(folder / PACKAGE), inductor_configs=options)


def _keep_inductor_to(isa: str) -> None:
    """Have Inductor compile for a lesser instruction set than the processor has, in this process, which only builds."""
    for name, sets in _INDUCTOR_ASKS.items():
        if isa not in sets:
            setattr(torch.cpu, name, lambda: False)
