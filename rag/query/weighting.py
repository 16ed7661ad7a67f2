"""Decide what a search by meaning, by words and by tokens counts for, from facts of a query before its ranking."""

import math
import operator
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from embedder.model.tokenizer import trust
from indexer.generation.languages import Spoken
from indexer.generation.rows import TermHits

Scores = npt.NDArray[np.float32]

REASON = "_reason"  # after the name of a signal, in the columns of a ranking
_CALL = re.compile(r"\w\(")  # of words, one in a thousand in prose, one in 200 in a manual, one in 30 or more in code
_USUAL_PIECES = 24  # in a query
_MIN_COVERAGE = 0.5
_PROSE, _CODE = 0.01, 0.02
_RARE_WORDS = 1.7
_WHOLE, _MORE = 1.4, 0.2


class CollectionFacts(Struct, frozen=True):
    """Facts of a collection that decide what searches in it count for."""

    passages: int
    code: float  # see `share_of_code`
    languages: Sequence[Spoken]


class QueryFacts(Struct, frozen=True):
    """Facts of a query that decide what its searches count for."""

    collection: CollectionFacts
    words: int
    broken: tuple[int, int]  # see `TokenizedText`


def share_of_code(texts: Sequence[str]) -> float:
    """Return the share of words that are calls, with an opening bracket behind them: by this, code is recognised."""
    calls, words = (sum(len(find(text)) for text in texts) for find in (_CALL.findall, str.split))
    return calls / max(1, words)


def trust_in_meaning(query: tuple[int, int], languages: Sequence[Spoken]) -> float:
    """Return how well the model knows the language of a query, from 0.08 to 1.

    `query` is `QueryTokens.broken`. What is usual in its language counts as much as 24 pieces, as a query
    may be one name. Which of the languages that is follows from their passages and from the pieces (naive Bayes).
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


def weigh(
    query: QueryFacts, dense: Scores, lexical: TermHits, scaled: Sequence[Scores], *, explain: bool = False
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the weights of the parts, which add up to 1, and the reasons."""
    known = trust_in_meaning(query.broken, query.collection.languages)
    covered = evidence = 1.0
    if len(lexical.scores) and lexical.idf_sum > 0:
        best = float(lexical.scores[0])
        covered = min(1.0, best / (_MIN_COVERAGE * lexical.idf_sum))
        rare = max(0.0, min(1.0, (query.collection.code - _PROSE) / (_CODE - _PROSE)))
        if rare := rare * math.log(max(2, query.collection.passages)):
            evidence = max(0.0, min(1.0, max(best / rare - _RARE_WORDS, (best / lexical.idf_sum - _WHOLE) / _MORE)))
    weights = [known, 1 - known * (1 - covered * evidence), known][: len(scaled)]
    shares = dict(zip(("dense", "lexical", "tokens"), (each / sum(weights) for each in weights), strict=False))
    return shares, {"known": known, "covered": covered, "evidence": evidence} if explain else {}


def describe(reasons: Mapping[str, Any]) -> str:
    """Say in words why the parts weigh what they do."""
    known, covered, evidence = (reasons[name] for name in ("known", "covered", "evidence"))
    words = []
    if known < 1:
        little = "hardly knows" if known < 0.5 else "knows only in part"
        words.append(f"meaning counts {known:.2f}, as the model {little} the language of the query or the passages")
    if covered < 1:
        words.append(f"words count less, as the best passage has {covered / 2:.0%} of what those of the query tell")
    if evidence < 1:
        words.append(f"words count {evidence:.2f} of that, as passages are code, and none has enough rare words")
    return "; ".join(words).replace("%", " %") or "meaning and words count alike"
