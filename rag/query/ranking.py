"""Merge the hits of dense and lexical search into one ranking, with pure functions on a few hundred hits.

`fuse` merges the hits, `rerank` applies the scores of a cross-encoder, `extend` appends the hits of a search with more
candidates, and `choose` leaves out near-duplicates and passages above the limit per document. A row is the int64
number of a passage in the index. Scores are float32. "Best first" means by descending score, and by row if scores are
equal.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from embedder.text_embedder import Embedder
from indexer.generation.editions import Edition, version_key
from indexer.generation.rows import MAX_SIGNATURE_BITS, RowFacts, Rows, ScoredRows, Scores, TokenReader
from rag import deadline
from rag.query.request import RERANK_WEIGHT
from rag.query.weighting import REASON_SUFFIX, QueryFacts, measure_signals, weigh

_SCORES = ("dense", "lexical", "tokens", "rerank")
MAX_QUERY_TOKENS = 256  # about 200 words
# Number of candidates that MaxSim compares, and their minimum share. To compare all would add only .0004 nDCG@10.
MIN_COMPARED, COMPARED_SHARE = 80, 0.8
_FIRST_COMPARED_PER_HIT = 3
# A newer version or better format replaces a passage if it has at least this share of the passage's score.
_MIN_SCORE_SHARE = 0.5
_MIN_COVERAGE_WITHOUT_COSINE = 0.34
_MAX_COMPARED_HITS = 2_000
_PASSAGES_PER_CHECK = 256


class Ranking(Struct, frozen=True):
    """Candidates, best first, in arrays of equal length."""

    rows: Rows
    scores: Scores
    columns: Mapping[str, Scores]
    """Scores by search: dense (cosine), lexical (BM25, 0 if no word matches), tokens (MaxSim) and rerank. NaN if the
    search has no score for a passage. `fuse` adds columns for explanations."""
    first: int | None = None  # number of candidates from the first search; None if there was only one search

    def ordered(self, order: npt.NDArray[np.integer], scores: Scores, **columns: Scores) -> "Ranking":
        """Return the candidates at the indices `order`, with new `scores` and `columns` that are in the old order."""
        reordered = {name: values[order] for name, values in {**self.columns, **columns}.items()}
        return Ranking(self.rows[order], scores[order], reordered)

    def preceded_by(self, page: "Ranking") -> "Ranking":
        """Return a ranking that begins with the passages of `page`. They get the highest score of both rankings."""
        highest = self.scores.max(initial=page.scores.max())
        raised = Ranking(page.rows, np.full(len(page.rows), highest, np.float32), page.columns)
        return replace(extend(raised, self), first=None)

    def scores_of(self, indices: Sequence[int]) -> list[dict[str, float | None]]:
        """Return the scores of candidates by search method. A score is None if the method missed the candidate."""
        by_search: dict[str, list[float | None]] = dict.fromkeys(_SCORES, [None] * len(indices))
        for name in self.columns.keys() & by_search.keys():
            lowest = 0 if name == "lexical" else -math.inf
            values = self.columns[name][indices].tolist()
            by_search[name] = [value if value > lowest else None for value in values]  # `NaN > lowest` is false too
        return [dict(zip(_SCORES, row, strict=True)) for row in zip(*by_search.values(), strict=True)]


def fuse(
    dense: ScoredRows | None,
    lexical: ScoredRows | None,
    cosines: Callable[[Rows], Scores],
    maxsim: Callable[[Rows], Scores] | None,
    query: QueryFacts,
    *,
    explain: bool = False,
) -> Ranking:
    """Rank the hits of one search, or of both, by a convex combination of scaled scores (Bruch, Gai and Ingber 2023).

    Cosines and MaxSim are scaled so that the lowest is 0 and the highest is 1. BM25 is divided by the highest score.
    `weigh` returns the weights. MaxSim is computed only for the candidates that are best by the other two scores; other
    candidates get 0. If there are token vectors, but no lexical hits, only MaxSim is used, which is more accurate.

    Args:
        dense: cosines and rows, best first; None in mode `lexical`.
        lexical: BM25 scores and rows, best first; None in mode `dense`.
        cosines: function that returns the cosines of rows, for hits that only the lexical search returned.
        maxsim: function that returns the MaxSim of rows; None if the index has no token vectors.
        query: facts that decide the weights.
        explain: whether to add the columns that explanations need.
    """
    reasons: dict[str, float] = {}
    if dense is None:
        assert lexical is not None  # noqa: S101 - for the type checker; one of the two is always set
        scores, rows = lexical
        by_search, weights, scaled = {"lexical": scores}, {"lexical": 1.0}, [scores]
    elif lexical is None:
        scores, rows = dense
        by_search, weights, scaled = {"dense": scores}, {"dense": 1.0}, [scores]
        if maxsim is not None:
            by_search["tokens"] = maxsim(rows)
            weights, scaled = {"dense": 0.0, "tokens": 1.0}, [scores, by_search["tokens"]]
            scores = by_search["tokens"]
    else:
        both = np.concatenate([dense.rows, lexical.rows])
        both.sort()
        rows = np.concatenate([both[:1], both[1:][both[1:] != both[:-1]]])  # `np.union1d` takes three times as long
        by_meaning = filled(len(rows), rows.searchsorted(dense.rows), dense.scores)
        missing = np.isnan(by_meaning).nonzero()[0]
        if len(missing):
            by_meaning[missing] = cosines(rows[missing])
        by_words = np.zeros(len(rows), np.float32)
        by_words[rows.searchsorted(lexical.rows)] = lexical.scores
        highest = lexical.scores.max(initial=0) or 1
        by_search = {"dense": by_meaning, "lexical": by_words}
        scaled = [scale(by_meaning), by_words / highest]
        weights, reasons = weigh(measure_signals(query, dense, lexical), tokens=maxsim is not None)
        # float64, so that a candidate that is best in every search scores exactly 1
        sums = np.float64(weights["dense"]) * scaled[0] + np.float64(weights["lexical"]) * scaled[1]
        if maxsim is not None:
            depth = max(len(dense.rows), len(lexical.rows))
            best = np.sort(np.argsort(-sums, kind="stable")[: max(MIN_COMPARED, int(COMPARED_SHARE * depth))])
            token_scores = maxsim(rows[best])
            by_search["tokens"] = filled(len(rows), best, token_scores)
            scaled.append(np.zeros(len(rows), np.float32))
            scaled[-1][best] = scale(token_scores)
            sums += np.float64(weights["tokens"]) * scaled[-1]
        scores = sums.astype(np.float32)
    order = np.lexsort((rows, -scores))
    columns = dict(by_search)
    if explain:
        columns["fused"] = scores
        columns |= {f"{name}{REASON_SUFFIX}": np.full(len(rows), value, np.float32) for name, value in reasons.items()}
        for name, scaled_scores in zip(by_search, scaled, strict=True):
            columns[f"{name}_scaled"] = scaled_scores
            columns[f"{name}_weight"] = np.full(len(rows), weights[name], np.float32)
    return Ranking(rows, scores, columns).ordered(order, scores)


def score_tokens(embedder: Embedder, query: Scores, tokens: TokenReader, rows: Rows) -> Scores:
    """Return the MaxSim of a query, float32 (tokens, width), with each passage of `rows`.

    Raises DeadlinePassed after a timeout.
    """
    scores = np.zeros(len(rows), dtype=np.float32)
    for start in range(0, len(rows), _PASSAGES_PER_CHECK):
        deadline.check()
        some = slice(start, start + _PASSAGES_PER_CHECK)
        scores[some] = embedder.maxsim(query[:MAX_QUERY_TOKENS], *tokens.gather(rows[some]))
    return scores


def rerank(ranking: Ranking, reranked: Rows, logits: Scores, shown: Scores) -> Ranking:
    """Average the scores of a search and of a cross-encoder. Candidates that the cross-encoder did not score come last.

    The average ranks better than the cross-encoder alone if the search is good. The average is computed from logits,
    because the sigmoid of a logit is close to 1 for all good candidates, and close to 0 for all bad candidates.

    Args:
        ranking: candidates, best first.
        reranked: indices (n,) in `ranking` of the candidates that the cross-encoder has scored.
        logits: logits of these candidates, (n,).
        shown: scores of these candidates for display, (n,).
    """
    count = len(ranking.rows)
    columns = {"rerank": filled(count, reranked, shown), "rank_before": filled(count, reranked, reranked + 1)}
    if not len(reranked):
        return ranking.ordered(np.arange(count), ranking.scores, **columns)
    search_scores, remaining = ranking.scores[reranked], np.setdiff1d(np.arange(count), reranked)
    low, high = search_scores.min(), search_scores.max()
    blend = (1 - RERANK_WEIGHT) * scale(search_scores) + RERANK_WEIGHT * scale(logits)
    blend = np.asarray(low + (high - low) * blend, np.float32)
    scores = np.minimum(ranking.scores, blend.min())  # no other candidate scores more than a reranked one
    scores[reranked] = blend
    return ranking.ordered(np.concatenate([reranked[np.argsort(-blend, kind="stable")], remaining]), scores, **columns)


def extend(ranking: Ranking, deeper: Ranking) -> Ranking:
    """Append the new hits of a search with more candidates. Their scores are capped at the ranking's lowest score."""
    new = ~np.isin(deeper.rows, ranking.rows)
    least = ranking.scores[-1] if len(ranking.scores) else np.float32(np.inf)
    before, after = len(ranking.rows), int(new.sum())
    columns = {
        name: np.concatenate(
            [
                ranking.columns.get(name, np.full(before, np.nan, np.float32)),
                deeper.columns[name][new] if name in deeper.columns else np.full(after, np.nan, np.float32),
            ]
        )
        for name in ranking.columns.keys() | deeper.columns.keys()
    }
    return Ranking(
        np.concatenate([ranking.rows, deeper.rows[new]]),
        np.concatenate([ranking.scores, np.minimum(deeper.scores[new], least)]),
        columns,
        before if ranking.first is None else ranking.first,
    )


