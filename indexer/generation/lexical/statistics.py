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
from indexer.generation.lexical.stop_words import Passages, Rules
from indexer.rowset import RowSet

_FREQUENCIES = 1 << 16  # of terms, remembered
_ELSEWHERE = 1 << 14  # terms, of which it is remembered whether documents in other languages have them
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

    def passages_of(self, languages: Sequence[str]) -> dict[str, int]:
        """Return how many passages are stemmed by the rules of each of these languages, the most frequent first."""
        counts = {each: self._spoken(each) for each in languages if each != ENGLISH}
        if ENGLISH in languages:
            counts[ENGLISH] = self.count - sum(counts.values())  # of unknown languages, too
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def _spoken(self, language: str) -> int:
        return self.segments.frequency("term", f"language:{language}")


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
        self.passages = {each: count for each, count in self.passages_of(languages).items() if count}
        """How many passages of the part are stemmed by the rules of each language, the most frequent first."""

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

    def _spoken(self, language: str) -> int:
        return self._matching("term", f"language:{language}")

    def _matching(self, field: str, term: str) -> int:
        word = Query.term_query(self._whole.segments.schema, field, term, "basic")
        return self._whole.segments.matching(Query.boolean_query([(Occur.Must, word), *self._tests]))


class Spoken:
    """Restricts terms to the documents by whose rules they are terms of a query; safe to share between threads.

    By German rules, flower is found as flow, which is another word in an English document.
    """

    def __init__(self, segments: Segments, passages: Passages) -> None:
        """Take what is searched, and how many passages are stemmed by the rules of each language."""
        self._segments = segments
        self._languages = frozenset(passages)
        self._is_elsewhere = remembered(self._has_elsewhere, _ELSEWHERE)

    def where_of(self, query: Query, terms: Sequence[str], rules: Rules) -> Query:
        """Return a query for these terms, restricted where they are one term that other documents have, too."""
        languages = rules.get(terms[0]) if len(terms) == 1 else None
        if languages is None or not self._is_elsewhere(terms[0], languages):
            return query
        return Query.boolean_query([(Occur.Must, query), self._test(languages)])

    def _has_elsewhere(self, term: str, languages: frozenset[str]) -> bool:
        word = Query.term_query(self._segments.schema, "text", term, "basic")
        others = self._test(self._languages - languages)
        return self._segments.matching(Query.boolean_query([(Occur.Must, word), others])) > 0

    def _test(self, languages: frozenset[str]) -> tuple[Occur, Query]:
        """Return the test for documents in some, but not all, languages."""
        is_other = ENGLISH in languages  # by whose rules documents in unknown languages are read as well
        named = sorted(self._languages - languages if is_other else languages)
        terms = [Query.term_query(self._segments.schema, "term", f"language:{each}", "basic") for each in named]
        spoken = Query.const_score_query(Query.boolean_query([(Occur.Should, term) for term in terms]), 0.0)
        return (Occur.MustNot if is_other else Occur.Must, spoken)


def _idf(count: int, frequency: int) -> float:
    return math.log1p((count - frequency + 0.5) / (frequency + 0.5))
