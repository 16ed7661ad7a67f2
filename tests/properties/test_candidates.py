"""What scores, folds and chooses candidates, held against a few plain lines on random input."""

import math
from collections import Counter
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedder.late_interaction import maxsim, to_signs, unit
from indexer.generation.editions import Edition
from indexer.generation.rows import RowFacts, ScoredRows
from rag.query.model_queue import split_runs
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
from rag.query.weighting import _TABLE, SIGNALS, CollectionFacts, QueryFacts, measure_signals, weigh
from tests.dummy import DummyEmbedder

scores = st.floats(0, 1, width=32)
many = settings(max_examples=150, deadline=None)


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
        patch.setattr("rag.query.ranking._PASSAGES_PER_CHECK", size)
        scores = score_tokens(DummyEmbedder(), query, Tokens(), rows)  # type: ignore[arg-type]
    assert scores.tolist() == maxsim(query, signs, starts[rows], counts[rows]).tolist()


@many
@given(sizes=st.lists(st.integers(0, 300), max_size=9))
def test_runs_are_as_long_as_a_query_can_wait_for(sizes: list[int]) -> None:
    runs = [*split_runs(sizes)]
    assert [size for run in runs for size in sizes[run]] == sizes
    totals = [sum(sizes[run]) for run in runs]
    assert all(total <= 256 or len(sizes[run]) == 1 for run, total in zip(runs, totals, strict=True))
    assert all(total + sizes[run.stop] > 256 for run, total in zip(runs[:-1], totals, strict=False))


hits = st.dictionaries(st.integers(0, 30), scores, max_size=12)


def _in_order(found: dict[int, float]) -> ScoredRows:
    rows = sorted(found, key=lambda row: (-found[row], row))
    return ScoredRows(np.array([found[row] for row in rows], np.float32), np.array(rows, np.int64))


@many
@given(dense=hits, lexical=hits, has_tokens=st.booleans())
def test_fusion_adds_scaled_scores(dense: dict[int, float], lexical: dict[int, float], has_tokens: bool) -> None:
    def cosines(rows: Any) -> Any:
        return np.array([row / 100 for row in rows], np.float32)

    def tokens(rows: Any) -> Any:
        return np.array([math.sin(row) for row in rows], np.float32)

    query = QueryFacts(CollectionFacts(0.0, (), 0.0), (0, 3))
    found = _in_order(dense), _in_order(lexical)
    ranking = fuse(*found, cosines, tokens if has_tokens else None, query, explain=True)
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


@many
@given(
    cosines=st.lists(scores, max_size=14), bm25=st.lists(st.floats(0, 9, width=32), max_size=14),
    code=st.sampled_from([0.0, 0.01, 0.05, 0.08, 0.2]), unrelated=st.sampled_from([0.0, 0.25, 1.0]),
)  # fmt: skip
def test_signals(cosines: list[float], bm25: list[float], code: float, unrelated: float) -> None:
    cosines, bm25 = sorted(cosines, reverse=True), sorted(bm25, reverse=True)
    query = QueryFacts(CollectionFacts(code, (), unrelated), (0, 3))
    dense = ScoredRows(np.array(cosines, np.float32), np.arange(len(cosines)))
    values = measure_signals(query, dense, ScoredRows(np.array(bm25, np.float32), np.arange(len(bm25))))
    near = (cosines[0] - unrelated) / (1 - unrelated) if cosines and unrelated < 1 else 0.0
    tenth = bm25[9] / bm25[0] if bm25[9:] and bm25[0] else 0.0
    gap = cosines[0] - cosines[:10][-1] if cosines else 0.0
    assert values == pytest.approx([0.0, min(1.0, code / 0.05), tenth, gap, near, near * min(1.0, code / 0.1)])


@many
@given(values=st.lists(st.floats(-2, 2), min_size=len(SIGNALS), max_size=len(SIGNALS)), tokens=st.booleans())
def test_weights_are_logistic_in_the_signals(values: list[float], tokens: bool) -> None:
    def logit(share: float) -> float:
        return math.log(share / (1 - share))

    weights, moved = weigh(values, tokens=tokens)
    words, vector = _TABLE.words + tokens * _TABLE.words_with_tokens - values[0], _TABLE.vector
    added = []
    for name, value, signal in zip(SIGNALS, values, _TABLE.signals, strict=True):
        deviations = max(-3.0, min(3.0, (value - signal.mean) / signal.deviation))
        usual = 0.0 if name in ("tenth", "gap", "near") else -signal.mean / signal.deviation
        words, vector = words + deviations * signal.words, vector + deviations * signal.vector
        added.append((deviations - usual) * signal.words - value * (name == "known"))
    assert list(moved.values()) == pytest.approx(added)
    assert logit(weights["lexical"]) == pytest.approx(words)
    share = 1 / (1 + math.exp(-vector)) if tokens else 1.0
    assert weights["dense"] == pytest.approx((1 - weights["lexical"]) * share)
    assert sum(weights.values()) == pytest.approx(1)


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


formats = st.dictionaries(st.integers(0, 2), st.frozensets(st.integers(3, 4), min_size=1))


@many
@given(
    ranking=rankings(), signatures=signatures, documents=numbers, k=st.integers(1, 20), limit=st.integers(0, 3),
    twins=formats,
)  # fmt: skip
def test_choice_of_hits(
    ranking: Ranking, signatures: list[int], documents: list[int], k: int, limit: int, twins: dict[int, frozenset[int]]
) -> None:
    count = len(ranking.rows)
    signatures, documents = signatures[:count], documents[:count]
    facts = RowFacts(np.array(documents), np.array(signatures, np.uint64))
    choice = choose(ranking, facts, k=k, per_document=limit, editions=(), twins=twins)
    folded = fold_formats(ranking, documents, twins)
    visible = [index for index in range(count) if not any(index in others for others in folded.values())]
    leaders = {
        visible[place]: visible[leader]
        for place, leader in brute_collapse([signatures[index] for index in visible]).items()
    }
    expected: list[int] = []
    for index in visible:
        if index not in leaders and (
            not limit or [documents[each] for each in expected].count(documents[index]) < limit
        ):
            expected.append(index)
    assert choice.indices == expected[:k]
    assert choice.documents == documents
    for index in choice.indices:
        compared = folded.get(index, [])[:1] + [other for other, leader in leaders.items() if leader == index]
        assert choice.folded.get(index, []) == compared[: len(choice.folded.get(index, []))]
    if len(expected) < k:  # all were compared
        assert choice.folded.keys() - folded.keys() <= {*visible} - leaders.keys()
        assert len([*chain(*choice.folded.values())]) == len(leaders) + len(folded)
        passages = Counter(documents[index] for index in visible if index not in leaders)
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
    low, high = ranking.scores[read].min(), ranking.scores[read].max()
    blended = low + (high - low) * (scale(ranking.scores[read]) + scale(logits)) / 2
    assert ranked.scores.tolist()[: len(read)] == pytest.approx(sorted(blended.tolist(), reverse=True), abs=1e-5)
    unread = [row for index, row in enumerate(ranking.rows.tolist()) if index not in read]
    assert ranked.rows.tolist()[len(read) :] == unread
    assert sorted(ranked.rows.tolist()[: len(read)]) == sorted(ranking.rows[read].tolist())
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
@given(ranking=rankings(), documents=numbers, twins=formats)
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
