"""Weigh the searches by meaning, by words and by tokens, from facts of a query before its ranking."""

import math
import operator
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from embedder.model.tokenizer import trust
from embedder.text_embedder import Embedder
from indexer.generation.languages import Spoken
from indexer.generation.rows import ScoredRows, TermHits

Rows = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]

REASON = "_reason"  # suffix of a column of a ranking; the name of a signal stands before it
# One word in a thousand is a call in prose, one in 200 in a manual, one in 30 or more in code.
_CALL = re.compile(r"\w\(")
_CODE_CALLS = 0.05  # calls among words, from which passages are code
_PLAIN_CODE_CALLS = 0.1  # calls among words, from which passages are code with hardly a comment
UNRELATED = (  # texts of different subjects
    "The soup needs more salt and a bay leaf.",
    "Interest rates rose by a quarter of a percent.",
    "How do I sort a list of numbers?",
    "The goalkeeper saved a penalty in the last minute.",
    "Volcanic ash grounded flights across the north.",
    "A violin sonata in three movements",
)
_USUAL_PIECES = 24
_TOP = 10  # hits
_MIN_COVERAGE = 0.05
_MAX_RARE_WORDS = 3.0
MAX_DEVIATIONS = 3.0
_MIN_REASON = 0.2  # logits
# A description of each signal where its value is high, and where it is low.
SIGNALS = {
    "known": ("the model knows the language", "the model hardly knows the language"),
    "covered": ("a passage has most words of the query", "no passage has much of the words of the query"),
    "code": ("passages are code", "passages are not code"),
    "tenth": ("many passages have the words alike", "few passages have the words"),
    "gap": ("a few passages are nearest by meaning", "many passages are near by meaning"),
    "words_of_nearest": ("the nearest passage has the words", "the nearest passage does not have the words"),
    "meaning_of_best": ("the passage with the words is near", "the passage with the words is not near"),
    "agreed": ("both searches find the same passages", "the searches find different passages"),
    "rare_in_code": ("a passage of code has rare words", "passages of code have only frequent words"),
    "plain_code": ("passages are code without comments", "passages are more than code"),
    "near": ("the nearest passage is very near", "no passage is near"),
    "near_in_code": ("code without comments is very near", "no code without comments is near"),
}


class _Signal(Struct, frozen=True):
    mean: float
    deviation: float
    words: float  # logits of a deviation
    vector: float


class _Table(Struct, frozen=True):
    words: float  # logits where all signals are average
    words_with_tokens: float
    vector: float
    signals: tuple[_Signal, ...]  # see SIGNALS


_TABLE = msgspec.json.decode(Path(__file__).with_name("weights.json").read_bytes(), type=_Table)


class CollectionFacts(Struct, frozen=True):
    """The facts of a collection from which its searches are weighed."""

    passages: int
    code: float  # see `share_of_code`
    languages: tuple[Spoken, ...]
    unrelated: float  # see `measure_unrelated`


class QueryFacts(Struct, frozen=True):
    """The facts of a query from which its searches are weighed."""

    collection: CollectionFacts
    broken: tuple[int, int]  # see `TokenizedText`


def share_of_code(texts: Sequence[str]) -> float:
    """Return the share of words that are calls, with an opening bracket after them, which is high in code."""
    calls, words = (sum(len(find(text)) for text in texts) for find in (_CALL.findall, str.split))
    return calls / max(1, words)


def measure_unrelated(embedder: Embedder) -> float:
    """Return the mean cosine of texts that have nothing to do with each other; it is high with some models."""
    # The engine of documents stays unloaded: it may have another precision.
    documents = embedder.encode_ids(embedder.tokenize(UNRELATED), role="query")[0]
    cosines = embedder.encode(UNRELATED, role="query") @ documents.T
    return float(cosines[~np.eye(len(UNRELATED), dtype=bool)].mean())


