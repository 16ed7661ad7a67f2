import socket
import threading
import time
from collections.abc import Iterable
from contextvars import Context
from pathlib import Path
from typing import Any

import pytest
from gunicorn.config import Config

from rag.query.filters import Filter
from rag.serving.api_keys import KeyFile
from rag.serving.scope import Scope
from rag.settings import Settings
from tests.web.fakes import FakeRetriever
from web.app import create_app
from web.guards import pacing
from web.server.exchange import Exchange
from web.server.pacer import Pacer
from web.server.send_buffer import SendBuffer

KEY = "k" * 20
PART = Scope.of(["default"], [Filter.parse({"language": "en"})])


@pytest.mark.parametrize(("scope", "due"), [(Scope(), 0), (PART, 5.02), (Scope.of(["default"]), 5.02)])
def test_who_sees_a_part_is_answered_at_fixed_moments(tmp_path: Path, scope: Scope, due: float) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    keys.add("one", "read", KEY, scope=scope)
    client = create_app(FakeRetriever(), Settings(keys=str(keys.path))).test_client()

    def asked() -> float:
        answer = client.get("/api/v1/search?q=x", headers={"Authorization": f"Bearer {KEY}"})
        took = answer.json["took_ms"]  # type: ignore[index]  # it has a body
        assert (took["total"], took["embed"]) == ((10, 0) if due else (3.12, 2.04))
        return pacing.due(5.0, 5.011)

    assert Context().run(asked) == pytest.approx(due)
    assert Context().run(pacing.due, 5.0, 5.011) == 0  # of another request


@pytest.mark.parametrize("is_paced", [True, False])
def test_an_answer_is_left_to_the_loop_where_it_is_paced(is_paced: bool) -> None:
    def app(environ: Any, start_response: Any) -> Iterable[bytes]:
        pacing._is_paced.set(is_paced)
        start_response("200 OK", [("Content-Length", "2")])
        return [b"ok"]

    here, there = socket.socketpair()
    with here, there:
        here.setblocking(False)
        to_send, arrived = SendBuffer(here), time.monotonic()
        exchange = Exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", arrived, to_send, has_body=True)
        exchange.begin(app, Config(), ("127.0.0.1", 1), ("127.0.0.1", 2), last=False)
        assert (exchange.due > arrived, to_send.waiting > 0) == (is_paced, is_paced)
        to_send.flush()
        assert there.recv(1000).endswith(b"ok")


@pytest.mark.parametrize("is_paced", [True, False])
def test_of_an_answer_that_streams_the_first_part_is_left_to_the_loop(is_paced: bool) -> None:
    def app(environ: Any, start_response: Any) -> Iterable[bytes]:
        pacing._is_paced.set(is_paced)
        start_response("200 OK", [("Content-Type", "text/event-stream")])
        return iter([b"hits", b"token"])

    here, there = socket.socketpair()
    with here, there:
        here.setblocking(False)
        to_send, arrived = SendBuffer(here), time.monotonic()
        exchange = Exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", arrived, to_send, has_body=True)
        exchange.begin(app, Config(), ("127.0.0.1", 1), ("127.0.0.1", 2), last=False)
        if is_paced:
            assert (exchange.due > arrived, to_send.waiting > 0, exchange.ended) == (True, True, False)
            to_send.flush()
            first = there.recv(1000)
            assert (b"hits" in first, b"token" in first) == (True, False)
            exchange.run()
        assert (exchange.due, exchange.ended, to_send.waiting) == (0, True, 0)
        assert b"token" in there.recv(1000)


def test_what_is_held_comes_in_the_order_of_its_moments() -> None:
    pacer, called, done = Pacer(), list[tuple[int, float]](), threading.Event()
    now = time.monotonic()
    for number in (2, 1):
        pacer.hold(now + number / 50, lambda number=number: called.append((number, time.monotonic())))
    pacer.hold(now + 3 / 50, done.set)
    assert done.wait(30)
    pacer.close()
    assert [number for number, _ in called] == [1, 2]
    assert all(moment >= now + number / 50 for number, moment in called)
