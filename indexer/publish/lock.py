"""One writer at a time: a lock that the system gives back when its holder dies, however it dies."""

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from indexer.errors import BuildLocked
from indexer.generation.layout import LOCK


@contextmanager
def writer_lock(index_dir: Path) -> Iterator[None]:
    """Hold the right to write an index; the file stays, the lock on it goes with the process.

    Raises:
        BuildLocked: another process holds it; the message says which.
        OSError: the file cannot be made.
    """
    path = index_dir / LOCK
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BuildLocked(
                f"another process is writing {index_dir}: {_holder(handle)}; wait for it to end, or stop it"
            ) from error
        if not os.path.samestat(os.fstat(handle), os.stat(path)):  # dropped, and made anew, since it was opened
            raise BuildLocked(f"{index_dir} has just been dropped by another process; try again")
        note = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(note).encode() + b"\n", 0)
        try:
            yield
        finally:
            os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def _holder(handle: int) -> str:
    try:
        note = json.loads(os.pread(handle, 1_000, 0))
        return f"process {note['pid']} on {note['host']}, since {note['since']}"
    except (ValueError, KeyError, TypeError):
        return "a process that has only just started"
