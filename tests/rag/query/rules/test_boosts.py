"""Rules that raise and lower passages, over a generation whose facts a test chooses."""

from datetime import date, timedelta

import numpy as np
import pytest

from rag.errors import SettingsError
from rag.query.ranking import Ranking
from rag.query.rules.boosts import Boosts


class Generation:
    """Five rows: the language of each, and its date."""

    languages = np.array(["en", "de", "en", "de", "fr"])
    days = (0, None, 365, 730, -30)

    def matches(self, rows, only):
        return self.languages[rows] == only.language[0]

    def dates(self, rows):
        today = date.today()
        return [str(today - timedelta(self.days[row])) if self.days[row] is not None else None for row in rows]


def ranked(rules: str, scores: list[float]) -> dict[int, float]:
    ranking = Ranking(np.arange(5), np.array(scores, np.float32), np.arange(5, dtype=np.float32), None)
    found = Boosts.parse(rules).apply(ranking, Generation())
    assert found.dense is not None
    assert found.dense.tolist() == found.rows.tolist()
    return {row: round(score, 4) for row, score in zip(found.rows.tolist(), found.scores.tolist(), strict=True)}


@pytest.mark.parametrize(
    ("rules", "scores"),
    [
        ("", {0: 1.0, 1: 0.9, 2: 0.8, 3: 0.7, 4: 0.6}),
        ("language=de*2", {1: 1.8, 3: 1.4, 0: 1.0, 2: 0.8, 4: 0.6}),
        ("language=de*2; language=fr * 0.5 ;", {1: 1.8, 3: 1.4, 0: 1.0, 2: 0.8, 4: 0.3}),
        ("age=365*0.5", {0: 1.0, 1: 0.9, 4: 0.6, 2: 0.4, 3: 0.175}),
    ],
)
def test_rules(rules: str, scores: dict[int, float]) -> None:
    found = ranked(rules, [1.0, 0.9, 0.8, 0.7, 0.6])
    assert list(found) == list(scores)
    assert found == pytest.approx(scores)


def test_what_is_below_zero_goes_the_same_way() -> None:
    assert ranked("language=de*1.5", [-0.1, -0.2, -0.3, -0.4, -0.5])[1] == pytest.approx(-0.1)


@pytest.mark.parametrize(
    "rule",
    ["language=en", "language*2", "colour=red*2", "language=en*0", "language=en*x", "age=x*2", "age=-1*2", "en*2"],
)
def test_mistakes_name_the_rule(rule: str) -> None:
    with pytest.raises(SettingsError, match="boost: '") as caught:
        Boosts.parse(f"language=en*2; {rule}")
    assert rule in str(caught.value)
