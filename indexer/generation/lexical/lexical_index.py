"""The words of every chunk in Tantivy, scored by its BM25 (k1 1.2, b 0.75): the one place that knows it.

Terms come from `analysis`, on both sides (`lexical_writer` and `lexical_query`), so Tantivy itself only splits at
spaces. Its Python binding visits every posting of every term (nothing is pruned), so time follows the number of
postings, and hardly the number of hits.
"""

import json
import math
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
from indexer.generation.lexical.analysis import COMPOUNDING, ENGLISH, TERMS, Cache, Key, Value, all_rules
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

_MOST_TERMS = 32  # of a query; the rarest
# Postings of one search, about 4 ns each. The rarest terms within them find the candidates; the other terms, which
# weigh least, are added to the scores of the candidates alone.
_POSTINGS = 300_000
_FEWEST_CANDIDATES = 64
_FEW = 20_000  # allowed rows, among which even common terms have so few postings that all of them are searched
_AS_LIKELY = 5  # times as many passages as another have the likeliest correction, at most, if the other counts too
_FREQUENCIES = 1 << 16  # terms whose frequency is cached
_QUERIES = 1 << 12  # words whose query is cached
_CORRECTED = 1 << 12  # words whose corrections are cached
_BOUNDS = 64  # whose rows are cached
_FILTERS, _TERMS = 64, 1 << 10  # of which it is cached whether passages that a filter allows have a term
_MARGIN = 1.3  # of hits found over those expected to be needed, where a filter is applied to what was found
_HIT = 80  # testing a filter within the search costs as much for so many rows as one more hit costs without

Bounds = tuple[tuple[Clause, ...], tuple[Clause, ...]]  # required and excluded


