"""The outcomes of the latest searches: a server whose searches fail should not be sent any."""

import threading
import time
from collections import deque

LOOKED_AT = 20  # searches
LEAST = 5  # of them that have to be there for a judgement
SHARE = 0.5  # of failed ones from which a worker is not ready
REMEMBERED_S = 30.0  # then it gets another chance


class SearchOutcomes:
    """The outcomes of the latest searches. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: deque[tuple[float, bool]] = deque(maxlen=LOOKED_AT)

    def note(self, *, failed: bool) -> None:
        """Note whether a search failed."""
        with self._lock:
            self._latest.append((time.monotonic(), failed))

    def trouble(self) -> str:
        """Return what is wrong if too many have failed; else empty."""
        since = time.monotonic() - REMEMBERED_S
        with self._lock:
            latest = [failed for at, failed in self._latest if at >= since]
        if len(latest) < LEAST or sum(latest) < SHARE * len(latest):
            return ""
        return f"{sum(latest)} of the last {len(latest)} searches failed; see the log"
