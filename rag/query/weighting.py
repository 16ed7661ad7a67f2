"""Compute the weights of dense, lexical and token scores from facts that are known before the ranking."""

import math
import operator
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct

from embedder.model.tokenizer import reliability_of
from embedder.text_embedder import Embedder
from indexer.generation.languages import LanguageStats
from indexer.generation.rows import ScoredRows

REASON_SUFFIX = "_reason"  # suffix of the columns of a `Ranking` that contain the effect of a signal on the weights
# Matches the beginning of a function call, such as `f(`. In prose, one word in a thousand is a call; in manuals, one in
# 200; in code, at least one in 30.
_CALL = re.compile(r"\w\(")
_CALL_SHARE_IN_CODE = 0.05
_CALL_SHARE_WITHOUT_COMMENTS = 0.1
UNRELATED = (
    "The soup needs more salt and a bay leaf.",
    "Interest rates rose by a quarter of a percent.",
    "How do I sort a list of numbers?",
    "The goalkeeper saved a penalty in the last minute.",
    "Volcanic ash grounded flights across the north.",
    "A violin sonata in three movements",
)
_USUAL_PIECES = 24
_TOP = 10
MAX_DEVIATIONS = 3.0
_MIN_REASON_LOGITS = 0.2
# Signal: (explanation of a high value, explanation of a low value).
SIGNALS = {
    "known": ("the model knows the language", "the model hardly knows the language"),
    "code": ("passages are code", "passages are not code"),
    "tenth": ("many passages have the same words", "few passages have the words"),
    "gap": ("a few passages are much nearer by meaning", "many passages are equally near by meaning"),
    "near": ("the nearest passage is very near", "no passage is near"),
    "near_in_code": ("code without comments is very near", "no code without comments is near"),
}


class _Signal(Struct, frozen=True):
    """The effect of a signal on the weights, and the distribution of its values.

    For each standard deviation above the mean, `words` and `vector` are added to the logits in `_Table`.
    """

    mean: float
    deviation: float
    words: float
    vector: float


class _Table(Struct, frozen=True):
    """The logits of the weights if all signals have their mean values. `signals` has the same order as SIGNALS."""

    words: float
    words_with_tokens: float
    vector: float
    signals: tuple[_Signal, ...]


_TABLE = msgspec.json.decode(Path(__file__).with_name("weights.json").read_bytes(), type=_Table)
# Deviations of the signals from their means for a query in a known language, in a collection without code.
_USUAL_DEVIATIONS = [
    -each.mean / each.deviation if name in ("known", "code", "near_in_code") else 0.0
    for name, each in zip(SIGNALS, _TABLE.signals, strict=True)
]


class CollectionFacts(Struct, frozen=True):
    """Facts of a collection that affect the weights. `code` is its number of function calls per word."""

    code: float
    languages: tuple[LanguageStats, ...]
    unrelated: float


class QueryFacts(Struct, frozen=True):
    """Facts of a query that affect the weights. `broken` counts its broken word pieces and all its word pieces."""

    collection: CollectionFacts
    broken: tuple[int, int]


def share_of_code(texts: Sequence[str]) -> float:
    """Return the number of function calls per word. It is high in code."""
    calls, words = (sum(len(find(text)) for text in texts) for find in (_CALL.findall, str.split))
    return calls / max(1, words)


def measure_unrelated(embedder: Embedder) -> float:
    """Return the mean cosine of unrelated texts, which differs between models."""
    # The texts are encoded as queries on both sides, because the engine for documents may not be loaded.
    documents = embedder.encode_ids(embedder.tokenize(UNRELATED), role="query")[0]
    cosines = embedder.encode(UNRELATED, role="query") @ documents.T
    return float(cosines[~np.eye(len(UNRELATED), dtype=bool)].mean())