class Choice(Struct, frozen=True):
    """The candidates to show as hits, and the hidden candidates that each hit represents, as indices in a ranking."""

    indices: list[int]
    """Candidates to show, best first."""
    documents: list[int]
    """Number of the document of each candidate in the ranking."""
    folded: dict[int, list[int]]
    """Hidden near-duplicates, by the candidate that represents them."""
    left_out: dict[int, int]
    """Number of passages above the limit per document, by document."""
    older: dict[int, dict[str, int]]
    """The best passage of each other version by version, newest first, by the candidate that represents them."""


def choose(
    ranking: Ranking,
    facts: RowFacts,
    *,
    k: int,
    per_document: int,
    editions: Sequence[Edition | None],
    twins: Mapping[int, frozenset[int]],
) -> Choice:
    """Choose the best candidates. Omit near-duplicates, other versions of a page, and passages above a limit.

    Args:
        ranking: the candidates.
        facts: facts of all candidates.
        k: maximum number of candidates to choose.
        per_document: maximum number of passages of one document; 0 for no limit.
        editions: page and version of each candidate; empty if the collection has no versions.
        twins: for each document, the documents with the same content in better formats.
    """
    documents: list[int] = facts.documents.tolist()
    older, hidden = fold_versions(ranking, editions)
    formats = fold_formats(ranking, documents, twins) if twins else {}
    hidden.update(*formats.values())
    compared = min(len(documents), _FIRST_COMPARED_PER_HIT * k)
    while True:
        shown = [index for index in range(compared) if index not in hidden]
        leaders = collapse(facts.signatures[shown[:_MAX_COMPARED_HITS]])
        folded: dict[int, list[int]] = {}
        for index in formats:
            folded[index] = formats[index][:1]
        indices: list[int] = []
        passages: dict[int, int] = {}
        for position, index in enumerate(shown):
            if position in leaders:
                folded.setdefault(shown[leaders[position]], []).append(index)
                continue
            document = documents[index]
            passages[document] = count = passages.get(document, 0) + 1
            if not per_document or count <= per_document:
                indices.append(index)
        if len(indices) >= k or compared == len(documents):
            break
        compared = min(len(documents), 4 * compared)
    limit = per_document or compared
    left_out = {document: count - limit for document, count in passages.items() if count > limit}
    return Choice(indices[:k], documents, folded, left_out, older)


