"""The client against servers that are busy, or something else."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from rag.client.client import Client
from rag.errors import ClientError, Unavailable
from rag.query.results import Answer


class Scripted(BaseHTTPRequestHandler):
    answers: list[tuple[int, dict[str, str], bytes]]
    seen: list[str]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append(self.path)
        status, headers, body = self.answers.pop(0)
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def scripted():
    handler = type("Handler", (Scripted,), {"answers": [], "seen": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield handler, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


BUSY = json.dumps({"status": 503, "detail": "too much to do"}).encode()
PROBLEM = {"Content-Type": "application/problem+json"}
FOUND = json.dumps(Answer("a", [], {}, "g1").as_dict()).encode()


def test_a_busy_server_is_asked_again_when_it_says(scripted):
    handler, url = scripted
    for status in (503, 429):
        handler.answers = [(status, {**PROBLEM, "Retry-After": "0"}, BUSY), (200, {}, FOUND)]
        with Client(url) as client:
            assert client.search("a").generation == "g1"
        assert handler.answers == []


@pytest.mark.parametrize("header", [{}, {"Retry-After": "soon"}, {"Retry-After": "3"}])
def test_it_is_not_asked_again_otherwise(scripted, header):
    handler, url = scripted
    handler.answers = [(503, {**PROBLEM, **header}, BUSY)]
    with Client(url, patience=2) as client, pytest.raises(Unavailable, match="too much to do") as caught:
        client.search("a")
    assert caught.value.retry_after == (3 if header.get("Retry-After") == "3" else None)
    assert len(handler.seen) == 1


@pytest.mark.parametrize(
    ("status", "headers", "body", "message"),
    [
        (200, {}, b"<html>", "is not as expected"),
        (200, {}, b"[]", "is it Pilotlight"),
        (200, {}, b'{"hits": [{}]}', "is it Pilotlight"),
        (302, {"Location": "http://127.0.0.1:1/"}, b"", "status 302"),
        (500, {}, b"oh", "status 500"),
        (500, PROBLEM, b"[]", "status 500"),
        (502, PROBLEM, b'{"detail": 5, "field": 6}', "status 502"),
        (200, {"Content-Length": "100"}, b"{", "cannot be reached"),
    ],
)
def test_a_server_that_is_something_else(scripted, status, headers, body, message):
    handler, url = scripted
    handler.answers = [(status, headers, body)]
    with Client(url) as client, pytest.raises(ClientError, match=message):
        client.search("a")
