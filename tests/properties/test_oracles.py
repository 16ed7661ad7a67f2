"""What finds, counts and marks passages, held against a few plain lines on random input."""

import math
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.filter import Filter, terms_of
from indexer.generation.documents import DocumentFacts, select_rows
from indexer.generation.lexical.analysis import spans, terms_in
from indexer.generation.lexical.lexical_index import LexicalReader
from indexer.generation.lexical.lexical_query import parse_query, read_query
from indexer.generation.lexical.lexical_writer import LexicalWriter
from indexer.generation.rows import RowSet
from indexer.records import AccessLists, Document
from rag.query.results import count_facets
from tests.indexer.test_filter import store

K1, B = 1.2, 0.75
STEMS = "harbour lantern anchor ladder barrel copper violet marble".split()
WORDS = [form for stem in STEMS for form in (stem, f"{stem}s", f"{stem.capitalize()}ed")]

words = st.sampled_from(WORDS)
passages = st.lists(st.lists(words, min_size=1, max_size=20), min_size=1, max_size=12)
few = settings(max_examples=25, deadline=None)
many = settings(max_examples=150, deadline=None)


def brute_bm25(texts: list[list[str]], query: list[list[str]], required: list[list[str]]) -> list[float]:
    """Return the BM25 of texts, lists of terms: of words, each as its terms, and of phrases."""
    average = np.float32(sum(map(len, texts))) / np.float32(len(texts))
    wanted = list(dict.fromkeys(tuple(terms) for terms in query)) + [tuple(terms) for terms in required]
    totals = [0.0] * len(texts)
    for terms in wanted:
        counts = [_count(terms, text) for text in texts]
        idf = 0.0
        for term in terms:
            frequency = sum(term in text for text in texts)
            idf += math.log(1 + (len(texts) - frequency + 0.5) / (frequency + 0.5))
        for place, (count, text) in enumerate(zip(counts, texts, strict=True)):
            if count:
                totals[place] += idf * (K1 + 1) * count / (count + K1 * (1 - B + B * len(text) / average))
    return totals


def _count(terms: tuple[str, ...], text: list[str]) -> int:
    return sum(tuple(text[place : place + len(terms)]) == terms for place in range(len(text)))


@few
@given(
    texts=passages, query=st.lists(words, min_size=1, max_size=5), phrase=st.lists(words, max_size=2),
    excluded=st.none() | words, allowed=st.sets(st.integers(0, 11)), is_filtered=st.booleans(),
)  # fmt: skip
def test_bm25_with_phrases_exclusions_and_a_filter(
    texts: list[list[str]], query: list[str], phrase: list[str], excluded: str | None, allowed: set[int],
    is_filtered: bool,
) -> None:  # fmt: skip
    typed = " ".join(query) + (f' "{" ".join(phrase)}"' if phrase else "") + (f" -{excluded}" if excluded else "")
    filter = Filter(language=("xx",)) if is_filtered else None
    with TemporaryDirectory() as folder:
        writer = LexicalWriter(Path(folder) / "lexical")
        for row, text in enumerate(texts):
            terms = ["language:xx"] if row in allowed else []
            writer.add(row, title="", section="", text=" ".join(text), terms=terms)
        writer.finish()
        reader = LexicalReader(Path(folder) / "lexical")
        among = RowSet(np.array([row in allowed for row in range(len(texts))]))
        found = reader.search(reader.read(typed), len(texts), filter, among if filter else None)
    in_terms = [terms_in(" ".join(text)) for text in texts]
    stems = [terms_in(word) for word in query]
    excluded_terms = terms_in(excluded) if excluded else []
    if excluded_terms in [*stems, *map(terms_in, phrase)]:
        excluded_terms = []  # a word cannot be looked for and left out
    known = [each for each in stems if any(each[0] in text for text in in_terms)]
    required = [terms_in(" ".join(phrase))] if phrase else []
    if not known and not required:
        return  # corrections
    expected = {}
    for row, (text, score) in enumerate(zip(in_terms, brute_bm25(in_terms, known, required), strict=True)):
        has_phrase = all(_count(tuple(each), text) for each in required)
        is_excluded = bool(excluded_terms) and excluded_terms[0] in text
        if score > 0 and has_phrase and not is_excluded and (not filter or row in allowed):
            expected[row] = score
    if len(known) < len(stems):  # words that no passage has may have been corrected
        assert {*found[1].tolist()} >= {*expected} or required
        return
    assert {*found[1].tolist()} == {*expected}, (typed, texts)
    assert found[0].tolist() == pytest.approx([expected[row] for row in found[1].tolist()], rel=1e-4)
    assert found[0].tolist() == sorted(found[0].tolist(), reverse=True)


def _document(
    path: str, source: str, language: str | None, date: str | None, kind: str, team: tuple[str, ...],
    groups: tuple[str, ...] | None,
) -> Document:  # fmt: skip
    return Document(
        f"https://docs.test/{path}", source, "", (), "", None, None, "", language=language, date=date,
        content_type=kind, metadata={"team": team} if team else {}, access=AccessLists(None, groups),
    )  # fmt: skip


