"""The sources that a collection was made from, each with what it gave."""

import sqlite3
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from indexer.generation.current import current_id
from indexer.generation.document_database import open_read_only
from indexer.generation.layout import GENERATIONS
from indexer.generation.manifest import DOCUMENTS, corrupt, read_manifest
from indexer.publish.source_settings import own_of
from indexer.sources.names import address_kind
from indexer.sources.pushed_store import SOURCE as PUSHED

Kind = Literal["site", "repository", "bucket", "folder", "file", "pushed", "missing"]

# Last-Modified is written in many ways, so the newest is told by the day that was read from it, if any.
_BY_SOURCE = """
SELECT source, count(*), coalesce(sum(chunks), 0), max(fetched_at), max(date) FROM documents GROUP BY source
"""


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """One source of the live generation."""

    source: str
    kind: Kind  # a path that is not there any more is "missing"
    own: dict[str, str]  # settings that are kept with it, by name
    documents: int
    chunks: int
    fetched_at: str | None  # ISO 8601, UTC: when the newest of its documents was read
    modified: str | None  # YYYY-MM-DD: the latest day on which one of them was last changed, as far as they say

    def as_dict(self) -> dict[str, object]:
        """Return the JSON-ready form."""
        return asdict(self)


def read_sources(index_dir: Path) -> tuple[str, list[SourceFacts]]:
    """Return the id of the live generation and its sources, in the order they were given.

    Raises IndexMissing, or IndexCorrupt if the manifest or the documents cannot be read.
    """
    generation = current_id(index_dir)
    folder = index_dir / GENERATIONS / generation
    manifest, path = read_manifest(folder), folder / DOCUMENTS
    try:
        with closing(open_read_only(path)) as database:
            found = {row[0]: row[1:] for row in database.execute(_BY_SOURCE)}
    except sqlite3.Error as error:
        raise corrupt(path, f"cannot be read ({error})") from error
    names = dict.fromkeys([*manifest.sources, *found])
    nothing = (0, 0, None, None)
    facts = [SourceFacts(name, kind_of(name), own_of(manifest, name), *found.get(name, nothing)) for name in names]
    return generation, facts


def kind_of(source: str) -> Kind:
    """Return the kind of a source, by its name and by what lies there now."""
    if source == PUSHED:
        return "pushed"
    if (kind := address_kind(source)) is not None:
        return kind
    path = Path(source)
    return "folder" if path.is_dir() else "file" if path.is_file() else "missing"
