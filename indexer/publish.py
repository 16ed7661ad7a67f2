"""A generation's way into the index, and out again.

At every moment, also after a crash or a power cut, `CURRENT` is missing or names a complete generation: everything
is written and flushed under `building/`, checked, moved, and only then named.
"""

import os
import secrets
import shutil
from datetime import UTC, datetime
from pathlib import Path

from indexer.errors import IndexCorrupt, IndexMissing, IndexUnwritable
from indexer.generation import Generation, current_id
from indexer.layout import BUILDING, CURRENT, GENERATIONS, LOCK
from indexer.manifest import MANIFEST, Manifest, is_generation_id

_OURS = frozenset({BUILDING, CURRENT, f"{CURRENT}.new", GENERATIONS, LOCK})


def prepare(index_dir: Path) -> None:
    """Make the index folder, unless there is one.

    Raises:
        IndexUnwritable: the path is not a folder, or a folder with something else in it.
        OSError: it cannot be made.
    """
    if index_dir.exists() and not index_dir.is_dir():
        raise IndexUnwritable(f"{index_dir} is a file; name a folder for the index")
    index_dir.mkdir(parents=True, exist_ok=True)
    strangers = sorted({entry.name for entry in index_dir.iterdir()} - _OURS)
    if strangers and not (index_dir / LOCK).exists():
        raise IndexUnwritable(
            f"{index_dir} is not an index and not empty (it has {strangers[0]!r}); name an empty or new folder"
        )


def start(index_dir: Path) -> Path:
    """Remove what killed builds left behind, and make the folder of a new generation.

    The caller holds the writer lock.
    """
    building = index_dir / BUILDING
    building.mkdir(exist_ok=True)
    (index_dir / GENERATIONS).mkdir(exist_ok=True)
    for leftover in building.iterdir():
        if is_generation_id(leftover.name):
            shutil.rmtree(leftover)
    folder = building / _new_id()
    folder.mkdir()
    return folder


def publish(index_dir: Path, folder: Path, manifest: Manifest) -> None:
    """Make a finished generation the live one.

    Args:
        index_dir: the index.
        folder: as `start` gave it, with every file of the manifest written.
        manifest: written here.

    Raises:
        IndexUnwritable: what is on disk is not what was written.
        OSError: the disk is full or failing; the live generation is as it was.
    """
    for name in manifest.files:
        _sync(folder / name)
    _write(folder / MANIFEST, manifest.to_bytes())
    _sync(folder)
    try:
        Generation(folder).close()
    except IndexCorrupt as error:
        raise IndexUnwritable(f"what was written does not read back, is the disk full or failing? {error}") from error
    target = index_dir / GENERATIONS / manifest.id
    os.rename(folder, target)
    _sync(index_dir / GENERATIONS)
    _sync(index_dir / BUILDING)
    new = index_dir / f"{CURRENT}.new"
    _write(new, f"{manifest.id}\n".encode())
    os.replace(new, index_dir / CURRENT)
    _sync(index_dir)


def remove_old(index_dir: Path, keep: int) -> None:
    """Remove all but the newest generations; the live one is always kept.

    A generation leaves `generations/` whole before its files go, so that none is ever seen half there.
    """
    live = _live(index_dir)
    others = sorted(
        (entry.name for entry in (index_dir / GENERATIONS).iterdir() if is_generation_id(entry.name)),
        reverse=True,
    )
    others = [name for name in others if name != live]
    for name in others[keep - 1 :]:
        leaving = index_dir / BUILDING / name
        os.rename(index_dir / GENERATIONS / name, leaving)
        shutil.rmtree(leaving)


def _live(index_dir: Path) -> str | None:
    try:
        return current_id(index_dir)
    except (IndexMissing, IndexCorrupt):
        return None


def _new_id() -> str:
    """Time to the microsecond, so that ids sort by time: seconds in plain, the rest and a random digit in hex."""
    now = datetime.now(UTC)
    return f"{now:%Y%m%dT%H%M%S}-{now.microsecond:05x}{secrets.randbelow(16):x}"


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
