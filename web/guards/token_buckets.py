"""Request rates: a token bucket for each caller, in memory that all workers share.

A bucket is one number: the time at which it would be full again (the generic cell rate algorithm, ITU-T I.371). A
bucket that is full is as good as none, so nothing has to be tidied up: its place is free for another.
"""

import fcntl
import hashlib
import mmap
import os
import struct
import tempfile
import threading
import time
import weakref
from pathlib import Path

BURST_S = 2.0  # seconds' worth of requests that may come at once
PLACES = 1 << 14
_PROBES = 16  # places where a caller's bucket may be
_PLACE = struct.Struct("<8sd")  # digest of the caller, time by the monotonic clock, which processes share


class TokenBuckets:
    """The buckets of all callers. Safe to share between threads, and by its file between processes.

    When more than PLACES callers come at a time, some of the least busy ones get a full bucket too early.
    """

    def __init__(self, rate: float, path: Path | None) -> None:
        """Take requests a second, and the file that processes share the buckets in; None for this process alone."""
        self._interval = 1.0 / rate
        self._slack = max(0.0, BURST_S - self._interval)
        self._thread_lock = threading.Lock()
        if path is None:
            self._file, name = tempfile.mkstemp()
            os.unlink(name)
        else:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        weakref.finalize(self, os.close, self._file)
        os.ftruncate(self._file, PLACES * _PLACE.size)  # it never shrinks, so nothing of others is lost
        self._memory = mmap.mmap(self._file, PLACES * _PLACE.size)

    def take(self, caller: str, now: float | None = None) -> float:
        """Take one token of a caller's bucket; return 0, or the seconds until there is one."""
        now = time.monotonic() if now is None else now
        digest = _digest(caller)
        # a thread lock besides: the kernel's belongs to the process. It goes with a process that is killed.
        with self._thread_lock:
            fcntl.lockf(self._file, fcntl.LOCK_EX)
            try:
                place, full_at = self._find(digest)
                wait = full_at - now - self._slack
                if wait > 0:
                    return wait
                _PLACE.pack_into(self._memory, place, digest, max(now, full_at) + self._interval)
                return 0.0
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN)

    def _find(self, digest: bytes) -> tuple[int, float]:
        """Return the place of a bucket, or that of the fullest among those where it may be, and when it is full."""
        first = int.from_bytes(digest[:4], "little")
        fullest, earliest = 0, float("inf")
        for probe in range(_PROBES):
            place = (first + probe) % PLACES * _PLACE.size
            owner, full_at = _PLACE.unpack_from(self._memory, place)
            if owner == digest:
                return place, full_at
            if full_at < earliest:
                fullest, earliest = place, full_at
        return fullest, 0.0


def _digest(caller: str) -> bytes:
    return hashlib.blake2b(caller.encode("utf-8", "surrogatepass"), digest_size=8).digest()
