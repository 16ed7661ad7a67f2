"""The words of every chunk in Tantivy, scored by its BM25 (k1 1.2, b 0.75): the one place that knows it.

Terms come from `analysis`, on both sides (`lexical_writer` and `lexical_query`), so Tantivy itself only splits at
spaces. Its Python binding looks at every posting of every term it is given (nothing is pruned), so time follows the
number of postings, and hardly the number of hits asked for.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
import tantivy
from tantivy import Occur, Query

from indexer.filter import AnyOf, Condition, Dated, Filter, HasTerm, LacksTerm
from indexer.generation.lexical.analysis import fold, terms_of_word, without_names
from indexer.generation.lexical.headings import FILES as HEADING_FILES
from indexer.generation.lexical.headings import Heading, Headings, typed_words
from indexer.generation.lexical.languages import ENGLISH, STEMMERS
from indexer.generation.lexical.lexical_query import Clause, LexicalQuery, Lookups, Terms, read_query
from indexer.generation.lexical.lexical_writer import LENGTHS, day_number
from indexer.generation.lexical.method_cache import remembered
from indexer.generation.lexical.query_syntax import parse_query
from indexer.generation.lexical.segments import Segments
from indexer.generation.lexical.statistics import PartStatistics, Spoken, Statistics
from indexer.generation.lexical.stop_words import Rules
from indexer.generation.lexical.synonyms import NO_SYNONYMS, Synonyms
from indexer.generation.lexical.vocabulary import FILES, Correction, Counted, Vocabulary
from indexer.generation.manifest import ANALYSIS, corrupt
from indexer.generation.rows import read_array
from indexer.rowset import RowSet, ScoredRows

_MOST_TERMS = 32  # of a query; the rarest
# Postings of one search, about 4 ns each. The rarest terms within them find the candidates; the other terms, which
# weigh least, are added to the scores of the candidates alone.
_POSTINGS = 300_000
_FEWEST_CANDIDATES = 64
_FEW = 20_000  # allowed rows, among which even common terms have so few postings that all of them are searched
_MOST_CORRECTIONS = 3  # of a word
_MANY = 1_000  # passages of a part, which then has many words
_AS_LIKELY = 5  # times as many passages as another have the likeliest correction, at most, if the other counts too
_FILTERS, _TERMS = 64, 1 << 12  # of which it is remembered whether passages that a filter allows have a term
_BOUNDS = 64  # whose rows are remembered
_PARTS = 64  # whose statistics are remembered
_MARGIN = 1.3  # of hits found over those expected to be needed, where a filter is applied to what was found
_HIT = 80  # testing a filter within the search costs as much for so many rows as one more hit costs without


class LexicalReader:
    """Searches a published folder, mapped into memory; concurrent searches are safe and do not hold the GIL."""

    def __init__(
        self, folder: Path | Sequence[Path], languages: Sequence[str] = (ENGLISH,), analysis: int = ANALYSIS
    ) -> None:
        """Open a folder whose checksums have been verified; it is only read, and may be deleted afterwards.

        Args:
            folder: what `LexicalWriter` wrote; several are searched as one, and rows count on from one to the next.
            languages: its `languages`, or those of all.
            analysis: how its texts became terms, see `Manifest.analysis`; of several, the oldest.

        Raises:
            IndexCorrupt: it is not an index of the kind that `LexicalWriter` makes.
            PartsDiffer: several cannot be searched as one.
            IndexUnwritable: there is no room for a temporary folder.
        """
        folders = [folder] if isinstance(folder, Path) else list(folder)
        self._folder = folders[0]
        self._languages = tuple(languages) or (ENGLISH,)
        self._has_signs = analysis >= ANALYSIS
        if unknown := [language for language in languages if language not in STEMMERS]:
            raise corrupt(self._folder, f"is stemmed by rules for {unknown[0]!r}, which this program does not know")
        self._segments = Segments(folders)
        self._schema = self._segments.schema
        self._total = self._segments.count
        # generations of older programs have neither words to correct by, nor fields
        self._vocabularies = [Vocabulary(each) for each in folders if (each / FILES[0]).exists()]
        self._headings = [
            Headings(each, first)
            for each, first in zip(folders, self._segments.starts, strict=True)
            if (each / HEADING_FILES[0]).exists()
        ]
        self._lengths = self._read_lengths(folders)
        self._statistics = Statistics(self._segments)
        self._passages = self._statistics.passages_of(self._languages)
        self.statistics = remembered(self._statistics_of, _PARTS)
        """Returns what BM25 counts of the passages that a filter allows; see `_statistics_of`."""
        self._bounds = remembered(self._within, _BOUNDS)
        self._spoken = Spoken(self._segments, self._passages)
        self._allowed_terms = remembered(self._no_terms, _FILTERS)
        self._check()

    @property
    def count(self) -> int:
        """Chunks in the index."""
        return self._total

    def check_rows(self) -> None:
        """Raise IndexCorrupt unless every row is there once; not asked at opening, since it takes a while."""
        for row in range(self._total):
            if (found := self._segments.frequency("row", row)) != 1:
                raise corrupt(self._folder, f"has row {row} {found} times")

    def read(
        self,
        query: str,
        synonyms: Synonyms = NO_SYNONYMS,
        is_word: Callable[[str], bool] | None = None,
        only: Filter | None = None,
        seen: PartStatistics | None = None,
    ) -> LexicalQuery:
        """Read a query for `search`.

        Args:
            query: as a user types it.
            synonyms: which words stand for which.
            is_word: says of a word that the index does not have whether it is one all the same, and no mistake.
            only: filter for the passages whose words count as known, and are corrections; None means all.
            seen: statistics by which the query scores, and corrections are ordered; None means those of all passages.
        """
        frequency = (seen or self._statistics).frequency

        def is_known(term: str) -> bool:
            return frequency(term) > 0 and (only is None or self._is_allowed(term, only))

        known = is_known if only else None
        lookups = Lookups(
            is_known, is_word or (lambda word: False), partial(self._corrections, is_known=known, seen=seen)
        )
        passages = self._passages if seen is None else seen.passages or {ENGLISH: 1}
        read = read_query(query if self._has_signs else without_names(query), passages, lookups, synonyms)
        return replace(read, statistics=seen, meaning=read.meaning if self._has_signs else parse_query(query).meaning)

    def suggest(self, typed: str, most: int, allowed: RowSet | None = None) -> list[Heading]:
        """Return the titles and headings that go on as somebody types, see `Headings.find`; none of older generations.

        Args:
            typed: what is typed so far.
            most: how many to return.
            allowed: rows of which one must have the name; None means all.
        """
        if not (begun := typed_words(typed)):
            return []
        found = sorted(chain(*(headings.find(begun, most, allowed) for headings in self._headings)))
        return list({fold(each.text): each for each in reversed(found)}.values())[::-1][:most]

    def search(
        self, wanted: LexicalQuery, k: int, filter: Filter | None = None, allowed: RowSet | None = None
    ) -> ScoredRows:
        """Find the chunks that have words of a query, all that it requires and nothing it excludes, and match a filter.

        Args:
            wanted: a query, as `read` gives it.
            k: how many, at least 1.
            filter: what to narrow the search to.
            allowed: the rows that this filter selects; given with it.

        Returns:
            BM25 scores float32 (n,), best first, above 0, and rows int64 (n,); n is at most k.

        Raises:
            IndexCorrupt: a row was found that cannot be.
        """
        if allowed is not None and not allowed.count:
            return _nothing()
        counted = wanted.statistics or self._statistics
        telling, common = self._split(wanted.words, counted, all_of_them=allowed is not None and allowed.count <= _FEW)
        if wanted.is_bounded or wanted.synonyms or wanted.pairs:
            matching, common = self._bounded(wanted, [*telling, *common], counted), []
        elif telling:
            matching = self._any(telling, counted, wanted.rules)
        else:
            return _nothing()
        candidates = max(k, _FEWEST_CANDIDATES) if common else k
        scores, rows = self._allowed(matching, candidates, filter, allowed, counted.segments)
        if common and len(rows):
            scores = scores + self._scores(common, rows, counted, wanted.rules)
        scores = counted.settled(scores)
        order = np.lexsort((rows, -scores))[:k]
        return scores[order], rows[order]

    def idf_sum(self, wanted: LexicalQuery) -> float:
        """Return the BM25 of a passage of average length that has each word of a query once, as `search` scores it.

        It is the sum of their inverse document frequencies. A word that no passage has counts most.
        """
        counted = wanted.statistics or self._statistics
        frequencies = (min(sum(map(counted.frequency, terms)), counted.count) for terms in wanted.asked)
        return sum(map(counted.idf, frequencies))

    def _statistics_of(self, part: Filter, rows: RowSet) -> PartStatistics:
        """Return what BM25 counts of the passages that a filter allows; `rows` are what it selects."""
        return PartStatistics(self._statistics, self._tests(part), rows, self._lengths, self._languages)

    def _read_lengths(self, folders: Sequence[Path]) -> npt.NDArray[np.uint32] | None:
        """Return the terms of each passage, uint32 (rows,), or None where older programs have not written them."""
        if not all((folder / LENGTHS).exists() for folder in folders):
            return None
        parts = [read_array(folder / LENGTHS) for folder in folders]
        if any(part.dtype != np.uint32 or part.ndim != 1 for part in parts) or sum(map(len, parts)) != self._total:
            raise corrupt(folders[0] / LENGTHS, "does not match the passages")
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _split(
        self, words: Sequence[Terms], counted: Statistics, *, all_of_them: bool
    ) -> tuple[list[Terms], list[Terms]]:
        """Words that find candidates, rarest first, and those too common for that; unknown terms are left out."""
        frequencies = []
        for terms in words:
            known = {term: frequency for term in terms if (frequency := counted.frequency(term))}
            if known:
                frequencies.append((sum(known.values()), tuple(known)))
        rarest = sorted(frequencies)[:_MOST_TERMS]
        found = [terms for _, terms in rarest]
        postings = list(accumulate(frequency for frequency, _ in rarest))
        first = len(found) if all_of_them else max(2, bisect_right(postings, _POSTINGS))
        return found[:first], found[first:]

    def _allowed(
        self, matching: Query, k: int, filter: Filter | None, allowed: RowSet | None, segments: Segments
    ) -> ScoredRows:
        if not filter or allowed is None:
            return segments.find(matching, k)
        limit = int(k * self._total / allowed.count * _MARGIN) + k
        if limit * _HIT < allowed.count:
            scores, rows = segments.find(matching, limit)
            kept = allowed.contains(rows)
            if len(rows) < limit or np.count_nonzero(kept) >= k:
                return scores[kept][:k], rows[kept][:k]
        return segments.find(Query.boolean_query([(Occur.Must, matching), *self._tests(filter)]), k)

    def _scores(
        self, words: Sequence[Terms], rows: npt.NDArray[np.int64], counted: Statistics, rules: Rules
    ) -> npt.NDArray[np.float32]:
        """BM25 of these words in these rows, float32 of the same shape; 0 where there are none."""
        found_scores, found_rows = counted.segments.find_among(self._any(words, counted, rules), rows)
        scores = np.zeros(len(rows), dtype=np.float32)
        order = np.argsort(rows)
        scores[order[np.searchsorted(rows, found_rows, sorter=order)]] = found_scores
        return scores

    def _tests(self, wanted: Filter) -> list[tuple[Occur, Query]]:
        tests = map(self._test, wanted.conditions())
        return [(Occur.Must, Query.const_score_query(test, 0.0)) for test in tests]

    def _test(self, condition: Condition) -> Query:
        match condition:
            case HasTerm(terms):
                return _either([self._term("term", term) for term in terms])
            case LacksTerm(term):
                return Query.boolean_query([(Occur.Must, Query.all_query()), (Occur.MustNot, self._term("term", term))])
            case Dated(first, last):
                if first and last and first > last:
                    return Query.empty_query()
                low, high = (day_number(day) if day else None for day in (first, last))
                days = tantivy.FieldType.Integer
                return Query.range_query(self._schema, "day", days, low, high, use_inverted_index=True)
            case AnyOf(alternatives):
                return _either([self._all(each) for each in alternatives])

    def _all(self, conditions: Sequence[Condition]) -> Query:
        if not conditions:
            return Query.all_query()
        return Query.boolean_query([(Occur.Must, self._test(each)) for each in conditions])

    def within(self, required: tuple[Clause, ...], excluded: tuple[Clause, ...]) -> RowSet:
        """Return the rows that have all that is required and nothing that is excluded; one of them is not empty."""
        return self._bounds(required, excluded)

    def _within(self, required: tuple[Clause, ...], excluded: tuple[Clause, ...]) -> RowSet:
        found = np.zeros(self._total, np.bool_)
        if required:
            clauses = partial(self._clauses, counted=self._statistics)
            query = Query.boolean_query([*clauses(required, Occur.Must), *clauses(excluded, Occur.MustNot)])
            found[self._segments.find(query, self._total)[1]] = True
        else:
            query = Query.boolean_query(self._clauses(excluded, Occur.Should, self._statistics))
            found[self._segments.find(query, self._total)[1]] = True
            found = ~found
        return RowSet(found)

    def _bounded(self, wanted: LexicalQuery, words: Sequence[Terms], counted: Statistics) -> Query:
        """The query for what is required and excluded, with the words and phrases that count where they are found."""
        together = (*wanted.synonyms, *wanted.pairs)
        phrases = [_best([self._phrase(terms, counted) for terms in readings]) for readings in together]
        scored = _either([self._any(words, counted, wanted.rules), *phrases])
        required = [*self._clauses(wanted.required, Occur.Must, counted)]
        if required and not words and not phrases and all(clause.field for clause in wanted.required):
            scored = Query.all_query()  # there is nothing to rank by
        parts = [*required, (Occur.Should if required else Occur.Must, scored)]
        return Query.boolean_query([*parts, *self._clauses(wanted.excluded, Occur.MustNot, counted)])

    def _clauses(self, clauses: Sequence[Clause], occur: Occur, counted: Statistics) -> list[tuple[Occur, Query]]:
        """Tests for clauses; phrases anywhere count for the score, those in a field only for the choice."""
        tests = []
        for clause in clauses:
            field = clause.field if clause.field and self._vocabularies else "text"
            rules = dict(clause.rules)
            query = _best(
                [self._spoken.where_of(self._phrase(terms, counted, field), terms, rules) for terms in clause.readings]
            )
            tests.append((occur, Query.const_score_query(query, 0.0) if clause.field else query))
        return tests

    def _phrase(self, terms: Terms, counted: Statistics, field: str = "text") -> Query:
        if len(terms) > 1:
            query = Query.phrase_query(self._schema, field, list(terms))
        else:
            query = Query.term_query(self._schema, field, terms[0], "freq")
        return counted.weighted(query, terms)

    def _no_terms(self, only: Filter) -> dict[str, bool]:
        """Where what is known of the terms of a filter will stand; by filter, as one may be as large as a request."""
        return {}

    def _is_allowed(self, term: str, only: Filter) -> bool:
        known = self._allowed_terms(only)
        found = known.get(term)
        if found is None:
            if len(known) >= _TERMS:
                known.clear()
            found = known[term] = self._has_allowed(term, only)
        return found

    def _has_allowed(self, term: str, only: Filter) -> bool:
        """Whether a passage that a filter allows has a term."""
        query = Query.boolean_query([(Occur.Must, self._term("text", term)), *self._tests(only)])
        return len(self._segments.find(query, 1)[1]) > 0

    def _corrections(
        self, word: str, is_known: Callable[[str], bool] | None = None, seen: PartStatistics | None = None
    ) -> tuple[str, ...]:
        """The words of the index that may have been meant by a word that it does not have, the likeliest first.

        Of the index are words of which a term is known, where that is asked.
        """
        if not word[1:].islower():  # capitals within a word make it a name
            return ()

        def terms(other: str) -> Iterator[str]:
            languages = seen.passages if seen else self._languages
            return chain(*(terms_of_word(other, language) for language in languages))

        def passages(other: Correction) -> int:
            known = list(filter(is_known, terms(other.word)))
            if seen:
                return max(map(seen.frequency, known), default=0)
            return other.passages if known else 0

        counted = Counted(passages, seen.count >= _MANY if seen else None) if seen or is_known else None
        found = _together([each.corrections(word, counted) for each in self._vocabularies])
        alike = [
            each for each in found if each.edits == found[0].edits and each.passages * _AS_LIKELY >= found[0].passages
        ]
        return tuple(each.word for each in alike[:_MOST_CORRECTIONS])

    def _any(self, words: Sequence[Terms], counted: Statistics, rules: Rules) -> Query:
        def one(term: str) -> Query:
            return self._spoken.where_of(self._phrase((term,), counted), (term,), rules)

        return _either([_best(list(map(one, terms))) for terms in words])

    def _term(self, field: str, value: str | int) -> Query:
        return Query.term_query(self._schema, field, value, "basic")

    def _check(self) -> None:
        """Raise IndexCorrupt if the fields are others than this program writes."""
        try:
            self._tests(Filter(source=("",), date_from="2000-01-01"))
            self._segments.find(self._any([("a",)], self._statistics, {}), 1)
        except ValueError as error:
            raise corrupt(self._folder, "is a lexical index of another kind") from error


def _together(found: Sequence[Sequence[Correction]]) -> list[Correction]:
    """The corrections by several vocabularies, the likeliest first."""
    words: dict[str, Correction] = {}
    for each in chain(*found):
        passages = words[each.word].passages if each.word in words else 0
        words[each.word] = each._replace(passages=passages + each.passages)
    return sorted(words.values(), key=lambda each: (each.edits, -each.passages, each.word))


def _either(queries: Sequence[Query]) -> Query:
    return Query.boolean_query([(Occur.Should, query) for query in queries])


def _best(queries: Sequence[Query]) -> Query:
    """Any of several forms of one word, which count once."""
    return queries[0] if len(queries) == 1 else Query.disjunction_max_query(queries)


def _nothing() -> ScoredRows:
    return np.empty(0, np.float32), np.empty(0, np.int64)
