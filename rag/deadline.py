"""The deadline of a request, which is set when the request arrives and checked before each wait.

It is stored in a context variable, so that functions do not need it as an argument.
"""

import math
import time
from contextvars import ContextVar

from rag.errors import DeadlinePassed

_end: ContextVar[float] = ContextVar("deadline", default=math.inf)
_arrival: ContextVar[float | None] = ContextVar("arrival", default=None)


def arrive(moment: float) -> None:
    """Record when the request of this context arrived, as a time of `time.monotonic`."""
    _arrival.set(moment)


def begin(seconds: float) -> None:
    """Set the deadline to `seconds` after the arrival of the request, or after now if no arrival was recorded."""
    arrival = _arrival.get()
    _end.set((time.monotonic() if arrival is None else arrival) + seconds)


def lift() -> None:
    """Remove the deadline of this context, so that a response can be streamed after the search."""
    _end.set(math.inf)


def end() -> float:
    """Return the deadline as a time of `time.monotonic`, or infinity if there is none."""
    return _end.get()


def remaining() -> float:
    """Return the seconds until the deadline: 0 if it has passed, and infinity if there is none."""
    return max(0.0, _end.get() - time.monotonic())


def check() -> None:
    """Raise DeadlinePassed if the deadline has passed."""
    if time.monotonic() >= _end.get():
        raise DeadlinePassed
