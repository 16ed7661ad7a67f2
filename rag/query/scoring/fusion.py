"""Several lists of candidates into one: pure functions on arrays of a few hundred rows, microseconds each.

Rows are int64, scores float32; "best first" is by score, and by row where scores are equal.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from indexer.generation.signature import NEAR, distance

FUSIONS = ("weighted", "rrf")
_ENOUGH = 0.5  # of a query that its best hit by words must have for words to count as much as meaning
Rows = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]


class Weights(NamedTuple):
    """How much the parts of a ranking count, in proportion to each other; their sum is more than 0."""

    dense: float = 1.0
    lexical: float = 1.0
    tokens: float = 1.0

    def total(self, *, with_tokens: bool) -> float:
        """Return the sum of those that count, tokens only where they are kept."""
        return self.dense + self.lexical + (self.tokens if with_tokens else 0)


EVEN = Weights()
RERANK_WEIGHT = 0.5  # of a cross-encoder against the search


def trusted(lexical: Scores, idf_sum: float) -> Weights:
    """Return the weights of a query: words count less where even the best hit by words has less than half of them.

    How much of a query a passage has is its BM25 over `idf_sum`, that of a passage of average length with each word of
    the query once. The longer a query, and the more of its words are in few passages or in none, the less of it has
    any passage; then the best BM25 says little, while the vector still speaks for the whole. So the weight is what is
    known without judgements of how well a search does (Shtok et al. 2012); docs/evaluation.md has figures.

    Args:
        lexical: BM25 (n,) of what was found.
        idf_sum: of the query's words, see `Searchable.idf_sum`; 0 where it is not known, for even weights.
    """
    if not len(lexical) or idf_sum <= 0:
        return EVEN
    return Weights(lexical=min(1.0, float(lexical.max()) / (_ENOUGH * idf_sum)))


def union(rows: Rows, others: Rows) -> Rows:
    """Return the rows that stand in either, ascending. `np.union1d` takes three times as long for so few."""
    merged = np.concatenate([rows, others])
    merged.sort()
    is_first = np.ones(len(merged), dtype=np.bool_)
    np.not_equal(merged[1:], merged[:-1], out=is_first[1:])
    return merged[is_first]


def aligned(candidates: Rows, rows: Rows, scores: Scores, absent: float) -> Scores:
    """Return the scores of the candidates, (n,): those of `rows`, all of which must be among them, or `absent`.

    `candidates` (n,) is ascending, as `union` gives it.
    """
    found = np.full(len(candidates), absent, dtype=np.float32)
    found[np.searchsorted(candidates, rows)] = scores
    return found


def reciprocal_rank(candidates: Rows, lists: list[Rows], k: float = 60) -> Scores:
    """Return scores (n,) by reciprocal rank fusion (Cormack, Clarke and Büttcher 2009): the sum of 1 / (k + rank).

    `lists` are best first; a candidate that a list does not have gets nothing from it.
    """
    total = np.zeros(len(candidates), dtype=np.float32)
    for rows in lists:
        total += aligned(candidates, rows, (1 / (k + np.arange(1, len(rows) + 1))).astype(np.float32), 0)
    return total


def weighted_sum(dense: Scores, lexical: Scores, weights: Weights = EVEN, tokens: Scores | None = None) -> Scores:
    """Return scores (n,) from 0 to 1, a convex combination (Bruch, Gai and Ingber 2023).

    Args:
        dense: cosines (n,) of all candidates, scaled here so that the lowest is 0 and the highest 1.
        lexical: BM25 (n,) of all candidates, 0 where no word matches, scaled so that the highest is 1.
        weights: how much each part counts; that of tokens only where they are given.
        tokens: MaxSim (n,) of all candidates, scaled as cosines are.
    """
    if not len(dense):
        return np.empty(0, dtype=np.float32)
    parts = scaled_parts(dense, lexical, tokens)
    total = weights.dense * parts[0] + weights.lexical * parts[1]
    if len(parts) > 2:
        total = total + weights.tokens * parts[2]
    return np.asarray(total / weights.total(with_tokens=tokens is not None), dtype=np.float32)


def scaled_parts(dense: Scores, lexical: Scores, tokens: Scores | None = None) -> list[Scores]:
    """Return the parts of a ranking as `weighted_sum` joins them, n at least 1; tokens only where they are given."""
    most = lexical.max()
    matched = lexical / most if most > 0 else lexical
    return [scaled(dense), matched, *([] if tokens is None else [scaled(tokens)])]


def scaled(scores: Scores) -> Scores:
    """Return scores (n,), n at least 1, scaled so that the lowest is 0 and the highest 1; all 1 if they are equal."""
    lowest, highest = scores.min(), scores.max()
    return (scores - lowest) / (highest - lowest) if highest > lowest else np.ones_like(scores)


def blended(scores: Scores, logits: Scores, weight: float = RERANK_WEIGHT) -> Scores:
    """Return scores (n,) of a search that take a cross-encoder's opinion into account, in the range that they had.

    Both are scaled so that the lowest is 0 and the highest 1, and averaged: replacing the one by the other is known to
    harm a strong list. Logits are blended, and not what a sigmoid makes of them, which has hardly any distance left
    between the good ones, nor between the bad.

    Args:
        scores: of the search, (n,).
        logits: of the cross-encoder, (n,).
        weight: of the cross-encoder, from 0 to 1.
    """
    if not len(scores):
        return scores
    low, high = scores.min(), scores.max()
    return np.asarray(low + (high - low) * ((1 - weight) * scaled(scores) + weight * scaled(logits)), np.float32)


def best_first(scores: Scores) -> Rows:
    """Return the indices (n,) that put scores of ascending rows best first."""
    return np.argsort(-scores, kind="stable")


def collapse(signatures: npt.NDArray[np.uint64], near: int = NEAR) -> Rows:
    """Return for each of n hits, best first, the index of the hit that stands for it: its own, or a near-duplicate's.

    `signatures` uint64 (n,) are SimHashes; a hit is folded into the best one within `near` bits that is
    not folded itself.
    """
    leaders = np.arange(len(signatures), dtype=np.int64)
    alike = np.tril(distance(signatures[:, np.newaxis], signatures) <= near, -1)
    for index in np.flatnonzero(alike.any(axis=1)):
        before = np.flatnonzero(alike[index])
        standing = before[leaders[before] == before]
        if len(standing):
            leaders[index] = standing[0]
    return leaders


def cap(documents: npt.NDArray[np.integer], most: int) -> npt.NDArray[np.bool_]:
    """Return which of n hits, best first, are among the first `most` of their document, bool (n,)."""
    order = np.argsort(documents, kind="stable")
    arranged = documents[order]
    place = np.arange(len(documents)) - np.searchsorted(arranged, arranged)
    kept = np.empty(len(documents), dtype=np.bool_)
    kept[order] = place < most
    return kept


def mmr(vectors: Scores, relevance: Scores, lambda_: float, k: int) -> Rows:
    """Return the indices of k hits by maximal marginal relevance (Carbonell and Goldstein 1998), in the order picked.

    Each pick has the largest lambda_ * relevance - (1 - lambda_) * its largest similarity to a hit picked before.

    Args:
        vectors: float32 (n, dimension), of unit length.
        relevance: float32 (n,), on the scale of similarities: from 0 to 1.
        lambda_: 1 keeps the order of relevance, 0 looks at variety alone.
        k: how many; all n if there are fewer.
    """
    picked: list[int] = []
    nearest = np.zeros(len(relevance), dtype=np.float32)
    left = lambda_ * relevance
    for _ in range(min(k, len(relevance))):
        best = int(np.argmax(left - (1 - lambda_) * nearest))
        left[best] = -np.inf
        similar = vectors @ vectors[best]
        nearest = np.maximum(nearest, similar) if picked else similar
        picked.append(best)
    return np.array(picked, dtype=np.int64)
