"""The folder that workers share."""

import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from web.observe.worker_folder import make_folder


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
