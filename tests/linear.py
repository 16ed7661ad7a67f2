"""Check that the processor time of a function is proportional to the size of its input."""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


def check_linear(work: Callable[[T], object], make: Callable[[int], T], size: int, slack: float = 0.2) -> None:
    """Assert that `work(make(size))` takes at most 2.3 times the processor time of half the size, plus `slack` seconds.

    Half the size is not run if the whole takes less than the slack. One of three attempts must succeed, because other
    processes may slow down the work. The garbage collector is disabled. If the work raises an exception, the time until
    then counts.
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
        linear = seconds(size) <= slack or any(once() for _ in range(3))
    finally:
        gc.enable()
    assert linear, (repr(make(64))[:200], measured)


def repeated(unit: str, head: str = "") -> Callable[[int], str]:
    """Return a function that repeats a unit of text up to a number of characters."""
    return lambda size: head + unit * (size // len(unit))
