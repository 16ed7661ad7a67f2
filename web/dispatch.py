"""Run requests on separate threads for searches, long requests and health checks.

There are only a few threads, because more of them would compete for the GIL. Other requests are queued. Queues serve
callers round-robin, so that a caller with many requests does not delay other callers. A request that cannot be answered
before its deadline is refused without calling the application.
"""

import ipaddress
import math
import re
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import Future
from functools import lru_cache
from queue import SimpleQueue
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from rag import deadline
from web.problems import raw_problem

SEARCH_THREADS, LONG_THREADS = 2, 16  # per worker process
PROBES = frozenset({b"/livez", b"/readyz", b"/metrics"})
NEXT_MS = 5  # maximum wait for the next request of a connection
BUSY = "The server is overloaded: try again."
_PEEK_BYTES = 8192
_MAX_LENGTH_DIGITS = 9
_SMOOTHING = 0.1
_HEADER_NAMES = b"accept|authorization|content-length|transfer-encoding|x-api-key|x-forwarded-for"
_HEADER = re.compile(rb"\r\n(" + _HEADER_NAMES + rb"):[ \t]*([^\r]*)", re.IGNORECASE)
PORT = re.compile(r":[0-9]*\Z")


class Head(NamedTuple):
    """The properties of an HTTP request that determine its thread pool and its place in the queue."""

    path: bytes
    size: int  # bytes; 0 if the request is incomplete
    key: bytes
    forwarded: bytes
    is_page: bool


def read_head(data: bytes) -> Head:
    """Parse the beginning of an HTTP request without validating it. Values of missing headers are empty."""
    start = len(data) - len(data.lstrip(b"\r\n"))
    end = data.find(b"\r\n\r\n", start) + 4
    words = data[start:].partition(b"\r\n")[0].split(b" ")
    path = unquote_to_bytes(words[1].partition(b"?")[0]) if len(words) > 2 else b""
    headers = {name.lower(): value for name, value in _HEADER.findall(data[:end])}
    length = headers.get(b"content-length", b"0")
    has_length = length.isdigit() and len(length) <= _MAX_LENGTH_DIGITS and b"transfer-encoding" not in headers
    is_complete = end > 3 and has_length and len(data) >= end + int(length)
    key = headers.get(b"authorization") or headers.get(b"x-api-key", b"")
    return Head(
        path,
        end + int(length) if is_complete else 0,
        key,
        headers.get(b"x-forwarded-for", b""),
        b"text/html" in headers.get(b"accept", b""),
    )


class _Job(NamedTuple):
    """A request in a queue. A thread calls `handle` to read it from the connection and answer it."""

    future: "Future[Any]"
    handle: Callable[[Any], Any]
    connection: Any
    head: Head
    arrived: float


class _RoundRobinQueue:
    """A queue that serves client addresses in turn, and for each address, the API keys in turn."""

    def __init__(self) -> None:
        self._queues: dict[bytes, _RoundRobinQueue | deque[_Job]] = {}

    def __len__(self) -> int:
        return len(self._queues)

    def put(self, job: _Job, name: bytes, *inner: bytes) -> None:
        """Add a job to the queue called `name`. With `inner` names, that queue is a round-robin queue too."""
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = _RoundRobinQueue() if inner else deque()
        if isinstance(queue, _RoundRobinQueue):
            queue.put(job, *inner)
        else:
            queue.append(job)

    def take(self) -> _Job:
        """Remove a job of the client whose turn it is, and return the job."""
        name, queue = next(iter(self._queues.items()))
        job = queue.take() if isinstance(queue, _RoundRobinQueue) else queue.popleft()
        del self._queues[name]
        if queue:
            self._queues[name] = queue
        return job


class Lane:
    """A thread pool with a queue, for one kind of request."""

    def __init__(self, name: str, threads: int, work: Callable[["Lane", _Job], None]) -> None:
        self.name, self.threads = name, threads
        self.waiting = 0
        self.mean_request_seconds = 0.0
        self._queue = _RoundRobinQueue()
        self._lock = threading.Lock()
        self._tokens: SimpleQueue[bool] = SimpleQueue()  # True for each queued job, False to stop a thread
        self._work = work

    def start(self) -> None:
        """Start the threads."""
        for number in range(self.threads):
            threading.Thread(target=self._run, name=f"{self.name}-{number}", daemon=True).start()

    def put(self, job: _Job, address: bytes, key: bytes) -> None:
        """Queue a job for the threads."""
        with self._lock:
            self._queue.put(job, address, key)
            self.waiting += 1
        self._tokens.put(True)

    def stop(self) -> None:
        """Stop the threads when all queued jobs are done."""
        for _ in range(self.threads):
            self._tokens.put(False)

    def expected_wait(self) -> float:
        """Estimate the time in seconds until a new request would be answered."""
        return (self.waiting + self.threads) * self.mean_request_seconds / self.threads

    def measure(self, seconds: float) -> None:
        """Add the time of an answered request to the moving average `mean_request_seconds`."""
        self.mean_request_seconds += _SMOOTHING * (seconds - self.mean_request_seconds)

    def _run(self) -> None:
        while self._tokens.get():
            with self._lock:
                job = self._queue.take()
                self.waiting -= 1
            self._work(self, job)


