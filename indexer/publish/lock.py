"""One writer at a time: a lock that the system gives back when its holder dies, however it dies."""

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from indexer.errors import BuildLocked
from indexer.generation.layout import LOCK

_UNKNOWN = "a process that has only just started"
_BRIEF, _CHANGING = 30.0, 1.0  # seconds that a brief holder is waited for, and one that has no note yet, or any more
_LOOK = 0.05  # seconds between two tries: flock waits for ever or not at all


@contextmanager
def writer_lock(index_dir: Path, *, is_brief: bool = False) -> Iterator[None]:
    """Hold the right to write an index; the file stays, the lock on it goes with the process.

    Args:
        index_dir: the index.
        is_brief: whether it is held for a moment, again and again: others wait for that instead of failing.

    Raises:
        BuildLocked: another process holds it; the message says which.
        OSError: the file cannot be made.
    """
    path = index_dir / LOCK
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        began = time.monotonic()
        while not _is_taken(handle):
            holder = _holder(handle)
            patience = _BRIEF if holder.get("brief") else 0.0 if holder else _CHANGING
            if is_brief or time.monotonic() >= began + patience:
                who = "process {pid} on {host}, since {since}".format(**holder) if holder else _UNKNOWN
                raise BuildLocked(f"another process is writing {index_dir}: {who}; wait for it to end, or stop it")
            time.sleep(_LOOK)
        if not os.path.samestat(os.fstat(handle), os.stat(path)):  # dropped, and made anew, since it was opened
            raise BuildLocked(f"{index_dir} has just been dropped by another process; try again")
        note = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
            "brief": is_brief,
        }
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(note).encode() + b"\n", 0)
        try:
            yield
        finally:
            os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def _is_taken(handle: int) -> bool:
    """Take the lock if nobody has it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(handle: int) -> dict[str, object]:
    """Return what the holder has noted; nothing where that is not there yet."""
    try:
        note = json.loads(os.pread(handle, 1_000, 0))
        return {name: note[name] for name in ("pid", "host", "since")} | {"brief": note.get("brief", False)}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
