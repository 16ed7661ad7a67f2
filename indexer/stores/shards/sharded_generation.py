"""Generations of several index folders, open for searching as one.

Rows, and numbers of documents, count on from one part to the next. Words are searched in the segments of all parts at
once, so BM25 is that of one index. Vectors are searched part by part, at the same time where that pays.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from indexer.filter import Filter
from indexer.generation.catalogue import DocumentFacts
from indexer.generation.document_database import StoredChunk
from indexer.generation.generation import FILTERS, MANY_CHUNKS, Generation
from indexer.generation.lexical.headings import Heading
from indexer.generation.lexical.lexical_index import LexicalReader
from indexer.generation.lexical.lexical_query import LexicalQuery
from indexer.generation.lexical.synonyms import NO_SYNONYMS, Synonyms
from indexer.generation.manifest import LEXICAL, Manifest
from indexer.generation.repetition import Shares
from indexer.generation.tokens import TokenSource
from indexer.rowset import JointRowSet, RowSet, ScoredRows
from indexer.stores.described import Described
from indexer.stores.shards.joint_manifest import joint_manifest
from indexer.stores.shards.joint_tokens import JointTokens
from indexer.stores.shards.numbering import Numbering

LARGE_PART = 50_000  # chunks, from which searching a part by meaning takes longer than handing it to a thread
Rows = npt.NDArray[np.int64]
Value = TypeVar("Value")


class ShardedGeneration(Described):
    """Generations as one `Searchable`; safe to share between threads. Open it after forking, not before."""

    def __init__(self, parts: Sequence[Generation]) -> None:
        """Take open generations, which may be in use elsewhere too.

        Raises:
            PartsDiffer: they cannot be searched as one; the message names what differs.
            IndexCorrupt, IndexUnwritable: the words of one cannot be read, or there is no room for a temporary folder.
        """
        self.parts = tuple(parts)
        self.manifest: Manifest = joint_manifest({str(part.folder): part.manifest for part in parts})
        self._rows = Numbering([part.chunk_count for part in parts])
        self._documents = Numbering([part.document_count for part in parts])
        folders = [part.folder / LEXICAL for part in parts]
        self._lexical = LexicalReader(folders, self.manifest.languages, self.manifest.analysis)
        self.select = lru_cache(FILTERS)(partial(_select, self.parts))
        readers = [part.tokens for part in parts if part.tokens is not None]
        self.tokens: TokenSource | None = JointTokens(self._rows, readers) if len(readers) == len(parts) else None
        """The tokens of the chunks, or None where they are not kept by all."""
        has_cores = len(os.sched_getaffinity(0)) > 1
        at_once = has_cores and len(parts) > 1 and max(self._rows.totals) >= LARGE_PART
        self._pool = ThreadPoolExecutor(len(parts) - 1, thread_name_prefix="shards") if at_once else None

    @property
    def words_take_long(self) -> bool:
        """Whether `search_words` takes longer than handing it to another thread."""
        return self.chunk_count >= MANY_CHUNKS

    def search(self, vector: npt.NDArray[np.float32], k: int, allowed: JointRowSet | None = None) -> ScoredRows:
        """Find the k chunks nearest to a vector; see `Generation.search`."""

        def search_part(place: int) -> ScoredRows:
            scores, rows = self.parts[place].search(vector, k, allowed.parts[place] if allowed else None)
            return scores, rows + self._rows.firsts[place]

        places = range(len(self.parts))
        others = [self._pool.submit(search_part, place) for place in places[1:]] if self._pool else []
        found = [search_part(place) for place in (places[:1] if others else places)]
        found += [other.result() for other in others]
        scores, rows = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        best = np.lexsort((rows, -scores))[:k]
        return scores[best], rows[best]

    def read_query(
        self,
        query: str,
        synonyms: Synonyms = NO_SYNONYMS,
        is_word: Callable[[str], bool] | None = None,
        only: Filter | None = None,
        seen: Filter | None = None,
    ) -> LexicalQuery:
        """Read a query, as a user types it, for `search_words`; see `Generation.read_query`."""
        counted = None if seen is None else self._lexical.statistics(seen, self.select(seen))
        return self._lexical.read(query, synonyms, is_word, only, counted)

    def suggest(self, typed: str, most: int, only: Filter | None = None) -> list[Heading]:
        """Return the titles and headings that go on as somebody types, of documents that a filter allows.

        See `LexicalReader.suggest`.
        """
        return self._lexical.suggest(typed, most, self.select(only) if only else None)

    def within(self, query: LexicalQuery, allowed: JointRowSet | None = None) -> JointRowSet:
        """Return the rows, of those that `select` gave, which a query with required or excluded parts allows."""
        found: RowSet = self._lexical.within(query.required, query.excluded)
        return JointRowSet.split(found if allowed is None else found & allowed, self._rows.totals)

    def search_words(self, query: LexicalQuery, k: int, only: Filter | None = None) -> ScoredRows:
        """Find the k chunks that match the words of a query best; see `LexicalReader.search`."""
        return self._lexical.search(query, k, only, self.select(only) if only else None)

    def idf_sum(self, query: LexicalQuery) -> float:
        """Return the sum of the inverse document frequencies of a query's words; see `LexicalReader.idf_sum`."""
        return self._lexical.idf_sum(query)

    def vectors(self, rows: Rows) -> npt.NDArray[np.float32]:
        """Return stored vectors by row, float32 (n, dim)."""
        found = np.empty((len(rows), self.dimension), np.float32)
        for part, places, own in self._by_part(rows):
            found[places] = part.vectors(own)
        return found

    def rows_of(self, rows: Rows) -> npt.NDArray[np.void]:
        """Return document and signature by row, an array (n,) of `rows.DTYPE`."""
        found = np.empty(len(rows), self.parts[0].rows.dtype)
        for place, chosen, own in self._rows.split(rows):
            found[chosen] = self.parts[place].rows_of(own)
            found["document"][chosen] += np.uint32(self._documents.firsts[place])
        return found

    def matches(self, rows: Rows, only: Filter) -> npt.NDArray[np.bool_]:
        """Return whether each of these rows is of a document that a filter allows, bool (n,)."""
        return self.select(only).contains(rows)

    def dates(self, rows: Rows) -> list[str | None]:
        """Return the date of the document of each of these rows, YYYY-MM-DD or None."""
        return self._in_order(rows, Generation.dates)

    def repetition(self, rows: Rows) -> Shares:
        """Return the repeated shares of texts by row, uint8 (n,); 0 if unknown."""
        found = np.zeros(len(rows), np.uint8)
        for part, places, own in self._by_part(rows):
            found[places] = part.repetition(own)
        return found

    def chunks(self, rows: Rows) -> list[StoredChunk]:
        """Return chunks by row, in the order of `rows`. Raises IndexCorrupt."""
        return self._in_order(rows, Generation.chunks)

    def section(self, row: int) -> str:
        """Return the text of the section of a chunk; see `Generation.section`."""
        [(part, _, own)] = self._by_part(np.array([row]))
        return part.section(int(own[0]))

    def facts(self, numbers: Sequence[int]) -> list[DocumentFacts]:
        """Return the facts of documents by number, in no particular order. Raises IndexCorrupt."""
        split = self._documents.split(np.asarray(numbers, np.int64))
        return list(chain.from_iterable(self.parts[place].facts(own.tolist()) for place, _, own in split))

    def facts_by_id(self, id: str) -> DocumentFacts | None:
        """Return the facts of the document with an id, or None. Raises IndexCorrupt."""
        return next(filter(None, (part.facts_by_id(id) for part in self.parts)), None)

    def allows(self, id: str, only: Filter) -> bool:
        """Return whether there is a document with an id that a filter allows. Raises IndexCorrupt."""
        return sum(part.allows(id, only) for part in self.parts) > 0  # asks all: it takes as long for one not there

    def document(self, id: str) -> dict[str, Any] | None:
        """Return the document with an id and its passages, JSON-ready, or None. Raises IndexCorrupt."""
        found = next(filter(None, (part.document(id) for part in self.parts)), None)
        return found and found | {"generation": self.id}

    def documents(self) -> Iterator[dict[str, Any]]:
        """Yield every document as `document` returns it. Raises IndexCorrupt."""
        return (found | {"generation": self.id} for part in self.parts for found in part.documents())

    def close(self) -> None:
        """Let go of the parts; each is closed when nobody has it any more."""
        self.parts = ()
        if self._pool:
            self._pool.shutdown(wait=False)

    def _by_part(self, rows: Rows) -> Iterator[tuple[Generation, npt.NDArray[np.bool_], Rows]]:
        return ((self.parts[place], chosen, own) for place, chosen, own in self._rows.split(rows))

    def _in_order(self, rows: Rows, read: Callable[[Generation, Rows], list[Value]]) -> list[Value]:
        found: dict[int, Value] = {}
        for part, chosen, own in self._by_part(rows):
            found.update(zip(np.flatnonzero(chosen).tolist(), read(part, own), strict=True))
        return [found[place] for place in range(len(rows))]


def _select(parts: Sequence[Generation], only: Filter) -> JointRowSet:
    return JointRowSet([part.select(only) for part in parts])
