"""The segments of one or more Tantivy folders, searched as one index.

What Tantivy calls an index is a list of segments in `meta.json`; whatever BM25 needs (passages, passages with a term,
words of all) it adds up over them. So the folders of several generations are one index to it if one list names the
segments of all: scores are exactly those of a single index over the same passages.

What it takes for the average length of a passage is changed by one more segment, of Tantivy's own making, whose one
passage no query finds. It says of itself how many passages it has, in `meta.json`, and how many terms, in the first
eight bytes of the postings of the first field, which is the one that is scored.
"""

import json
import struct
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import tantivy
from tantivy import Query

from indexer.errors import IndexUnwritable, PartsDiffer
from indexer.generation.manifest import corrupt
from indexer.generation.temporary_links import links_to, temporary_folder
from indexer.rowset import ScoredRows

_META = "meta.json"
_NOBODYS = "\x01"  # a term that no text has
_HEAP = 15_000_000  # bytes, the least that Tantivy takes
_POSTINGS = ".idx"
_STEPS = 1024  # into which one term is divided: an average is the same number whatever else is indexed
_LARGEST = 1 << 30  # passages


@dataclass(frozen=True)
class AverageSegment:
    """The segment, to be listed behind those of an index."""

    meta: Mapping[str, Any]  # its entry in the list
    files: Mapping[str, bytes]  # by name

    @property
    def size(self) -> int:
        """How many passages it says to have."""
        return int(self.meta["max_doc"])

    @classmethod
    def make(cls, schema: tantivy.Schema, folder: Path) -> Self:
        """Have Tantivy write one for the index in a folder, which has this schema. Raises IndexUnwritable."""
        with temporary_folder(folder) as made:
            try:
                index = tantivy.Index(schema, str(made))
                writer = index.writer(heap_size=_HEAP, num_threads=1)
                entry = tantivy.Document()
                entry.add_text("text", _NOBODYS)
                writer.add_document(entry)
                writer.commit()
                writer.wait_merging_threads()
            except ValueError as error:
                raise IndexUnwritable(f"opening {folder} needs a temporary folder with some room: {error}") from error
            [meta] = json.loads((made / _META).read_text(encoding="utf-8"))["segments"]
            own = meta["segment_id"].replace("-", "")
            files = {path.name: path.read_bytes() for path in made.iterdir() if path.stem == own}
        return cls(meta, files)

    def saying(self, average: float, passages: int, terms: int) -> Self:
        """Return one that makes this the average of an index.

        Args:
            average: terms of a passage, more than 0; rounded to a part in 1,024.
            passages: of the index.
            terms: of the index.
        """
        steps = max(1, round(average * _STEPS))
        size = 1 << max(_STEPS.bit_length(), passages.bit_length() + 1)  # a power of two: dividing by it is exact
        while steps * size < terms * _STEPS and size < _LARGEST:
            size *= 2
        missing = max(0, steps * (size // _STEPS) - terms)
        files = {
            name: struct.pack("<Q", missing) + content[8:] if name.endswith(_POSTINGS) else content
            for name, content in self.files.items()
        }
        return type(self)({**self.meta, "max_doc": size - passages}, files)


class Segments:
    """Opened folders; rows count on from one to the next. Concurrent searches are safe and do not hold the GIL."""

    def __init__(self, folders: Sequence[Path], average: AverageSegment | None = None) -> None:
        """Open them; they are only read, and may be deleted afterwards.

        Args:
            folders: what `LexicalWriter` wrote, at least one.
            average: a further segment, without passages, that says what BM25 takes for the average length.

        Raises:
            IndexCorrupt: one is not readable.
            PartsDiffer: they are of different programs, or one is there twice.
            IndexUnwritable: there is no room for a temporary folder.
        """
        self._folders = folders
        metas = [_read_meta(folder) for folder in folders] if len(folders) > 1 or average else []
        joint = _joined(folders, metas) if metas else None
        files = dict(average.files) if average else {}
        if joint and average:
            joint["segments"].append(average.meta)
        if joint:
            files[_META] = json.dumps(joint).encode()
        with links_to(*folders, instead=files) as links:  # Tantivy makes a lock file there
            try:
                index = tantivy.Index.open(str(links))
                index.config_reader("manual")  # no thread that looks for changes
                index.reload()
                searcher = index.searcher()
            except (ValueError, OSError) as error:
                raise corrupt(folders[0], "is not a readable lexical index") from error
        self._searcher = searcher
        self.schema = index.schema
        self.weighed: int = searcher.num_docs
        """What BM25 takes for the number of rows: with an average segment more than there are."""
        self.count: int = self.weighed - (average.size if average else 0)
        """Rows of all folders."""
        sizes = [sum(segment["max_doc"] for segment in meta["segments"]) for meta in metas]
        self.starts: list[int] = [0, *accumulate(sizes)][: len(folders)]
        """First row of each folder."""
        self._of_segments = np.repeat(  # first row of the folder of each segment
            np.array(self.starts, np.int64), [len(meta["segments"]) for meta in metas] or [0]
        )

    def with_average(self, average: float, terms: int) -> Self:
        """Open the same folders once more, with another average length of a passage.

        Args:
            average: in terms.
            terms: of all passages.

        Raises as opening them does.
        """
        return type(self)(self._folders, self._average_segment.saying(average, self.count, terms))

    @cached_property
    def _average_segment(self) -> AverageSegment:
        return AverageSegment.make(self.schema, self._folders[0])

    @property
    def is_there(self) -> bool:
        """Whether the folders have not been deleted."""
        return all(folder.exists() for folder in self._folders)

    def matching(self, query: Query) -> int:
        """Return how many chunks match a query."""
        return int(self._searcher.search(query, 1, count=True).count)  # type: ignore[attr-defined]  # not in its stubs

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
