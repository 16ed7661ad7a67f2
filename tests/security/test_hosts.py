"""Requests that name another machine, or none."""

from collections.abc import Iterator

import pytest

from tests.web.test_server import Running

HOST = b"Host: localhost\r\n"
HOSTS = {"of a stranger": b"Host: evil.example\r\n", "of us": HOST, "of us and a port": b"Host: localhost:8642\r\n"}


@pytest.mark.parametrize("host", HOSTS.values(), ids=HOSTS)
@pytest.mark.parametrize(
    "path", ["//api/v1/search?q=a", "/api//v1/search?q=a", "/static//page.css", "//evil.example/..%2f"]
)
def test_no_redirect_names_what_a_client_said(hosts: Running, host: bytes, path: str) -> None:
    answer = hosts.raw(b"GET " + path.encode() + b" HTTP/1.1\r\n" + host + b"Connection: close\r\n\r\n")
    assert answer.split(b" ")[1] in (b"200", b"403", b"404")
    assert b"location:" not in answer.lower()
    assert b"evil.example" not in answer


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /api/v1/search?q=index HTTP/1.0\r\n\r\n", b"403"),
        (b"GET /api/v1/search?q=index HTTP/1.0\r\nHost: \r\n\r\n", b"403"),
        (b"GET /api/v1/search?q=index HTTP/1.0\r\nHost: evil.example\r\n\r\n", b"403"),
        (b"GET /api/v1/search?q=index HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n", b"200"),
        (
            b"GET http://127.0.0.1/api/v1/search?q=index HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
            b"403",
        ),
        (b"GET /livez HTTP/1.0\r\n\r\n", b"200"),  # as some load balancers ask
    ],
)
def test_a_request_that_does_not_name_this_machine(hosts: Running, sent: bytes, status: bytes) -> None:
    assert hosts.raw(sent).split(b" ")[1] == status


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    server = Running(tmp_path_factory.mktemp("hosts"), 1, 8)
    server.make_ready()
    yield server
    assert server.stop() == (0, "")
