"""The folder that workers share, and who of them takes a connection."""

import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from web.observe.worker_folder import make_folder
from web.server.load_balance import LoadBalance


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def serve_until_killed(told: "multiprocessing.connection.Connection[str, str]") -> None:
    folder = make_folder()
    told.send(str(folder.path))
    signal.pause()


def test_the_folder_of_a_killed_server_is_removed_by_the_next(temporary: Path) -> None:
    mine, told = multiprocessing.get_context("spawn").Pipe()
    server = multiprocessing.get_context("fork").Process(target=serve_until_killed, args=(told,))
    server.start()
    theirs = Path(mine.recv())
    other = temporary / "pilotlight-notes"
    other.mkdir()
    first = make_folder()
    assert theirs.exists()  # its server is alive
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    server.join()
    second = make_folder()
    assert set(temporary.iterdir()) == {first.path, second.path, other}
    first.remove()
    second.remove()
    assert list(temporary.iterdir()) == [other]


def test_who_has_clearly_more_connections_than_another_worker() -> None:
    balance = LoadBalance()
    assert not balance.has_more(0)
    balance.note(1, 40)
    balance.note(258, 3)
    assert not balance.has_more(3)
    assert balance.has_more(4)  # of few, each counts
    balance.leave(258)
    assert not balance.has_more(50)
    assert balance.has_more(51)
    balance.note(259, 0)
    assert balance.has_more(1)


def test_workers_see_each_others_connections() -> None:
    balance = LoadBalance()
    balance.note(1, 7)
    assert not balance.has_more(7)
    worker = multiprocessing.get_context("fork").Process(target=balance.note, args=(2, 4))
    worker.start()
    worker.join()
    assert balance.has_more(7)
