"""What this processor is and can do, read without importing torch."""

import functools
import os
import platform
from dataclasses import dataclass
from pathlib import Path

# A package runs only where every instruction set it was compiled for is present, so the name of the
# set is part of its key. Ordered from the richest; the first whose flags are all present is the machine's.
X86_ISAS = (
    ("amx", {"amx_tile", "amx_bf16", "avx512_bf16"}),
    ("avx512_bf16", {"avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16"}),
    ("avx512_vnni", {"avx512f", "avx512bw", "avx512vl", "avx512_vnni"}),
    ("avx512", {"avx512f", "avx512bw", "avx512vl"}),
    ("avx2", {"avx2", "fma"}),
)
ARM_ISAS = (
    ("sve_bf16", {"sve", "bf16"}),
    ("neon_bf16", {"asimd", "bf16"}),
    ("sve", {"sve"}),
    ("neon", {"asimd"}),
)
BF16_ISAS = {"amx", "avx512_bf16", "sve_bf16", "neon_bf16"}


@dataclass(frozen=True, slots=True)
class Cpu:
    """A processor as this process may use it."""

    machine: str  # x86_64, aarch64
    name: str
    isa: str  # richest known instruction set, or "generic"
    cores: int  # physical cores in this process's affinity mask and cgroup quota

    @property
    def has_bf16(self) -> bool:
        """Whether bf16 dot products run in hardware."""
        return self.isa in BF16_ISAS


def isa_of(machine: str, flags: set[str]) -> str:
    """Return the name of the richest instruction set that `flags` covers."""
    table = ARM_ISAS if machine in {"aarch64", "arm64"} else X86_ISAS
    return next((name for name, needs in table if needs <= flags), "generic")


def _cpuinfo() -> tuple[str, set[str]]:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "", set()
    fields: dict[str, str] = {}
    for line in text.partition("\n\n")[0].splitlines():
        name, _, value = line.partition(":")
        fields[name.strip()] = value.strip()
    model = fields.get("model name") or fields.get("CPU part") or ""
    return model, set((fields.get("flags") or fields.get("Features") or "").split())


def _physical_cores(cpus: set[int]) -> int:
    siblings = set()
    for cpu in cpus:
        path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        siblings.add(path.read_text() if path.exists() else str(cpu))
    return len(siblings)


def _quota() -> float:
    """Cores that the cgroup (v2) allows, or infinity."""
    path = Path("/sys/fs/cgroup/cpu.max")
    limit, _, period = path.read_text().partition(" ") if path.exists() else ("max", "", "")
    return float("inf") if limit == "max" else int(limit) / int(period)


@functools.cache
def detect() -> Cpu:
    """Describe the processor that this process runs on."""
    machine = platform.machine()
    name, flags = _cpuinfo()
    affinity = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    cores = max(1, int(min(_physical_cores(affinity), _quota())))
    return Cpu(machine=machine, name=name or machine, isa=isa_of(machine, flags), cores=cores)
