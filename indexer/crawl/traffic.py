"""Requests of a crawl by host, for the report: counted where they are made, in whatever thread."""

import threading
from dataclasses import dataclass
from urllib.parse import urlsplit

from indexer.records import Host


@dataclass(slots=True)
class _Count:
    requests: int = 0
    failed: int = 0
    bytes: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    slowest_url: str = ""


class Traffic:
    """Counts requests by host. May be used from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, _Count] = {}

    def note(self, url: str, *, seconds: float, size: int = 0, failed: bool = False) -> None:
        """Count one request; `size` in bytes after decompression."""
        with self._lock:
            count = self._counts.setdefault(urlsplit(url).netloc, _Count())
            count.requests += 1
            count.failed += failed
            count.bytes += size
            count.seconds += seconds
            if seconds >= count.slowest:
                count.slowest, count.slowest_url = seconds, url

    def hosts(self) -> tuple[Host, ...]:
        """Every host, the one that answers slowest on average first."""
        with self._lock:
            found = [
                Host(host, one.requests, one.failed, one.bytes, one.seconds, one.slowest, one.slowest_url)
                for host, one in self._counts.items()
            ]
        return tuple(sorted(found, key=lambda host: (-host.seconds / host.requests, host.host)))
