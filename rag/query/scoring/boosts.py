"""Rules of the operator that raise or lower passages by what their document is: the setting `boost`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

import numpy as np

from indexer.stores.store import Searchable
from rag.errors import SettingsError
from rag.query.filters import KEYS, Filter, FilterError, fields_of
from rag.query.scoring.fusion import Rows, Scores, best_first
from rag.query.scoring.ranking import Ranking

_AGE = "age"
_LEAST, _MOST = 0.1, 10.0  # factors


class Boost(NamedTuple):
    """One rule: scores of passages of documents that match are multiplied."""

    rule: str  # as it was written
    only: Filter
    factor: float


@dataclass(frozen=True, slots=True)
class Boosts:
    """All rules; those that match a passage are multiplied with each other."""

    rules: tuple[Boost, ...] = ()
    days: float = 0.0  # age at which a document has the whole of `by_age`; 0 for no such rule
    by_age: float = 1.0

    @classmethod
    def parse(cls, text: str) -> "Boosts":
        """Read rules `KEY=VALUE*FACTOR`, separated by semicolons; raises SettingsError naming the rule."""
        rules: list[Boost] = []
        days, by_age = 0.0, 1.0
        for rule in filter(None, map(str.strip, text.split(";"))):
            test, _, number = rule.rpartition("*")
            name, equals, value = test.partition("=")
            factor = _number(number)
            if not equals or not _LEAST <= factor <= _MOST:
                raise SettingsError(
                    f"boost: {rule!r} must be KEY=VALUE*FACTOR, with a factor from {_LEAST:g} to {_MOST:g}, such as "
                    f"language=en*1.5 or {_AGE}=365*0.5"
                )
            if name.strip() == _AGE:
                days, by_age = _number(value), factor
                if not days > 0:
                    raise SettingsError(f"boost: {rule!r} must have a number of days, such as {_AGE}=365*0.5")
                continue
            try:
                rules.append(Boost(rule, Filter.parse(fields_of({name.strip(): [value.strip()]})), factor))
            except FilterError as error:
                raise SettingsError(f"boost: {rule!r}: {error}; keys are {', '.join((*KEYS, _AGE))}") from error
        return cls(tuple(rules), days, by_age)

    def __bool__(self) -> bool:
        """Whether there is a rule."""
        return bool(self.rules or self.days)

    def apply(self, ranking: Ranking, generation: Searchable) -> Ranking:
        """Rank anew by the rules; a passage that none matches keeps its score."""
        if not self or not len(ranking.rows):
            return ranking
        factors = self._factors(generation, ranking.rows)
        # a negative cosine goes the same way
        scores: Scores = np.asarray(ranking.scores + np.abs(ranking.scores) * (factors - 1), np.float32)
        return ranking.ordered(best_first(scores), scores)

    def by_rule(self, generation: Searchable, rows: Rows) -> Iterator[tuple[str, Scores]]:
        """Yield each rule, as it is written, with the factors that it gives to rows (n,); 1 where it does not apply."""
        for rule, only, factor in self.rules:
            yield rule, np.where(generation.matches(rows, only), np.float32(factor), np.float32(1))
        if self.days:
            ages = _ages(generation.dates(rows))
            yield f"{_AGE}={self.days:g}*{self.by_age:g}", np.asarray(self.by_age ** (ages / self.days), np.float32)

    def _factors(self, generation: Searchable, rows: Rows) -> Scores:
        factors = np.ones(len(rows), np.float32)
        for _, own in self.by_rule(generation, rows):
            factors *= own
        return factors


def _ages(days: Sequence[str | None]) -> Scores:
    """Ages in days, 0 where they are not known and for days to come."""
    today = date.today().toordinal()
    ages = [max(0, today - date.fromisoformat(day).toordinal()) if day else 0 for day in days]
    return np.array(ages, np.float32)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
