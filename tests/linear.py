"""Whether work takes time in proportion to its input, by the clock of the processor."""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


def check_linear(work: Callable[[T], object], make: Callable[[int], T], size: int, slack: float = 0.2) -> None:
    """Hold `work(make(size))` to twice the processor time of half the size, and some slack in seconds.

    Tried up to three times, without the garbage collector: what the machine does beside it is no fault of the work.
    An error ends the work: what counts then is how soon.
    """

    def seconds(size: int) -> float:
        made = make(size)
        began = time.process_time()
        with suppress(Exception):
            done = work(made)
            if isinstance(done, Iterator):
                for _ in done:
                    pass
        return time.process_time() - began

    def once() -> bool:
        measured.append((seconds(size // 2), seconds(size)))
        return measured[-1][1] <= 2.3 * measured[-1][0] + slack

    measured: list[tuple[float, float]] = []
    gc.disable()
    try:
        seconds(size // 2)  # what is loaded with the first document is no part of it
        linear = any(once() for _ in range(3))
    finally:
        gc.enable()
    assert linear, (repr(make(64))[:200], measured)


def repeated(unit: str, head: str = "") -> Callable[[int], str]:
    """Return what makes a text of so many characters out of one unit."""
    return lambda size: head + unit * (size // len(unit))
