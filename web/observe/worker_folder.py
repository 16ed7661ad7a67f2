"""The folder that the worker processes of one server share, in which each has a number of its own."""

import fcntl
import itertools
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"  # names the folder; the Prometheus client calls it so
_PREFIX = "pilotlight-server-"
_LOCK = "server.lock"


class WorkerFolder(NamedTuple):
    """The folder, which its server removes in the end."""

    path: Path
    held: IO[str]  # locked for as long as the server or one of its workers lives

    def remove(self) -> None:
        """Take it away."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.held.close()


def make_folder() -> WorkerFolder:
    """Make the folder of a server, and remove those of servers that were killed. Raises OSError."""
    for old in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # of another user, in use, or just removed by another server
            if old.lstat().st_uid == os.getuid():
                with (old / _LOCK).open(encoding="ascii") as held:
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(old)
    made = Path(tempfile.mkdtemp(prefix=f"new-{_PREFIX}"))
    held = (made / _LOCK).open("w", encoding="ascii")
    fcntl.flock(held, fcntl.LOCK_EX)
    # only then under the name that another server looks for
    return WorkerFolder(made.rename(made.with_name(made.name.removeprefix("new-"))), held)


def shared_file(name: str) -> Path | None:
    """Return the path of a file that the workers of this server share; None where there is one process alone."""
    folder = os.environ.get(FOLDER_VARIABLE)
    return Path(folder) / name if folder else None


class WorkerNumber(NamedTuple):
    """The number of this process among the workers; another gets it only when this process is gone."""

    number: int
    held: IO[str]  # locked for as long as it is open


def claim_number(folder: Path) -> WorkerNumber:
    """Take the lowest free number; a worker that replaces one that died goes on with its files.

    So counts never go back, and there are no more files than there were workers at a time.
    """
    for number in itertools.count():
        held = (folder / f"worker-{number}.pid").open("a+", encoding="ascii")
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held.close()
        else:
            return WorkerNumber(number, held)
    raise AssertionError("there is always another number")