def fold_versions(ranking: Ranking, editions: Sequence[Edition | None]) -> tuple[dict[int, dict[str, int]], set[int]]:
    """Choose, for each page, the newest version that has at least half the score of the best version.

    Returns:
        older: maps the index of the best passage of each chosen version to {other version: index of its best passage}.
        hidden: the indices of all passages of the other versions.
    """
    pages: dict[tuple[str, str], dict[str, list[int]]] = {}
    for index, edition in enumerate(editions):
        if edition:
            pages.setdefault(edition.page, {}).setdefault(edition.version, []).append(index)
    older: dict[int, dict[str, int]] = {}
    hidden: set[int] = set()
    for versions in pages.values():
        least = _MIN_SCORE_SHARE * ranking.scores[min(chain(*versions.values()))]
        newest, *rest = sorted(versions, key=version_key, reverse=True)
        while rest and ranking.scores[versions[newest][0]] < least:
            newest, *rest = rest
        if rest:
            older[versions[newest][0]] = {version: versions[version][0] for version in rest}
            hidden.update(*(versions[version] for version in rest))
    return older, hidden


def fold_formats(
    ranking: Ranking, documents: Sequence[int], twins: Mapping[int, frozenset[int]]
) -> dict[int, list[int]]:
    """Find documents to hide because a duplicate in a better format has at least half of the document's score.

    Returns a dictionary from the best passage of the duplicate to the passages to hide, as indices in the ranking.
    """
    best_of_document: dict[int, int] = {}
    passages: dict[int, list[int]] = {}
    for index, document in enumerate(documents):
        best_of_document.setdefault(document, index)
        if document in twins:
            passages.setdefault(document, []).append(index)
    folded: dict[int, list[int]] = {}
    for document, indices in passages.items():
        best = min((best_of_document[better] for better in twins[document] if better in best_of_document), default=None)
        if best is not None and ranking.scores[best] >= _MIN_SCORE_SHARE * ranking.scores[indices[0]]:
            folded.setdefault(best, []).extend(indices)
    return folded


