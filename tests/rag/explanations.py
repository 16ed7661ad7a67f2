"""What a reader does with an explanation: make the score of it again, from nothing but its JSON."""

import json
from typing import Any

import pytest


def recomputed(why: dict[str, Any]) -> float:
    """The score that an explanation adds up to, each of its steps checked on the way."""
    why = json.loads(json.dumps(why))
    parts = [why[name] for name in ("dense", "lexical", "tokens") if why[name]]
    assert sum(part["weight"] for part in parts) == pytest.approx(1)
    for part in parts:
        assert part["contribution"] == pytest.approx(part["scaled"] * part["weight"])
    score = sum(part["contribution"] for part in parts)
    assert score == about(why["fused"])
    for step in filter(None, (why["boilerplate"], why["boosts"])):
        score += abs(score) * (step["factor"] - 1)
        assert score == about(step["score"])
    if why["boosts"]:
        factor = 1.0
        for rule in why["boosts"]["rules"]:
            factor *= rule["factor"]
        assert factor == pytest.approx(why["boosts"]["factor"])
    if read := why["rerank"]:
        span = read["high"] - read["low"]
        if span:
            assert (score - read["low"]) / span == pytest.approx(read["search"], abs=1e-4)
        score = read["low"] + span * ((1 - read["weight"]) * read["search"] + read["weight"] * read["model"])
        assert score == about(read["blend"])
    if why["ceiling"]:
        score = min(score, why["ceiling"]["score"])
    return score


def about(value: float) -> Any:
    """A number as float32 has it, after some steps."""
    return pytest.approx(value, rel=1e-5, abs=2e-6)
