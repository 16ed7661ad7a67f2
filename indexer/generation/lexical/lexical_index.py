"""The words of every chunk in Tantivy, scored by its BM25 (k1 1.2, b 0.75): the one place that knows it.

Terms come from `analysis`, on both sides, so Tantivy itself only splits at spaces. Its Python binding looks at every
posting of every term it is given (nothing is pruned), so time follows the number of postings, and hardly the number of
hits asked for.
"""

import contextlib
import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from datetime import date
from itertools import accumulate
from pathlib import Path

import numpy as np
import numpy.typing as npt
import tantivy
from tantivy import Occur, Query

from indexer.filter import Filter
from indexer.generation.lexical.analysis import rules_for, terms_in
from indexer.generation.lexical.languages import ENGLISH, STEMMERS
from indexer.generation.lexical.lexical_query import LexicalQuery, Terms, read_query
from indexer.generation.manifest import corrupt
from indexer.generation.temporary_links import links_to
from indexer.rowset import RowSet, ScoredRows

_HEAP = 256_000_000  # bytes that Tantivy may fill before it writes a segment: about 600,000 chunks
_META = "meta.json"
_MOST_TERMS = 32  # of a query; the rarest
# Postings of one search, about 4 ns each. The rarest terms within them find the candidates; the other terms, which
# weigh least, are added to the scores of the candidates alone.
_POSTINGS = 300_000
_FEWEST_CANDIDATES = 64
_FEW = 20_000  # allowed rows, among which even common terms have so few postings that all of them are searched
_MARGIN = 1.3  # of hits found over those expected to be needed, where a filter is applied to what was found
_HIT = 80  # testing a filter within the search costs as much for so many rows as one more hit costs without


