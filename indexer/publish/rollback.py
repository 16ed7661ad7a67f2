"""Going back to a generation that was live before."""

from pathlib import Path

from indexer.errors import IndexCorrupt, IndexMissing
from indexer.generation.layout import GENERATIONS
from indexer.publish.collections import generation_ids, live_id, older_ids
from indexer.publish.lock import writer_lock
from indexer.publish.publish import disk_errors, make_live
from indexer.publish.verification import problems_of, verify


def roll_back(index_dir: Path, generation_id: str | None = None) -> str:
    """Make another generation the live one, after it has been verified; return its id. Takes the writer lock itself.

    Args:
        index_dir: the index.
        generation_id: which; unless it is given, the newest that is older than the live one.

    Raises:
        IndexMissing: there is no such generation, or no older one.
        IndexCorrupt: it is not as it was published; the live one stays.
        BuildLocked: another process is writing the index.
        IndexUnwritable: the folder cannot be written.
    """
    if not index_dir.is_dir():
        raise IndexMissing(f"there is no index in {index_dir}")
    with disk_errors(index_dir), writer_lock(index_dir):
        there = generation_ids(index_dir)
        if generation_id is None:
            older = older_ids(index_dir)
            if not older:
                live = live_id(index_dir) or "none"
                raise IndexMissing(f"{index_dir} has no generation older than the live one ({live})")
            generation_id = older[0]
        elif generation_id not in there:
            raise IndexMissing(
                f"there is no generation {generation_id!r} in {index_dir}; there are: {', '.join(there) or 'none'}"
            )
        problems = problems_of(verify(index_dir / GENERATIONS / generation_id))
        if problems:
            raise IndexCorrupt(problems[0])
        make_live(index_dir, generation_id)
        return generation_id
