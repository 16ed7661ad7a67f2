"""Search the words of chunks with Tantivy, which scores chunks by BM25 (k1 1.2, b 0.75).

Texts and queries are split into terms by `analysis`, and Tantivy splits the result at spaces. Its Python binding visits
every posting of every term in a query, so the time of a search depends on the number of postings, and hardly on the
number of hits.
"""

import json
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import tantivy
from tantivy import Occur, Query

from indexer.errors import IndexUnwritable
from indexer.filter import AnyOf, Condition, Dated, Filter, HasTerm, LacksTerm, parts_of
from indexer.generation.lexical.analysis import COMPOUNDING_LANGUAGES, ENGLISH, TERMS, Cache, Key, Value, all_rules
from indexer.generation.lexical.letters import fold
from indexer.generation.lexical.lexical_query import (
    Clause,
    LexicalQuery,
    Lookups,
    Rules,
    Synonyms,
    Terms,
    read_query,
    readings_of,
)
from indexer.generation.lexical.lexical_writer import META, day_number
from indexer.generation.lexical.vocabulary import Headings, Vocabulary, likeliest
from indexer.generation.manifest import corrupt, guarded
from indexer.generation.rows import RowSet, ScoredRows

_MAX_TERMS = 32
# A posting takes about 4 ns. So only the rarest terms of a query, with at most this many postings in total, select
# candidates. More frequent terms have less weight, and only add to the scores of the candidates.
_MAX_POSTINGS = 300_000
_MIN_CANDIDATES = 64
_MAX_ROWS_FOR_ALL_TERMS = 20_000
_FREQUENCY_CACHE = 1 << 16
_QUERY_CACHE = 1 << 12
_CORRECTION_CACHE = 1 << 12
_BOUNDS_CACHE = 64
_FILTER_CACHE, _FILTERED_TERMS_CACHE = 64, 1 << 10
_LATER_FILTER_MARGIN = 1.3
_ROWS_PER_HIT = 80  # testing a filter on 80 rows takes as long as finding one more hit

Bounds = tuple[tuple[Clause, ...], tuple[Clause, ...]]  # required clauses, excluded clauses