@lru_cache(1 << 10)  # pairs of small numbers
def trust_in_meaning(query: tuple[int, int], languages: tuple[Spoken, ...]) -> float:
    """Estimate how well the model knows the language of a query, from 0.08 to 1.

    `query` is `QueryTokens.broken`. The usual share in its language counts as much as 24 pieces, as a query may be one
    name. The language is guessed from the passages in each and from the pieces (naive Bayes).
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
    return trust((broken + _USUAL_PIECES * usual) / (pieces + _USUAL_PIECES))


def measure_signals(
    query: QueryFacts, dense: ScoredRows, lexical: TermHits, rows: Rows, scaled: Sequence[Scores]
) -> list[float]:
    """Return the values of SIGNALS, in their order, which predict how well each search answers a query.

    Args:
        query: facts of it.
        dense: cosines and rows, best first.
        lexical: BM25 scores and rows, best first.
        rows: all candidates, ascending.
        scaled: scores of dense, lexical and maybe tokens, each (n,), from 0 to 1.
    """
    language_trust = trust_in_meaning(query.broken, query.collection.languages)
    cosines, nearest = dense
    best = float(lexical.scores[0]) if len(lexical.scores) else 0.0
    code = min(1.0, query.collection.code / _CODE_CALLS)
    plain_code = min(1.0, query.collection.code / _PLAIN_CODE_CALLS)
    rare = min(_MAX_RARE_WORDS, best / math.log(max(2, query.collection.passages)))
    covered = best / lexical.idf_sum if lexical.idf_sum > 0 else 1.0
    tenth = float(lexical.scores[_TOP - 1]) / best if len(lexical.scores) >= _TOP else 0.0
    gap = float(cosines[0] - cosines[min(_TOP, len(cosines)) - 1]) if len(cosines) else 0.0
    unrelated = query.collection.unrelated
    near = (float(cosines[0]) - unrelated) / (1 - unrelated) if len(cosines) and unrelated < 1 else 0.0
    # All hits that tie with the first or the tenth one count: which of them stands first is only the order of rows.
    words_of_nearest = float(scaled[1][rows.searchsorted(nearest[cosines == cosines[:1]])].max(initial=0))
    best_by_words = lexical.rows[lexical.scores == lexical.scores[:1]]
    meaning_of_best = float(scaled[0][rows.searchsorted(best_by_words)].max(initial=0))
    tops = [hits[scores >= scores[:_TOP][-1:]].tolist() for scores, hits in (dense, lexical[:2])]
    agreed = min(1.0, len({*tops[0]}.intersection(tops[1])) / _TOP)
    return [
        math.log(language_trust),
        math.log(max(_MIN_COVERAGE, min(2.0, covered))),
        code,
        tenth,
        gap,
        words_of_nearest,
        meaning_of_best,
        agreed,
        code * rare,
        plain_code,
        near,
        plain_code * near,
    ]


def weigh(values: Sequence[float], *, tokens: bool) -> tuple[dict[str, float], dict[str, float]]:
    """Return the weights of the searches, which add up to 1, and the logits that each signal adds to that of words.

    One logistic function of the signals gives the share of words, another the share of the vector in the rest; the
    remainder belongs to the tokens. `scripts/learn_weights.py` learns both. Meaning loses weight in a language that the
    model hardly knows.
    """
    moved = []
    vector = _TABLE.vector
    for value, signal in zip(values, _TABLE.signals, strict=True):
        normal = max(-MAX_DEVIATIONS, min(MAX_DEVIATIONS, (value - signal.mean) / signal.deviation))
        moved.append(normal * signal.words)
        vector += normal * signal.vector
    unknown, usual = -values[0], -_TABLE.signals[0].mean
    words = _logistic(_TABLE.words + sum(moved) + unknown + (_TABLE.words_with_tokens if tokens else 0.0))
    share = _logistic(vector) if tokens else 1.0
    weights = {"dense": (1 - words) * share, "lexical": words}
    if tokens:
        weights["tokens"] = (1 - words) * (1 - share)
    moved[0] += unknown - usual
    return weights, dict(zip(SIGNALS, moved, strict=True))


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def describe(moved: Mapping[str, float]) -> str:
    """Describe the signal that raised or lowered the weight of words most."""
    name, logits = max(moved.items(), key=lambda item: abs(item[1]))
    if abs(logits) < _MIN_REASON:
        return "words and meaning count as usual"
    signal = _TABLE.signals[list(SIGNALS).index(name)]
    slope = signal.words / signal.deviation - (name == "known")
    return (
        f"words count {'more' if logits > 0 else 'less'}, mostly because {SIGNALS[name][(logits > 0) != (slope > 0)]}"
    )
