"""What ranks, counts and marks passages, held against a few plain lines on random input."""

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

from embedder.late_interaction import maxsim, to_signs, unit
from indexer.filter import Filter, terms_of
from indexer.generation.documents import DocumentFacts, select_rows
from indexer.generation.lexical.analysis import spans, terms_in
from indexer.generation.lexical.lexical_index import LexicalReader
from indexer.generation.lexical.lexical_query import parse_query, read_query
from indexer.generation.lexical.lexical_writer import LexicalWriter
from indexer.generation.rows import RowFacts, RowSet, TermHits
from indexer.generation.versions import Edition
from indexer.records import AccessLists, Document
from rag.query.ranking import (
    Ranking,
    choose,
    collapse,
    extend,
    fold_formats,
    fold_versions,
    fuse,
    rerank,
    scale,
    score_tokens,
)
from rag.query.results import count_facets
from rag.query.weighting import CollectionFacts, QueryFacts
from tests.dummy import DummyEmbedder
from tests.indexer.test_filter import store

K1, B = 1.2, 0.75
STEMS = "harbour lantern anchor ladder barrel copper violet marble".split()
WORDS = [form for stem in STEMS for form in (stem, f"{stem}s", f"{stem.capitalize()}ed")]

words = st.sampled_from(WORDS)
passages = st.lists(st.lists(words, min_size=1, max_size=20), min_size=1, max_size=12)
scores = st.floats(0, 1, width=32)
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
    only = Filter(language=("xx",)) if is_filtered else None
    with TemporaryDirectory() as folder:
        writer = LexicalWriter(Path(folder) / "lexical")
        for row, text in enumerate(texts):
            terms = ["language:xx"] if row in allowed else []
            writer.add(row, title="", section="", text=" ".join(text), terms=terms)
        writer.finish()
        reader = LexicalReader(Path(folder) / "lexical")
        among = RowSet(np.array([row in allowed for row in range(len(texts))]))
        found = reader.search(reader.read(typed), len(texts), only, among if only else None)
    in_terms = [terms_in(" ".join(text)) for text in texts]
    stems = [terms_in(word) for word in query]
    excluded_terms = terms_in(excluded) if excluded else []
    if excluded_terms in [*stems, *([terms_in(word)] for word in phrase)]:
        excluded_terms = []  # a word cannot be looked for and left out
    known = [each for each in stems if any(each[0] in text for text in in_terms)]
    required = [terms_in(" ".join(phrase))] if phrase else []
    if not known and not required:
        return  # corrections
    expected = {}
    for row, (text, score) in enumerate(zip(in_terms, brute_bm25(in_terms, known, required), strict=True)):
        has_phrase = all(_count(tuple(each), text) for each in required)
        is_excluded = bool(excluded_terms) and excluded_terms[0] in text
        if score > 0 and has_phrase and not is_excluded and (not only or row in allowed):
            expected[row] = score
    if len(known) < len(stems):  # words that no passage has may have been corrected
        assert {*found[1].tolist()} >= {*expected} or required
        return
    assert {*found[1].tolist()} == {*expected}
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

    only = replace(Filter.parse(fields), readers=readers)
    expected = {row for row, document in enumerate(documents) if holds(document)}
    with closing(store(documents, [1] * len(documents))) as connection:
        allowed = select_rows(only, connection, len(documents))
    assert {*allowed.rows().tolist()} == expected
    with TemporaryDirectory() as folder:
        writer = LexicalWriter(Path(folder) / "lexical")
        for row, document in enumerate(documents):
            terms = terms_of(document)
            writer.add(row, title="", section="", text="word", terms=terms, date=document.date)
        writer.finish()
        reader = LexicalReader(Path(folder) / "lexical")
        found = reader.search(reader.read("word", only=only), len(documents), only, allowed)
    assert {*found[1].tolist()} == expected


@many
@given(data=st.data(), width=st.sampled_from([8, 16, 64]))
def test_maxsim_is_the_mean_of_the_best_cosines_with_signs(data: st.DataObject, width: int) -> None:
    counts = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=6))
    chance = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    query = unit(chance.standard_normal((data.draw(st.integers(0, 4)), width), np.float32))
    tokens = chance.standard_normal((sum(counts), width), np.float32)
    starts = np.cumsum([0, *counts[:-1]])
    found = maxsim(query, to_signs(tokens), starts, np.array(counts, np.int32))
    for start, count, score in zip(starts, counts, found, strict=True):
        best = [
            max(float(each @ np.where(token > 0, 1, -1)) / math.sqrt(width) for token in tokens[start:][:count])
            for each in query
            if count
        ]
        assert score == pytest.approx(sum(best) / len(best) if best else 0.0, abs=1e-5)


