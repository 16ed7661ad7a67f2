"""What the worker takes from gunicorn, by name: an upgrade that moves one of them fails here."""

import inspect
import socket
import time

import pytest
from gunicorn.config import Config
from gunicorn.http import RequestParser
from gunicorn.http import errors as http_errors
from gunicorn.http.wsgi import Response, create
from gunicorn.workers.base import Worker as BaseWorker

from web.server.exchange import Exchange
from web.server.refusals import FRAMING_PROBLEMS
from web.server.send_buffer import SendBuffer

REQUEST = b"POST /a?b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
PEER = ("192.0.2.1", 4711)


def test_what_a_worker_is_built_on() -> None:
    assert [*inspect.signature(BaseWorker).parameters] == ["age", "ppid", "sockets", "app", "timeout", "cfg", "log"]
    for name in ("load_wsgi", "handle_exit", "handle_quit", "run", "notify", "init_process"):
        assert callable(getattr(BaseWorker, name))
    source = inspect.getsource(BaseWorker)
    assert all(f"self.{name} = " in source for name in ("age", "ppid", "sockets", "cfg", "log", "alive", "wsgi"))
    assert "self.run()" in inspect.getsource(BaseWorker.init_process)


def test_what_an_exchange_is_built_on() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        request = next(RequestParser(Config(), iter([REQUEST]), PEER))
        assert request.body.read() == b"{}"
        response, environ = create(request, SendBuffer(ours), PEER, ("127.0.0.1", 80), Config())
        assert isinstance(response, Response)
        assert (environ["PATH_INFO"], environ["QUERY_STRING"], environ["REMOTE_ADDR"]) == ("/a", "b", "192.0.2.1")
        assert response.response_length is None
        response.start_response("200 OK", [("Content-Length", "2")])
        assert (response.response_length, response.status_code, response.headers_sent) == (2, 200, False)
        assert not response.should_close()
        response.force_close()
        assert response.should_close()
    assert all(issubclass(error, http_errors.ParseException) for error in FRAMING_PROBLEMS)
    assert issubclass(http_errors.NoMoreData, OSError)


@pytest.mark.parametrize("streams", [False, True])
def test_an_exchange_stops_where_its_client_has_to_read(streams: bool) -> None:
    ours, theirs = socket.socketpair()
    closed, made = [], 0

    class Body:
        def __iter__(self) -> "Body":
            return self

        def __next__(self) -> bytes:
            nonlocal made
            if made == 64:
                raise StopIteration
            made += 1
            return b"x" * 65536

        def close(self) -> None:
            closed.append(True)

    def app(environ, start_response):  # type: ignore[no-untyped-def]
        start_response("200 OK", [] if streams else [("Content-Length", str(64 * 65536))])
        return Body()

    with ours, theirs:
        ours.setblocking(False)
        exchange = Exchange(REQUEST, time.monotonic(), SendBuffer(ours), has_body=True)
        exchange.begin(app, Config(), PEER, ("127.0.0.1", 80), last=False)
        assert (exchange.ended, made == 64) == (not streams, not streams)
        received = 0
        theirs.settimeout(30)
        while not exchange.ended or exchange.to_send.waiting:
            received += len(theirs.recv(1 << 20))
            exchange.to_send.flush()
            if not exchange.to_send.waiting and not exchange.ended:
                exchange.run()
        assert (made, closed, exchange.keeps) == (64, [True], True)
        ours.close()
        while data := theirs.recv(1 << 20):
            received += len(data)
        assert 64 * 65536 < received < 64 * 65536 + 2000


def test_an_exchange_is_given_up_with_its_client() -> None:
    ours, theirs = socket.socketpair()
    closed = []

    class Body(list[bytes]):
        def close(self) -> None:
            closed.append(True)

    def app(environ, start_response):  # type: ignore[no-untyped-def]
        start_response("200 OK", [])
        return Body([b"x" * 65536] * 64)

    with ours:
        ours.setblocking(False)
        exchange = Exchange(REQUEST, time.monotonic(), SendBuffer(ours), has_body=True)
        with theirs:
            exchange.begin(app, Config(), PEER, ("127.0.0.1", 80), last=False)
            assert not exchange.ended
        exchange.run()
        assert (exchange.ended, exchange.keeps, closed) == (True, False, [True])
