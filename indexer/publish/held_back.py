"""The generation that was built but held back: complete and on the disk, named by a file, and not live."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from indexer.errors import IndexCorrupt, IndexMissing, IndexUnreadable
from indexer.generation.current import current_id
from indexer.generation.layout import GENERATIONS, HELD_BACK
from indexer.generation.manifest import is_generation_id


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Which generation, and why."""

    generation: str
    reason: str
    figures: dict[str, Any] = field(default_factory=dict)  # by which it was judged, JSON-ready

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON-ready form."""
        return asdict(self)


# Given the folders of the live generation and of a complete new one, why the new one is not to be live; None if it may.
Judge = Callable[[Path, Path], HeldBack | None]


def held_back(index_dir: Path) -> HeldBack | None:
    """Return what is held back in an index: two small reads. None where nothing newer than the live one is.

    The file may have outlived it: whoever was killed while it went live, or was removed, had no time for that.
    """
    try:
        told = json.loads((index_dir / HELD_BACK).read_text(encoding="utf-8"))
        found = HeldBack(str(told["generation"]), str(told["reason"]), dict(told["figures"]))
    except (OSError, ValueError, KeyError, TypeError):  # written in one step, so it is missing or somebody else's
        return None
    try:
        live = current_id(index_dir)
    except (IndexMissing, IndexCorrupt, IndexUnreadable):
        live = ""
    name = found.generation
    return found if is_generation_id(name) and name > live and (index_dir / GENERATIONS / name).is_dir() else None
