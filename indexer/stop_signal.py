"""Raise an exception when a stop signal arrives, and raise it again if other code swallows it."""

import signal
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

REPEAT_SECONDS = 1.0


class Stopped(KeyboardInterrupt):
    """A stop signal has arrived. Unlike KeyboardInterrupt, this class allows weak references."""


@contextmanager
def raise_at(number: int) -> Iterator[None]:
    """Raise Stopped in the block when the signal arrives. Requires the main thread.

    Destructors and callbacks from C code swallow exceptions, so Stopped is raised every second until the block ends.
    As long as the last exception object exists, it is still propagating or being handled, and no new one is raised.
    """
    earlier, earlier_alarm = signal.getsignal(number), signal.getsignal(signal.SIGALRM)
    last: Callable[[], Stopped | None] | None = None

    def stop(*_: object) -> None:
        nonlocal last
        if last is None or last() is None:
            signal.signal(signal.SIGALRM, stop)
            signal.setitimer(signal.ITIMER_REAL, REPEAT_SECONDS, REPEAT_SECONDS)
            error = Stopped()
            last = weakref.ref(error)
            try:
                raise error
            finally:
                del error  # otherwise this frame, which the traceback refers to, would keep the exception alive

    signal.signal(number, stop)
    try:
        yield
    finally:
        if last is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, earlier_alarm)
        signal.signal(number, earlier)
