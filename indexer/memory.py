"""Adapt a build to memory limits: `ulimit -v` and cgroups."""

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

MIN_BUILD_BYTES = 600 << 20
_PLENTY_BYTES = 4 << 30
_BUILD_BYTES = 450 << 20  # memory of the main process of a build
_READER_BYTES = 350 << 20  # memory of each reader process
_MIN_FREE_BYTES = 96 << 20  # memory of one batch and of the buffers of libraries
_STACK_BYTES = 1 << 20
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_M_ARENA_MAX, _MAX_ARENAS = -8, 2  # heaps of 64 MB; glibc's default is eight for each processor
_CGROUPS = Path("/sys/fs/cgroup")
SHORT = "out of memory; an interrupted build publishes nothing"


@dataclass(frozen=True, slots=True)
class Limit:
    """A memory limit of this process, set by a cgroup, or by `ulimit -v` if `cgroup` is None."""

    bytes: int
    name: str
    cgroup: Path | None = None

    def used(self) -> int:
        """Return the bytes in use, without the kernel's file cache."""
        if self.cgroup is None:
            return int(Path("/proc/self/statm").read_text().split()[0]) * _PAGE_BYTES
        return int(dict(map(str.split, (self.cgroup / "memory.stat").read_text().splitlines()))["anon"])


@cache
def limit() -> Limit | None:
    """Return the lowest memory limit of this process, or None if it is 4 GB or more."""
    space, _ = resource.getrlimit(resource.RLIMIT_AS)
    limits = [] if space == resource.RLIM_INFINITY else [Limit(space, "ulimit -v")]
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            limits += _of_cgroup(_CGROUPS, line[3:]) if line.startswith("0::") else ()
    return min((each for each in limits if each.bytes < _PLENTY_BYTES), key=lambda each: each.bytes, default=None)


def _of_cgroup(mount: Path, path: str) -> Iterator[Limit]:
    """Yield the memory limits of a cgroup (version 2) and of its parents below `mount`."""
    folder = mount / path.strip("/")
    for place in [folder, *folder.parents]:
        if not place.is_relative_to(mount):
            return
        with suppress(OSError):
            maximum = (place / "memory.max").read_text().strip()
            if maximum.isdecimal():
                yield Limit(int(maximum), "the cgroup", place)


def prepare() -> None:
    """Use less memory if it is limited. Call this before starting threads. Raises MemoryShort if a build needs more."""
    lowest = limit()
    if lowest is None:
        return
    if lowest.bytes < MIN_BUILD_BYTES:
        raise MemoryShort(
            f"a build needs {MIN_BUILD_BYTES >> 20:,} MB of memory, and {lowest.name} allows "
            f"{lowest.bytes >> 20:,} MB: raise this limit"
        )
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    if lowest.cgroup is None:
        threading.stack_size(_STACK_BYTES)
        with suppress(AttributeError):  # only glibc has mallopt
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _MAX_ARENAS)


def check() -> None:
    """Raise MemoryShort if too little memory is free to continue."""
    lowest = limit()
    if lowest is not None and lowest.bytes - (used := lowest.used()) < _MIN_FREE_BYTES:
        raise MemoryShort(
            f"{used >> 20:,} MB of memory are in use, and {lowest.name} allows {lowest.bytes >> 20:,} MB: "
            "raise this limit, or index fewer sources; nothing was published"
        )


def readers(maximum: int) -> int:
    """Return the number of reader processes that fit into the cgroup's memory, from 1 to `maximum`."""
    lowest = limit()
    room = math.inf if lowest is None or lowest.cgroup is None else (lowest.bytes - _BUILD_BYTES) // _READER_BYTES
    return int(max(1, min(maximum, room)))


def share(maximum: int) -> int:
    """Return the number of items to keep in memory: `maximum`, or less if memory is limited, but at least an eighth."""
    lowest = limit()
    return maximum if lowest is None else max(1, maximum // 8, int(maximum * lowest.bytes / _PLENTY_BYTES))


def trim() -> None:
    """Return freed memory to the system if the C library is glibc. Takes a few milliseconds, and releases the GIL."""
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
