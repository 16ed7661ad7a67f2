"""The memory that a build may have, by `ulimit -v` or a cgroup: a build starts only as much as fits."""

import ctypes
import math
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from indexer.errors import MemoryShort

LEAST = 600 << 20  # bytes below which no build is begun
_PLENTY = 4 << 30  # bytes from which nothing needs to be smaller
_BUILD = 450 << 20  # bytes of the build's own process, with the default model
_READER = 350 << 20  # bytes that one reader of documents may come to
_RESERVE = 96 << 20  # bytes that must be free to go on: a batch, and what libraries set aside at once
_STACK = 1 << 20  # bytes of a thread's stack, where each counts
_M_ARENA_MAX = -8  # of glibc's mallopt
_ARENAS = 2  # heaps, of 64 MB each; without a limit there are eight for each processor
_CGROUPS = Path("/sys/fs/cgroup")
_PAGE = os.sysconf("SC_PAGE_SIZE")
SHORT = "out of memory; a build that this ends publishes nothing"


@dataclass(frozen=True, slots=True)
class Limit:
    """The lowest limit that holds for this process."""

    bytes: int
    name: str  # what sets it
    cgroup: Path | None = None  # its folder; None where it is this process's address space

    def used(self) -> int:
        """Return the bytes in use, without those that the kernel would give back at once."""
        if self.cgroup is None:
            return int(Path("/proc/self/statm").read_text().split()[0]) * _PAGE
        return int(dict(map(str.split, (self.cgroup / "memory.stat").read_text().splitlines()))["anon"])


@cache
def limit() -> Limit | None:
    """Return the limit, or None where there is none below 4 GB."""
    space, _ = resource.getrlimit(resource.RLIMIT_AS)
    found = [] if space == resource.RLIM_INFINITY else [Limit(space, "ulimit -v")]
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            found += _of_cgroup(_CGROUPS, line[3:]) if line.startswith("0::") else ()
    return min((each for each in found if each.bytes < _PLENTY), key=lambda each: each.bytes, default=None)


def _of_cgroup(mount: Path, path: str) -> Iterator[Limit]:
    """Yield the limits of a cgroup (version 2) and its parents, as far as a container sees them."""
    folder = mount / path.strip("/")
    for place in [folder, *folder.parents]:
        if not place.is_relative_to(mount):
            return
        with suppress(OSError):
            most = (place / "memory.max").read_text().strip()
            if most.isdecimal():
                yield Limit(int(most), "the cgroup", place)


def prepare() -> None:
    """Use address space sparingly, where it is short, before there are threads; raises MemoryShort."""
    here = limit()
    if here is None:
        return
    if here.bytes < LEAST:
        raise MemoryShort(
            f"a build needs {LEAST >> 20:,} MB of memory, and {here.name} allows {here.bytes >> 20:,} MB: allow more"
        )
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    if here.cgroup is None:
        threading.stack_size(_STACK)
        with suppress(AttributeError):  # glibc's
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)


def check() -> None:
    """Raise MemoryShort where what is left would not do for the next step, rather than die of it."""
    here = limit()
    if here is not None and here.bytes - (used := here.used()) < _RESERVE:
        raise MemoryShort(
            f"{used >> 20:,} MB of memory are in use, and {here.name} allows {here.bytes >> 20:,} MB: allow more, or "
            "build from fewer sources; nothing was published"
        )


def readers(most: int) -> int:
    """Return how many processes may read documents at the same time: at most so many, at least one."""
    here = limit()
    room = math.inf if here is None or here.cgroup is None else (here.bytes - _BUILD) // _READER
    return int(max(1, min(most, room)))


def share(most: int) -> int:
    """Return how many things to keep in memory at once: so many where there is plenty, down to an eighth."""
    here = limit()
    return most if here is None else max(1, most // 8, int(most * here.bytes / _PLENTY))


def trim() -> None:
    """Give freed memory back to the system, as far as the C library can (glibc): a few milliseconds without the GIL."""
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
