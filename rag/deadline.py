"""The deadline of an answer: set where a request comes in, asked wherever it would wait.

It belongs to the context of the request, so that nothing between the server and the model's queue has to hand it on.
"""

import math
import time
from contextvars import ContextVar

from rag.errors import DeadlinePassed

_end: ContextVar[float] = ContextVar("deadline", default=math.inf)


def begin(seconds: float) -> None:
    """Set the deadline of this context to so many seconds from now."""
    _end.set(time.monotonic() + seconds)


def lift() -> None:
    """Remove the deadline of this context: for what streams on after the search is done."""
    _end.set(math.inf)


def end() -> float:
    """Return the time at which the deadline passes, of `time.monotonic`; infinity without one."""
    return _end.get()


def remaining() -> float:
    """Return the seconds left, 0 once it has passed; infinity without a deadline."""
    return max(0.0, _end.get() - time.monotonic())


def check() -> None:
    """Raise DeadlinePassed if it has."""
    if time.monotonic() >= _end.get():
        raise DeadlinePassed
