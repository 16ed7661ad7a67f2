"""Detect the processor and its instruction sets, and set variables for torch before it is imported.

Features come from the C library and the kernel, never from /proc/cpuinfo. In a container, an emulator or a virtual
machine, that file may describe another processor, and it omits restrictions of this process.
"""

import ctypes
import functools
import os
import platform
from collections.abc import MutableMapping, Set
from dataclasses import dataclass
from pathlib import Path

from embedder.errors import EmbedderError

ISA_VARIABLE = "PILOTLIGHT_ISA"  # not a setting, because the processor is detected before flags are read
# machine, "" for all → variables that torch reads at import; for Arm, from the AWS Graviton technical guide
_FOR_TORCH = {
    "": {
        "TOKENIZERS_PARALLELISM": "true",  # any value also silences the warning after a fork
        # An idle thread of GNU OpenMP would otherwise spin for milliseconds and keep its core busy.
        "GOMP_SPINCOUNT": "1000",
        "LRU_CACHE_CAPACITY": "1024",  # oneDNN primitives cached by each thread, one for each shape
    },
    "aarch64": {"DNNL_DEFAULT_FPMATH_MODE": "BF16", "THP_MEM_ALLOC_ENABLE": "1"},
}

_AVX2 = frozenset({"avx2", "fma"})
_AVX512 = _AVX2 | {"avx512f", "avx512bw", "avx512vl", "avx512dq"}
_AVX512_VNNI = _AVX512 | {"avx512_vnni"}
_AVX512_BF16 = _AVX512_VNNI | {"avx512_bf16"}
# Richest first. A package needs all features of its instruction set, so the name of the set is part of its key.
X86_ISAS = {
    "amx": _AVX512_BF16 | {"amx_tile", "amx_bf16", "amx_int8"},
    "avx512_bf16": _AVX512_BF16,
    "avx512_vnni": _AVX512_VNNI,
    "avx512": _AVX512,
    "avx_vnni": _AVX2 | {"f16c", "avx_vnni"},
    "avx2": _AVX2,
}
ARM_ISAS = {
    "neon_mmla": frozenset({"asimd", "asimddp", "bf16", "i8mm"}),
    "neon_dot": frozenset({"asimd", "asimddp"}),
    "neon": frozenset({"asimd"}),
}
GENERIC = "generic"
BF16_ISAS = frozenset({"amx", "avx512_bf16", "neon_mmla"})
INT8_ISAS = BF16_ISAS | {"avx512_vnni", "avx_vnni", "neon_dot"}
# "avx512_bf16" is the default only on AMD, which alone has SSE4A. On Intel, vdpbf16ps is slower than fp32
# multiply-adds: 53 against 88 GMAC/s for a core of a Xeon with AMX.
_CHOSEN_WITH = {"avx512_bf16": frozenset({"sse4a"})}

# feature → index of glibc's leaf, register (eax, ebx, ecx, edx), bit
_X86_BITS = {
    "fma": (0, 2, 12), "f16c": (0, 2, 29), "avx2": (1, 1, 5), "avx512f": (1, 1, 16), "avx512dq": (1, 1, 17),
    "avx512bw": (1, 1, 30), "avx512vl": (1, 1, 31), "avx512_vnni": (1, 2, 11), "amx_bf16": (1, 3, 22),
    "amx_tile": (1, 3, 24), "amx_int8": (1, 3, 25), "sse4a": (2, 2, 6), "avx_vnni": (6, 0, 4),
    "avx512_bf16": (6, 0, 5),
}  # fmt: skip
_AMX = frozenset({"amx_tile", "amx_bf16", "amx_int8"})
_SYS_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA = 158, 0x1023, 18
# feature → entry of the auxiliary vector, bit
_AT_HWCAP, _AT_HWCAP2 = 16, 26
_ARM_BITS = {
    "asimd": (_AT_HWCAP, 1),
    "asimddp": (_AT_HWCAP, 20),
    "sve": (_AT_HWCAP, 22),
    "i8mm": (_AT_HWCAP2, 13),
    "bf16": (_AT_HWCAP2, 14),
}
_PR_SVE_GET_VL, _SVE_LENGTH = 51, 0xFFFF


class _Leaf(ctypes.Structure):
    """A cpuid leaf in glibc's layout. `active` has the features that programs may use."""

    _fields_ = (("cpuid", ctypes.c_uint * 4), ("active", ctypes.c_uint * 4))


@dataclass(frozen=True, slots=True)
class Cpu:
    """The processor, with the features that this process may use."""

    machine: str
    name: str
    isa: str
    isas: tuple[str, ...]  # all supported sets, richest first, "generic" last
    cores: int  # physical cores in this process's affinity mask and cgroup quota
    torch_isa: str = ""
    notes: tuple[str, ...] = ()

    @property
    def has_bf16(self) -> bool:
        """True if bf16 products run in hardware, and faster than fp32."""
        return self.isa in BF16_ISAS

    @property
    def has_int8(self) -> bool:
        """True if dot products of 8-bit integers run in hardware."""
        return self.isa in INT8_ISAS