class Dispatcher:
    """The replacement for the thread pool of a gunicorn worker. It has a lane for each kind of request."""

    def __init__(self, limit: float, proxies: int) -> None:
        """Create the lanes. A request may take `limit` seconds. `proxies` is the number of trusted reverse proxies."""
        self._limit, self._proxies = limit, proxies
        self._long_paths: tuple[bytes, ...] = ()
        self._note: Callable[..., None] = lambda *_, **__: None
        self._search = Lane("search", SEARCH_THREADS, self._answer)
        self._long = Lane("long", LONG_THREADS, self._answer)
        self._probe = Lane("probe", 1, self._answer)

    def connect(self, long_paths: Collection[str], note: Callable[..., None]) -> None:
        """Start the threads. `long_paths` are paths of long requests. `note` records metrics (see `Metrics.note`)."""
        self._long_paths = tuple(path.encode() for path in long_paths)
        self._note = note
        for lane in (self._search, self._long, self._probe):
            lane.start()  # not in `__init__`, where threads would inherit blocked stop signals

    def waiting(self) -> dict[str, int]:
        """Return the number of queued requests in each lane."""
        return {lane.name: lane.waiting for lane in (self._search, self._long, self._probe)}

    def submit(self, handle: Callable[[Any], Any], connection: Any) -> "Future[Any]":
        """Queue the next request of a connection. The result of the future is True if the connection stays open."""
        job = _Job(Future(), handle, connection, read_head(_peek(connection)), time.monotonic())
        lane = self._lane_of(job.head)
        expected = lane.expected_wait()
        if lane.waiting > lane.threads and expected > self._limit and _can_refuse(job):
            job.future.set_result(self._refuse(lane, job, expected - self._limit))
        else:
            proxied = job.head.forwarded.rpartition(b",")[2].strip() if self._proxies else b""
            caller = network_of(proxied.decode("latin-1") or str(connection.client[0]))
            lane.put(job, caller.encode(), job.head.key)
        return job.future

    def shutdown(self, wait: bool = False, cancel_futures: bool = False) -> None:
        """Stop the threads. Has the signature of `Executor.shutdown`, but ignores the arguments."""
        for lane in (self._search, self._long, self._probe):
            lane.stop()

    def _lane_of(self, head: Head) -> Lane:
        """Return the lane of a request. An incomplete request uses a long thread, so that it cannot block searches."""
        # The path may begin with a host or the prefix of a proxy, so its beginning is not compared.
        if head.path[head.path.rfind(b"/") :] in PROBES:
            return self._probe
        is_long = not head.size or any(path in head.path for path in self._long_paths)
        return self._long if is_long else self._search

    def _answer(self, lane: Lane, job: _Job) -> None:
        """Answer a request, and then the next requests of the same connection until other requests are queued."""
        try:
            while True:
                began = time.monotonic()
                if began - job.arrived > self._limit and _can_refuse(job):
                    stays = self._refuse(lane, job, lane.expected_wait())
                    break
                deadline.arrive(job.arrived)
                self._note("http_request_wait_seconds", lane.name, value=began - job.arrived)
                stays = job.handle(job.connection)
                lane.measure(time.monotonic() - began)
                if stays is not True or lane.waiting or not _has_more(job.connection):
                    break
                job = job._replace(head=read_head(_peek(job.connection)), arrived=time.monotonic())
                if self._lane_of(job.head) is not lane:
                    break
        except BaseException as error:  # noqa: BLE001 - the future passes it on
            job.future.set_exception(error)
        else:
            job.future.set_result(stays)

    def _refuse(self, lane: Lane, job: _Job, seconds: float) -> bool:
        """Send status 503 without calling the application. Returns whether the connection stays open."""
        self._note("requests_refused", "queue", lane.name)
        try:
            job.connection.sock.recv(job.head.size, socket.MSG_DONTWAIT)
            refusal = raw_problem(503, BUSY, {"Retry-After": max(1, math.ceil(seconds))})
            job.connection.sock.send(refusal, socket.MSG_DONTWAIT)
        except OSError:
            return False
        job.connection.init()
        return True


@lru_cache(10_000)
def network_of(address: str | None) -> str:
    """Return the text that identifies a caller by address: an IPv4 address, or the /64 network of an IPv6 address."""
    text = (address or "").strip()
    host = PORT.sub("", text).strip("[]") if text.startswith("[") or text.count(":") == 1 else text
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return text[:100]
    if isinstance(ip, ipaddress.IPv4Address):
        return str(ip)
    return str(ip.ipv4_mapped or ipaddress.ip_network((ip, 64), strict=False))


def _can_refuse(job: _Job) -> bool:
    """Return whether a request was received completely and does not ask for an HTML page."""
    return bool(job.head.size) and not job.head.is_page and not _buffered(job.connection)


def _buffered(connection: Any) -> bytes:
    return b"" if connection.parser is None else bytes(connection.parser.unreader.buf.getvalue())


def _peek(connection: Any) -> bytes:
    """Return the received bytes of the next request, without consuming them."""
    buffered = _buffered(connection)
    try:
        received: bytes = connection.sock.recv(_PEEK_BYTES, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except OSError:
        return buffered
    return buffered + received


def _has_more(connection: Any) -> bool:
    """Wait up to NEXT_MS milliseconds for a connection's next request, and return whether it has arrived."""
    if _buffered(connection):
        return True
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(NEXT_MS))