@many
@given(count=st.integers(0, 9), size=st.integers(1, 4), seed=st.integers(0, 2**32 - 1))
def test_tokens_are_scored_in_slices(count: int, size: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    counts = chance.integers(0, 4, count).astype(np.int32)
    signs = to_signs(chance.standard_normal((int(counts.sum()), 16), np.float32))
    query, starts = unit(chance.standard_normal((3, 16), np.float32)), np.cumsum(counts) - counts

    class Tokens:
        def gather(self, rows: Any) -> tuple[Any, Any, Any]:
            return signs, starts[rows], counts[rows]

    rows: Any = chance.permutation(count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{score_tokens.__module__}._SLICE", size, raising=False)
        scores = score_tokens(DummyEmbedder(), query, Tokens(), rows)  # type: ignore[arg-type]
    assert scores.tolist() == maxsim(query, signs, starts[rows], counts[rows]).tolist()


hits = st.dictionaries(st.integers(0, 30), scores, max_size=12)


def _in_order(found: dict[int, float]) -> tuple[Any, Any]:
    rows = sorted(found, key=lambda row: (-found[row], row))
    return np.array([found[row] for row in rows], np.float32), np.array(rows, np.int64)


@many
@given(dense=hits, lexical=hits, has_tokens=st.booleans())
def test_fusion_adds_scaled_scores(dense: dict[int, float], lexical: dict[int, float], has_tokens: bool) -> None:
    def cosines(rows: Any) -> Any:
        return np.array([row / 100 for row in rows], np.float32)

    def tokens(rows: Any) -> Any:
        return np.array([math.sin(row) for row in rows], np.float32)

    query = QueryFacts(CollectionFacts(31, 0.0, (), 0.0), "", (0, 3))
    terms = TermHits(*_in_order(lexical), 2.0)
    ranking = fuse(_in_order(dense), terms, cosines, tokens if has_tokens else None, query, explain=True)
    rows = sorted({*dense, *lexical})
    assert sorted(ranking.rows.tolist()) == rows
    if not rows:
        return
    parts = {
        "dense": {row: dense.get(row, row / 100) for row in rows},
        "lexical": {row: lexical.get(row, 0.0) for row in rows},
    }
    parts |= {"tokens": {row: math.sin(row) for row in rows}} if has_tokens else {}
    totals = dict.fromkeys(rows, 0.0)
    for name, by_row in parts.items():
        low, high = (0.0 if name == "lexical" else min(by_row.values())), max(by_row.values())
        weight = float(ranking.columns[f"{name}_weight"][0])
        for row, score in by_row.items():
            is_flat = high - low < 1e-6
            totals[row] += weight * (float(name != "lexical") if is_flat else (score - low) / (high - low))
    spreads = [
        max(by_row.values()) - (0.0 if name == "lexical" else min(by_row.values())) for name, by_row in parts.items()
    ]
    if all(spread == 0 or spread > 1e-3 for spread in spreads):  # of numbers that are almost equal, float32 decides
        for row, score in zip(ranking.rows.tolist(), ranking.scores.tolist(), strict=True):
            assert score == pytest.approx(totals[row], abs=1e-3)
    keys = [(-score, row) for score, row in zip(ranking.scores.tolist(), ranking.rows.tolist(), strict=True)]
    assert keys == sorted(keys)


@st.composite
def rankings(draw: st.DrawFn) -> Ranking:
    """Draw candidates, best first."""
    rows = draw(st.lists(st.integers(0, 99), unique=True, min_size=1, max_size=15))
    found = sorted(draw(st.lists(scores, min_size=len(rows), max_size=len(rows))), reverse=True)
    return Ranking(np.array(rows, np.int64), np.array(found, np.float32), {})


signatures = st.lists(st.sampled_from([0, 1, 3, 7, 0xFF00, 0xFF01, 1 << 40]), min_size=15, max_size=15)
numbers = st.lists(st.integers(0, 4), min_size=15, max_size=15)


def brute_collapse(signatures: list[int], near: int = 2) -> dict[int, int]:
    leaders: dict[int, int] = {}
    for place, signature in enumerate(signatures):
        for first in range(place):
            if first not in leaders and (signature ^ signatures[first]).bit_count() <= near:
                leaders[place] = first
                break
    return leaders


@many
@given(signatures=signatures)
def test_duplicates_are_folded_into_the_best(signatures: list[int]) -> None:
    assert collapse(np.array(signatures, np.uint64)) == brute_collapse(signatures)


@many
@given(ranking=rankings(), signatures=signatures, documents=numbers, k=st.integers(1, 20), limit=st.integers(0, 3))
def test_choice_of_hits(ranking: Ranking, signatures: list[int], documents: list[int], k: int, limit: int) -> None:
    count = len(ranking.rows)
    signatures, documents = signatures[:count], documents[:count]
    choice = choose(ranking, RowFacts(np.array(documents), np.array(signatures, np.uint64)), k=k, per_document=limit)
    leaders = brute_collapse(signatures)
    expected: list[int] = []
    for index in range(count):
        if index not in leaders and (
            not limit or [documents[each] for each in expected].count(documents[index]) < limit
        ):
            expected.append(index)
    assert choice.indices == expected[:k]
    assert choice.documents == documents
    for index in choice.indices:
        compared = [other for other, leader in leaders.items() if leader == index]
        assert choice.folded.get(index, []) == compared[: len(choice.folded.get(index, []))]
    if len(expected) < k:  # all were compared
        assert choice.folded.keys() <= {*range(count)} - leaders.keys()
        assert sorted(other for others in choice.folded.values() for other in others) == sorted(leaders)
        passages = Counter(documents[index] for index in range(count) if index not in leaders)
        over = {document: number - limit for document, number in passages.items() if limit and number > limit}
        assert choice.left_out == over


@many
@given(ranking=rankings(), deeper=rankings())
def test_a_deeper_search_only_adds(ranking: Ranking, deeper: Ranking) -> None:
    extended = extend(ranking, deeper)
    new = [row for row in deeper.rows.tolist() if row not in ranking.rows.tolist()]
    assert extended.rows.tolist() == [*ranking.rows.tolist(), *new]
    assert extended.scores.tolist() == sorted(extended.scores.tolist(), reverse=True)
    assert extended.first == len(ranking.rows)
    assert extend(extended, deeper).rows.tolist() == extended.rows.tolist()


@many
@given(ranking=rankings(), data=st.data())
def test_what_a_cross_encoder_read_comes_first(ranking: Ranking, data: st.DataObject) -> None:
    count = len(ranking.rows)
    read = sorted(data.draw(st.sets(st.integers(0, count - 1))))
    logits = np.array(
        data.draw(st.lists(st.floats(-8, 8, width=32), min_size=len(read), max_size=len(read))), np.float32
    )
    ranked = rerank(ranking, np.array(read, np.int64), logits, logits / 10)
    if not read:
        assert ranked.rows.tolist() == ranking.rows.tolist()
        return
    blended = (scale(ranking.scores[read]) + scale(logits)) / 2
    order = [ranking.rows[read[place]] for place in np.argsort(-blended, kind="stable")]
    unread = [row for index, row in enumerate(ranking.rows.tolist()) if index not in read]
    assert ranked.rows.tolist()[len(read) :] == unread
    assert sorted(ranked.rows.tolist()[: len(read)]) == sorted(order)
    assert ranked.scores.tolist() == pytest.approx(sorted(ranked.scores.tolist(), reverse=True), abs=1e-6)
    assert np.isnan(ranked.columns["rerank"]).tolist() == [False] * len(read) + [True] * len(unread)
    places = [ranking.rows.tolist().index(row) + 1 for row in ranked.rows.tolist()[: len(read)]]
    assert ranked.columns["rank_before"].tolist()[: len(read)] == places


@many
@given(
    ranking=rankings(),
    pages=st.lists(
        st.none() | st.tuples(st.sampled_from("ab"), st.sampled_from(["1.2", "1.10", "dev"])), min_size=15, max_size=15
    ),
)
def test_the_newest_version_stands_for_a_page(ranking: Ranking, pages: list[tuple[str, str] | None]) -> None:
    editions = [page and Edition(("docs/*", page[0]), page[1], "") for page in pages[: len(ranking.rows)]]
    older, hidden = fold_versions(ranking, editions)
    shown = [index for index in range(len(editions)) if index not in hidden]
    order = ["1.10", "1.2", "dev"]  # the newest first; what is not released comes last
    for name in {edition.page for edition in editions if edition}:
        best: dict[str, int] = {}
        for index, edition in enumerate(editions):
            if edition and edition.page == name:
                best.setdefault(edition.version, index)
        least = ranking.scores[min(best.values())] / 2
        newest = next(version for version in order if version in best and ranking.scores[best[version]] >= least)
        visible = {edition.version for index in shown if (edition := editions[index]) and edition.page == name}
        below = order[order.index(newest) + 1 :]
        assert older.get(best[newest], {}) == {version: best[version] for version in below if version in best}
        assert visible == {version for version in best if version not in below}


@many
@given(
    ranking=rankings(),
    documents=numbers,
    twins=st.dictionaries(st.integers(0, 2), st.frozensets(st.integers(3, 4), min_size=1)),
)
def test_the_better_format_stands_for_a_document(
    ranking: Ranking, documents: list[int], twins: dict[int, frozenset[int]]
) -> None:
    documents = documents[: len(ranking.rows)]
    folded = fold_formats(ranking, documents, twins)
    for document, betters in twins.items():
        own = [index for index, each in enumerate(documents) if each == document]
        best = next((index for index, each in enumerate(documents) if each in betters), None)
        stands = own and best is not None and ranking.scores[best] >= ranking.scores[own[0]] / 2
        hidden = [index for index in own if any(index in others for others in folded.values())]
        assert hidden == (own if stands else [])


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