def collapse(signatures: npt.NDArray[np.uint64]) -> dict[int, int]:
    """Map the index of each near-duplicate to the index of the hit that represents it.

    Near-duplicates have SimHashes that differ in at most MAX_SIGNATURE_BITS. The representative is the best hit that is
    not a near-duplicate of a better hit. `signatures`, uint64 (n,), are the SimHashes of hits, best first.
    """
    leaders: dict[int, int] = {}
    are_alike = np.bitwise_count(signatures[:, np.newaxis] ^ signatures) <= MAX_SIGNATURE_BITS
    for position in (are_alike.sum(axis=1) > 1).nonzero()[0].tolist():  # more than 1, because each hit equals itself
        if position not in leaders:
            for other in are_alike[position].nonzero()[0].tolist():
                if other > position:
                    leaders.setdefault(other, position)
    return leaders


def is_close(cosines: Sequence[float | None], coverages: Iterable[float], close: float, unrelated: float) -> bool:
    """Return whether at least one of the hits is close to a query, judged by its cosine and by the query's words.

    Args:
        cosines: cosines of the hits; None for a hit that only the lexical search returned.
        coverages: share of the query's words that each hit contains; computed only if the cosines are too low.
        close: minimum cosine if unrelated texts have 0. Half of it is enough for a hit with all words of the query.
        unrelated: mean cosine of unrelated texts, see `measure_unrelated`.
    """
    nearness = [None if cosine is None else (cosine - unrelated) / (1 - unrelated) for cosine in cosines]
    return max([0.0, *filter(None, nearness)]) >= close or any(
        coverage >= _MIN_COVERAGE_WITHOUT_COSINE if near is None else near >= close * (1 - coverage / 2)
        for near, coverage in zip(nearness, coverages, strict=True)
    )


def filled(count: int, indices: npt.NDArray[np.integer], scores: npt.ArrayLike) -> Scores:
    """Return an array (count,) with the scores at `indices`, and NaN elsewhere."""
    filled_scores = np.full(count, np.nan, dtype=np.float32)
    filled_scores[indices] = scores
    return filled_scores


def scale(scores: Scores) -> Scores:
    """Scale scores (n,) so that the lowest is 0 and the highest is 1. If all are equal, all become 1."""
    if not len(scores):
        return scores
    lowest, highest = scores.min(), scores.max()
    return (scores - lowest) / (highest - lowest) if highest > lowest else np.ones_like(scores)
