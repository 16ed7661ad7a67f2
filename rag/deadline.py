"""The deadline of the current request. Functions check it before they wait.

A context variable contains the deadline, so that functions do not need it as an argument.
"""

import math
import time
from contextvars import ContextVar

from rag.errors import DeadlinePassed

_end: ContextVar[float] = ContextVar("deadline", default=math.inf)
_arrival: ContextVar[float | None] = ContextVar("arrival", default=None)


def arrive(moment: float) -> None:
    """Record when the current request arrived. `moment` is a value of `time.monotonic`."""
    _arrival.set(moment)


def begin(seconds: float) -> None:
    """Set the deadline to `seconds` after the request arrived (see `arrive`), or after now if this is unknown."""
    arrival = _arrival.get()
    _end.set((time.monotonic() if arrival is None else arrival) + seconds)


def lift() -> None:
    """Remove the deadline of the current request, so that its response can be streamed after the search."""
    _end.set(math.inf)


def end() -> float:
    """Return the deadline as a value of `time.monotonic`, or infinity if there is none."""
    return _end.get()


def remaining() -> float:
    """Return the seconds until the deadline: 0 if it has passed, and infinity if there is none."""
    return max(0.0, _end.get() - time.monotonic())


def check() -> None:
    """Raise DeadlinePassed if the deadline has passed."""
    if time.monotonic() >= _end.get():
        raise DeadlinePassed
