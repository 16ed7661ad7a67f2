"""Token buckets in memory that all workers share, and the addresses that count as one caller.

A bucket is one number: the time at which it would be full again (the generic cell rate algorithm, ITU-T I.371). A full
bucket equals an unused one, so another caller may overwrite it, and nothing has to be cleaned up.
"""

import fcntl
import hashlib
import ipaddress
import mmap
import os
import re
import struct
import threading
import time
import weakref
from functools import lru_cache
from pathlib import Path

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
BURST_S = 2.0
PLACES = 1 << 14
_PROBES = 16
_PLACE = struct.Struct("<8sd")  # digest of the caller, time by the monotonic clock, which processes share
_PORT = re.compile(r":[0-9]*\Z")


class TokenBuckets:
    """Up to PLACES buckets of callers, shared by threads and, through a file, by processes."""

    def __init__(self, rate: float, path: Path | None) -> None:
        """Take the rate in requests a second, and the shared file; None for this process only."""
        self._interval = 1.0 / rate
        self._slack = max(0.0, BURST_S - self._interval)
        self._thread_lock = threading.Lock()
        if path is None:
            self._file = os.memfd_create("buckets")
        else:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        weakref.finalize(self, os.close, self._file)
        os.ftruncate(self._file, PLACES * _PLACE.size)  # keeps the buckets of other workers
        self._memory = mmap.mmap(self._file, PLACES * _PLACE.size)

    def take(self, caller: str, now: float | None = None) -> float:
        """Take one token of a caller's bucket; return 0, or the seconds until there is one."""
        now = time.monotonic() if now is None else now
        digest = hashlib.blake2b(caller.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        # The kernel's lock belongs to the process and ends with it, so threads need another lock.
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
        """Return the place of a caller's bucket and its full time, or of the fullest bucket, to be replaced, and 0."""
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


def shared_file(name: str) -> Path | None:
    """Return the path of a file that all workers share; None if there is only one process."""
    folder = os.environ.get(SHARED_FOLDER)
    return Path(folder) / name if folder else None


@lru_cache(10_000)
def network_of(address: str | None) -> str:
    """Return the network that counts as one caller: an IPv4 address without port, or the /64 of an IPv6 address."""
    text = (address or "").strip()
    host = _PORT.sub("", text).strip("[]") if text.startswith("[") or text.count(":") == 1 else text
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return text[:100]
    if isinstance(ip, ipaddress.IPv4Address):
        return str(ip)
    return str(ip.ipv4_mapped or ipaddress.ip_network((ip, 64), strict=False))