class LexicalWriter:
    """Gathers the words of chunks and writes one folder. Memory is bounded, whatever the number of chunks."""

    def __init__(self, folder: Path) -> None:
        """Make the folder; raises OSError if it cannot be written."""
        folder.mkdir()
        self._folder = folder
        self._languages: Counter[str] = Counter()
        try:
            index = tantivy.Index(_schema(), str(folder))
            # one thread: rows stay in order, and the build has better uses for the other cores
            self._writer = index.writer(heap_size=_HEAP, num_threads=1)
            self._is_open = True
        except ValueError as error:
            raise _unwritable(folder, error) from error

    def add(
        self,
        row: int,
        *,
        title: str,
        section: str,
        text: str,
        terms: Sequence[str] = (),
        date: str | None = None,
        language: str | None = None,
    ) -> None:
        """Add a chunk.

        Args:
            row: its row, which a search gives back.
            title: of its document.
            section: its heading path; where that starts with the title, the title is not counted again.
            text: its words.
            terms: what filters test, from `filter.terms_of`.
            date: of its document, YYYY-MM-DD.
            language: of its document, whose rules stem the words.

        Raises:
            OSError: the disk is full or failing.
        """
        entry = tantivy.Document()
        entry.add_unsigned("row", row)
        entry.add_text("text", " ".join(terms_of_chunk(title, section, text, language)))
        self._languages[rules_for(language)] += 1
        for term in terms:
            entry.add_text("term", term)
        if date is not None:
            entry.add_integer("day", _day(date))
        try:
            self._writer.add_document(entry)
        except ValueError as error:
            raise _unwritable(self._folder, error) from error

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages by whose rules words were stemmed, the most frequent one first; see `Manifest.languages`."""
        return tuple(language for language, _ in self._languages.most_common())

    def finish(self) -> None:
        """Complete the folder, with nothing in it but what a reader needs; raises OSError if it cannot be written."""
        self._is_open = False
        try:
            self._writer.commit()
            self._writer.wait_merging_threads()
        except ValueError as error:
            raise _unwritable(self._folder, error) from error
        segments = json.loads((self._folder / _META).read_text(encoding="utf-8"))["segments"]
        wanted = {segment["segment_id"].replace("-", "") for segment in segments}
        for path in self._folder.iterdir():
            if path.name != _META and path.stem not in wanted:  # locks, and segments that were merged into others
                path.unlink()

    def close(self) -> None:
        """Give up a folder that has not been finished; the files stay."""
        if self._is_open:
            self._is_open = False
            with contextlib.suppress(ValueError):  # the build has already failed, and says why
                self._writer.rollback()
                self._writer.wait_merging_threads()


class LexicalReader:
    """Searches a published folder, mapped into memory; concurrent searches are safe and do not hold the GIL."""

    def __init__(self, folder: Path, languages: Sequence[str] = (ENGLISH,)) -> None:
        """Open a folder whose checksums have been verified; it is only read, and may be deleted afterwards.

        Args:
            folder: what `LexicalWriter` wrote.
            languages: its `languages`.

        Raises:
            IndexCorrupt: it is not an index of the kind that `LexicalWriter` makes.
            IndexUnwritable: there is no room for a temporary folder.
        """
        self._folder = folder
        self._languages = tuple(languages) or (ENGLISH,)
        if unknown := [language for language in languages if language not in STEMMERS]:
            raise corrupt(folder, f"is stemmed by rules for {unknown[0]!r}, which this program does not know")
        with links_to(folder) as links:  # Tantivy makes a lock file beside what it opens, and generations never change
            try:
                self._index = tantivy.Index.open(str(links))
                self._index.config_reader("manual")  # no thread that looks for changes
                self._index.reload()
                self._searcher = self._index.searcher()
            except (ValueError, OSError) as error:
                raise corrupt(folder, "is not a readable lexical index") from error
        self._schema = self._index.schema
        self._total = self._searcher.num_docs
        self._check()

    @property
    def count(self) -> int:
        """Chunks in the index."""
        return self._total

    def check_rows(self) -> None:
        """Raise IndexCorrupt unless every row is there once; not asked at opening, since it takes a while."""
        for row in range(self._total):
            if (found := self._searcher.doc_freq("row", row)) != 1:
                raise corrupt(self._folder, f"has row {row} {found} times")

    def read(self, query: str) -> LexicalQuery:
        """Read a query for `search`."""
        return read_query(query, self._languages)

    def search(
        self, wanted: LexicalQuery, k: int, filter: Filter | None = None, allowed: RowSet | None = None
    ) -> ScoredRows:
        """Find the chunks that have words of a query, all of its quoted phrases, and match a filter.

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
        telling, common = self._split(wanted.words, all_of_them=allowed is not None and allowed.count <= _FEW)
        if wanted.phrases:
            matching, common = self._with_phrases(wanted.phrases, [*telling, *common]), []
        elif telling:
            matching = self._any(telling)
        else:
            return _nothing()
        candidates = max(k, _FEWEST_CANDIDATES) if common else k
        scores, rows = self._allowed(matching, candidates, filter, allowed)
        if common and len(rows):
            scores = scores + self._scores(common, rows)
        if rows.max(initial=0) >= self._total:
            raise corrupt(self._folder, f"has a row {rows.max()}, but only {self._total:,} chunks")
        order = np.lexsort((rows, -scores))[:k]
        return scores[order], rows[order]

    def _split(self, words: Sequence[Terms], *, all_of_them: bool) -> tuple[list[Terms], list[Terms]]:
        """Words that find candidates, rarest first, and those too common for that; unknown terms are left out."""
        frequencies = []
        for terms in words:
            known = {term: frequency for term in terms if (frequency := self._searcher.doc_freq("text", term))}
            if known:
                frequencies.append((sum(known.values()), tuple(known)))
        rarest = sorted(frequencies)[:_MOST_TERMS]
        found = [terms for _, terms in rarest]
        postings = list(accumulate(frequency for frequency, _ in rarest))
        first = len(found) if all_of_them else max(2, bisect_right(postings, _POSTINGS))
        return found[:first], found[first:]

    def _allowed(self, matching: Query, k: int, filter: Filter | None, allowed: RowSet | None) -> ScoredRows:
        if not filter or allowed is None:
            return self._find(matching, k)
        limit = int(k * self._total / allowed.count * _MARGIN) + k
        if limit * _HIT < allowed.count:
            scores, rows = self._find(matching, limit)
            kept = allowed.contains(rows)
            if len(rows) < limit or np.count_nonzero(kept) >= k:
                return scores[kept][:k], rows[kept][:k]
        return self._find(Query.boolean_query([(Occur.Must, matching), *self._tests(filter)]), k)

    def _find(self, query: Query, limit: int) -> ScoredRows:
        hits = self._searcher.search(query, max(1, min(limit, self._total)), count=False).hits
        rows = self._searcher.fast_field_values("row", [address for _, address in hits])
        scores = np.fromiter((score for score, _ in hits), np.float32, len(hits))
        return scores, np.array(rows, dtype=np.int64)

    def _scores(self, words: Sequence[Terms], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """BM25 of these words in these rows, float32 of the same shape; 0 where there are none."""
        among = _either([self._term("row", row) for row in rows.tolist()])
        query = Query.boolean_query([(Occur.Must, Query.const_score_query(among, 0.0)), (Occur.Must, self._any(words))])
        found_scores, found_rows = self._find(query, len(rows))
        scores = np.zeros(len(rows), dtype=np.float32)
        order = np.argsort(rows)
        scores[order[np.searchsorted(rows, found_rows, sorter=order)]] = found_scores
        return scores

    def _tests(self, wanted: Filter) -> list[tuple[Occur, Query]]:
        tests = [_either([self._term("term", term) for term in group]) for group in wanted.terms()]
        if wanted.date_from or wanted.date_to:
            first = _day(wanted.date_from) if wanted.date_from else None
            last = _day(wanted.date_to) if wanted.date_to else None
            days = tantivy.FieldType.Integer
            tests.append(Query.range_query(self._schema, "day", days, first, last, use_inverted_index=True))
        return [(Occur.Must, Query.const_score_query(test, 0.0)) for test in tests]

    def _with_phrases(self, phrases: Sequence[tuple[Terms, ...]], words: Sequence[Terms]) -> Query:
        required = [(Occur.Must, _best([self._phrase(terms) for terms in readings])) for readings in phrases]
        return Query.boolean_query([*required, (Occur.Should, self._any(words))])

    def _phrase(self, terms: Terms) -> Query:
        return Query.phrase_query(self._schema, "text", list(terms)) if len(terms) > 1 else self._any([terms])

    def _any(self, words: Sequence[Terms]) -> Query:
        return _either(
            [_best([Query.term_query(self._schema, "text", term, "freq") for term in terms]) for terms in words]
        )

    def _term(self, field: str, value: str | int) -> Query:
        return Query.term_query(self._schema, field, value, "basic")

    def _check(self) -> None:
        """Raise IndexCorrupt if the fields are others than this program writes."""
        try:
            self._tests(Filter(source=("",), date_from="2000-01-01"))
            self._find(self._any([("a",)]), 1)
        except ValueError as error:
            raise corrupt(self._folder, "is a lexical index of another kind") from error


def terms_of_chunk(title: str, section: str, text: str, language: str | None = None) -> list[str]:
    """Return the terms by which a chunk is found, in order; where its heading path starts with the title, only once."""
    heading = section if section.startswith(title) else f"{title} {section}"
    return terms_in(f"{heading} {text}", language)


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", tokenizer_name="whitespace", index_option="position")
    builder.add_text_field("term", tokenizer_name="raw", index_option="basic")
    builder.add_integer_field("day", indexed=True)
    builder.add_unsigned_field("row", fast=True, indexed=True)
    return builder.build()


def _either(queries: Sequence[Query]) -> Query:
    return Query.boolean_query([(Occur.Should, query) for query in queries])


def _best(queries: Sequence[Query]) -> Query:
    """Any of several forms of one word, which count once."""
    return queries[0] if len(queries) == 1 else Query.disjunction_max_query(queries)


def _day(text: str) -> int:
    return date.fromisoformat(text).toordinal()


def _nothing() -> ScoredRows:
    return np.empty(0, np.float32), np.empty(0, np.int64)


def _unwritable(folder: Path, error: Exception) -> OSError:
    return OSError(f"cannot write {folder}: {' '.join(str(error).split())[:200]}")
