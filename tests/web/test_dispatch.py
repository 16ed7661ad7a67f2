"""Which threads answer a request, in which order, and when it is refused before the application sees it."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from rag import deadline
from web.dispatch import SEARCH_THREADS, Dispatcher, Head, _Turns, read_head

SEARCH = b"GET /api/v1/search?q=x HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.mark.parametrize(
    ("data", "head"),
    [
        (SEARCH, Head(b"/api/v1/search", len(SEARCH), b"", b"", False)),
        (SEARCH + b"GET", Head(b"/api/v1/search", len(SEARCH), b"", b"", False)),
        (SEARCH[:-2], Head(b"/api/v1/search", 0, b"", b"", False)),
        (b"POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\n{", Head(b"/a", 0, b"", b"", False)),
        (b"POST /a HTTP/1.1\r\ncontent-length:2\r\n\r\n{}", Head(b"/a", 40, b"", b"", False)),
        (b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", Head(b"/a", 0, b"", b"", False)),
        (b"POST /a HTTP/1.1\r\nContent-Length: x\r\n\r\n", Head(b"/a", 0, b"", b"", False)),
        (b"POST /a HTTP/1.1\r\nContent-Length: %s\r\n\r\n" % (b"9" * 5000), Head(b"/a", 0, b"", b"", False)),
        (b"GET /a HTTP/1.1\r\nX-API-Key: k\r\nX-Forwarded-For: b, c\r\n\r\n", Head(b"/a", 56, b"k", b"b, c", False)),
        (b"GET / HTTP/1.1\r\nAccept: text/html,*/*\r\n\r\n", Head(b"/", 41, b"", b"", True)),
        (b"\x00\xff\r\n\r\n", Head(b"", 6, b"", b"", False)),
        (b"", Head(b"", 0, b"", b"", False)),
    ],
)
def test_the_beginning_of_a_request(data: bytes, head: Head) -> None:
    assert read_head(data) == head


def test_callers_take_turns() -> None:
    turns = _Turns()
    order = [("a", "1"), ("a", "1"), ("a", "1"), ("a", "2"), ("b", ""), ("c", ""), ("c", "")]
    for number, names in enumerate(order):
        turns.put(number, *(name.encode() for name in names))  # type: ignore[arg-type]  # any object can wait
    assert [turns.take() for _ in order] == [0, 4, 5, 3, 6, 1, 2]
    assert not turns


@dataclass
class Connection:
    """The server's end of a pair of sockets."""

    sock: socket.socket
    client: tuple[str, int] = ("127.0.0.1", 1)
    parser: Any = None
    opened: bool = False

    def init(self) -> None:
        self.opened = True


Requests = Callable[[bytes], tuple[socket.socket, Connection]]


@dataclass
class Counted:
    refused: list[str] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)

    def refuse(self, reason: str, kind: str = "") -> None:
        self.refused.append(kind)

    def waited(self, kind: str, seconds: float) -> None:
        self.waits.append(kind)


@pytest.fixture
def counted() -> Counted:
    return Counted()


@pytest.fixture
def dispatcher(counted: Counted) -> Iterator[Dispatcher]:
    made = Dispatcher(limit=0.2, proxies=0)
    made.connect(["/api/v1/answer"], counted)
    yield made
    made.shutdown()


@pytest.fixture
def request_of() -> Iterator[Requests]:
    with ExitStack() as opened:

        def send(data: bytes) -> tuple[socket.socket, Connection]:
            ours, theirs = map(opened.enter_context, socket.socketpair())
            ours.sendall(data)
            return ours, Connection(theirs)

        yield send


def test_kinds_do_not_wait_for_each_other(dispatcher: Dispatcher, request_of: Requests, counted: Counted) -> None:
    go_on = threading.Event()
    held = [dispatcher.submit(lambda _: not go_on.wait(30), request_of(SEARCH)[1]) for _ in range(5)]
    for path in (b"/livez", b"/api/v1/answer", b"/api/v1/search"):
        is_slow = path == b"/api/v1/search"  # without its end: a thread of searches would wait for it
        _, connection = request_of(b"GET " + path + b" HTTP/1.1\r\n" + (b"" if is_slow else b"\r\n"))
        assert dispatcher.submit(lambda _: False, connection).result(30) is False
    assert dispatcher.waiting() == {"search": 3, "long": 0, "probe": 0}
    go_on.set()
    for future in held[:2]:
        assert future.result(30) is False


def test_a_flood_delays_another_caller_by_one_request_of_each_thread(request_of: Requests) -> None:
    """However much one caller sends, the next request of another one is the next that a thread takes."""
    dispatcher = Dispatcher(limit=60, proxies=0)
    go_on, order = threading.Event(), []

    def answer(connection: Connection) -> bool:
        assert go_on.wait(30)
        order.append(connection.client[0])
        return False

    futures = []
    for number in range(60):
        is_flood = number != 50
        _, connection = request_of(SEARCH)
        connection.client = ("10.0.0.1" if is_flood else "10.0.0.2", number)
        futures.append(dispatcher.submit(answer, connection))
    go_on.set()
    assert [future.result(30) for future in futures] == [False] * 60
    assert order.index("10.0.0.2") <= 2 * SEARCH_THREADS
    dispatcher.shutdown()


def test_a_request_that_waited_too_long_is_refused(
    dispatcher: Dispatcher, request_of: Requests, counted: Counted
) -> None:
    def work(_: Any) -> bool:
        time.sleep(0.3)  # longer than the limit: what the test is about
        return False

    held = [dispatcher.submit(work, request_of(SEARCH)[1]) for _ in range(2)]
    client, connection = request_of(SEARCH + SEARCH)
    assert dispatcher.submit(lambda _: pytest.fail("it was answered"), connection).result(30) is True
    answer = client.recv(4096)
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"Retry-After: 1\r\n" in answer
    assert connection.sock.recv(4096) == SEARCH  # the next request is still there
    assert connection.opened
    assert counted.refused == ["search"]
    assert [future.result(30) for future in held] == [False, False]


def test_a_page_that_waited_too_long_goes_to_the_application(dispatcher: Dispatcher, request_of: Requests) -> None:
    began = [dispatcher.submit(lambda _: time.sleep(0.3), request_of(SEARCH)[1]) for _ in range(2)]
    _, connection = request_of(b"GET / HTTP/1.1\r\nAccept: text/html\r\n\r\n")

    def show(_: Any) -> bool:
        deadline.begin(0.2)
        assert deadline.remaining() == 0
        return False

    assert dispatcher.submit(show, connection).result(30) is False
    assert len(began) == 2


def test_what_fails_is_told(dispatcher: Dispatcher, request_of: Requests) -> None:
    def fail(_: Any) -> bool:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        dispatcher.submit(fail, request_of(SEARCH)[1]).result(30)
    assert dispatcher.submit(lambda _: False, request_of(SEARCH)[1]).result(30) is False
