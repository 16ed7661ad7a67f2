"""Environment variables that must be set before torch is imported.

The only place that sets it. A variable the user has set is never overridden.
Source of the Graviton values: AWS Graviton technical guide, "PyTorch inference".
"""

import os
import platform
from collections.abc import MutableMapping

from embedder.cpu import BF16_ISAS, ISA_VARIABLE, is_arm

COMMON = {
    "TOKENIZERS_PARALLELISM": "true",  # set at all, it also silences the warning after a fork
    # turns that a thread of GNU OpenMP waits before it sleeps; by default it keeps its processor for milliseconds, from
    # whoever has work for it
    "GOMP_SPINCOUNT": "1000",
    "LRU_CACHE_CAPACITY": "1024",  # oneDNN primitives kept per thread: one per shape, and shapes are dynamic
}
GRAVITON = {
    "DNNL_DEFAULT_FPMATH_MODE": "BF16",
    "THP_MEM_ALLOC_ENABLE": "1",
}
X86 = {
    "KMP_BLOCKTIME": "1",  # Intel OpenMP, where a user preloads it: stop spinning 1 ms after a parallel region
}
# What keeps torch to a set that PILOTLIGHT_ISA names: its own kernels and Inductor's, oneDNN's, MKL's.
_LIMITS = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")
_X86_LIMITS = {
    "amx": ("avx512", "AVX512_CORE_AMX", "AVX512"),
    "avx512_bf16": ("avx512", "AVX512_CORE_BF16", "AVX512"),
    "avx512_vnni": ("avx512", "AVX512_CORE_VNNI", "AVX512"),
    "avx512": ("avx512", "AVX512_CORE", "AVX512"),
    "avx_vnni": ("avx2", "AVX2_VNNI", "AVX2"),
    "avx2": ("avx2", "AVX2", "AVX2"),
    "generic": ("default", "SSE41", "SSE4_2"),
}
_ARM_LIMITS = ("default", "ADVANCED_SIMD")


def defaults(machine: str, isa: str = "") -> dict[str, str]:
    """Return the variables for a machine as `platform.machine()` names it, and for a set that PILOTLIGHT_ISA names.

    An unknown set adds no limits here: `cpu.detect` refuses it.
    """
    if not is_arm(machine):
        return COMMON | X86 | dict(zip(_LIMITS, _X86_LIMITS.get(isa, ()), strict=False))
    if not isa:
        return COMMON | GRAVITON
    kept = {name: value for name, value in GRAVITON.items() if isa in BF16_ISAS or "BF16" not in value}
    return COMMON | kept | dict(zip(_LIMITS, _ARM_LIMITS, strict=False))


def apply(environ: MutableMapping[str, str] = os.environ, machine: str | None = None) -> None:
    """Set every default that the user has not set."""
    for name, value in defaults(machine or platform.machine(), environ.get(ISA_VARIABLE, "")).items():
        environ.setdefault(name, value)
