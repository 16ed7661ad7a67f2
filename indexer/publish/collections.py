"""The collections of an index folder, the generations of each, and the lock of the one that writes.

The collection `default` is the index folder itself; a named one is a folder of the same shape inside it.
"""

import fcntl
import json
import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from indexer.errors import BuildLocked, ConfigError, IndexCorrupt, IndexMissing, IndexUnreadable
from indexer.generation.layout import (
    COLLECTIONS,
    CURRENT,
    DEFAULT,
    GENERATIONS,
    LOCK,
    collection_dir,
    current_id,
    is_collection_name,
)
from indexer.generation.manifest import Manifest, is_generation_id, read_manifest

_BRIEF, _CHANGING = 30.0, 1.0  # seconds that a brief holder is waited for, and one that has no note yet, or any more
_LOOK = 0.05  # seconds between two tries: flock waits for ever or not at all


@contextmanager
def writer_lock(index_dir: Path, *, is_brief: bool = False) -> Iterator[None]:
    """Hold the right to write an index; the file stays, the lock on it goes with the process.

    Others wait for a lock that `is_brief`, held for a moment again and again. Raises BuildLocked, which says by whom.
    """
    path, began = index_dir / LOCK, time.monotonic()
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                holder = _holder(handle)
            patience = _BRIEF if holder.get("brief") else 0.0 if holder else _CHANGING
            if is_brief or time.monotonic() >= began + patience:
                who = "a process that has only just started"
                if holder:
                    who = "process {pid} on {host}, since {since}".format(**holder)
                raise BuildLocked(f"another process is writing {index_dir}: {who}; wait for it to end, or stop it")
            time.sleep(_LOOK)
        if not os.path.samestat(os.fstat(handle), os.stat(path)):  # dropped, and made again, since it was opened
            raise BuildLocked(f"{index_dir} has just been dropped by another process; try again")
        since = datetime.now(UTC).isoformat(timespec="seconds")
        note = {"pid": os.getpid(), "host": socket.gethostname(), "since": since, "brief": is_brief}
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(note).encode() + b"\n", 0)
        try:
            yield
        finally:
            os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def _holder(handle: int) -> dict[str, object]:
    """Return what the holder has noted; nothing where that is not there yet."""
    try:
        note = json.loads(os.pread(handle, 1_000, 0))
        return {name: note[name] for name in ("pid", "host", "since")} | {"brief": note.get("brief", False)}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def list_collections(index_dir: Path) -> dict[str, Path]:
    """Return the folders of the published collections, by name: the default one first, then by the alphabet."""
    try:
        names = sorted(entry.name for entry in (index_dir / COLLECTIONS).iterdir() if is_collection_name(entry.name))
    except (FileNotFoundError, NotADirectoryError):
        names = []
    folders = {name: collection_dir(index_dir, name) for name in (DEFAULT, *names)}
    return {name: folder for name, folder in folders.items() if os.path.lexists(folder / CURRENT)}


def drop_collection(index_dir: Path, name: str) -> None:
    """Remove a named collection with all its generations; servers stop answering from it.

    Raises ConfigError for the default one, IndexMissing or BuildLocked.
    """
    folder = collection_dir(index_dir, name)
    if name == DEFAULT:
        raise ConfigError(f"the default collection cannot be dropped: it is the index itself; delete {index_dir}")
    if not folder.is_dir():
        raise IndexMissing(f"there is no collection {name!r} in {index_dir}")
    with writer_lock(folder):
        (folder / CURRENT).unlink(missing_ok=True)  # first, so that it is gone at once and never half there
        shutil.rmtree(folder)


def generation_ids(index_dir: Path) -> list[str]:
    """Return the ids of the published generations, whole or damaged, newest first."""
    folder = index_dir / GENERATIONS
    names = os.listdir(folder) if folder.is_dir() else []
    return sorted(filter(is_generation_id, names), reverse=True)


def live_id(index_dir: Path) -> str | None:
    """Return the id of the live generation, or None where `CURRENT` is missing or names none."""
    try:
        return current_id(index_dir)
    except (IndexMissing, IndexCorrupt):
        return None


def older_ids(index_dir: Path) -> list[str]:
    """Return the ids older than the live generation's, newest first; all of them where `CURRENT` names none."""
    live = live_id(index_dir)
    return [name for name in generation_ids(index_dir) if live is None or name < live]


def size_of(manifest: Manifest) -> int:
    """Return the bytes of a generation's files together."""
    return sum(record.size for record in manifest.files.values())


@dataclass(frozen=True, slots=True)
class Published:
    """One published generation, as its manifest describes it."""

    id: str
    live: bool
    created_at: str | None  # ISO 8601, UTC; None, like the counts, where the manifest cannot be read
    documents: int | None
    chunks: int | None
    bytes: int | None
    problem: str  # what is wrong with the manifest; empty if nothing is

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON-ready form."""
        return asdict(self)


def list_generations(index_dir: Path) -> list[Published]:
    """Describe every published generation of one collection, newest first; its files are not checked."""
    live, found = live_id(index_dir), []
    for name in generation_ids(index_dir):
        try:
            manifest = read_manifest(index_dir / GENERATIONS / name)
        except (IndexCorrupt, IndexUnreadable) as error:
            found.append(Published(name, name == live, None, None, None, None, str(error)))
            continue
        documents, chunks, size = manifest.counts.documents, manifest.counts.chunks, size_of(manifest)
        found.append(Published(name, name == live, manifest.created_at, documents, chunks, size, ""))
    return found
