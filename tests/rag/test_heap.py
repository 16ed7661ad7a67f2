"""Memory goes back to the system."""

import ctypes
from pathlib import Path

import pytest

from rag import heap


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="another C library than glibc")
def test_what_is_free_goes_back() -> None:
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    size = 64 * 1024  # below what glibc maps one by one
    taken = [library.malloc(size) for _ in range(1000)]
    for address in taken:
        ctypes.memset(address, 1, size)
    before = resident()
    for address in taken[:-1]:  # the last one keeps the heap from shrinking by itself
        library.free(ctypes.c_void_p(address))
    heap.trim()
    assert before - resident() > 30 * 1024 * 1024
    library.free(ctypes.c_void_p(taken[-1]))