class LexicalReader:
    """Searches a generation's Tantivy files through a memory map. Threads may search concurrently, without the GIL."""

    def __init__(self, folder: Path, languages: Sequence[str] = (ENGLISH,)) -> None:
        """Open the index of a folder. Raises IndexCorrupt, or IndexUnwritable if a temporary folder cannot be created.

        Args:
            folder: a folder whose checksums are verified. It may be deleted later.
            languages: languages of the chunks, from `LexicalWriter.languages`.
        """
        self._open([folder], languages)
        try:
            self._tests(Filter(source=("",), date_from="2000-01-01"))
            self._find(self._any([("a",)], {}), 1)
        except ValueError as error:
            raise corrupt(self.folder, "does not have the fields of a lexical index") from error
        self.headings, vocabulary = Headings(folder), Vocabulary(folder)
        self.corrections_among = guarded(folder, vocabulary.corrections)
        self._corrections_of = Cache(_CORRECTION_CACHE, self.corrections_among)
        self.compounds = guarded(folder, vocabulary.compounds)
        self._bounds: dict[Bounds, RowSet] = {}
        self._terms_among = Cache[Filter, dict[str, bool]](_FILTER_CACHE, lambda filter: {})

    def _open(self, folders: Sequence[Path], languages: Sequence[str]) -> None:
        """Open several folders as one index, which has the word statistics of all."""
        self.folder = folder = folders[0]
        searcher, self._schema, self._segments = _open_folders(folders)
        self._search = guarded(folder, searcher.search)
        # These functions must not refer to this object: a reference cycle would delay closing the files.
        self._rows_at: Callable[[list[Any]], list[Any]] = partial(guarded(folder, searcher.fast_field_values), "row")
        doc_freq = guarded(folder, searcher.doc_freq)
        self.count: int = searcher.num_docs
        self._first_rows = np.zeros(1, np.int64)
        self._frequency = Cache[str, int](_FREQUENCY_CACHE, partial(doc_freq, "text")).__getitem__
        self._word = Cache[Terms, Query](_QUERY_CACHE, partial(_word, self._schema)).__getitem__
        self._is_elsewhere: dict[tuple[str, frozenset[str]], bool] = {}
        spoken = {each: doc_freq("term", f"language:{each}") for each in languages if each != ENGLISH}
        if ENGLISH in languages or not spoken:  # unknown languages count as English
            spoken[ENGLISH] = self.count - sum(spoken.values())
        # number of passages in each language, the most frequent language first
        self.passages: Mapping[str, int] = dict(sorted(spoken.items(), key=lambda item: (-item[1], item[0])))
        self._languages = all_rules(self.passages)

    def read(
        self,
        query: str,
        synonyms: Synonyms = MappingProxyType({}),
        is_word: Callable[[str], bool] | None = None,
        filter: Filter | None = None,
    ) -> LexicalQuery:
        """Parse a query for `search`.

        Args:
            is_word: returns whether a word that is not in the index is spelled correctly.
            filter: conditions on documents. Words that occur only in excluded documents are unknown.
        """
        is_known = self._frequency if filter is None else partial(self.is_known, filter)

        def corrections(word: str) -> tuple[str, ...]:
            candidates = self._corrections_of[word] if filter is None else self.corrections_among(word, is_known_word)
            return tuple(each.word for each in candidates[:1])

        def is_known_word(word: str) -> bool:
            return any(is_known(term) for language in self._languages for term in TERMS[language][word])

        def compounds(word: str) -> list[str]:
            stems = sorted({fold(term) for language in self._languages for term in TERMS[language][word]}, key=len)
            allow_any_rest = not COMPOUNDING_LANGUAGES.isdisjoint(self._languages)
            for stem in (fold(word), *stems):
                if compounds := [each.word for each in self.compounds(stem, allow_any_rest=allow_any_rest)]:
                    return [each for each in compounds if is_known_word(each)]
            return []

        def has_phrase(words: Sequence[str]) -> bool:
            readings = readings_of(words, self._languages)
            phrases = _any_of(map(self._phrase, readings))
            return self._has([(Occur.Must, phrases), *(self._tests(filter) if filter else ())])

        lookups = Lookups(is_known, is_word or (lambda word: False), corrections, compounds, has_phrase)
        return read_query(query, self.passages, lookups, synonyms)

    def is_known(self, filter: Filter | None, term: str) -> bool:
        """Return whether a term occurs in any passage that a filter allows."""
        return self._frequency(term) > 0 and (filter is None or self._is_allowed(filter, term))

    def _is_allowed(self, filter: Filter, term: str) -> bool:
        has_term = (Occur.Must, self._term("text", term))
        return _cached(
            self._terms_among[filter], _FILTERED_TERMS_CACHE, term, lambda: self._has([has_term, *self._tests(filter)])
        )

    def search(
        self, query: LexicalQuery, k: int, filter: Filter | None = None, allowed: RowSet | None = None
    ) -> ScoredRows:
        """Find the k best chunks for a query.

        Args:
            query: hits match all required clauses and no excluded clause. If none is required, hits match any word.
            allowed: rows of the documents that the filter allows; required with a filter.

        Returns:
            BM25 scores, float32 (n,), above 0, highest first, and rows, int64 (n,).
        """
        if allowed is not None and not allowed.count:
            return ScoredRows.none()
        has_few_rows = allowed is not None and allowed.count <= _MAX_ROWS_FOR_ALL_TERMS
        rare, common = self._split_by_frequency(query.words, all_are_rare=has_few_rows)
        if query.is_bounded or query.synonyms or query.pairs:
            matching, common = self._bounded(query, [*rare, *common]), []
        elif rare:
            matching = self._any(rare, query.rules)
        else:
            return ScoredRows.none()
        candidates = max(k, _MIN_CANDIDATES) if common else k
        scores, rows = self._allowed(matching, candidates, filter, allowed)
        if common and len(rows):
            scores = scores + self._scores(common, rows, query.rules)
        order = np.lexsort((rows, -scores))[:k]
        return ScoredRows(scores[order], rows[order])

    def within(self, required: tuple[Clause, ...], excluded: tuple[Clause, ...]) -> RowSet:
        """Return the rows that match all required clauses and no excluded clause. Needs at least one clause."""

        def find() -> RowSet:
            mask = np.zeros(self.count, np.bool_)
            if required:
                clauses = [*self._clauses(required, Occur.Must), *self._clauses(excluded, Occur.MustNot)]
            else:
                clauses = self._clauses(excluded, Occur.Should)
            mask[self._find(Query.boolean_query(clauses), self.count)[1]] = True
            return RowSet(mask if required else ~mask)

        return _cached(self._bounds, _BOUNDS_CACHE, (required, excluded), find)

    def _split_by_frequency(self, words: Sequence[Terms], *, all_are_rare: bool) -> tuple[list[Terms], list[Terms]]:
        """Return the rare words, which select candidates, and the common words. Drop terms that the index lacks."""
        indexed = [each for terms in words if (each := tuple(filter(self._frequency, terms)))]
        rarest = sorted([(sum(map(self._frequency, terms)), terms) for terms in indexed])[:_MAX_TERMS]
        postings = list(accumulate(map(itemgetter(0), rarest)))
        first = len(rarest) if all_are_rare else max(2, bisect_right(postings, _MAX_POSTINGS))
        in_order = list(map(itemgetter(1), rarest))
        return in_order[:first], in_order[first:]

    def _allowed(self, matching: Query, k: int, filter: Filter | None, allowed: RowSet | None) -> ScoredRows:
        if not filter or allowed is None:
            return self._find(matching, k)
        limit = int(k * self.count / allowed.count * _LATER_FILTER_MARGIN) + k
        if limit * _ROWS_PER_HIT < allowed.count:
            scores, rows = self._find(matching, limit)
            is_allowed = allowed.contains(rows)
            if len(rows) < limit or np.count_nonzero(is_allowed) >= k:
                return ScoredRows(scores[is_allowed][:k], rows[is_allowed][:k])
        return self._find(Query.boolean_query([(Occur.Must, matching), *self._tests(filter)]), k)

    def _scores(self, words: Sequence[Terms], rows: npt.NDArray[np.int64], rules: Rules) -> npt.NDArray[np.float32]:
        """Return the BM25 scores of rows for these words, float32 (n,). A row without any of the words has score 0."""
        numbers = rows - self._first_rows[np.searchsorted(self._first_rows, rows, side="right") - 1]
        tests = [(Occur.Should, self._term("row", row)) for row in sorted(set(numbers.tolist()))]
        among = Query.const_score_query(Query.boolean_query(tests), 0.0)
        both = Query.boolean_query([(Occur.Must, among), (Occur.Must, self._any(words, rules))])
        hit_scores, hit_rows = self._find(both, len(tests) * len(self._first_rows))
        scores = np.zeros(len(rows), dtype=np.float32)
        order, is_row = np.argsort(rows), np.isin(hit_rows, rows)
        scores[order[np.searchsorted(rows, hit_rows[is_row], sorter=order)]] = hit_scores[is_row]
        return scores

    def _find(self, query: Query, limit: int) -> ScoredRows:
        """Return scores and rows of up to `limit` hits, best first. Raises IndexCorrupt if a row is out of range."""
        hits = self._search(query, max(1, min(limit, self.count)), count=False).hits
        scores, addresses = zip(*hits, strict=True) if hits else ((), ())
        rows = self._rows_at(list(addresses))
        if None in rows or max(rows, default=0) >= max(1, self.count):
            raise corrupt(self.folder, f"refers to rows outside the {self.count:,} chunks of the index")
        return ScoredRows(np.array(scores, np.float32), np.array(rows, np.int64))

    def _has(self, tests: list[tuple[Occur, Query]]) -> bool:
        return len(self._find(Query.boolean_query(tests), 1)[1]) > 0

    def _tests(self, filter: Filter) -> list[tuple[Occur, Query]]:
        tests = map(self._test, filter.conditions())
        return [(Occur.Must, Query.const_score_query(test, 0.0)) for test in tests]

    def _test(self, condition: Condition) -> Query:
        match condition:
            case HasTerm(terms):
                return _any_of([self._term("term", term) for term in terms])
            case LacksTerm(term):
                return Query.boolean_query([_ALL, (Occur.MustNot, self._term("term", term))])
            case Dated(first, last):
                if first and last and first > last:
                    return Query.empty_query()
                low, high = (day_number(day) if day else None for day in (first, last))
                days = tantivy.FieldType.Integer
                return Query.range_query(self._schema, "day", days, low, high, use_inverted_index=True)
            case AnyOf(alternatives):
                every = ([(Occur.Must, self._test(one)) for one in each] or [_ALL] for each in alternatives)
                return _any_of(list(map(Query.boolean_query, every)))

    def _bounded(self, query: LexicalQuery, words: Sequence[Terms]) -> Query:
        """Return a query that tests required and excluded clauses, and scores words, synonyms and pairs."""
        together = (*query.synonyms, *query.pairs)
        phrases = [_best_of([self._phrase(terms) for terms in readings]) for readings in together]
        scored = _any_of([self._any(words, query.rules), *phrases])
        required = self._clauses(query.required, Occur.Must)
        clauses = [*required, (Occur.Should if required else Occur.Must, scored)]
        return Query.boolean_query([*clauses, *self._clauses(query.excluded, Occur.MustNot)])

    def _clauses(self, clauses: Sequence[Clause], occur: Occur) -> list[tuple[Occur, Query]]:
        return [
            (occur, _best_of([self._in_languages(terms, dict(clause.rules)) for terms in clause.readings]))
            for clause in clauses
        ]

    def _any(self, words: Sequence[Terms], rules: Rules) -> Query:
        if not rules:
            return _any_of(map(self._word, words))
        return _any_of([_best_of([self._in_languages((term,), rules) for term in terms]) for terms in words])

    def _phrase(self, terms: Terms) -> Query:
        return Query.phrase_query(self._schema, "text", list(terms)) if len(terms) > 1 else self._word(terms)

    def _in_languages(self, terms: Terms, rules: Rules) -> Query:
        query = self._phrase(terms)
        # The German stemmer turns "flower" into "flow", which must not match the word "flow" in English documents.
        languages = rules.get(terms[0]) if rules and len(terms) == 1 else None
        if languages is None:
            return query
        other_languages = frozenset(self._languages) - languages
        is_elsewhere = _cached(
            self._is_elsewhere,
            _FREQUENCY_CACHE,
            (terms[0], languages),
            lambda: self._has([(Occur.Must, self._term("text", terms[0])), self._language_test(other_languages)]),
        )
        return Query.boolean_query([(Occur.Must, query), self._language_test(languages)]) if is_elsewhere else query

    def _language_test(self, languages: frozenset[str]) -> tuple[Occur, Query]:
        """Return a clause that matches documents in these languages, which must not be all languages of the index."""
        # An unknown language counts as English, so for English the other languages are excluded.
        is_negated = ENGLISH in languages
        listed = sorted(frozenset(self._languages) - languages if is_negated else languages)
        spoken = _any_of([self._term("term", f"language:{each}") for each in listed])
        return Occur.MustNot if is_negated else Occur.Must, Query.const_score_query(spoken, 0.0)

    def _term(self, field: str, value: str | int) -> Query:
        return Query.term_query(self._schema, field, value, "basic")


