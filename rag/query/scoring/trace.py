"""What a ranking went through, kept for searches that are to be explained, and the explanations made of it.

The steps of a ranking stay as they are; a trace keeps what stands between them, which costs nothing but memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from indexer.generation.repetition import WHOLE
from indexer.stores.store import Searchable
from rag.query.scoring.boosts import Boosts
from rag.query.scoring.explanation import (
    Boilerplate,
    Boosted,
    BoostRule,
    Ceiling,
    Explanation,
    Part,
    Reranked,
)
from rag.query.scoring.fusion import RERANK_WEIGHT, Rows, Scores, best_first, scaled, scaled_parts, union
from rag.query.scoring.ranking import BOILERPLATE, Choice, Found, Ranking

_NAMES = ("dense", "lexical", "tokens")


class Round(NamedTuple):
    """One search, the first or a deeper one, and its candidates after each step."""

    dense: Found | None
    lexical: Found | None
    joined: Ranking
    repetition: npt.NDArray[np.uint8]  # of these
    lowered: Ranking
    boosted: Ranking


class Reading(NamedTuple):
    """What a cross-encoder read, and how it ranked."""

    before: Ranking
    read: Rows  # indices into it
    logits: Scores
    after: Ranking


@dataclass(slots=True)
class Trace:
    """The steps of one search."""

    rounds: list[Round] = field(default_factory=list)
    reading: Reading | None = None  # of the first round

    def explain(
        self,
        ranking: Ranking,
        choice: Choice,
        shown: Sequence[int],
        documents: Sequence[int],
        generation: Searchable,
        boosts: Boosts,
    ) -> list[Explanation]:
        """Explain hits, but for their words and diversity, which the trace does not know.

        Args:
            ranking: all candidates, as they ended.
            choice: what was chosen of them.
            shown: indices of the hits.
            documents: numbers of their documents.
            generation: says which rules of `boosts` apply.
            boosts: the rules by which these were ranked.
        """
        rows = ranking.rows[list(shown)]
        rules = list(boosts.by_rule(generation, rows)) if boosts and len(rows) else []
        found = []
        for place, (index, row) in enumerate(zip(shown, rows.tolist(), strict=True)):
            number, before = self._round_of(row)
            step = self.rounds[number]
            parts, score = _parts(step, row)
            own = [BoostRule(rule=rule, factor=float(factors[place])) for rule, factors in rules if factors[place] != 1]
            found.append(
                Explanation(
                    rank=index + 1,
                    candidates=len(ranking.rows),
                    dense=parts.get("dense"),
                    lexical=parts.get("lexical"),
                    tokens=parts.get("tokens"),
                    fused=score,
                    boilerplate=_boilerplate(step, row),
                    boosts=_boosted(step, row, own),
                    rerank=None if number else self._rerank(row),
                    ceiling=Ceiling(reason="deeper", score=float(ranking.scores[before - 1]))
                    if number
                    else self._unread(row),
                    rank_before_diversity=None,
                    folded=len(choice.folded.get(index, ())),
                    left_out=choice.left_out.get(documents[place], 0),
                    matches=[],
                )
            )
        return found

    def _round_of(self, row: int) -> tuple[int, int]:
        """The round that found a row first, and how many candidates there were before it."""
        known = np.empty(0, np.int64)
        for number, step in enumerate(self.rounds):
            if row in step.joined.rows:
                return number, len(known)
            known = union(known, step.joined.rows)
        raise AssertionError("what is shown was found")

    def _rerank(self, row: int) -> Reranked | None:
        if self.reading is None:
            return None
        before, read, logits, after = self.reading
        place = _place(before.rows[read], row)
        if place is None:
            return None
        scores, now = before.scores[read], _index(after.rows, row)
        return Reranked(
            logit=float(logits[place]),
            score=float(after.rerank[now]) if after.rerank is not None else 0.0,
            rank_before=int(read[place]) + 1,
            search=float(scaled(scores)[place]),
            model=float(scaled(logits)[place]),
            weight=RERANK_WEIGHT,
            low=float(scores.min()),
            high=float(scores.max()),
            blend=float(after.scores[now]),
        )

    def _unread(self, row: int) -> Ceiling | None:
        if self.reading is None or not len(self.reading.read):
            return None
        before, read, _, after = self.reading
        if _place(before.rows[read], row) is not None:
            return None
        return Ceiling(reason="unread", score=float(after.scores[len(read) - 1]))


def _parts(step: Round, row: int) -> tuple[dict[str, Part], float]:
    """The parts of a score that were searched, and their sum."""
    joined = step.joined
    index = _index(joined.rows, row)
    scores = {name: getattr(joined, name) for name in _NAMES if getattr(joined, name) is not None}
    if joined.weights is None:  # one of them orders, as it is
        leading = list(scores)[-1]
        made = {name: (float(own[index]), float(name == leading)) for name, own in scores.items()}
    else:
        total = joined.weights.total(with_tokens="tokens" in scores)
        every = scaled_parts(scores["dense"], scores["lexical"], scores.get("tokens"))
        made = {
            name: (float(own[index]), getattr(joined.weights, name) / total)
            for name, own in zip(scores, every, strict=True)
        }
    parts = {}
    for name, (own, weight) in made.items():
        score, rank = float(scores[name][index]), _rank(step, name, row)
        is_missing = name == "lexical" and rank is None
        parts[name] = Part(
            score=None if is_missing else score, rank=rank, scaled=own, weight=weight, contribution=own * weight
        )
    return parts, float(joined.scores[index])


def _rank(step: Round, name: str, row: int) -> int | None:
    """The rank of a row in what a search found; for tokens, which are compared for all candidates, among these."""
    if name == "tokens":
        order = np.argsort(step.joined.rows)  # by row where scores are equal, as everywhere
        place = _place(step.joined.rows[order][best_first(step.joined.tokens[order])], row)  # type: ignore[index]
    else:
        found = step.dense if name == "dense" else step.lexical
        place = None if found is None else _place(found[1], row)
    return None if place is None else place + 1


def _boilerplate(step: Round, row: int) -> Boilerplate | None:
    share = float(step.repetition[_index(step.joined.rows, row)]) / WHOLE
    if not share:
        return None
    score = float(step.lowered.scores[_index(step.lowered.rows, row)])
    return Boilerplate(repeated=share, factor=1 - BOILERPLATE * share, score=score)


def _boosted(step: Round, row: int, rules: list[BoostRule]) -> Boosted | None:
    if not rules:
        return None
    factor = float(np.prod([rule["factor"] for rule in rules]))
    return Boosted(rules=rules, factor=factor, score=float(step.boosted.scores[_index(step.boosted.rows, row)]))


def _place(rows: Rows, row: int) -> int | None:
    found = np.flatnonzero(rows == row)
    return int(found[0]) if len(found) else None


def _index(rows: Rows, row: int) -> int:
    return int(np.flatnonzero(rows == row)[0])
