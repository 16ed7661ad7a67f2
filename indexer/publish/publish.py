"""Publish, verify and remove generations and collections, and lock an index for writing.

A generation is written, flushed and checked in `building/`, moved to `generations/`, and then named in `CURRENT`. So
even after a crash or a power cut, `CURRENT` names a complete generation or none. `roll_back` and `drop_collection`
acquire the writer lock. To call any other function that writes, the caller must hold the writer lock.
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

_MIN_FREE_BYTES = 64 * 1024 * 1024
_BRIEF_LOCK_SECONDS, _UNKNOWN_LOCK_SECONDS = 30.0, 1.0
_POLL_SECONDS = 0.05


@contextmanager
def writer_lock(index_dir: Path, *, is_brief: bool = False) -> Iterator[None]:
    """Hold the writer lock of an index during the `with` block. The lock is also released if the process ends.

    Args:
        index_dir: an existing folder, in which the lock file remains.
        is_brief: whether the caller is a brief writer, such as a server that indexes pushed documents. A brief writer
            fails immediately if another process holds the lock. Other writers wait up to 30 s for a brief writer, but
            do not wait for each other.

    Raises:
        BuildLocked: another process holds the lock. The message names the process.
    """
    path, began = index_dir / LOCK, time.monotonic()
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                holder = _holder(handle)
            patience = _BRIEF_LOCK_SECONDS if holder.get("brief") else 0.0 if holder else _UNKNOWN_LOCK_SECONDS
            if is_brief or time.monotonic() >= began + patience:
                name = "a process that has just started"
                if holder:
                    name = "process {pid} on {host}, since {since}".format(**holder)
                raise BuildLocked(f"another process is writing {index_dir}: {name}; wait for it to end, or stop it")
            time.sleep(_POLL_SECONDS)
        if not os.path.samestat(os.fstat(handle), os.stat(path)):  # the collection was dropped and created again
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
    """Return the data in the lock file about the process that holds the lock, or an empty dictionary."""
    try:
        note = json.loads(os.pread(handle, 1_000, 0))
        return {name: note[name] for name in ("pid", "host", "since")} | {"brief": note.get("brief", False)}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def prepare(index_dir: Path) -> None:
    """Create the index folder if it is missing. Raises IndexUnwritable if it is a file, or contains unrelated files."""
    if index_dir.exists() and not index_dir.is_dir():
        raise IndexUnwritable(f"{index_dir} is a file; name a folder for the index")
    missing = [folder for folder in (index_dir, *index_dir.parents) if not folder.is_dir()]
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        sync(folder.parent)
    foreign_files = sorted({entry.name for entry in index_dir.iterdir()} - manifests.NAMES)
    if foreign_files and not (index_dir / LOCK).exists():
        raise IndexUnwritable(
            f"{index_dir} is not an index and not empty (it has {foreign_files[0]!r}); name an empty or new folder"
        )


def start(index_dir: Path, keep: int, generation_id: str | None = None, size: int | None = None) -> Path:
    """Create a folder for a new generation. First remove abandoned drafts, and old generations in excess of `keep`.

    Args:
        keep: number of published generations to keep.
        generation_id: id of the generation, by default a new id.
        size: bytes that must be free on the disk, by default the size of the live generation.

    Raises:
        IndexUnwritable: the disk is too full.
    """
    building = index_dir / BUILDING
    if building.exists():
        shutil.rmtree(building)
    building.mkdir()
    (index_dir / GENERATIONS).mkdir(exist_ok=True)
    remove_old(index_dir, keep)
    if size is None:
        with suppress(IndexMissing, IndexCorrupt):
            size = size_of(manifests.read_manifest(index_dir / GENERATIONS / manifests.current_id(index_dir)))
    check_space(index_dir, size or 0)
    folder = building / (generation_id or _new_id(index_dir))
    folder.mkdir()
    return folder


def check_space(folder: Path, size: int) -> None:
    """Raise IndexUnwritable if the free space of the disk is less than `size` bytes plus a reserve."""
    free = shutil.disk_usage(folder).free
    if free < size + _MIN_FREE_BYTES:
        needed = (size + _MIN_FREE_BYTES) / 1e6
        raise IndexUnwritable(
            f"{folder}: the disk has {free / 1e6:,.0f} MB free, and {needed:,.0f} MB are needed: "
            "free some space, or keep fewer generations"
        )


def publish(index_dir: Path, folder: Path, manifest: Manifest) -> None:
    """Write a generation's manifest, and make the generation live. Raises IndexUnwritable if files are unreadable."""
    (folder / MANIFEST).write_bytes(manifest.to_bytes())
    flush(folder, manifest)
    try:
        Generation(folder).close()
    except IndexCorrupt as error:
        raise IndexUnwritable(f"the new generation cannot be read back; check the disk: {error}") from error
    install(index_dir, folder)