class JointReader(LexicalReader):
    """Searches the folders of several readers as one index. An `EachFilter` has a filter for each folder."""

    def __init__(self, readers: Sequence[LexicalReader]) -> None:
        """Open the folders of the readers again. The folders must still exist. Raises the errors of `LexicalReader`."""
        self._readers = readers
        self._open([each.folder for each in readers], [*chain(*(each.passages for each in readers))])
        self._first_rows = np.cumsum([0, *(each.count for each in readers)])[:-1]
        rows_at, first_rows = self._rows_at, np.repeat(self._first_rows, self._segments).tolist()
        self._rows_at = lambda at: [
            row + first_rows[each.segment_ord] for row, each in zip(rows_at(at), at, strict=True)
        ]
        self.corrections_among = partial(likeliest, [each.corrections_among for each in readers])
        self._corrections_of = Cache(_CORRECTION_CACHE, self.corrections_among)
        self.compounds = partial(likeliest, [each.compounds for each in readers])

    def _is_allowed(self, filter: Filter, term: str) -> bool:
        filters = parts_of(filter, len(self._readers))
        return any(each.is_known(each_filter, term) for each, each_filter in zip(self._readers, filters, strict=True))

    def _allowed(self, matching: Query, k: int, filter: Filter | None, allowed: RowSet | None) -> ScoredRows:
        """Find hits until a filter allows k of them. Tantivy cannot apply an `EachFilter` (one filter per folder)."""
        limit = k
        while True:
            scores, rows = super()._allowed(matching, limit, filter, allowed)
            is_allowed = np.ones(len(rows), np.bool_) if allowed is None else allowed.contains(rows)
            if len(rows) < limit or np.count_nonzero(is_allowed) >= k:
                return ScoredRows(scores[is_allowed][:k], rows[is_allowed][:k])
            limit *= 4


