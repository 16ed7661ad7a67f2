"""Detect the processor and its instruction sets, and set environment variables for torch before it is imported.

Features are read from the C library and the kernel. In a container, an emulator or a virtual machine, /proc/cpuinfo may
describe another processor. It also lists features that the kernel denies to this process.
"""

import ctypes
import functools
import os
import platform
from collections.abc import MutableMapping, Set
from dataclasses import dataclass
from pathlib import Path

from embedder.errors import EmbedderError

ISA_VARIABLE = "PILOTLIGHT_ISA"  # environment variable that overrides the detected instruction set
_FOR_TORCH = {
    "TOKENIZERS_PARALLELISM": "true",  # the library tokenizers warns after a fork if this is not set
    # By default, an idle thread of GNU OpenMP spins for milliseconds and keeps its core busy.
    "GOMP_SPINCOUNT": "1000",
    "LRU_CACHE_CAPACITY": "1024",  # number of compiled oneDNN operations, one per tensor shape, that a thread caches
}
_FOR_TORCH_ON_ARM = {"DNNL_DEFAULT_FPMATH_MODE": "BF16", "THP_MEM_ALLOC_ENABLE": "1"}  # advice of AWS for Graviton

_AVX2 = frozenset({"avx2", "fma"})
_AVX512 = _AVX2 | {"avx512f", "avx512bw", "avx512vl", "avx512dq"}
_AVX512_VNNI = _AVX512 | {"avx512_vnni"}
_AVX512_BF16 = _AVX512_VNNI | {"avx512_bf16"}
# Instruction set → processor features that it needs. Instruction sets with more features come first.
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
# "avx512_bf16" is selected by default only if the processor has SSE4A, which only AMD processors have. On Intel
# processors, the bf16 instruction vdpbf16ps is slower than fp32: 53 against 88 GMAC/s on one core of a Xeon with AMX.
_NEEDED_BY_DEFAULT = {"avx512_bf16": frozenset({"sse4a"})}

# feature → (index of the cpuid leaf in glibc, index of the register among eax, ebx, ecx and edx, number of the bit)
_X86_BITS = {
    "fma": (0, 2, 12), "f16c": (0, 2, 29), "avx2": (1, 1, 5), "avx512f": (1, 1, 16), "avx512dq": (1, 1, 17),
    "avx512bw": (1, 1, 30), "avx512vl": (1, 1, 31), "avx512_vnni": (1, 2, 11), "amx_bf16": (1, 3, 22),
    "amx_tile": (1, 3, 24), "amx_int8": (1, 3, 25), "sse4a": (2, 2, 6), "avx_vnni": (6, 0, 4),
    "avx512_bf16": (6, 0, 5),
}  # fmt: skip
_AMX = frozenset({"amx_tile", "amx_bf16", "amx_int8"})
_SYS_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA = 158, 0x1023, 18
_AT_HWCAP, _AT_HWCAP2 = 16, 26
# feature → (entry of the kernel's auxiliary vector, number of the bit)
_ARM_BITS = {
    "asimd": (_AT_HWCAP, 1),
    "asimddp": (_AT_HWCAP, 20),
    "sve": (_AT_HWCAP, 22),
    "i8mm": (_AT_HWCAP2, 13),
    "bf16": (_AT_HWCAP2, 14),
}
_PR_SVE_GET_VL, _SVE_LENGTH = 51, 0xFFFF


class _Leaf(ctypes.Structure):
    """A cpuid leaf in glibc's memory layout. A set bit in `active` is a feature that programs may use."""

    _fields_ = (("cpuid", ctypes.c_uint * 4), ("active", ctypes.c_uint * 4))


@dataclass(frozen=True, slots=True)
class Cpu:
    """The processor, with the instruction sets and cores that this process may use."""

    machine: str
    name: str
    isa: str
    isas: tuple[str, ...]  # all usable instruction sets, from most features to "generic"
    cores: int  # physical cores that the affinity mask and the cgroup quota allow
    torch_isa: str = ""
    notes: tuple[str, ...] = ()

    @property
    def has_bf16(self) -> bool:
        """Return whether bf16 multiplication runs in hardware and is faster than fp32."""
        return self.isa in BF16_ISAS

    @property
    def has_int8(self) -> bool:
        """Return whether dot products of 8-bit integers run in hardware."""
        return self.isa in INT8_ISAS


def isas_of(machine: str, features: Set[str]) -> tuple[str, ...]:
    """Return the instruction sets that a processor with these features can run, from most features to "generic"."""
    table = ARM_ISAS if machine == "aarch64" else X86_ISAS
    return (*(name for name, needs in table.items() if needs <= features), GENERIC)


def isa_of(machine: str, features: Set[str]) -> str:
    """Return the default instruction set for a processor with these features."""
    return next(name for name in isas_of(machine, features) if _NEEDED_BY_DEFAULT.get(name, frozenset()) <= features)


@functools.cache
def detect() -> Cpu:
    """Describe this processor. Raises EmbedderError if PILOTLIGHT_ISA names an instruction set that it cannot run."""
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
    """Set environment variables that make torch faster, unless they are set already. Call before importing torch."""
    for name, value in (_FOR_TORCH | (_FOR_TORCH_ON_ARM if machine == "aarch64" else {})).items():
        environ.setdefault(name, value)


def _read_x86() -> tuple[frozenset[str], int, tuple[str, ...]]:
    """Return an x86 processor's usable features, 0 for its SVE width, and notes about features that cannot be used."""
    try:
        libc = ctypes.CDLL("libc.so.6", use_errno=True)
        leaf = libc.__x86_get_cpuid_feature_leaf
    except (OSError, AttributeError):
        note = "no vector instructions are used: the C library does not list them (glibc 2.33 and newer do)"
        return frozenset(), 0, (note,)
    leaf.restype, leaf.argtypes = ctypes.POINTER(_Leaf), [ctypes.c_uint]

    def has(index: int, register: int, bit: int) -> bool:
        entry = leaf(index)
        return bool(entry) and bool(entry.contents.active[register] >> bit & 1)

    features = frozenset(name for name, position in _X86_BITS.items() if has(*position))
    if not features >= _AMX:
        return features, 0, ()
    # A process must ask the kernel for permission to use AMX. Old kernels and some seccomp filters refuse it.
    if libc.syscall(_SYS_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA) != 0:
        reason = os.strerror(ctypes.get_errno())
        return features - _AMX, 0, (f"AMX is not used: the kernel refused permission ({reason})",)
    return features, 0, ()


def _read_arm() -> tuple[frozenset[str], int, tuple[str, ...]]:
    """Return an Arm processor's usable features, its SVE width in bits (0 without SVE), and an empty tuple of notes."""
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
    """Return the number of cores that this process's cgroup (v2) and its parents allow, or infinity without a limit."""
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
