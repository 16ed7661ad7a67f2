"""The segments of one or more Tantivy folders, searched as one index.

What Tantivy calls an index is a list of segments in `meta.json`; whatever BM25 needs (passages, passages with a term,
words of all) it adds up over them. So the folders of several generations are one index to it if one list names the
segments of all: scores are exactly those of a single index over the same passages.
"""

import json
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tantivy
from tantivy import Query

from indexer.errors import PartsDiffer
from indexer.generation.manifest import corrupt
from indexer.generation.temporary_links import links_to
from indexer.rowset import ScoredRows

_META = "meta.json"


class Segments:
    """Opened folders; rows count on from one to the next. Concurrent searches are safe and do not hold the GIL."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """Open them; they are only read, and may be deleted afterwards.

        Raises:
            IndexCorrupt: one is not readable.
            PartsDiffer: they are of different programs, or one is there twice.
            IndexUnwritable: there is no room for a temporary folder.
        """
        self._folders = folders
        metas = [_read_meta(folder) for folder in folders] if len(folders) > 1 else []
        joint = json.dumps(_joined(folders, metas)).encode() if metas else None
        with links_to(*folders, instead={_META: joint} if joint else {}) as links:  # Tantivy makes a lock file there
            try:
                index = tantivy.Index.open(str(links))
                index.config_reader("manual")  # no thread that looks for changes
                index.reload()
                searcher = index.searcher()
            except (ValueError, OSError) as error:
                raise corrupt(folders[0], "is not a readable lexical index") from error
        self._searcher = searcher
        self.schema = index.schema
        self.count: int = searcher.num_docs
        """Rows of all folders."""
        sizes = [sum(segment["max_doc"] for segment in meta["segments"]) for meta in metas]
        self.starts: list[int] = [0, *accumulate(sizes)][: len(folders)]
        """First row of each folder."""
        self._of_segments = np.repeat(  # first row of the folder of each segment
            np.array(self.starts, np.int64), [len(meta["segments"]) for meta in metas] or [0]
        )

    def frequency(self, field: str, term: str | int) -> int:
        """Return how many chunks have a term."""
        return int(self._searcher.doc_freq(field, term))

    def find(self, query: Query, limit: int) -> ScoredRows:
        """Return scores float32 (n,), best first, and rows int64 (n,), n at most `limit`. Raises IndexCorrupt."""
        hits = self._searcher.search(query, max(1, min(limit, self.count)), count=False).hits
        addresses = [address for _, address in hits]
        rows = np.array(self._searcher.fast_field_values("row", addresses), dtype=np.int64)
        if len(self._folders) > 1:
            segments = np.fromiter((address.segment_ord for address in addresses), np.int64, len(addresses))
            rows += self._of_segments[segments]
        if rows.max(initial=0) >= max(1, self.count):
            raise corrupt(self._folders[0], f"has a row {rows.max()}, but only {self.count:,} chunks")
        return np.fromiter((score for score, _ in hits), np.float32, len(hits)), rows

    def find_among(self, query: Query, rows: npt.NDArray[np.int64]) -> ScoredRows:
        """Return scores and rows, as `find` does, of those of these rows that match a query."""
        numbers = sorted({self._within_folder(row) for row in rows.tolist()})
        tests = [(tantivy.Occur.Should, Query.term_query(self.schema, "row", row, "basic")) for row in numbers]
        among = Query.const_score_query(Query.boolean_query(tests), 0.0)
        both = Query.boolean_query([(tantivy.Occur.Must, among), (tantivy.Occur.Must, query)])
        scores, found = self.find(both, len(numbers) * len(self._folders))
        if len(self._folders) == 1:
            return scores, found
        wanted = np.isin(found, rows)  # a row of another folder may have the same number there
        return scores[wanted], found[wanted]

    def _within_folder(self, row: int) -> int:
        return row - self.starts[bisect_right(self.starts, row) - 1]


def _joined(folders: Sequence[Path], metas: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The list of the segments of all folders. Raises PartsDiffer."""
    first, seen = metas[0], set[str]()
    for folder, meta in zip(folders, metas, strict=True):
        if meta["schema"] != first["schema"]:
            raise PartsDiffer(
                f"{folder} was written by another version than {folders[0]}, and cannot be searched together with it: "
                "build the older one again"
            )
        ids = {segment["segment_id"] for segment in meta["segments"]}
        if ids & seen:
            raise PartsDiffer(f"{folder} is there twice, or a copy of another part: name each part once")
        seen |= ids
    return first | {"segments": [segment for meta in metas for segment in meta["segments"]]}


def _read_meta(folder: Path) -> dict[str, Any]:
    try:
        meta = json.loads((folder / _META).read_text(encoding="utf-8"))
        if all(isinstance(segment["max_doc"], int) and segment["segment_id"] for segment in meta["segments"]):
            return dict(meta) | {"schema": meta["schema"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise corrupt(folder, "is not a readable lexical index") from error
    raise corrupt(folder, "is not a readable lexical index")