@lru_cache(1 << 10)
def trust_in_meaning(query: tuple[int, int], languages: tuple[LanguageStats, ...]) -> float:
    """Estimate how well the model knows the language of a query, from 0.08 (hardly) to 1 (well).

    Tokenizers split unknown words into letters. The estimate is based on the share of such broken word pieces
    (see `TokenizedText`) in the query. A short query has too few pieces for an estimate, so 24 pieces with the usual
    share of its language are added. Naive Bayes guesses this language from the query's pieces and the number of
    passages in each language.

    Args:
        query: the number of broken word pieces, and the number of all word pieces.
        languages: the languages of the collection.
    """
    broken, pieces = query
    shares = [max(0.01, min(0.99, each.broken)) for each in languages]
    likely = [
        math.log(max(1, each.passages)) + broken * math.log(share) + (pieces - broken) * math.log(1 - share)
        for each, share in zip(languages, shares, strict=True)
    ]
    highest = max(likely, default=0.0)
    weights = [math.exp(each - highest) for each in likely]
    usual = math.fsum(map(operator.mul, weights, shares)) / (sum(weights) or 1)
    return reliability_of((broken + _USUAL_PIECES * usual) / (pieces + _USUAL_PIECES))


def measure_signals(query: QueryFacts, dense: ScoredRows, lexical: ScoredRows) -> list[float]:
    """Return the value of each of SIGNALS. These values predict how well each kind of search answers a query.

    Args:
        query: facts of the query and its collection.
        dense: cosines and rows, best first.
        lexical: BM25 scores and rows, best first.
    """
    cosines, scores = dense.scores, lexical.scores
    collection, unrelated = query.collection, query.collection.unrelated
    tenth = float(scores[_TOP - 1] / scores[0]) if len(scores) >= _TOP and scores[0] > 0 else 0.0
    gap = float(cosines[0] - cosines[min(_TOP, len(cosines)) - 1]) if len(cosines) else 0.0
    near = (float(cosines[0]) - unrelated) / (1 - unrelated) if len(cosines) and unrelated < 1 else 0.0
    return [
        math.log(trust_in_meaning(query.broken, collection.languages)),
        min(1.0, collection.code / _CALL_SHARE_IN_CODE),
        tenth,
        gap,
        near,
        near * min(1.0, collection.code / _CALL_SHARE_WITHOUT_COMMENTS),
    ]


def weigh(values: Sequence[float], *, tokens: bool) -> tuple[dict[str, float], dict[str, float]]:
    """Return the weight of each kind of search, and the logits that each signal adds to the weight of lexical search.

    A logistic function of the signals computes the weight of lexical search. This weight is higher in languages that
    the model hardly knows. A second logistic function divides the remaining weight between cosine and MaxSim.
    `scripts/learn_weights.py` fits both functions.
    """
    words, vector = _TABLE.words + (_TABLE.words_with_tokens if tokens else 0.0) - values[0], _TABLE.vector
    moved = []
    for value, signal, usual in zip(values, _TABLE.signals, _USUAL_DEVIATIONS, strict=True):
        deviations = max(-MAX_DEVIATIONS, min(MAX_DEVIATIONS, (value - signal.mean) / signal.deviation))
        words += deviations * signal.words
        vector += deviations * signal.vector
        moved.append((deviations - usual) * signal.words)
    words = _logistic(words)
    share = _logistic(vector) if tokens else 1.0
    weights = {"dense": (1 - words) * share, "lexical": words}
    if tokens:
        weights["tokens"] = (1 - words) * (1 - share)
    moved[0] -= values[0]
    return weights, dict(zip(SIGNALS, moved, strict=True))


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def describe(moved: Mapping[str, float]) -> str:
    """Describe how the signal with the largest effect, in logits, has changed the weight of lexical search."""
    name, logits = max(moved.items(), key=lambda item: abs(item[1]))
    if abs(logits) < _MIN_REASON_LOGITS:
        return "words and meaning count as usual"
    signal = _TABLE.signals[list(SIGNALS).index(name)]
    slope = signal.words / signal.deviation - (name == "known")
    return (
        f"words count {'more' if logits > 0 else 'less'}, mostly because {SIGNALS[name][(logits > 0) != (slope > 0)]}"
    )