def flush(folder: Path, manifest: Manifest) -> None:
    """Flush the files and folders of a generation to the disk. Raises OSError if it fails."""
    paths = [folder / name for name in (*manifest.files, MANIFEST)]
    for path in (*paths, *sorted({path.parent for path in paths}, reverse=True)):
        sync(path)


def install(index_dir: Path, folder: Path) -> None:
    """Move a checked and flushed generation to `generations/`, and make it live. Raises OSError if it fails.

    If the index was rolled back before, also remove the newer generations that the rollback abandoned.
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
    """Write the id of a generation to `CURRENT`, atomically. Raises OSError if it fails."""
    new = index_dir / f"{CURRENT}.new"
    new.write_bytes(f"{generation_id}\n".encode())
    sync(new)
    os.replace(new, index_dir / CURRENT)
    sync(index_dir)


def roll_back(index_dir: Path, generation_id: str) -> None:
    """Verify another generation, and make it live. Raises IndexMissing, IndexCorrupt, BuildLocked, IndexUnwritable."""
    folder = manifests.generation_folder(index_dir, generation_id)
    with disk_errors(index_dir), writer_lock(index_dir):
        if problems := problems_of(verify(folder)):
            raise IndexCorrupt(problems[0])
        make_live(index_dir, generation_id)


@contextmanager
def disk_errors(index_dir: Path) -> Iterator[None]:
    """Raise IndexUnwritable if the block raises an error of the disk or of SQLite."""
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
    """Remove old generations, so that the live generation and the newest others remain, `keep` in total."""
    live = live_id(index_dir)
    old_ids = [name for name in generation_ids(index_dir) if name != live]
    for name in old_ids[keep - 1 :]:
        remove(index_dir, name)


def remove(index_dir: Path, name: str) -> None:
    """Remove a generation. First move it out of `generations/`, so that readers never open an incomplete generation."""
    moved = index_dir / BUILDING / _new_id(index_dir)
    os.rename(index_dir / GENERATIONS / name, moved)
    shutil.rmtree(moved)


def _new_id(index_dir: Path) -> str:
    """Return an id greater than all others in an index: the UTC time, or the newest id plus one if that is greater."""
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
    """Flush a file, or the directory entries of a folder, to the disk. Raises OSError if it fails."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Check(NamedTuple):
    """The result of one check of a generation."""

    name: str
    ok: bool
    detail: str


def verify(folder: Path) -> list[Check]:
    """Check a generation's files, and open them if all checksums match. Raises IndexUnreadable if a read fails."""
    try:
        manifest = manifests.read_manifest(folder)
    except IndexCorrupt as error:
        return [Check("manifest", False, str(error))]
    facts = f"schema version {manifest.schema_version}, {len(manifest.files)} files"
    checks = [Check("manifest", True, facts)]
    for name, record in manifest.files.items():
        try:
            manifests.check_files(folder, replace(manifest, files={name: record}))
            checks.append(Check(f"file {name}", True, f"{record.size:,} bytes, SHA-256 {record.sha256[:12]}…"))
        except IndexCorrupt as error:
            checks.append(Check(f"file {name}", False, str(error)))
    named_files = {folder / name for name in (MANIFEST, *manifest.files)}
    foreign_files = sorted(path for path in folder.rglob("*") if not path.is_dir() and path not in named_files)
    finding = str(manifests.corrupt(foreign_files[0], "is not part of the generation")) if foreign_files else "none"
    checks.append(Check("other files", not foreign_files, finding))
    if not problems_of(checks):
        try:
            with closing(Generation(folder, are_checked=True)) as generation:
                counts = generation.manifest.counts
            facts = f"{counted(counts.documents, 'document')} and {counted(counts.chunks, 'chunk')} in every file"
            checks.append(Check("counts", True, facts))
        except IndexCorrupt as error:
            checks.append(Check("counts", False, str(error)))
    return checks


