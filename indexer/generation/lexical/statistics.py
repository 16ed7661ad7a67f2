"""What BM25 counts: of all passages, or of those alone that somebody may see.

A word's weight follows from how many passages have it, and a passage's length counts in comparison with the average.
For somebody who may see a part, both are of that part: then no score depends on anything else that is indexed.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt
from tantivy import Occur, Query

from indexer.generation.lexical.languages import ENGLISH
from indexer.generation.lexical.method_cache import remembered
from indexer.generation.lexical.segments import Segments
from indexer.rowset import RowSet

_FREQUENCIES = 1 << 16  # of terms, remembered
_BITS = 12  # of scores within a part: what is behind them depends on how numbers were rounded on the way

Lengths = npt.NDArray[np.uint32]


class Statistics:
    """Of all passages; safe to share between threads."""

    def __init__(self, segments: Segments) -> None:
        self.segments = segments
        """What is searched, whose scores these are once `weighted` has been applied."""
        self.count = segments.count
        self.frequency: Callable[[str], int] = lru_cache(_FREQUENCIES)(partial(segments.frequency, "text"))
        """Says how many passages have a term."""

    def weighted(self, query: Query, terms: Sequence[str]) -> Query:
        """Return a query for a term or a phrase so that it scores by these statistics."""
        return query

    def settled(self, scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return scores as they are told."""
        return scores

    def idf(self, frequency: int) -> float:
        """Return the inverse document frequency of a term that so many passages have."""
        return _idf(self.count, frequency)


class PartStatistics(Statistics):
    """Of a part of the passages; terms are counted when they are first asked for, and then remembered."""

    def __init__(
        self,
        whole: Statistics,
        tests: Sequence[tuple[Occur, Query]],
        part: RowSet,
        lengths: Lengths | None,
        languages: Sequence[str],
    ) -> None:
        """Take what the part is of.

        Args:
            whole: the statistics of all passages.
            tests: the part as Tantivy is asked for it, which does not count for scores.
            part: the same, as rows.
            lengths: terms of each passage; None where they are not known, and all are compared with the average of all.
            languages: by whose rules the words of all are stemmed.

        Raises:
            IndexCorrupt, IndexUnwritable: as opening an index does.
        """
        self._whole = whole
        self._tests = list(tests)
        self.count = part.count
        self.segments = whole.segments
        # one that was deleted meanwhile is about to be replaced, and cannot be opened again
        if lengths is not None and part.count and whole.segments.is_there:
            average = float(lengths[part.rows()].mean(dtype=np.float64))
            self.segments = whole.segments.with_average(average, int(lengths.sum(dtype=np.int64)))
        self.frequency = remembered(self._frequency, _FREQUENCIES)
        self.languages = self._spoken(languages)
        """By whose rules the words of the part are stemmed, the most frequent first."""

    def weighted(self, query: Query, terms: Sequence[str]) -> Query:
        """Return a query for a term or a phrase so that it scores by these statistics."""
        taken = sum(_idf(self.segments.weighed, self._whole.frequency(term)) for term in terms)
        return Query.boost_query(query, sum(self.idf(self.frequency(term)) for term in terms) / taken)

    def settled(self, scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return scores as they are told: to a part in 4,096, as the rest of a number depends on other passages."""
        mantissas, exponents = np.frexp(scores)
        return np.ldexp(np.round(mantissas * (1 << _BITS)) / (1 << _BITS), exponents).astype(np.float32)

    def _frequency(self, term: str) -> int:
        return self._matching("text", term) if self._whole.frequency(term) else 0

    def _spoken(self, languages: Sequence[str]) -> tuple[str, ...]:
        counts = {each: self._matching("term", f"language:{each}") for each in languages if each != ENGLISH}
        counts[ENGLISH] = self.count - sum(counts.values())  # of unknown ones, too
        return tuple(sorted((each for each, count in counts.items() if count), key=lambda each: (-counts[each], each)))

    def _matching(self, field: str, term: str) -> int:
        word = Query.term_query(self._whole.segments.schema, field, term, "basic")
        return self._whole.segments.matching(Query.boolean_query([(Occur.Must, word), *self._tests]))


def _idf(count: int, frequency: int) -> float:
    return math.log1p((count - frequency + 0.5) / (frequency + 0.5))