def _cached(cache: dict[Key, Value], size: int, key: Key, make: Callable[[], Value]) -> Value:
    """Return `cache[key]`. Add `make()` if the key is missing. If the cache has `size` entries, clear it first."""
    value = cache.get(key)
    if value is None:
        if len(cache) >= size:
            cache.clear()
        value = cache[key] = make()
    return value


def _open_folders(folders: Sequence[Path]) -> tuple[tantivy.Searcher, tantivy.Schema, list[int]]:
    """Open folders as one index, by links in a temporary folder. Also return the number of segments of each folder."""
    segments: list[dict[str, Any]] = []
    counts = []
    links: dict[str, Path] = {}
    for folder in folders:
        try:
            meta = json.loads((folder / META).read_bytes())
            counts.append(len(meta["segments"]))
            for segment in meta["segments"]:
                # The segments of copied collections have equal ids, so every segment gets a new name.
                name, id = f"{len(segments):032x}", segment["segment_id"].replace("-", "")
                segments.append({**segment, "segment_id": name})
                links |= {name + path.name.removeprefix(id): path for path in folder.resolve().glob(f"{id}.*")}
        except OSError as error:
            raise corrupt(folder, error.strerror or "cannot be read") from error
        except (ValueError, KeyError, TypeError) as error:
            raise corrupt(folder, "is not a readable lexical index") from error
    try:
        with tempfile.TemporaryDirectory(prefix="pilotlight-links-", ignore_cleanup_errors=True) as linked:
            for name, path in links.items():
                (Path(linked) / name).symlink_to(path)
            (Path(linked) / META).write_text(json.dumps({**meta, "segments": segments}), encoding="utf-8")
            return *guarded(folders[0], _searcher)(folders[0], linked), counts
    except OSError as error:
        raise IndexUnwritable(
            f"opening {folders[0]} needs a temporary folder: {error.strerror}; free some space, or set TMPDIR"
        ) from error


def _searcher(folder: Path, links: str) -> tuple[tantivy.Searcher, tantivy.Schema]:
    try:
        index = tantivy.Index.open(links)
        index.config_reader("manual")  # starts no thread that polls for changes
        index.reload()
        return index.searcher(), index.schema
    except (ValueError, OSError) as error:
        raise corrupt(folder, "is not a readable lexical index") from error


_ALL = (Occur.Must, Query.all_query())


def _word(schema: tantivy.Schema, terms: Terms) -> Query:
    return _best_of([Query.term_query(schema, "text", term, "freq") for term in terms])


def _any_of(queries: Iterable[Query]) -> Query:
    return Query.boolean_query([(Occur.Should, query) for query in queries])


def _best_of(queries: Sequence[Query]) -> Query:
    """Return a query whose score is the highest score of several queries, such as the forms of a word."""
    return queries[0] if len(queries) == 1 else Query.disjunction_max_query(queries)
