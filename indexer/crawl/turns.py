"""Turns of the threads that ask one site: the distance between their requests, and the pauses that it asks for."""

import threading
import time

from indexer.crawl.answers import Unavailable
from indexer.errors import FetchError

LONGEST_PAUSE = 60.0  # seconds a server may ask for in Retry-After; beyond that it is given up


class Turns:
    """Says when a thread may ask. Safe to share between threads."""

    def __init__(self, delay: float) -> None:
        """Take the seconds between requests."""
        self.delay = delay
        self.stopped = threading.Event()  # wakes who waits
        self._lock = threading.Lock()
        self._next_start = 0.0
        self._barred_until = 0.0

    def wait(self) -> float:
        """Wait for one's turn; return the seconds waited. Raises FetchError, Unavailable if that would be too long."""
        with self._lock:
            now = time.monotonic()
            if now < self._barred_until:
                raise Unavailable(f"the site asks to wait {self._barred_until - now:,.0f} s")
            wait = max(0.0, self._next_start - now)
            self._next_start = now + wait + self.delay
        if wait and self.stopped.wait(wait):
            raise FetchError("the crawl is being stopped")
        return wait

    def hold(self, seconds: float) -> None:
        """Let no thread ask for anything for so long: they wait, or fail at once if that is too long."""
        with self._lock:
            until = time.monotonic() + seconds
            if seconds > LONGEST_PAUSE:
                self._barred_until = max(self._barred_until, until)
            else:
                self._next_start = max(self._next_start, until)
