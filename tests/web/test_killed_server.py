"""What is kept of searches, by the real gunicorn with two workers, which are killed."""

import os
import signal
import sqlite3
import time
from contextlib import closing, suppress

import pytest

from tests.web.test_server import Running, until

LOST_S = 1.0  # of what was asked last, at most


@pytest.fixture
def running(tmp_path, monkeypatch):
    monkeypatch.setenv("KEPT_IN", str(tmp_path / "kept"))
    server = Running(tmp_path)
    server.make_ready()
    yield server
    if server.process.poll() is None:
        server.stop()


def kept(running: Running, wanted: str = "query FROM searches") -> list[str]:
    database = running.folder / "kept" / "insights" / "searches.sqlite"
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return [value for (value,) in connection.execute(f"SELECT {wanted}")]


def test_kill_loses_the_last_second_at_most(running):
    asked: dict[str, float] = {}
    began = time.monotonic()
    while time.monotonic() < began + 3 * LOST_S:
        query = f"number{len(asked)}"
        assert running.on_its_own_connection(f"/api/v1/search?q={query}").status_code == 200
        asked[query] = time.monotonic()
    workers = running.workers()
    assert len(workers) == 2
    for pid in (running.process.pid, *workers):
        os.kill(pid, signal.SIGKILL)
    killed = time.monotonic()
    running.process.communicate()
    found = kept(running)
    assert len(set(found)) == len(found)
    due = {query for query, at in asked.items() if at < killed - LOST_S}
    assert len(due) > 10
    assert due <= set(found)


def test_a_server_that_ends_loses_nothing(running):
    # whichever worker takes the feedback, perhaps before the other has written the search
    for number in range(9):
        id = running.on_its_own_connection(f"/api/v1/search?q=number{number}").json()["search_id"]
        fields = {"search_id": id, "feedback": "good", "hit": "chunk-1"}
        reply = running.http.post("/api/v1/feedback", json=fields, headers={"Connection": "close"})
        assert reply.status_code == 204

    def judged() -> int:
        with suppress(sqlite3.OperationalError):  # it is being made
            return int(kept(running, "count(*) FROM hits WHERE verdict")[0])
        return 0

    until(lambda: judged() == 9)
    running.on_its_own_connection("/api/v1/search?q=last")
    assert running.stop() == (0, "")
    assert sorted(kept(running)) == sorted(["last", *(f"number{number}" for number in range(9))])