def problems_of(checks: list[Check]) -> list[str]:
    """Return the details of the checks that have failed."""
    return [check.detail for check in checks if not check.ok]


class SelfCheck:
    """Checks the files of a generation in use. The files stay open, so they can be checked after they are deleted."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        """Open all files that can be read."""
        self._folder = folder
        self._manifest = manifest
        self._files: dict[str, int] = {}
        for name in manifest.files:
            with suppress(OSError):
                self._files[name] = os.open(folder / name, os.O_RDONLY)
        weakref.finalize(self, lambda files: list(map(os.close, files)), tuple(self._files.values()))

    def sizes(self) -> None:
        """Compare the size of every file with the manifest. Raises IndexCorrupt if one differs."""
        for name, file in self._files.items():
            size, expected = os.fstat(file).st_size, self._manifest.files[name].size
            if size != expected:
                raise manifests.corrupt(self._folder / name, f"has {size:,} bytes instead of {expected:,}")

    def contents(self) -> None:
        """Compare every file with its checksum in the manifest. Raises IndexCorrupt if one differs."""
        for name, file in self._files.items():
            if manifests.record_file(Path(f"/proc/self/fd/{file}")) != self._manifest.files[name]:
                raise manifests.corrupt(self._folder / name, "differs from its checksum")


def list_collections(index_dir: Path) -> dict[str, Path]:
    """Return the folders of the published collections by name. The default collection is first."""
    folder, names = index_dir / manifests.COLLECTIONS, list[str]()
    with suppress(FileNotFoundError, NotADirectoryError):
        names = sorted(filter(manifests.is_collection_name, os.listdir(folder)))
    folders = {name: manifests.collection_dir(index_dir, name) for name in (manifests.DEFAULT, *names)}
    return {name: folder for name, folder in folders.items() if os.path.lexists(folder / CURRENT)}


def drop_collection(index_dir: Path, name: str) -> None:
    """Remove a named collection. Raises ConfigError for the default collection, IndexMissing or BuildLocked."""
    folder = manifests.collection_dir(index_dir, name)
    if name == manifests.DEFAULT:
        raise ConfigError(f"the default collection cannot be dropped: it is the index itself; delete {index_dir}")
    if not folder.is_dir():
        raise IndexMissing(f"there is no collection {name!r} in {index_dir}")
    with writer_lock(folder):
        (folder / CURRENT).unlink(missing_ok=True)  # first, so that no reader opens an incomplete collection
        shutil.rmtree(folder)


def generation_ids(index_dir: Path) -> list[str]:
    """Return the ids of the published generations, newest first."""
    folder = index_dir / GENERATIONS
    names = os.listdir(folder) if folder.is_dir() else []
    return sorted(filter(manifests.is_generation_id, names), reverse=True)


def live_id(index_dir: Path) -> str | None:
    """Return the id of the live generation, or None if there is none or if the index is damaged."""
    try:
        return manifests.current_id(index_dir)
    except (IndexMissing, IndexCorrupt):
        return None


def size_of(manifest: Manifest) -> int:
    """Return the total size of the files of a generation in bytes."""
    return sum(record.size for record in manifest.files.values())


class Published(NamedTuple):
    """A published generation, as its manifest describes it."""

    id: str
    live: bool
    created_at: str | None  # ISO 8601, UTC; like the counts, None if the manifest is unreadable
    documents: int | None
    chunks: int | None
    bytes: int | None
    problem: str


def list_generations(index_dir: Path) -> list[Published]:
    """Describe the published generations of a collection, newest first. Does not check their files."""
    live, generations = live_id(index_dir), list[Published]()
    for name in generation_ids(index_dir):
        try:
            manifest = manifests.read_manifest(index_dir / GENERATIONS / name)
        except IndexerError as error:
            generations.append(Published(name, name == live, None, None, None, None, str(error)))
            continue
        documents, chunks, size = manifest.counts.documents, manifest.counts.chunks, size_of(manifest)
        generations.append(Published(name, name == live, manifest.created_at, documents, chunks, size, ""))
    return generations
