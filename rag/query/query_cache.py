"""The cache of queries: their vectors and answers, for each caller separately."""

import threading
from collections.abc import Callable, Hashable
from contextvars import ContextVar
from typing import Any

ENTRY_BYTES = 1_000  # key and objects around a value

caller_name: ContextVar[str] = ContextVar("caller_name", default="")  # name; callers without one share the empty one


class QueryCache:
    """The values of the last queries, by kind and key, up to a number of bytes. Safe to share between threads.

    Callers share nothing: the time of an answer would tell one caller about the queries of another.
    """

    def __init__(self, max_bytes: int) -> None:
        """Keep values of so many bytes together; with 0, none."""
        self.on_lookup: Callable[[str, bool], None] | None = None  # (kind, is_hit)
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._entries: dict[Hashable, tuple[Any, int]] = {}  # value and bytes, the last used at the end
        self._bytes = 0

    def get(self, kind: str, *key: Hashable) -> Any:
        """Return the caller's value, or None."""
        if not self._max_bytes:
            return None
        name = (caller_name.get(), kind, *key)
        with self._lock:
            entry = self._entries.pop(name, None)
            if entry is not None:
                self._entries[name] = entry
        if self.on_lookup:
            self.on_lookup(kind, entry is not None)
        return entry and entry[0]

    def put(self, value: Any, size: int, kind: str, *key: Hashable) -> None:
        """Keep a value of so many bytes for this caller, and drop the least recently used ones."""
        size += ENTRY_BYTES
        if size > self._max_bytes:
            return
        name = (caller_name.get(), kind, *key)
        with self._lock:
            self._bytes += size - self._entries.pop(name, (None, 0))[1]
            self._entries[name] = value, size
            while self._bytes > self._max_bytes:
                self._bytes -= self._entries.pop(next(iter(self._entries)))[1]