class LexicalReader:
    """Searches a published folder, mapped into memory; concurrent searches are safe and do not hold the GIL."""

    def __init__(self, folder: Path, languages: Sequence[str] = (ENGLISH,)) -> None:
        """Open the folder of a `LexicalWriter`, whose checksums have been verified, with its `languages`.

        It is only read, and may be deleted afterwards. Raises IndexCorrupt, and IndexUnwritable where there is no room
        for a temporary folder.
        """
        self._open([folder], languages)
        try:
            self._tests(Filter(source=("",), date_from="2000-01-01"))
            self._find(self._any([("a",)], {}), 1)
        except ValueError as error:
            raise corrupt(self.folder, "is a lexical index of another kind") from error
        self.headings, vocabulary = Headings(folder), Vocabulary(folder)
        self.corrections_among = guarded(folder, vocabulary.corrections)
        self._corrections_of = Cache(_CORRECTED, self.corrections_among)
        self.compounds = guarded(folder, vocabulary.compounds)
        self._bounds: dict[Bounds, RowSet] = {}
        self._terms_among = Cache[Filter, dict[str, bool]](_FILTERS, lambda only: {})

    def _open(self, folders: Sequence[Path], languages: Sequence[str]) -> None:
        """Open folders as one index, whose words are counted over all of them and whose rows are numbered through."""
        self.folder = folder = folders[0]
        searcher, self._schema, self._segments = _open(folders)
        self._search = guarded(folder, searcher.search)
        # Functions and caches that do not know this object: one that refers to itself, and so its files, would stay
        # until the garbage collector runs.
        self._rows_at: Callable[[list[Any]], list[Any]] = partial(guarded(folder, searcher.fast_field_values), "row")
        doc_freq = guarded(folder, searcher.doc_freq)
        self.count: int = searcher.num_docs  # chunks
        self._starts = np.zeros(1, np.int64)  # first row of each folder
        self._frequency = Cache[str, int](_FREQUENCIES, partial(doc_freq, "text")).__getitem__
        self._word = Cache[Terms, Query](_QUERIES, partial(_word, self._schema)).__getitem__
        self._is_elsewhere: dict[tuple[str, frozenset[str]], bool] = {}
        spoken = {each: doc_freq("term", f"language:{each}") for each in languages if each != ENGLISH}
        if ENGLISH in languages or not spoken:  # of unknown languages, too
            spoken[ENGLISH] = self.count - sum(spoken.values())
        # how many passages are in each language, the most frequent one first
        self.passages: Mapping[str, int] = dict(sorted(spoken.items(), key=lambda item: (-item[1], item[0])))
        self._languages = all_rules(self.passages)

    def read(
        self,
        query: str,
        synonyms: Synonyms = MappingProxyType({}),
        is_word: Callable[[str], bool] | None = None,
        only: Filter | None = None,
    ) -> LexicalQuery:
        """Read a query, as a user types it, for `search`.

        `is_word` says of a word that the index does not have whether it is one all the same, and no mistake. Words of
        the passages that the filter `only` allows count as known, and are corrections.
        """

        is_known = self._frequency if only is None else partial(self.is_known, only)

        def corrections(word: str) -> tuple[str, ...]:
            if not word[1:].islower():  # capitals within a word make it a name
                return ()
            found = self._corrections_of[word] if only is None else self.corrections_among(word, is_known_word)
            alike = [each for each in found if each.edits == found[0].edits]
            return tuple([each.word for each in alike if each.passages * _AS_LIKELY >= found[0].passages])

        def is_known_word(word: str) -> bool:
            return any(is_known(term) for language in self._languages for term in TERMS[language][word])

        def compounds(word: str) -> list[str]:
            stems = sorted({fold(term) for language in self._languages for term in TERMS[language][word]}, key=len)
            with_any = not COMPOUNDING.isdisjoint(self._languages)
            for stem in (fold(word), *stems):
                if compounds := [each.word for each in self.compounds(stem, with_any=with_any)]:
                    return list(filter(is_known_word, compounds))
            return []

        def has_phrase(words: Sequence[str]) -> bool:
            readings = readings_of(words, self._languages)
            phrases = _either(map(self._phrase, readings))
            return self._has([(Occur.Must, phrases), *(self._tests(only) if only else ())])

        lookups = Lookups(is_known, is_word or (lambda word: False), corrections, compounds, has_phrase)
        return read_query(query, self.passages, lookups, synonyms)

    def is_known(self, only: Filter | None, term: str) -> bool:
        """Return whether a passage that a filter allows has a term."""
        return self._frequency(term) > 0 and (only is None or self._is_allowed(only, term))

    def _is_allowed(self, only: Filter, term: str) -> bool:
        has_term = (Occur.Must, self._term("text", term))
        return _remembered(self._terms_among[only], _TERMS, term, lambda: self._has([has_term, *self._tests(only)]))

    def search(
        self, wanted: LexicalQuery, k: int, filter: Filter | None = None, allowed: RowSet | None = None
    ) -> ScoredRows:
        """Find k chunks that have words of a query, all that it requires and nothing it excludes, and match a filter.

        With a filter, `allowed` are the rows that it selects. Returns BM25 scores float32 (n,), best first, above 0,
        and rows int64 (n,).
        """
        nothing = np.empty(0, np.float32), np.empty(0, np.int64)
        if allowed is not None and not allowed.count:
            return nothing
        telling, common = self._split(wanted.words, all_of_them=allowed is not None and allowed.count <= _FEW)
        if wanted.is_bounded or wanted.synonyms or wanted.pairs:
            matching, common = self._bounded(wanted, [*telling, *common]), []
        elif telling:
            matching = self._any(telling, wanted.rules)
        else:
            return nothing
        candidates = max(k, _FEWEST_CANDIDATES) if common else k
        scores, rows = self._allowed(matching, candidates, filter, allowed)
        if common and len(rows):
            scores = scores + self._scores(common, rows, wanted.rules)
        order = np.lexsort((rows, -scores))[:k]
        return scores[order], rows[order]

    def idf_sum(self, wanted: LexicalQuery) -> float:
        """Return the BM25 of a passage of average length that has each word of a query once: the sum of their IDFs."""
        total = 0.0
        for terms in wanted.asked:
            frequency = min(sum(map(self._frequency, terms)), self.count)
            total += math.log1p((self.count - frequency + 0.5) / (frequency + 0.5))
        return total

    def within(self, required: tuple[Clause, ...], excluded: tuple[Clause, ...]) -> RowSet:
        """Return the rows that have all that is required and nothing that is excluded; one of them is not empty."""

        def find() -> RowSet:
            found = np.zeros(self.count, np.bool_)
            if required:
                clauses = [*self._clauses(required, Occur.Must), *self._clauses(excluded, Occur.MustNot)]
            else:
                clauses = self._clauses(excluded, Occur.Should)
            found[self._find(Query.boolean_query(clauses), self.count)[1]] = True
            return RowSet(found if required else ~found)

        return _remembered(self._bounds, _BOUNDS, (required, excluded), find)

    def _split(self, words: Sequence[Terms], *, all_of_them: bool) -> tuple[list[Terms], list[Terms]]:
        """Words that find candidates, rarest first, and those too common for that; unknown terms are left out."""
        known = [each for terms in words if (each := tuple(filter(self._frequency, terms)))]
        rarest = sorted([(sum(map(self._frequency, terms)), terms) for terms in known])[:_MOST_TERMS]
        postings = list(accumulate(map(itemgetter(0), rarest)))
        first = len(rarest) if all_of_them else max(2, bisect_right(postings, _POSTINGS))
        in_order = list(map(itemgetter(1), rarest))
        return in_order[:first], in_order[first:]

    def _allowed(self, matching: Query, k: int, filter: Filter | None, allowed: RowSet | None) -> ScoredRows:
        if not filter or allowed is None:
            return self._find(matching, k)
        limit = int(k * self.count / allowed.count * _MARGIN) + k
        if limit * _HIT < allowed.count:
            scores, rows = self._find(matching, limit)
            kept = allowed.contains(rows)
            if len(rows) < limit or np.count_nonzero(kept) >= k:
                return scores[kept][:k], rows[kept][:k]
        return self._find(Query.boolean_query([(Occur.Must, matching), *self._tests(filter)]), k)

    def _scores(self, words: Sequence[Terms], rows: npt.NDArray[np.int64], rules: Rules) -> npt.NDArray[np.float32]:
        """Return the BM25 of these words in these rows, float32 of the same shape; 0 where there are none."""
        numbers = rows - self._starts[np.searchsorted(self._starts, rows, side="right") - 1]  # in their folders
        tests = [(Occur.Should, self._term("row", row)) for row in sorted(set(numbers.tolist()))]
        among = Query.const_score_query(Query.boolean_query(tests), 0.0)
        both = Query.boolean_query([(Occur.Must, among), (Occur.Must, self._any(words, rules))])
        found_scores, found_rows = self._find(both, len(tests) * len(self._starts))
        scores = np.zeros(len(rows), dtype=np.float32)
        order, meant = np.argsort(rows), np.isin(found_rows, rows)
        scores[order[np.searchsorted(rows, found_rows[meant], sorter=order)]] = found_scores[meant]
        return scores

    def _find(self, query: Query, limit: int) -> ScoredRows:
        """Return scores float32 (n,), best first, and rows int64 (n,), n at most `limit`. Raises IndexCorrupt."""
        hits = self._search(query, max(1, min(limit, self.count)), count=False).hits
        scores, addresses = zip(*hits, strict=True) if hits else ((), ())
        rows = self._rows_at(list(addresses))
        if None in rows or max(rows, default=0) >= max(1, self.count):
            raise corrupt(self.folder, f"has other rows than those of {self.count:,} chunks")
        return np.array(scores, np.float32), np.array(rows, np.int64)

    def _has(self, tests: list[tuple[Occur, Query]]) -> bool:
        return len(self._find(Query.boolean_query(tests), 1)[1]) > 0

    def _tests(self, wanted: Filter) -> list[tuple[Occur, Query]]:
        tests = map(self._test, wanted.conditions())
        return [(Occur.Must, Query.const_score_query(test, 0.0)) for test in tests]

    def _test(self, condition: Condition) -> Query:
        match condition:
            case HasTerm(terms):
                return _either([self._term("term", term) for term in terms])
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
                return _either(list(map(Query.boolean_query, every)))

    def _bounded(self, wanted: LexicalQuery, words: Sequence[Terms]) -> Query:
        """The query for what is required and excluded, with the words and phrases that count where they are found."""
        together = (*wanted.synonyms, *wanted.pairs)
        phrases = [_best([self._phrase(terms) for terms in readings]) for readings in together]
        scored = _either([self._any(words, wanted.rules), *phrases])
        required = self._clauses(wanted.required, Occur.Must)
        parts = [*required, (Occur.Should if required else Occur.Must, scored)]
        return Query.boolean_query([*parts, *self._clauses(wanted.excluded, Occur.MustNot)])

    def _clauses(self, clauses: Sequence[Clause], occur: Occur) -> list[tuple[Occur, Query]]:
        return [
            (occur, _best([self._in_languages(terms, dict(clause.rules)) for terms in clause.readings]))
            for clause in clauses
        ]

    def _any(self, words: Sequence[Terms], rules: Rules) -> Query:
        if not rules:
            return _either(map(self._word, words))
        return _either([_best([self._in_languages((term,), rules) for term in terms]) for terms in words])

    def _phrase(self, terms: Terms) -> Query:
        return Query.phrase_query(self._schema, "text", list(terms)) if len(terms) > 1 else self._word(terms)

    def _in_languages(self, terms: Terms, rules: Rules) -> Query:
        query = self._phrase(terms)
        # By German rules, flower is found as flow, which is another word in an English document.
        languages = rules.get(terms[0]) if rules and len(terms) == 1 else None
        if languages is None:
            return query
        others = frozenset(self._languages) - languages
        is_elsewhere = _remembered(
            self._is_elsewhere,
            _FREQUENCIES,
            (terms[0], languages),
            lambda: self._has([(Occur.Must, self._term("text", terms[0])), self._language_test(others)]),
        )
        return Query.boolean_query([(Occur.Must, query), self._language_test(languages)]) if is_elsewhere else query

    def _language_test(self, languages: frozenset[str]) -> tuple[Occur, Query]:
        """Return the test for documents in some, but not all, languages."""
        is_other = ENGLISH in languages  # by whose rules documents in unknown languages are read as well
        named = sorted(frozenset(self._languages) - languages if is_other else languages)
        spoken = _either([self._term("term", f"language:{each}") for each in named])
        return Occur.MustNot if is_other else Occur.Must, Query.const_score_query(spoken, 0.0)

    def _term(self, field: str, value: str | int) -> Query:
        return Query.term_query(self._schema, field, value, "basic")


