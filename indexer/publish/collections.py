"""The collections of an index folder, and the generations of each.

The collection `default` is the index folder itself; a named one is a folder of the same shape inside it.
"""

import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from indexer.errors import ConfigError, IndexCorrupt, IndexMissing, IndexUnreadable
from indexer.generation.current import current_id
from indexer.generation.layout import COLLECTIONS, CURRENT, DEFAULT, GENERATIONS, collection_dir, is_collection_name
from indexer.generation.manifest import Manifest, is_generation_id, read_manifest
from indexer.publish.lock import writer_lock


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

    Raises:
        ConfigError: it is the default one, or no collection can have this name.
        IndexMissing: there is no such collection.
        BuildLocked: another process is writing it.
        OSError: it cannot be removed.
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


def list_generations(index_dir: Path) -> list[Published]:
    """Describe every published generation of one collection, newest first; its files are not checked."""
    live = live_id(index_dir)
    return [_describe(index_dir / GENERATIONS / name, name == live) for name in generation_ids(index_dir)]


def _describe(folder: Path, live: bool) -> Published:
    try:
        manifest = read_manifest(folder)
    except (IndexCorrupt, IndexUnreadable) as error:
        return Published(folder.name, live, None, None, None, None, str(error))
    counts = manifest.counts
    return Published(folder.name, live, manifest.created_at, counts.documents, counts.chunks, size_of(manifest), "")
