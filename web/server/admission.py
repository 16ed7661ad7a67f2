"""Admission of requests: which are taken, and which threads answer them.

Each kind has threads and a queue of its own, so that none waits for another: probes, what pages are made of, callers
who may search, and strangers, who have shown no good key where one is needed.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum

from web.guards.access import Access
from web.server.receive_buffer import ReceiveBuffer

THREADS = 32  # that answer; queries that wait in them go through the model together
_PROBES = ("/livez", "/readyz")
_PARTS = ("/metrics", "/static/", "/embed.js")  # what a page is made of, that of a full queue too; none takes long


def _requests_for(*paths: str) -> tuple[bytes, ...]:
    return tuple(
        f"{method} {path}{after}".encode()
        for method in ("GET", "HEAD")
        for path in paths
        for after in ([""] if path.endswith("/") else [" ", "?"])
    )


class Lane:
    """A group of threads, and how many requests they have under way; only the loop changes that."""

    def __init__(self, name: str, threads: int, most: int, prefixes: tuple[bytes, ...] = ()) -> None:
        self.under_way = 0
        self.most = most
        self.prefixes = prefixes
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    @property
    def is_full(self) -> bool:
        """Whether a further request is to be refused."""
        return self.under_way >= self.most

    def run(self, work: Callable[[], None]) -> None:
        """Run a function in one of the threads."""
        self._pool.submit(work)

    def close(self) -> None:
        """Let the threads end once they are idle."""
        self._pool.shutdown(wait=False)


class Kind(Enum):
    """The kind of a request."""

    PROBE = "probe"
    PART = "part"
    STRANGER = "stranger"
    CALLER = "caller"


class Admission:
    """The lanes of one worker."""

    def __init__(self, access: Access, queue: int) -> None:
        """Take the one who knows the keys, and how many requests may be under way."""
        self._access = access
        self.lanes = {
            Kind.PROBE: Lane("probe", 1, max(64, queue), _requests_for(*_PROBES)),
            Kind.PART: Lane("part", 2, max(64, queue), _requests_for(*_PARTS)),
            Kind.STRANGER: Lane("stranger", 1, max(1, queue // 4)),
            Kind.CALLER: Lane("caller", THREADS, queue),
        }

    def kind_of(self, received: ReceiveBuffer, address: str) -> Kind:
        """Return the kind of a request whose head has come from an address."""
        for kind in (Kind.PROBE, Kind.PART):
            if received.starts_with(self.lanes[kind].prefixes):
                return kind
        is_known = self._access.knows(received.authorization, received.head, address)
        return Kind.CALLER if is_known else Kind.STRANGER

    def is_barred(self, address: str) -> bool:
        """Return whether strangers of an address have shown so many wrong keys that they are not asked any more."""
        return self._access.is_barred(address)

    def close(self) -> None:
        """Let all threads end."""
        for lane in self.lanes.values():
            lane.close()
