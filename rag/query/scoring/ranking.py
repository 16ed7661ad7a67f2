"""From what the two searches found to an order: fusion, near-duplicates, hits of one document, variety."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from indexer.generation.repetition import WHOLE
from rag.query.scoring.fusion import (
    Rows,
    Scores,
    Weights,
    aligned,
    best_first,
    blended,
    cap,
    collapse,
    mmr,
    reciprocal_rank,
    trusted,
    union,
    weighted_sum,
)

Found = tuple[Scores, Rows]
_AHEAD = 3  # times k candidates are looked at first: comparing all of them takes longer than the rest together
BOILERPLATE = 0.1  # of its score that a passage loses which repeats from end to end; see docs/evaluation.md
_COMPARED = 2_000  # hits among which near-duplicates are looked for: every pair of them is compared


@dataclass(frozen=True, slots=True)
class Ranking:
    """Candidates, best first; arrays of one length."""

    rows: Rows
    scores: Scores
    dense: Scores | None  # cosines; None where they were not asked for
    lexical: Scores | None  # BM25, 0 where no word matches; None where it was not asked for
    tokens: Scores | None = None  # MaxSim; None where tokens are not kept
    first: int | None = None  # candidates before those that a deeper search added; None where there are no others
    rerank: Scores | None = None  # of a cross-encoder, NaN where it has not read them; None where it was not asked for
    weights: Weights | None = None  # with which the parts were joined; None where the score is that of one part

    def ordered(self, order: npt.NDArray[np.integer], scores: Scores) -> "Ranking":
        """Return the candidates in another `order` (n,), with `scores` (n,) by the indices of the present one."""

        def taken(values: Scores | None) -> Scores | None:
            return None if values is None else values[order]

        return Ranking(
            self.rows[order],
            scores[order],
            taken(self.dense),
            taken(self.lexical),
            taken(self.tokens),
            rerank=taken(self.rerank),
            weights=self.weights,
        )


def single(found: Found, *, is_dense: bool) -> Ranking:
    """Rank what one search found."""
    scores, rows = found
    return Ranking(rows, scores, scores if is_dense else None, None if is_dense else scores)


def interacted(dense: Found, maxsim: Callable[[Rows], Scores]) -> Ranking:
    """Rank what the dense search found by MaxSim alone, the better order of the two; `maxsim` gives that of rows."""
    cosines, rows = dense
    tokens = maxsim(rows)
    return Ranking(rows, tokens, cosines, None, tokens).ordered(np.lexsort((rows, -tokens)), tokens)


def fused(
    dense: Found,
    lexical: Found,
    cosines: Callable[[Rows], Scores],
    *,
    maxsim: Callable[[Rows], Scores] | None = None,
    fusion: str = "weighted",
    idf_sum: float = 0.0,
) -> Ranking:
    """Rank what two searches found together.

    Args:
        dense: cosines and rows, best first.
        lexical: BM25 scores and rows, best first.
        cosines: gives the cosines of rows that the dense search did not find.
        maxsim: gives MaxSim of rows, a third part of the ranking, where tokens are kept.
        fusion: one of `fusion.FUSIONS`.
        idf_sum: of the words of the query, which says how far these are to be trusted, see `fusion.trusted`.
    """
    rows = union(dense[1], lexical[1])
    by_meaning = aligned(rows, dense[1], dense[0], np.nan)
    missing = np.isnan(by_meaning)
    if missing.any():
        by_meaning[missing] = cosines(rows[missing])
    by_words = aligned(rows, lexical[1], lexical[0], 0)
    tokens = maxsim(rows) if maxsim is not None else None
    weights = trusted(lexical[0], idf_sum) if fusion == "weighted" else None
    if weights is None:
        lists = [dense[1], lexical[1]]
        scores = reciprocal_rank(rows, lists if tokens is None else [*lists, rows[best_first(tokens)]])
    else:
        scores = weighted_sum(by_meaning, by_words, weights, tokens)
    return Ranking(rows, scores, by_meaning, by_words, tokens, weights=weights).ordered(best_first(scores), scores)


def lowered(ranking: Ranking, repetition: npt.NDArray[np.uint8]) -> Ranking:
    """Rank anew, passages of boilerplate lower; `repetition` (n,) is of `indexer.generation.repetition`."""
    if not repetition.any():
        return ranking
    scores = ranking.scores - np.abs(ranking.scores) * (BOILERPLATE / WHOLE * repetition.astype(np.float32))
    return ranking.ordered(best_first(scores), scores)


def reranked(ranking: Ranking, read: Rows, logits: Scores, scores: Scores) -> Ranking:
    """Rank anew what a cross-encoder has read, before what it has not.

    Args:
        ranking: candidates, best first.
        read: indices (n,) of those that it has read, in order.
        logits: what it gives them, (n,).
        scores: the same as it is shown, (n,).
    """
    found = np.full(len(ranking.rows), np.nan, np.float32)
    found[read] = scores
    ranking = dataclasses.replace(ranking, rerank=found)
    if not len(read):
        return ranking
    blend = blended(ranking.scores[read], logits)
    order = np.concatenate([read[best_first(blend)], np.setdiff1d(np.arange(len(found)), read)])
    by_index = np.minimum(ranking.scores, blend.min())  # those that it has not read do not score better
    by_index[read] = blend
    return ranking.ordered(order, by_index)


def extended(ranking: Ranking | None, deeper: Ranking) -> Ranking:
    """Return a ranking as it is, followed by what a deeper search found beyond it, none of which scores better."""
    if ranking is None:
        return deeper
    new = ~np.isin(deeper.rows, ranking.rows)
    least = ranking.scores[-1] if len(ranking.scores) else np.float32(np.inf)

    def joined(before: Scores | None, after: Scores | None) -> Scores | None:
        return None if before is None or after is None else np.concatenate([before, after[new]])

    return Ranking(
        np.concatenate([ranking.rows, deeper.rows[new]]),
        np.concatenate([ranking.scores, np.minimum(deeper.scores[new], least)]),
        joined(ranking.dense, deeper.dense),
        joined(ranking.lexical, deeper.lexical),
        joined(ranking.tokens, deeper.tokens),
        len(ranking.rows) if ranking.first is None else ranking.first,
        None if ranking.rerank is None else np.pad(ranking.rerank, (0, int(new.sum())), constant_values=np.nan),
        ranking.weights,
    )


@dataclass(frozen=True, slots=True)
class Choice:
    """Which candidates of a ranking are shown, in order, and which near-duplicates each stands for."""

    indices: npt.NDArray[np.int64]
    folded: dict[int, list[int]]  # by index into the ranking
    left_out: dict[int, int]  # by document: how many of those compared are of it, but above the limit


def choose(
    ranking: Ranking,
    facts: npt.NDArray[np.void],
    vectors: Callable[[Rows], Scores],
    *,
    k: int,
    per_document: int = 0,
    diversity: float = 0.0,
) -> Choice:
    """Choose k candidates, or fewer if there are no more.

    Args:
        ranking: candidates, best first.
        facts: document and signature of each, see `indexer.generation.rows`.
        vectors: gives unit vectors by row, float32 (n, dimension).
        k: how many.
        per_document: of one document at most; 0 for any number.
        diversity: 0 keeps the order, 1 looks at variety alone (maximal marginal relevance); what a deeper search added
            follows in its order.
    """
    looked_at = len(facts) if diversity else min(len(facts), _AHEAD * k)
    while True:
        leaders = np.arange(looked_at, dtype=np.int64)
        leaders[:_COMPARED] = collapse(facts["signature"][: min(looked_at, _COMPARED)])
        stands = leaders == np.arange(looked_at)
        kept = np.flatnonzero(stands)
        beyond = kept[:0]
        if per_document:
            within = cap(facts["document"][kept], per_document)
            kept, beyond = kept[within], kept[~within]
        if len(kept) >= k or looked_at == len(facts):
            break
        looked_at = min(len(facts), 4 * looked_at)
    if diversity and len(kept) > 1:
        among = kept if ranking.first is None else kept[kept < ranking.first]
        scores = ranking.scores[among]
        picked = mmr(vectors(ranking.rows[among]), scores / max(float(scores.max()), 1e-9), 1 - diversity, k)
        kept = np.concatenate([among[picked], kept[len(among) :]])
    kept = kept[:k]
    folded: dict[int, list[int]] = {}
    for index in np.flatnonzero(~stands).tolist():
        folded.setdefault(int(leaders[index]), []).append(index)
    documents, counts = np.unique(facts["document"][beyond], return_counts=True)
    return Choice(kept, folded, dict(zip(documents.tolist(), counts.tolist(), strict=True)))
