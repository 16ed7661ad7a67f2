"""Holds finished answers until a moment each, to the precision of the system's clock.

The loop's own waits end at whole milliseconds after they began, which would tell when an answer was ready.
"""

import heapq
import itertools
import threading
import time
from collections.abc import Callable


class Pacer:
    """Calls functions at given moments, in a thread of its own, which is started when it is first needed."""

    def __init__(self) -> None:
        self._held: list[tuple[float, int, Callable[[], None]]] = []  # a heap
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def hold(self, until: float, then: Callable[[], None]) -> None:
        """Call a function, which must be short, at a moment of `time.monotonic`."""
        with self._changed:
            heapq.heappush(self._held, (until, next(self._numbers), then))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="pacer", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Let the thread end; what is held is forgotten."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _run(self) -> None:
        while (then := self._next()) is not None:
            then()

    def _next(self) -> Callable[[], None] | None:
        """Wait for the next moment and return what is to be called then; None when closed."""
        with self._changed:
            while not self._is_closed:
                left = self._held[0][0] - time.monotonic() if self._held else None
                if left is not None and left <= 0:
                    return heapq.heappop(self._held)[2]
                self._changed.wait(left)
        return None