FACETS: dict[str, Any] = {
    "path": st.sampled_from(["a/x", "a/y", "a/b/x", "b/x", "ab/x"]),
    "source": st.sampled_from(["one", "two"]),
    "language": st.sampled_from(["en", "de", None]),
    "date": st.sampled_from([None, "2026-01-31", "2026-02-01"]),
    "kind": st.sampled_from(["text/html", "text/plain"]),
    "team": st.sampled_from([(), ("core",), ("core", "docs")]),
    "groups": st.sampled_from([None, (), ("group:staff",)]),
}
documents = st.lists(st.builds(_document, **FACETS), min_size=1, max_size=10)


@few
@given(
    documents=documents,
    fields=st.fixed_dictionaries(
        {},
        optional={
            "source": st.just(["one"]),
            "language": st.just(["de"]),
            "content_type": st.just(["text/html"]),
            "url_prefix": st.sampled_from(["https://docs.test/a", "https://docs.test/a/b/x"]),
            "path": st.sampled_from(["/a", "b"]),
            "date": st.sampled_from([{"from": "2026-02-01"}, {"to": "2026-01-31"}]),
            "metadata": st.sampled_from([{"team": "docs"}, {"team": ["docs", "core"]}]),
        },
    ),
    readers=st.sampled_from([None, frozenset[str](), frozenset({"group:staff", "user:ann"})]),
)
def test_filters_of_every_kind(
    documents: list[Document], fields: dict[str, Any], readers: frozenset[str] | None
) -> None:
    def holds(document: Document) -> bool:
        path = document.url.removeprefix("https://docs.test/")
        prefix = fields.get("url_prefix", "").removeprefix("https://docs.test/")
        date, names = fields.get("date", {}), document.access.declared
        team = fields.get("metadata", {}).get("team", [])
        tests = [
            document.source in fields.get("source", [document.source]),
            document.language in fields.get("language", [document.language]),
            document.content_type in fields.get("content_type", [document.content_type]),
            f"{path}/".startswith(f"{prefix}/") or not prefix,
            f"/{path}/".startswith(f"/{fields.get('path', '').strip('/')}/") or "path" not in fields,
            not date or (document.date is not None and date.get("from", "") <= document.date <= date.get("to", "9")),
            not team
            or not {*([team] if isinstance(team, str) else team)}.isdisjoint(document.metadata.get("team", ())),
            readers is None or names is None or not readers.isdisjoint(names),
        ]
        return all(tests)

    filter = replace(Filter.parse(fields), readers=readers)
    expected = {row for row, document in enumerate(documents) if holds(document)}
    with closing(store(documents, [1] * len(documents))) as connection:
        allowed = select_rows(filter, connection, len(documents))
    assert {*allowed.rows().tolist()} == expected
    with TemporaryDirectory() as folder:
        writer = LexicalWriter(Path(folder) / "lexical")
        for row, document in enumerate(documents):
            terms = terms_of(document)
            writer.add(row, title="", section="", text="word", terms=terms, date=document.date)
        writer.finish()
        reader = LexicalReader(Path(folder) / "lexical")
        found = reader.search(reader.read("word", filter=filter), len(documents), filter, allowed)
    assert {*found[1].tolist()} == expected


@many
@given(documents=documents)
def test_facets_count_documents(documents: list[Document]) -> None:
    facts = [DocumentFacts(each.url, each.source, each.language, each.content_type) for each in documents]
    facets = count_facets(facts, ["1.2", "1.10", "1.2"])
    for name in ("source", "language", "content_type"):
        counts = Counter(getattr(each, name) for each in documents if getattr(each, name))
        assert {share["value"]: share["count"] for share in facets[name]} == counts
        assert [share["count"] for share in facets[name]] == sorted(counts.values(), reverse=True)
    assert [share["value"] for share in facets["version"]] == ["1.10", "1.2"]
    assert sum(share["count"] for share in facets["path"]) <= len(documents)


@many
@given(
    text=st.lists(words | st.sampled_from(["and", "--no-cache", "R&D", "10 MB", "getUserById", "東京", "é"])),
    query=words,
)
def test_every_highlight_is_a_word_of_the_query(text: list[str], query: str) -> None:
    joined = ", ".join(text)
    marked = read_query(query).marked
    found = spans(marked, joined)
    assert found == sorted(found)
    for start, end in found:
        assert marked.intersection(terms_in(joined[start:end])), joined[start:end]
    wanted = sum(not marked.isdisjoint(terms_in(word)) for word in text)
    assert len(found) == wanted


@many
@given(
    text=st.text(max_size=60)
    | st.lists(st.sampled_from(["-cats", '"dogs bark"', "cats", "“", '"', "-", "--x"])).map(" ".join)
)
def test_reading_a_query_never_fails(text: str) -> None:
    parsed = parse_query(text)
    assert len(parsed.required) <= 8
    assert len(parsed.excluded) <= 8
    read = read_query(text)
    assert read.marked >= {term for terms in read.words for term in terms}
