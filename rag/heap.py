"""Memory that is freed but not given back: what a generation leaves behind when another takes its place."""

import ctypes


def trim() -> None:
    """Give what is free back to the system, if the C library can: a few milliseconds, without the interpreter."""
    give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's; others keep less
    if give_back is not None:
        give_back(0)
