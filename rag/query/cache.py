"""What a process remembers of the queries it has answered, so that a repeated one is not worked out again.

Callers share nothing: the time that an answer takes would tell one what another has asked.
"""

import threading
from collections.abc import Callable, Hashable
from contextvars import ContextVar
from typing import Any

ENTRY_BYTES = 1_000  # of a key and the objects around a value
asker: ContextVar[str] = ContextVar("asker", default="")  # name of the caller; all who have none are one


class QueryCache:
    """Values by kind and key, those used last, up to a number of bytes. Safe to share between threads."""

    def __init__(self, most: int) -> None:
        """Take the bytes of all values; of 0, nothing is kept."""
        self.on_lookup: Callable[[str, bool], None] | None = None  # called with the kind, and whether there was a value
        self._most = most
        self._lock = threading.Lock()
        self._kept: dict[Hashable, tuple[Any, int]] = {}  # with its bytes; the one used last at the end
        self._bytes = 0

    def get(self, kind: str, *key: Hashable) -> Any:
        """Return the value that was kept for this caller, or None."""
        if not self._most:
            return None
        name = (asker.get(), kind, *key)
        with self._lock:
            found = self._kept.pop(name, None)
            if found is not None:
                self._kept[name] = found
        if self.on_lookup:
            self.on_lookup(kind, found is not None)
        return found and found[0]

    def put(self, value: Any, size: int, kind: str, *key: Hashable) -> None:
        """Keep a value of so many bytes for this caller, and forget those that were not used for longest."""
        size += ENTRY_BYTES
        if size > self._most:
            return
        name = (asker.get(), kind, *key)
        with self._lock:
            self._bytes += size - self._kept.pop(name, (None, 0))[1]
            self._kept[name] = value, size
            while self._bytes > self._most:
                self._bytes -= self._kept.pop(next(iter(self._kept)))[1]
