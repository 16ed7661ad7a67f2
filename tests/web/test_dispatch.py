"""Which threads answer a request, in which order, and when it is refused before the application sees it."""

import io
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from rag import deadline
from rag.errors import DeadlinePassed
from web.dispatch import Dispatcher, Head, _RoundRobinQueue, read_head

SEARCH = b"GET /api/v1/search?q=x HTTP/1.1\r\nHost: a\r\n\r\n"
PAGE = b"GET / HTTP/1.1\r\nAccept: text/html\r\n\r\n"
LIMIT = 30.0


@pytest.mark.parametrize(
    ("data", "head"),
    [
        (SEARCH, Head(b"/api/v1/search", len(SEARCH), b"", b"", False)),
        (SEARCH + b"GET", Head(b"/api/v1/search", len(SEARCH), b"", b"", False)),
        (SEARCH[:-2], Head(b"/api/v1/search", 0, b"", b"", False)),
        (b"POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\n{", Head(b"/a", 0, b"", b"", False)),
        (b"POST /a HTTP/1.1\r\ncontent-length:000000002\r\n\r\n{}", Head(b"/a", 48, b"", b"", False)),
        (b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", Head(b"/a", 0, b"", b"", False)),
        (b"POST /a HTTP/1.1\r\nContent-Length: x\r\n\r\n", Head(b"/a", 0, b"", b"", False)),
        (b"POST /a HTTP/1.1\r\nContent-Length: %s\r\n\r\n" % (b"9" * 5000), Head(b"/a", 0, b"", b"", False)),
        (b"GET /a HTTP/1.1\r\nX-API-Key: k\r\nX-Forwarded-For: b, c\r\n\r\n", Head(b"/a", 56, b"k", b"b, c", False)),
        (
            b"GET /%61?b HTTP/1.1\r\nX-API-Key: k\r\nauthorization: Bearer c\r\n\r\n",
            Head(b"/a", 62, b"Bearer c", b"", False),
        ),
        (b"GET / HTTP/1.1\r\nAccept: text/html,*/*\r\n\r\n", Head(b"/", 41, b"", b"", True)),
        (b"\x00\xff\r\n\r\n", Head(b"", 6, b"", b"", False)),
        (b"GET /livez\r\n\r\n", Head(b"", 14, b"", b"", False)),
        (b"\r\n\r\n", Head(b"", 0, b"", b"", False)),
        (b"", Head(b"", 0, b"", b"", False)),
    ],
)
def test_the_beginning_of_a_request(data: bytes, head: Head) -> None:
    assert read_head(data) == head


def test_callers_take_turns() -> None:
    turns = _RoundRobinQueue()
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
Busy = Callable[[], Any]


@dataclass
class Counted:
    refused: list[str] = field(default_factory=list)
    waits: list[tuple[str, float]] = field(default_factory=list)

    def note(self, name: str, *labels: str, value: float = 1) -> None:
        if name == "requests_refused":
            self.refused.append(labels[1])
        else:
            self.waits.append((labels[0], value))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that only the test moves."""
    clock = SimpleNamespace(now=100.0)
    for module in ("web.dispatch", "rag.deadline"):
        monkeypatch.setattr(f"{module}.time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


@pytest.fixture
def counted() -> Counted:
    return Counted()


@pytest.fixture
def dispatcher(
    counted: Counted, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Dispatcher]:
    """A dispatcher with one thread for searches, by default without a proxy."""
    monkeypatch.setattr("web.dispatch.SEARCH_THREADS", 1)
    before = {*threading.enumerate()}
    made = Dispatcher(limit=LIMIT, proxies=getattr(request, "param", 0))
    made.connect(["/api/v1/answer"], counted.note)
    threads = {*threading.enumerate()} - before
    yield made
    made.shutdown()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()


@pytest.fixture
def request_of() -> Iterator[Requests]:
    with ExitStack() as opened:

        def send(data: bytes) -> tuple[socket.socket, Connection]:
            ours, theirs = map(opened.enter_context, socket.socketpair())
            ours.sendall(data)
            return ours, Connection(theirs)

        yield send


@pytest.fixture
def busy(dispatcher: Dispatcher, request_of: Requests) -> Busy:
    """Keeps the thread of searches busy for a block."""

    @contextmanager
    def occupied() -> Iterator[None]:
        has_begun, may_end = threading.Event(), threading.Event()

        def work(_: Any) -> bool:
            has_begun.set()
            return not may_end.wait(300)

        future = dispatcher.submit(work, request_of(SEARCH)[1])
        assert has_begun.wait(300)
        yield
        may_end.set()
        assert future.result(300) is False

    return occupied


def spend(dispatcher: Dispatcher, request_of: Requests, clock: SimpleNamespace, seconds: float) -> None:
    """Answer a search in so many seconds."""

    def work(_: Any) -> bool:
        clock.now += seconds
        return False

    assert dispatcher.submit(work, request_of(SEARCH)[1]).result(300) is False


def test_kinds_do_not_wait_for_each_other(dispatcher, request_of, busy, counted):
    with busy():
        held = [dispatcher.submit(lambda _: False, request_of(SEARCH)[1]) for _ in range(3)]
        for path in (b"/livez", b"/api/v1/answer", b"/api/v1/search"):
            is_slow = path == b"/api/v1/search"  # without its end: a thread of searches would wait for it
            _, connection = request_of(b"GET " + path + b" HTTP/1.1\r\n" + (b"" if is_slow else b"\r\n"))
            assert dispatcher.submit(lambda _: False, connection).result(300) is False
        assert dispatcher.waiting() == {"search": 3, "long": 0, "probe": 0}
    assert [future.result(300) for future in held] == [False] * 3
    assert dispatcher.waiting() == {"search": 0, "long": 0, "probe": 0}
    kinds = [kind for kind, _ in counted.waits]
    assert [kinds.count(kind) for kind in ("search", "long", "probe")] == [4, 2, 1]


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        (b"/api/v1/%61nswer", "long"),
        (b"http://docs.example/api/v1/answer", "long"),
        (b"//api/v1/answer", "long"),
        (b"/prefix/api/v1/answer?q=x", "long"),
        (b"/prefix/livez", "probe"),
        (b"/%6civez", "probe"),
        (b"/api/v1/search?q=/api/v1/answer", "search"),
    ],
)
@pytest.mark.parametrize("before", [b"", b"\r\n"])
def test_the_kind_of_a_request_does_not_depend_on_its_spelling(dispatcher, request_of, counted, before, target, kind):
    _, connection = request_of(before + b"GET " + target + b" HTTP/1.1\r\n\r\n")
    assert dispatcher.submit(lambda _: False, connection).result(300) is False
    assert [waited for waited, _ in counted.waits] == [kind]


@pytest.mark.parametrize(
    ("dispatcher", "address", "header", "place"),
    [
        (0, "10.0.0.2", b"", 1),
        (0, "10.0.0.1", b"Authorization: Bearer another\r\n", 1),
        (1, "10.0.0.1", b"X-Forwarded-For: 10.0.0.1, 10.0.0.2\r\n", 1),
        (1, "10.0.0.1", b"X-Forwarded-For: 10.0.0.2, 10.0.0.1\r\n", 5),  # only the last is the proxy's own word
        (0, "10.0.0.1", b"X-Forwarded-For: 10.0.0.2\r\n", 5),
        (0, "2001:db8::2", b"", 5),  # another address of the same network
        (0, "2001:db8:0:1::2", b"", 1),
    ],
    indirect=["dispatcher"],
)
def test_a_flood_delays_another_caller_by_one_request_of_each_thread(
    dispatcher, request_of, busy, address, header, place
):
    """However much one caller sends, the next request of another one is the next that a thread takes."""
    order: list[str] = []

    def submit(name: str, address: str, header: bytes) -> Any:
        _, connection = request_of(SEARCH[:-2] + header + b"\r\n")
        connection.client = (address, len(order))
        return dispatcher.submit(lambda _: bool(order.append(name)), connection)

    flood = "2001:db8::1" if ":" in address else "10.0.0.1"
    with busy():
        futures = [submit("flood", flood, b"") for _ in range(5)] + [submit("other", address, header)]
    assert [future.result(300) for future in futures] == [False] * 6
    assert order.index("other") == place


@pytest.mark.parametrize(("past", "wait"), [((100.0, 10.0), b"10"), ((76.0, 7.6), b"1")])
def test_a_request_that_cannot_be_answered_in_time_is_refused_at_once(
    dispatcher, request_of, busy, clock, counted, past, wait
):
    for seconds in past:  # a tenth of the difference goes into the mean
        spend(dispatcher, request_of, clock, seconds)
    with busy():
        waiting = [dispatcher.submit(lambda _: False, request_of(SEARCH)[1]) for _ in range(3)]
        client, connection = request_of(SEARCH + SEARCH)
        refused = dispatcher.submit(lambda _: pytest.fail("it was answered"), connection)
        assert refused.result(300) is True
        answer = client.recv(4096)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After: %b\r\n" % wait in answer  # (3 + 1) requests of 10 s, less the 30 s that it may wait
        assert (connection.sock.recv(4096), connection.opened) == (SEARCH, True), "the next request is still there"
        assert counted.refused == ["search"]
        waiting.append(dispatcher.submit(lambda _: False, request_of(PAGE)[1]))  # says so itself
    assert [future.result(300) for future in waiting] == [False] * 4


def test_slow_searches_are_answered_as_long_as_few_wait(dispatcher, request_of, busy, clock, counted):
    spend(dispatcher, request_of, clock, 10_000.0)
    with busy():
        waiting = [dispatcher.submit(lambda _: False, request_of(SEARCH)[1]) for _ in range(2)]
    assert [future.result(300) for future in waiting] == [False, False]
    assert counted.refused == []


@pytest.mark.parametrize(("seconds", "is_refused"), [(LIMIT, False), (LIMIT + 1, True)])
def test_a_request_that_waited_too_long_is_refused(dispatcher, request_of, busy, clock, counted, seconds, is_refused):
    began = []
    client, connection = request_of(SEARCH)
    with busy():
        future = dispatcher.submit(lambda _: bool(began.append(True)), connection)
        clock.now += seconds
    assert future.result(300) is is_refused  # a refusal leaves the connection open
    if is_refused:
        assert b"Retry-After: 4\r\n" in client.recv(4096)  # a tenth of 31 s
    assert counted.refused == ["search"] * is_refused
    assert counted.waits[1:] == [("search", seconds)] * (not is_refused)
    assert began == [True] * (not is_refused)


def test_a_page_that_waited_too_long_goes_to_the_application(dispatcher, request_of, busy, clock):
    def show(_: Any) -> bool:
        deadline.begin(LIMIT)
        assert deadline.remaining() == 0
        deadline.begin(LIMIT + 1)  # until now
        with pytest.raises(DeadlinePassed):
            deadline.check()
        return False

    with busy():
        shown = dispatcher.submit(show, request_of(PAGE)[1])
        clock.now += LIMIT + 1
    assert shown.result(300) is False


def test_a_client_that_has_gone_is_no_error(dispatcher, request_of, busy, clock):
    client, connection = request_of(SEARCH)
    with busy():
        future = dispatcher.submit(lambda _: pytest.fail("it was answered"), connection)
        client.close()
        clock.now += LIMIT + 1
    assert future.result(300) is False


@pytest.mark.parametrize(
    ("further", "is_waited_for", "answered"),
    [
        (SEARCH, False, 2),
        (SEARCH, True, 1),  # another caller comes first
        (SEARCH[:20], False, 1),  # its rest may never come
        (b"GET /livez HTTP/1.1\r\n\r\n", False, 1),
        (b"", False, 1),
    ],
)
def test_the_next_request_of_a_connection_is_answered_at_once_unless_others_wait(
    dispatcher, request_of, busy, further, is_waited_for, answered
):
    _, connection = request_of(SEARCH + further)

    def answer(connection: Connection) -> bool:
        return connection.sock.recv(len(SEARCH)) == SEARCH and not others.append(len(others))

    others: list[int] = []
    with busy():
        future = dispatcher.submit(answer, connection)
        other = dispatcher.submit(lambda _: False, request_of(SEARCH)[1]) if is_waited_for else None
    assert future.result(300) is True
    assert len(others) == answered
    assert other is None or other.result(300) is False


def test_a_request_that_the_server_has_begun_to_read_is_answered(dispatcher, request_of, busy, clock, counted):
    """However long it waited: it is no longer in the socket as a whole, so it cannot be refused there."""
    _, connection = request_of(SEARCH[9:])
    connection.parser = SimpleNamespace(unreader=SimpleNamespace(buf=io.BytesIO(SEARCH[:9])))
    with busy():
        future = dispatcher.submit(lambda _: False, connection)
        assert dispatcher.waiting()["search"] == 1
        clock.now += LIMIT + 1
    assert future.result(300) is False
    assert counted.refused == []


def test_what_fails_is_told(dispatcher, request_of):
    def fail(_: Any) -> bool:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        dispatcher.submit(fail, request_of(SEARCH)[1]).result(300)
    assert dispatcher.submit(lambda _: False, request_of(SEARCH)[1]).result(300) is False
