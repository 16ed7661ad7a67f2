"""Told to stop, the server answers what is under way, says that it is leaving, and goes."""

import http.client
import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.web.test_server import DEADLINE_S, Running, until

IN_FLIGHT = 20


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    server = Running(tmp_path, 2, 128)
    server.make_ready()
    yield server
    if server.process.poll() is None:
        server.process.kill()
    server.process.communicate(timeout=DEADLINE_S)
    server.http.close()


def ask(port: int) -> tuple[int, str]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)) as connection:
        body = json.dumps({"query": "wait"})
        connection.request("POST", "/api/v1/search", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())["query"]


def readiness(connection: http.client.HTTPConnection) -> tuple[int, str | None, bytes]:
    connection.request("GET", "/readyz")
    answer = connection.getresponse()
    return answer.status, answer.getheader("Connection"), answer.read()


def test_requests_in_flight_are_answered_and_readyz_says_that_it_drains(running: Running) -> None:
    probe = http.client.HTTPConnection("127.0.0.1", running.port, timeout=DEADLINE_S)
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        answers = [pool.submit(ask, running.port) for _ in range(IN_FLIGHT)]
        until(lambda: running.waiting() == IN_FLIGHT)
        assert readiness(probe)[0] == 200
        running.process.send_signal(signal.SIGTERM)
        said: list[tuple[int, str | None, bytes]] = []

        def says_goodbye() -> bool:  # a probe that came before the signal may be told no, and its connection kept
            said.append(readiness(probe))
            return said[-1][1] == "close"

        until(says_goodbye)
        probe.close()
        status, _, body = said[-1]
        assert status == 503
        assert "shutting down" in json.loads(body)["detail"]
        (running.folder / "go-on").touch()
        assert [answer.result(DEADLINE_S) for answer in answers] == [(200, "wait")] * IN_FLIGHT
    assert running.stop() == (0, "")
    with pytest.raises(ConnectionRefusedError):
        running.raw(b"GET /livez HTTP/1.1\r\n\r\n")
