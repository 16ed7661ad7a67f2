"""The way of a generation into the index, and out again; the checks of one that is there; the lock; the collections.

At every moment, also after a crash or a power cut, `CURRENT` is missing or names a complete generation: everything
is written and flushed under `building/`, checked, moved, and only then named. The caller of a function that writes
holds the writer lock; only `roll_back` and `drop_collection` take it themselves. The collection `default` is the index
folder itself; a named one is a folder of the same shape inside it.
"""

import errno
import fcntl
import json
import os
import secrets
import shutil
import socket
import sqlite3
import time
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from indexer.errors import BuildLocked, ConfigError, IndexCorrupt, IndexerError, IndexMissing, IndexUnwritable, counted
from indexer.generation import manifest as manifests
from indexer.generation.generation import Generation
from indexer.generation.manifest import BUILDING, CURRENT, GENERATIONS, LOCK, MANIFEST, Manifest

_MARGIN = 64 * 1024 * 1024  # bytes that a build leaves free
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


def prepare(index_dir: Path) -> None:
    """Make the index folder, unless there is one; needs no lock. Raises IndexUnwritable if it is something else."""
    if index_dir.exists() and not index_dir.is_dir():
        raise IndexUnwritable(f"{index_dir} is a file; name a folder for the index")
    missing = [folder for folder in (index_dir, *index_dir.parents) if not folder.is_dir()]
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        sync(folder.parent)  # so that a power cut leaves none of them out
    strangers = sorted({entry.name for entry in index_dir.iterdir()} - manifests.NAMES)
    if strangers and not (index_dir / LOCK).exists():
        raise IndexUnwritable(
            f"{index_dir} is not an index and not empty (it has {strangers[0]!r}); name an empty or new folder"
        )


def start(index_dir: Path, generation_id: str | None = None, size: int | None = None) -> Path:
    """Remove what killed writers left behind, and make the folder of a generation, with a new id by default.

    Raises IndexUnwritable if the disk has no room for so many bytes, by default those of the live generation.
    """
    building = index_dir / BUILDING
    if building.exists():
        shutil.rmtree(building)
    shutil.rmtree(index_dir / manifests.REPOSITORIES, ignore_errors=True)
    building.mkdir()
    (index_dir / GENERATIONS).mkdir(exist_ok=True)
    if size is None:
        with suppress(IndexMissing, IndexCorrupt):
            size = size_of(manifests.read_manifest(index_dir / GENERATIONS / manifests.current_id(index_dir)))
    check_space(index_dir, size or 0)
    folder = building / (generation_id or _new_id(index_dir))
    folder.mkdir()
    return folder


def check_space(folder: Path, size: int) -> None:
    """Raise IndexUnwritable unless the disk of a folder has room for so many bytes and some to spare."""
    free = shutil.disk_usage(folder).free
    if free < size + _MARGIN:
        raise IndexUnwritable(
            f"{folder}: the disk has {free / 1e6:,.0f} MB free, and {(size + _MARGIN) / 1e6:,.0f} MB are needed: "
            "free some space, or keep fewer generations"
        )


