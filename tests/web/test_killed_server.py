"""What is kept of searches, by the real gunicorn with two workers, which are killed."""

import os
import signal
import sqlite3
import time
from contextlib import closing

import pytest

from tests.web.test_server import Running

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
