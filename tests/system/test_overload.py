"""More than the server can do, and a worker that is killed: nobody else pays for it."""

import http.client
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.system.conftest import request, serving
from tests.waiting import wait_for
from tests.web.test_server import DEADLINE_S, Running
from web.dispatch import SEARCH_THREADS

SECONDS = 3


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    server = Running(tmp_path, 1, SECONDS)
    server.make_ready()
    yield server
    (tmp_path / "go-on").touch()
    assert server.stop() == (0, "")


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_what_waits_too_long_is_refused_and_nothing_else_waits(running: Running) -> None:
    http_of = partial(httpx.Client, base_url=running.http.base_url, timeout=DEADLINE_S, trust_env=False)
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    with http_of() as other, ThreadPoolExecutor(60) as pool:
        held = [pool.submit(running.http.get, "/api/v1/search?q=wait") for _ in range(SEARCH_THREADS)]
        wait_for(lambda: running.waiting() == SEARCH_THREADS, "searches that occupy all threads")
        late = [pool.submit(running.http.get, "/api/v1/search?q=late") for _ in range(40)]
        page = pool.submit(running.http.get, "/?q=late", headers=browser)
        waiting = 'http_requests_waiting{kind="search"} 41.0'
        wait_for(lambda: waiting in other.get("/metrics").text, "the metric")  # counted once a second
        began = time.monotonic()
        for probe in ("/livez", "/readyz", "/llms.txt"):
            assert other.get(probe).status_code == 200
        assert other.post("/api/v1/search/batch", json={"queries": [{"query": "index"}]}).status_code == 200
        wait_for(lambda: time.monotonic() > began + SECONDS, "the deadline of all that waits")
        (running.folder / "go-on").touch()
        assert [answer.result(DEADLINE_S).status_code for answer in held] == [200] * SEARCH_THREADS
        for answer in [each.result(DEADLINE_S) for each in late]:
            assert (answer.status_code, answer.headers["Content-Type"]) == (503, "application/problem+json")
            assert int(answer.headers["Retry-After"]) >= 1
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        shown = page.result(DEADLINE_S)
        assert (shown.status_code, shown.headers["Content-Type"]) == (503, "text/html; charset=utf-8")
        assert 'data-state="waiting"' in shown.text
        assert 'requests_refused_total{kind="search",reason="queue"} 40.0' in other.get("/metrics").text
        assert other.get("/api/v1/search?q=index").status_code == 200


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
