"""Search the generations of several collections as one index."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt

from indexer.filter import Filter, parts_of
from indexer.generation.documents import DocumentEntry, DocumentFacts, SectionText, StoredChunk
from indexer.generation.generation import MANY_CHUNKS, MAX_CACHED_FILTERS, Generation, Rows, Scores
from indexer.generation.lexical.lexical_index import JointReader
from indexer.generation.lexical.lexical_query import LexicalQuery
from indexer.generation.manifest import RESTRICTED_VERSION
from indexer.generation.rows import RowFacts, RowSet, ScoredRows, TokenReader
from indexer.generation.versions import Edition


class JointGeneration(Generation):
    """Generations of one embedder, searched as one; rows and documents are numbered across all.

    Word statistics are those of all passages together. A filter may be an `EachFilter`.
    """

    def __init__(self, generations: Mapping[str, Generation]) -> None:
        """Join generations, by the names of their collections. Raises as `LexicalReader` does."""
        self.names, self._members = list(generations), list(generations.values())
        counts = [each.manifest.counts for each in self._members]
        self._starts = np.cumsum([0, *(each.chunks for each in counts)])
        self._numbers = np.cumsum([0, *(each.documents for each in counts)])
        self.manifest = replace(
            self._members[0].manifest,
            id=",".join(each.manifest.id for each in self._members),
            counts=replace(counts[0], documents=int(self._numbers[-1]), chunks=int(self._starts[-1])),
            report={"languages": [*chain(*(each.manifest.report.get("languages", ()) for each in self._members))]},
            versions=dict(chain(*(each.manifest.versions.items() for each in self._members))),
            schema_version=RESTRICTED_VERSION,  # keeps the readers of an `EachFilter`, which has them only where needed
        )
        self.twins = {
            number + first: frozenset(other + first for other in better)
            for each, first in zip(self._members, self._numbers.tolist(), strict=False)
            for number, better in each.twins.items()
        }
        self.lexical = JointReader([each.lexical for each in self._members])
        # not None if all generations have tokens, which `score_tokens` reads from each generation
        self.tokens = self._members[0].tokens if all(each.tokens for each in self._members) else None
        self.read_query = self.lexical.read
        self.terms_take_long = self.lexical.count >= MANY_CHUNKS
        self.select = lru_cache(MAX_CACHED_FILTERS)(partial(_select, self._members))

    def collections(self, rows: Sequence[int]) -> list[str]:
        """Return the name of the collection of each row."""
        return [self.names[number] for number in np.searchsorted(self._starts, rows, side="right") - 1]

    def search_vectors(
        self, vector: npt.NDArray[np.float32], k: int, only: Filter | None = None, terms: LexicalQuery | None = None
    ) -> ScoredRows:
        """Find the k chunks nearest to a vector."""
        filters = parts_of(only, len(self._members))
        hits = [each.search_vectors(vector, k, f, terms) for each, f in zip(self._members, filters, strict=True)]
        scores = np.concatenate([scores for scores, _ in hits])
        rows = np.concatenate([rows + start for (_, rows), start in zip(hits, self._starts, strict=False)])
        order = np.lexsort((rows, -scores))[:k]
        return scores[order], rows[order]

    def vectors(self, rows: Rows) -> npt.NDArray[np.float32]:
        """Return stored vectors by row."""
        vectors = np.empty((len(rows), self.manifest.counts.dimension), np.float32)
        for number, places, local_rows in _split(self._starts, rows):
            vectors[places] = self._members[number].vectors(local_rows)
        return vectors

    def score_tokens(self, score: Callable[[TokenReader | None, Rows], Scores], rows: Rows) -> Scores:
        """Score passages by their tokens, as `Generation` does."""
        scores = np.empty(len(rows), np.float32)
        for number, places, local_rows in _split(self._starts, rows):
            scores[places] = score(self._members[number].tokens, local_rows)
        return scores

    def row_facts(self, rows: Rows) -> RowFacts:
        """Return the facts of rows."""
        documents, signatures = np.empty(len(rows), np.int64), np.empty(len(rows), np.uint64)
        for number, places, local_rows in _split(self._starts, rows):
            facts = self._members[number].row_facts(local_rows)
            documents[places], signatures[places] = facts.documents + self._numbers[number], facts.signatures
        return RowFacts(documents, signatures)

    def facts(self, numbers: Sequence[int]) -> dict[int, DocumentFacts]:
        """Return the facts of documents by number."""
        by_number: dict[int, DocumentFacts] = {}
        for each, first, local_numbers in self._split_numbers(numbers):
            by_number |= {number + first: facts for number, facts in each.facts(local_numbers).items()}
        return by_number

    def editions(self, numbers: Sequence[int]) -> dict[int, Edition | None]:
        """Return the editions of documents by number. Collections never share a page."""
        editions: dict[int, Edition | None] = {}
        for each, first, local_numbers in self._split_numbers(numbers):
            for number, edition in each.editions(local_numbers).items():
                place, rest = edition.page if edition else ("", "")
                editions[number + first] = edition and edition._replace(page=(f"{first}\n{place}", rest))
        return editions

    def _split_numbers(self, numbers: Sequence[int]) -> Iterator[tuple[Generation, int, list[int]]]:
        """Yield each generation, the number of its first document, and its documents as it numbers them."""
        for each, (first, end) in zip(self._members, pairwise(self._numbers.tolist()), strict=True):
            yield each, first, [number - first for number in numbers if first <= number < end]

    def chunks(self, rows: Sequence[int] | Rows) -> list[StoredChunk]:
        """Return chunks by row."""
        chunks: dict[int, StoredChunk] = {}
        for number, places, local_rows in _split(self._starts, np.asarray(rows)):
            chunks |= zip(places.tolist(), self._members[number].chunks(local_rows), strict=True)
        return [chunks[place] for place in range(len(rows))]

    def entries(self, only: Filter | None = None, id: str | None = None) -> Iterator[DocumentEntry]:
        """Yield the documents that a filter allows, or those with the id, without their passages."""
        filters = parts_of(only, len(self._members))
        for each, member_filter, start in zip(self._members, filters, self._starts.tolist(), strict=False):
            for entry in each.entries(member_filter, id):
                yield DocumentEntry(entry.facts, range(entry.rows.start + start, entry.rows.stop + start))

    def section(self, row: int) -> SectionText:
        """Return the section of a chunk."""
        [(number, _, local_rows)] = _split(self._starts, np.array([row]))
        return self._members[number].section(int(local_rows[0]))


def _split(starts: Rows, rows: Rows) -> Iterator[tuple[int, npt.NDArray[np.intp], Rows]]:
    """Yield the number of each generation, the indices of its rows in `rows`, and these rows as it numbers them."""
    numbers = np.searchsorted(starts, rows, side="right") - 1
    for number in np.unique(numbers).tolist():
        places = np.flatnonzero(numbers == number)
        yield number, places, rows[places] - starts[number]


def _select(members: Sequence[Generation], only: Filter) -> RowSet:
    """Return the rows that a filter allows."""
    masks = []
    for each, member_filter in zip(members, parts_of(only, len(members)), strict=True):
        count = each.manifest.counts.chunks
        mask = each.select(member_filter).mask if member_filter else np.full(count + 7 >> 3, 255, np.uint8)
        masks.append(np.unpackbits(mask, count=count, bitorder="little"))
    return RowSet(np.concatenate(masks).astype(np.bool_))
