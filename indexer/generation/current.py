"""Which generation of an index is live, and where it is: two small reads, without what opens its files."""

import os
from pathlib import Path

from indexer.errors import IndexMissing
from indexer.generation.layout import CURRENT, GENERATIONS
from indexer.generation.manifest import corrupt, is_generation_id, unreadable

_LONGEST = 100  # bytes of CURRENT that are looked at


def current_id(index_dir: Path) -> str:
    """Return the id of the live generation: one small read, cheap enough to do before every query.

    Raises:
        IndexMissing: nothing has been published there.
        IndexCorrupt: `CURRENT` does not name a generation.
        IndexUnreadable: it temporarily cannot be read.
    """
    path = os.path.join(index_dir, CURRENT)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            raw = os.read(handle, _LONGEST)
        finally:
            os.close(handle)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise IndexMissing(
            f"there is no index in {index_dir}; build one with: pilotlight index SOURCE --index {index_dir}"
        ) from error
    except OSError as error:
        raise unreadable(Path(path), error) from error
    name = raw.decode("ascii", "replace").removesuffix("\n")
    if not is_generation_id(name):
        raise corrupt(Path(path), "does not name a generation")
    return name


def generation_folder(index_dir: Path, generation_id: str) -> Path:
    """Return the folder of a published generation; raises IndexMissing if there is none, even for an invalid id."""
    folder = index_dir / GENERATIONS / generation_id
    if not is_generation_id(generation_id) or not folder.is_dir():
        raise IndexMissing(f"there is no generation {generation_id!r} in {index_dir}")
    return folder
