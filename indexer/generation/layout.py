"""Names inside an index folder, and which generation of it is live.

CURRENT              id of the live generation and a line end
generations/<id>/    published generations, never changed
building/<id>/       a generation on its way in, or an old one on its way out
repositories/<hash>/ copies of remote Git repositories that are sources
lock                 held by the one process that may write
keys.json            who may use a server
jobs/<id>/           builds that a server was asked for
pushed/              documents that were sent to a server, as they came
insights/            what people have asked a server, where that is kept
collections/<name>/  a named collection: a folder of the same shape, without collections of its own
"""

import re
from pathlib import Path

from indexer.errors import ConfigError, IndexMissing
from indexer.generation.manifest import corrupt, is_generation_id, unreadable

CURRENT = "CURRENT"
GENERATIONS = "generations"
BUILDING = "building"
LOCK = "lock"
COLLECTIONS = "collections"
REPOSITORIES = "repositories"
KEYS = "keys.json"
JOBS = "jobs"
PUSHED = "pushed"
INSIGHTS = "insights"
DEFAULT = "default"  # the collection that is the index folder itself
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


def is_collection_name(name: str) -> bool:
    """Return whether a collection may have this name; it is then safe as the name of a folder."""
    return _NAME.fullmatch(name) is not None


def collection_dir(index_dir: Path, name: str) -> Path:
    """Return the folder of a collection, whether or not it is there; raises ConfigError if none can have this name."""
    if not is_collection_name(name):
        raise ConfigError(
            f"a collection cannot be called {name[:80]!r}: 1 to 64 lower-case letters, digits, - and _ are allowed, "
            "and a letter or digit comes first"
        )
    return index_dir if name == DEFAULT else index_dir / COLLECTIONS / name


def current_id(index_dir: Path) -> str:
    """Return the id of the live generation: one small read, cheap enough to do before every query.

    Raises IndexMissing where nothing has been published, IndexCorrupt or IndexUnreadable.
    """
    path = index_dir / CURRENT
    try:
        with path.open("rb", buffering=0) as file:
            raw = file.read(100)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise IndexMissing(
            f"there is no index in {index_dir}; build one with: pilotlight index SOURCE --index {index_dir}"
        ) from error
    except OSError as error:
        raise unreadable(path, error) from error
    name = raw.decode("ascii", "replace").removesuffix("\n")
    if not is_generation_id(name):
        raise corrupt(path, "does not name a generation")
    return name


def generation_folder(index_dir: Path, generation_id: str) -> Path:
    """Return the folder of a published generation; raises IndexMissing if there is none, even for an invalid id."""
    folder = index_dir / GENERATIONS / generation_id
    if not is_generation_id(generation_id) or not folder.is_dir():
        raise IndexMissing(f"there is no generation {generation_id!r} in {index_dir}")
    return folder