def isas_of(machine: str, features: Set[str]) -> tuple[str, ...]:
    """Return all instruction sets that these features allow, richest first, "generic" last."""
    table = ARM_ISAS if machine == "aarch64" else X86_ISAS
    return (*(name for name, needs in table.items() if needs <= features), GENERIC)


def isa_of(machine: str, features: Set[str]) -> str:
    """Return the instruction set to use on a processor with these features."""
    return next(name for name in isas_of(machine, features) if _CHOSEN_WITH.get(name, frozenset()) <= features)


@functools.cache
def detect() -> Cpu:
    """Describe the processor. Raises EmbedderError if PILOTLIGHT_ISA names a set that it does not support."""
    machine = platform.machine()
    features, sve_bits, notes = _read_arm() if machine == "aarch64" else _read_x86()
    isas, isa = isas_of(machine, features), isa_of(machine, features)
    torch_isa = f"{isa}_sve{sve_bits}" if sve_bits else isa
    if forced := os.environ.get(ISA_VARIABLE, ""):
        if forced not in isas:
            raise EmbedderError(f"{ISA_VARIABLE}={forced}: this processor runs {', '.join(isas)}; set one of them")
        isa = forced
    cores = max(1, int(min(_physical_cores(os.sched_getaffinity(0)), _quota())))
    return Cpu(machine, _name() or machine, isa, isas, cores, torch_isa, notes)


def prepare_torch(environ: MutableMapping[str, str] = os.environ, machine: str = platform.machine()) -> None:
    """Set variables that make torch faster, unless the user has set them. Call this before torch is imported."""
    for name, value in (_FOR_TORCH[""] | _FOR_TORCH.get(machine, {})).items():
        environ.setdefault(name, value)


def _read_x86() -> tuple[frozenset[str], int, tuple[str, ...]]:
    """Return the features that programs may use, 0 (no SVE), and notes."""
    try:
        libc = ctypes.CDLL("libc.so.6", use_errno=True)
        leaf = libc.__x86_get_cpuid_feature_leaf
    except (OSError, AttributeError):
        return frozenset(), 0, ("no vector instructions are used: the C library does not list them (glibc 2.33 does)",)
    leaf.restype, leaf.argtypes = ctypes.POINTER(_Leaf), [ctypes.c_uint]

    def has(index: int, register: int, bit: int) -> bool:
        entry = leaf(index)
        return bool(entry) and bool(entry.contents.active[register] >> bit & 1)

    features = frozenset(name for name, place in _X86_BITS.items() if has(*place))
    if not features >= _AMX:
        return features, 0, ()
    # Linux saves the large state of the tiles only for processes that request it. Seccomp and old kernels refuse.
    if libc.syscall(_SYS_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA) != 0:
        reason = os.strerror(ctypes.get_errno())
        return features - _AMX, 0, (f"AMX is not used: the kernel refused permission ({reason})",)
    return features, 0, ()


def _read_arm() -> tuple[frozenset[str], int, tuple[str, ...]]:
    """Return the features that programs may use, the bits of an SVE vector, and no notes."""
    libc = ctypes.CDLL(None)
    libc.getauxval.restype, libc.getauxval.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
    features = frozenset(name for name, (entry, bit) in _ARM_BITS.items() if libc.getauxval(entry) >> bit & 1)
    length = libc.prctl(_PR_SVE_GET_VL, 0, 0, 0, 0) if "sve" in features else 0
    return features, (length & _SVE_LENGTH) * 8 if length > 0 else 0, ()


def _name() -> str:
    path = Path("/proc/cpuinfo")
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}
    return fields.get("model name") or fields.get("CPU part") or ""


def _physical_cores(cpus: set[int]) -> int:
    siblings = set()
    for cpu in cpus:
        path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        siblings.add(path.read_text() if path.exists() else str(cpu))
    return len(siblings)


def _quota(mount: Path = Path("/sys/fs/cgroup"), cgroup_file: Path = Path("/proc/self/cgroup")) -> float:
    """Return the cores that the cgroup (v2) of this process and all its parents allow, or infinity."""
    lines = cgroup_file.read_text(encoding="utf-8").splitlines() if cgroup_file.exists() else []
    group = mount / next((line.removeprefix("0::").lstrip("/") for line in lines if line.startswith("0::")), "")
    allowed = float("inf")
    for folder in (group, *group.parents):
        try:
            quota, period = (folder / "cpu.max").read_text(encoding="utf-8").split()
        except (OSError, ValueError):
            continue
        allowed = allowed if quota == "max" else min(allowed, int(quota) / int(period))
    return allowed
