"""What is kept of searches, by the real gunicorn with two workers, which are killed."""

import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.web.test_server import Running, until

LOST_S = 1.0  # of what was asked last, at most


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setenv("KEPT_IN", str(tmp_path / "kept"))
    server = Running(tmp_path)
    server.make_ready()
    yield server
    if server.process.poll() is None:
        server.stop()


def kept(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / "kept" / "insights" / "searches.sqlite")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return [query for (query,) in connection.execute("SELECT query FROM searches")]


def test_kill_loses_the_last_second_at_most(running: Running) -> None:
    asked: dict[str, float] = {}

    def ask(number: int) -> None:
        assert running.on_its_own_connection(f"/api/v1/search?q=number{number}").status_code == 200
        asked[f"number{number}"] = time.monotonic()

    ask(0)
    until((running.folder / "kept" / "insights" / "searches.sqlite").exists)
    began = time.monotonic()
    number = 1
    while time.monotonic() < began + 2 * LOST_S:
        ask(number)
        number += 1
    workers = running.workers()
    assert len(workers) == 2
    for pid in (running.process.pid, *workers):
        os.kill(pid, signal.SIGKILL)
    killed = time.monotonic()
    running.process.communicate()
    found = kept(running.folder)
    assert len(set(found)) == len(found)
    due = {query for query, at in asked.items() if at < killed - LOST_S}
    assert len(due) > 10
    assert due <= set(found)


def test_a_server_that_ends_loses_nothing(running: Running) -> None:
    ids = [running.on_its_own_connection(f"/api/v1/search?q=number{number}").json()["search_id"] for number in range(9)]
    # whichever worker takes it, perhaps before the other has written the search
    for id in ids:
        fields = {"search_id": id, "feedback": "good", "hit": "chunk-1"}
        reply = running.http.post("/api/v1/feedback", json=fields, headers={"Connection": "close"})
        assert reply.status_code == 204

    def judged() -> int:
        path = running.folder / "kept" / "insights" / "searches.sqlite"
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as made:
            return int(made.execute("SELECT count(*) FROM hits WHERE verdict").fetchone()[0])
        return 0  # it is being made

    until(lambda: judged() == 9)
    running.on_its_own_connection("/api/v1/search?q=last")
    assert running.stop() == (0, "")
    assert sorted(kept(running.folder)) == sorted(["last", *(f"number{number}" for number in range(9))])
