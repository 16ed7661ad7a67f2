"""More than the server can do, and a worker that is killed: nobody else pays for it."""

import http.client
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.system.conftest import request, serving, wait_for
from tests.web.test_server import DEADLINE_S, Running, until

QUEUE = 4


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    server = Running(tmp_path, 1, QUEUE)
    server.make_ready()
    yield server
    (tmp_path / "go-on").touch()
    assert server.stop() == (0, "")


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_what_is_too_much_is_refused_at_once_and_nothing_else(running: Running) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=DEADLINE_S)

    def ask(query: str) -> tuple[int, str | None, str]:
        connection.request("GET", f"/api/v1/search?q={query}")
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.getheader("Retry-After"), str(answer.getheader("Content-Type"))

    with ThreadPoolExecutor(QUEUE) as pool:
        waiting = [pool.submit(running.http.get, "/api/v1/search?q=wait") for _ in range(QUEUE)]
        until(lambda: running.waiting() == QUEUE)
        for _ in range(50):  # on one connection, which stays
            assert ask("more") == (503, "2", "application/problem+json")
        for probe in ("/livez", "/readyz", "/metrics"):
            assert running.http.get(probe).status_code == 200
        assert 'requests_refused_total{reason="queue"} 50.0' in running.http.get("/metrics").text
        page = running.http.get("/?q=more", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
        assert (page.status_code, page.headers["Content-Type"]) == (503, "text/html; charset=utf-8")
        assert page.headers["Retry-After"] == "2"
        assert "default-src 'none'" in page.headers["Content-Security-Policy"]
        assert 'data-state="waiting"' in page.text
        assert "overloaded" in page.text
        last = running.raw(b"GET /api/v1/search?q=more HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert last.startswith(b"HTTP/1.1 503 ")
        (running.folder / "go-on").touch()
        assert [answer.result(DEADLINE_S).status_code for answer in waiting] == [200] * QUEUE
    assert ask("more")[0] == 200
    connection.close()


@pytest.mark.model
def test_a_killed_worker_is_replaced_and_the_others_go_on(index: Path) -> None:
    with serving(index, "--workers", "2") as url, ThreadPoolExecutor(4) as pool:
        search = f"{url}/api/v1/search?q=partial+index"
        server = next(
            pid for pid in children(os.getpid()) if "rag.commands.cli" in Path(f"/proc/{pid}/cmdline").read_text()
        )

        before = children(server)
        assert len(before) == 2
        killed = pool.submit(os.kill, before[0], signal.SIGKILL)
        statuses: list[int] = []
        broken = 0
        while len(statuses) < 400 or len(children(server)) < 2 or before[0] in children(server):
            try:
                statuses.append(request(search)[0])
            except (OSError, http.client.HTTPException):
                broken += 1  # was with the worker that was killed
        killed.result()
        assert set(statuses) == {200}
        assert broken <= 1
        wait_for(lambda: [request(search)[0] for _ in range(30)] == [200] * 30, "the new worker to be warm")