def publish(index_dir: Path, folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a generation whose files are written, and make it the live one.

    Raises IndexUnwritable if what is on disk is not what was written; the live generation is then as it was.
    """
    (folder / MANIFEST).write_bytes(manifest.to_bytes())
    flush(folder, manifest)
    try:
        Generation(folder).close()
    except IndexCorrupt as error:
        raise IndexUnwritable(f"cannot read back what was written; check the disk: {error}") from error
    install(index_dir, folder)


def flush(folder: Path, manifest: Manifest) -> None:
    """Have every file and folder of a generation on disk; raises OSError."""
    paths = [folder / name for name in (*manifest.files, MANIFEST)]
    for path in (*paths, *sorted({path.parent for path in paths}, reverse=True)):
        sync(path)


def install(index_dir: Path, folder: Path) -> None:
    """Move a checked and flushed generation in, and make it the live one; raises OSError.

    Generations between the one that was live and this one go: they were rolled back from.
    """
    before = live_id(index_dir)
    os.rename(folder, index_dir / GENERATIONS / folder.name)
    sync(index_dir / GENERATIONS)
    sync(index_dir / BUILDING)
    make_live(index_dir, folder.name)
    for name in generation_ids(index_dir):
        if before is not None and before < name < folder.name:
            remove(index_dir, name)


def make_live(index_dir: Path, generation_id: str) -> None:
    """Have `CURRENT` name a generation, in one step. Raises OSError."""
    new = index_dir / f"{CURRENT}.new"
    new.write_bytes(f"{generation_id}\n".encode())
    sync(new)
    os.replace(new, index_dir / CURRENT)
    sync(index_dir)


def roll_back(index_dir: Path, generation_id: str) -> None:
    """Make another generation live, after verifying it.

    Raises IndexMissing, IndexCorrupt if it is not as it was published, BuildLocked or IndexUnwritable.
    """
    folder = manifests.generation_folder(index_dir, generation_id)
    with disk_errors(index_dir), writer_lock(index_dir):
        if problems := problems_of(verify(folder)):
            raise IndexCorrupt(problems[0])
        make_live(index_dir, generation_id)


@contextmanager
def disk_errors(index_dir: Path) -> Iterator[None]:
    """Turn errors of the disk or a database into IndexUnwritable, while an index is written."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise IndexUnwritable(f"{index_dir}: the disk is full; free some space and try again") from error
        where = f" ({error.filename})" if error.filename else ""
        raise IndexUnwritable(f"cannot write {index_dir}: {error.strerror or error}{where}") from error
    except sqlite3.Error as error:
        raise IndexUnwritable(f"cannot write {index_dir}: {error}; is the disk full?") from error


def remove_old(index_dir: Path, keep: int) -> None:
    """Remove all but the newest generations; the live one is always kept."""
    live = live_id(index_dir)
    others = [name for name in generation_ids(index_dir) if name != live]
    for name in others[keep - 1 :]:
        remove(index_dir, name)


def remove(index_dir: Path, name: str) -> None:
    """Remove a generation: it leaves `generations/` whole before its files go, so that none is ever seen half there."""
    leaving = index_dir / BUILDING / _new_id(index_dir)
    os.rename(index_dir / GENERATIONS / name, leaving)
    shutil.rmtree(leaving)


def _new_id(index_dir: Path) -> str:
    """Return an id above all others in an index: the time in UTC, or the next one where the clock is behind the newest.

    Seconds stand in plain, microseconds and a random digit in hex. Raises IndexUnwritable if the newest is the last
    possible id, which only an imported generation can have.
    """
    now = datetime.now(UTC)
    by_clock = f"{now:%Y%m%dT%H%M%S}-{now.microsecond:05x}{secrets.randbelow(16):x}"
    building = filter(manifests.is_generation_id, os.listdir(index_dir / BUILDING))
    newest = max((*generation_ids(index_dir), *building, live_id(index_dir) or ""), default="")
    if by_clock > newest:
        return by_clock
    carry, fraction = divmod(int(newest[-6:], 16) + 1, 1 << 24)
    second = f"{int(newest[:8] + newest[9:15]) + carry:014}"
    following = f"{second[:8]}T{second[8:]}-{fraction:06x}"
    if not manifests.is_generation_id(following):
        raise IndexUnwritable(f"{index_dir}: no id follows that of generation {newest}; remove that generation")
    return following


def sync(path: Path) -> None:
    """Have a file, or the names in a folder, on disk; raises OSError."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Check(NamedTuple):
    """The result of one check."""

    name: str
    ok: bool
    what: str  # the finding, or the fault if it is not ok


def verify(folder: Path) -> list[Check]:
    """Check the folder of a generation; nothing is opened unless every checksum is right.

    Raises IndexUnreadable if a file cannot be read for a reason that says nothing about it.
    """
    try:
        manifest = manifests.read_manifest(folder)
    except IndexCorrupt as error:
        return [Check("manifest", False, str(error))]
    found = f"schema version {manifest.schema_version}, {len(manifest.files)} files"
    checks = [Check("manifest", True, found)]
    for name, record in manifest.files.items():
        try:
            manifests.check_files(folder, replace(manifest, files={name: record}))
            checks.append(Check(f"file {name}", True, f"{record.size:,} bytes, SHA-256 {record.sha256[:12]}…"))
        except IndexCorrupt as error:
            checks.append(Check(f"file {name}", False, str(error)))
    known = {folder / name for name in (MANIFEST, *manifest.files)}
    strangers = sorted(path for path in folder.rglob("*") if not path.is_dir() and path not in known)
    what = str(manifests.corrupt(strangers[0], "is not part of the generation")) if strangers else "none"
    checks.append(Check("other files", not strangers, what))
    if not problems_of(checks):
        try:
            with closing(Generation(folder, are_checked=True)) as generation:
                counts = generation.manifest.counts
            found = f"{counted(counts.documents, 'document')} and {counted(counts.chunks, 'chunk')} in every file"
            checks.append(Check("counts", True, found))
        except IndexCorrupt as error:
            checks.append(Check("counts", False, str(error)))
    return checks


def problems_of(checks: list[Check]) -> list[str]:
    """Return the problems that checks found, a line each."""
    return [check.what for check in checks if not check.ok]


class SelfCheck:
    """Checks the files of a generation that is being served.

    The files stay open: one that is deleted, or has another in its place, is still what is served, and does no harm.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        """Open the files; one that cannot be opened now is left out."""
        self._folder = folder
        self._manifest = manifest
        self._files: dict[str, int] = {}
        for name in manifest.files:
            with suppress(OSError):
                self._files[name] = os.open(folder / name, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, lambda files: list(map(os.close, files)), tuple(self._files.values()))

    def sizes(self) -> None:
        """Compare the size of every file with its record. Raises IndexCorrupt."""
        for name, file in self._files.items():
            size, wanted = os.fstat(file).st_size, self._manifest.files[name].size
            if size != wanted:
                raise manifests.corrupt(self._folder / name, f"has {size:,} bytes instead of {wanted:,}")

    def contents(self) -> None:
        """Compare every file with its checksum. Raises IndexCorrupt."""
        for name, file in self._files.items():
            if manifests.record_file(Path(f"/proc/self/fd/{file}")) != self._manifest.files[name]:
                raise manifests.corrupt(self._folder / name, "differs from its checksum")


# Collections and generations that are there


def list_collections(index_dir: Path) -> dict[str, Path]:
    """Return the folders of the published collections, by name: the default one first, then by the alphabet."""
    folder, names = index_dir / manifests.COLLECTIONS, list[str]()
    with suppress(FileNotFoundError, NotADirectoryError):
        names = sorted(filter(manifests.is_collection_name, os.listdir(folder)))
    folders = {name: manifests.collection_dir(index_dir, name) for name in (manifests.DEFAULT, *names)}
    return {name: folder for name, folder in folders.items() if os.path.lexists(folder / CURRENT)}


def drop_collection(index_dir: Path, name: str) -> None:
    """Remove a named collection with all its generations; servers stop answering from it.

    Raises ConfigError for the default one, IndexMissing or BuildLocked.
    """
    folder = manifests.collection_dir(index_dir, name)
    if name == manifests.DEFAULT:
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
    return sorted(filter(manifests.is_generation_id, names), reverse=True)


def live_id(index_dir: Path) -> str | None:
    """Return the id of the live generation, or None where `CURRENT` is missing or names none."""
    try:
        return manifests.current_id(index_dir)
    except (IndexMissing, IndexCorrupt):
        return None


def size_of(manifest: Manifest) -> int:
    """Return the bytes of a generation's files together."""
    return sum(record.size for record in manifest.files.values())


class Published(NamedTuple):
    """One published generation, as its manifest describes it."""

    id: str
    live: bool
    created_at: str | None  # ISO 8601, UTC; None, like the counts, where the manifest cannot be read
    documents: int | None
    chunks: int | None
    bytes: int | None
    problem: str  # what is wrong with the manifest; empty if nothing is


def list_generations(index_dir: Path) -> list[Published]:
    """Describe every published generation of one collection, newest first; its files are not checked."""
    live, found = live_id(index_dir), []
    for name in generation_ids(index_dir):
        try:
            manifest = manifests.read_manifest(index_dir / GENERATIONS / name)
        except IndexerError as error:
            found.append(Published(name, name == live, None, None, None, None, str(error)))
            continue
        documents, chunks, size = manifest.counts.documents, manifest.counts.chunks, size_of(manifest)
        found.append(Published(name, name == live, manifest.created_at, documents, chunks, size, ""))
    return found
