"""The deadline of a request: set when it arrives, checked before each wait.

It belongs to the context of the request: functions between the server and the queue of the model do not pass it on.
"""

import math
import time
from contextvars import ContextVar

from rag.errors import DeadlinePassed

_end: ContextVar[float] = ContextVar("deadline", default=math.inf)
_arrival: ContextVar[float | None] = ContextVar("arrival", default=None)


def arrive(moment: float) -> None:
    """Note when the request of this context arrived, by `time.monotonic`."""
    _arrival.set(moment)


def waited() -> float:
    """Return the seconds since the request of this context arrived, 0 if unknown."""
    moment = _arrival.get()
    return 0.0 if moment is None else time.monotonic() - moment


def begin(seconds: float) -> None:
    """Set the deadline of this context to so many seconds after its request arrived, or from now."""
    _end.set(time.monotonic() - waited() + seconds)


def lift() -> None:
    """Remove the deadline of this context, for a response that streams after the search."""
    _end.set(math.inf)


def end() -> float:
    """Return the time at which the deadline passes, of `time.monotonic`; infinity without one."""
    return _end.get()


def remaining() -> float:
    """Return the seconds left, 0 once it has passed; infinity without a deadline."""
    return max(0.0, _end.get() - time.monotonic())


def check() -> None:
    """Raise DeadlinePassed if there is no time left."""
    if time.monotonic() >= _end.get():
        raise DeadlinePassed
