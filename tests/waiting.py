"""The one way in which tests wait for other threads and processes."""

import time
from collections.abc import Callable


def wait_for(condition: Callable[[], object], what: str = "the condition to come true", seconds: float = 300) -> None:
    """Return as soon as a condition is true. The end is far, because only a failing test reaches it."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds:g} s for {what}"
        time.sleep(0.01)