class JointReader(LexicalReader):
    """Searches several folders as one: with the counts of words, and so the scores, of an index of all passages.

    Their files are the segments of one index. A filter may be an `EachFilter`.
    """

    def __init__(self, readers: Sequence[LexicalReader]) -> None:
        """Take readers of folders that are still there. Raises as `LexicalReader` does."""
        self._readers = readers
        self._open([each.folder for each in readers], [*chain(*(each.passages for each in readers))])
        self._starts = np.cumsum([0, *(each.count for each in readers)])[:-1]
        rows_at, first = self._rows_at, np.repeat(self._starts, self._segments).tolist()  # row of each segment's folder
        self._rows_at = lambda at: [row + first[each.segment_ord] for row, each in zip(rows_at(at), at, strict=True)]
        self.corrections_among = partial(likeliest, [each.corrections_among for each in readers])
        self._corrections_of = Cache(_CORRECTED, self.corrections_among)
        self.compounds = partial(likeliest, [each.compounds for each in readers])

    def _is_allowed(self, only: Filter, term: str) -> bool:
        parts = parts_of(only, len(self._readers))
        return any(each.is_known(part, term) for each, part in zip(self._readers, parts, strict=True))

    def _allowed(self, matching: Query, k: int, filter: Filter | None, allowed: RowSet | None) -> ScoredRows:
        """Search deeper as long as too few rows are allowed: a term says nothing of the folder that a row is in."""
        limit = k
        while True:
            scores, rows = super()._allowed(matching, limit, filter, allowed)
            kept = np.ones(len(rows), np.bool_) if allowed is None else allowed.contains(rows)
            if len(rows) < limit or np.count_nonzero(kept) >= k:
                return scores[kept][:k], rows[kept][:k]
            limit *= 4


