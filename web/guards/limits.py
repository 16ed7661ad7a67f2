"""Limit the requests per second of a caller, the size of bodies, and the time until a response.

A token bucket is stored as the time at which it will be full again (the generic cell rate algorithm, ITU-T I.371). A
full bucket is the same as an unused one, so another caller can overwrite it, and buckets need no cleanup.
"""

import fcntl
import hashlib
import math
import mmap
import os
import struct
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

from flask import Flask, Request, current_app, g
from werkzeug.exceptions import RequestEntityTooLarge, ServiceUnavailable, TooManyRequests

from rag import deadline
from rag.query.model_queue import caller_name
from rag.settings import Settings
from web.dispatch import BUSY
from web.openapi import operation_for
from web.problems import this_request

MAX_BODY_BYTES = 2 * 1024 * 1024
MAX_SEARCH_BYTES = 64 * 1024
MAX_CONVERSATION_BYTES = 512 * 1024
MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
MAX_LARGE_BYTES = 32 * 1024 * 1024  # all bodies in memory that are larger than MAX_SEARCH_BYTES
SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
BURST_S = 2.0  # a burst may have as many requests as are allowed in this time
MAX_BUCKETS = 1 << 14
_PROBES = 16
_BUCKET = struct.Struct("<8sd")  # digest of the caller's name, monotonic time when the bucket will be full


class TokenBuckets:
    """Token buckets for up to MAX_BUCKETS callers. All threads, and all processes with the same file, share them."""

    def __init__(self, rate: float, path: Path | None) -> None:
        """Open or create the buckets. `rate` is in requests per second. If `path` is None, use no file."""
        self._interval = 1.0 / rate
        self._slack = max(0.0, BURST_S - self._interval)
        self._thread_lock = threading.Lock()
        if path is None:
            self._file = os.memfd_create("buckets")
        else:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        weakref.finalize(self, os.close, self._file)
        os.ftruncate(self._file, MAX_BUCKETS * _BUCKET.size)  # keeps the content of an existing file
        self._memory = mmap.mmap(self._file, MAX_BUCKETS * _BUCKET.size)

    def take(self, caller: str, now: float | None = None) -> float:
        """Take a token from a caller's bucket and return 0. If the bucket is empty, return the seconds to wait."""
        now = time.monotonic() if now is None else now
        digest = hashlib.blake2b(caller.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        # A file lock does not exclude other threads of this process.
        with self._thread_lock:
            fcntl.lockf(self._file, fcntl.LOCK_EX)
            try:
                offset, full_at = self._find(digest)
                wait = full_at - now - self._slack
                if wait > 0:
                    return wait
                _BUCKET.pack_into(self._memory, offset, digest, max(now, full_at) + self._interval)
                return 0.0
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN)

    def _find(self, digest: bytes) -> tuple[int, float]:
        """Return the offset of a caller's bucket and the time when it is full. A new caller gets the fullest bucket."""
        first = int.from_bytes(digest[:4], "little")
        fullest, earliest = 0, float("inf")
        for probe in range(_PROBES):
            offset = (first + probe) % MAX_BUCKETS * _BUCKET.size
            owner, full_at = _BUCKET.unpack_from(self._memory, offset)
            if owner == digest:
                return offset, full_at
            if full_at < earliest:
                fullest, earliest = offset, full_at
        return fullest, 0.0


def shared_file(name: str) -> Path | None:
    """Return the path of a file that all workers share, or None if there is only one process."""
    folder = os.environ.get(SHARED_FOLDER)
    return Path(folder) / name if folder else None


def register(app: Flask, settings: Settings, name_caller: Callable[[Request], str]) -> None:
    """Register hooks that limit the request rate of each caller and set deadlines. Call `access.register` first."""
    lock = threading.Lock()
    large_bytes = 0
    rate = settings.rate_limit
    buckets = TokenBuckets(rate, shared_file("rate-limits")) if rate else None

    def begin() -> None:
        http_request = this_request()
        if http_request.url_rule is None or operation_for(http_request.url_rule).role is None:
            return
        deadline.begin(settings.deadline)
        deadline.check()
        name = name_caller(http_request)
        caller_name.set(name)
        if buckets is None:
            return
        seconds = buckets.take(name)
        if seconds > 0:
            raise TooManyRequests(f"At most {rate:g} requests a second are allowed.", retry_after=math.ceil(seconds))

    def leave(error: BaseException | None) -> None:
        nonlocal large_bytes
        deadline.lift()
        with lock:
            large_bytes -= g.pop("large_bytes", 0)

    def reserve_bytes(size: int) -> None:
        nonlocal large_bytes
        with lock:
            if large_bytes + size <= MAX_LARGE_BYTES:
                large_bytes += size
                g.large_bytes = size
                return
        current_app.extensions["metrics"].note("requests_refused", "queue", "")
        raise ServiceUnavailable(BUSY)

    app.extensions["reserve_bytes"] = reserve_bytes
    app.before_request(begin)
    app.teardown_request(leave)


def read_body(max_bytes: int) -> bytes:
    """Read the request's body. Raises OSError if it is incomplete, RequestEntityTooLarge or ServiceUnavailable."""
    http_request = this_request()
    size = max_bytes if http_request.content_length is None else http_request.content_length
    if size > max_bytes:
        raise RequestEntityTooLarge
    if size > MAX_SEARCH_BYTES:  # small bodies do not count toward MAX_LARGE_BYTES
        current_app.extensions["reserve_bytes"](size)
    http_request.max_content_length = max_bytes + 1
    # Werkzeug silently truncates a chunked body at its limit, so reading one byte more shows that it is too long.
    body = http_request.stream.read(max_bytes + 1)
    if len(body) > max_bytes:
        raise RequestEntityTooLarge
    return body


def take_slot(kind: str, slots_count: int, full: Exception) -> Callable[[], None]:
    """Reserve one of `slots_count` slots for a kind of request. Returns a function that frees it, or raises `full`."""
    slots = current_app.extensions.setdefault(f"{kind}_slots", threading.BoundedSemaphore(slots_count))
    if not slots.acquire(blocking=False):
        raise full
    return slots.release  # type: ignore[no-any-return]  # extensions have no types
