"""Process environment that must be in place before torch is imported.

The only place that sets it. A variable the user has set is never overridden.
Source of the Graviton values: AWS Graviton technical guide, "PyTorch inference".
"""

import os
import platform
from collections.abc import MutableMapping

COMMON = {
    "TOKENIZERS_PARALLELISM": "true",  # set at all, it also silences the warning after a fork
    "LRU_CACHE_CAPACITY": "1024",  # oneDNN primitives kept per thread: one per shape, and shapes are dynamic
}
GRAVITON = {
    "DNNL_DEFAULT_FPMATH_MODE": "BF16",
    "THP_MEM_ALLOC_ENABLE": "1",
}
X86 = {
    "KMP_BLOCKTIME": "1",  # Intel OpenMP, where a user preloads it: stop spinning 1 ms after a parallel region
}


def defaults(machine: str) -> dict[str, str]:
    """Return the variables for a machine as `platform.machine()` names it."""
    return COMMON | (GRAVITON if machine in {"aarch64", "arm64"} else X86)


def apply(environ: MutableMapping[str, str] = os.environ, machine: str | None = None) -> None:
    """Set every default that the user has not set."""
    for name, value in defaults(machine or platform.machine()).items():
        environ.setdefault(name, value)