def _remembered(cache: dict[Key, Value], most: int, key: Key, make: Callable[[], Value]) -> Value:
    """Return a value out of a cache of at most so many, which is emptied when it is full."""
    found = cache.get(key)
    if found is None:
        if len(cache) >= most:
            cache.clear()
        found = cache[key] = make()
    return found


def _open(folders: Sequence[Path]) -> tuple[tantivy.Searcher, tantivy.Schema, list[int]]:
    """Open folders as one index, through links to their files, as Tantivy makes a lock file next to what it opens.

    Returns how many segments each of them has, too.
    """
    segments: list[dict[str, Any]] = []
    counts = []
    links: dict[str, Path] = {}
    for folder in folders:
        try:
            meta = json.loads((folder / META).read_bytes())
            counts.append(len(meta["segments"]))
            for segment in meta["segments"]:
                name, present = f"{len(segments):032x}", segment["segment_id"].replace("-", "")  # a copy has the same
                segments.append({**segment, "segment_id": name})
                files = folder.resolve().glob(f"{present}.*")
                links |= {name + path.name.removeprefix(present): path for path in files}
        except OSError as error:
            raise corrupt(folder, error.strerror or "cannot be read") from error
        except (ValueError, KeyError, TypeError) as error:
            raise corrupt(folder, "is not a readable lexical index") from error
    try:
        with tempfile.TemporaryDirectory(prefix="pilotlight-links-", ignore_cleanup_errors=True) as linked:
            for name, path in links.items():
                (Path(linked) / name).symlink_to(path)
            (Path(linked) / META).write_text(json.dumps({**meta, "segments": segments}), encoding="utf-8")
            return *_searcher(folders[0], linked), counts
    except OSError as error:
        raise IndexUnwritable(
            f"opening {folders[0]} needs a temporary folder: {error.strerror}; free some space, or set TMPDIR"
        ) from error


def _searcher(folder: Path, links: str) -> tuple[tantivy.Searcher, tantivy.Schema]:
    try:
        index = tantivy.Index.open(links)
        index.config_reader("manual")  # no thread that looks for changes
        index.reload()
        return index.searcher(), index.schema
    except (ValueError, OSError) as error:
        raise corrupt(folder, "is not a readable lexical index") from error


_ALL = (Occur.Must, Query.all_query())


def _word(schema: tantivy.Schema, terms: Terms) -> Query:
    """Any of the terms that stand for a word."""
    return _best([Query.term_query(schema, "text", term, "freq") for term in terms])


def _either(queries: Iterable[Query]) -> Query:
    return Query.boolean_query([(Occur.Should, query) for query in queries])


def _best(queries: Sequence[Query]) -> Query:
    """Any of several forms of one word, which count once."""
    return queries[0] if len(queries) == 1 else Query.disjunction_max_query(queries)
