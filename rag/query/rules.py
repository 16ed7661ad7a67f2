"""Rules of the operator: the settings `boost` and `synonyms`."""

import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import NamedTuple

import numpy as np

from indexer.errors import SynonymsError
from indexer.generation.lexical.query_words import NO_SYNONYMS, Synonyms
from indexer.stores.store import Searchable
from rag.errors import SettingsError
from rag.query.ranking import Ranking, Rows, Scores
from rag.query.request import KEYS, Filter, FilterError, fields_of

_CHECK_SECONDS = 1.0  # between two looks at the file
_AGE = "age"
_LEAST, _MOST = 0.1, 10.0  # factors
_log = logging.getLogger(__name__)


class Boost(NamedTuple):
    """One rule: scores of passages of documents that match are multiplied."""

    rule: str  # as the operator wrote it
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
            name, equals, value = map(str.strip, test.partition("="))
            factor = _number(number)
            if not equals or not _LEAST <= factor <= _MOST:
                raise SettingsError(
                    f"boost: {rule!r} must be KEY=VALUE*FACTOR, with a factor from {_LEAST:g} to {_MOST:g}, such as "
                    f"language=en*1.5 or {_AGE}=365*0.5"
                )
            if name == _AGE:
                days, by_age = _number(value), factor
                if not days > 0:
                    raise SettingsError(f"boost: {rule!r} must have a number of days, such as {_AGE}=365*0.5")
                continue
            try:
                rules.append(Boost(rule, Filter.parse(fields_of({name: [value]})), factor))
            except FilterError as error:
                raise SettingsError(f"boost: {rule!r}: {error}; keys are {', '.join((*KEYS, _AGE))}") from error
        return cls(tuple(rules), days, by_age)

    def apply(self, ranking: Ranking, generation: Searchable) -> Ranking:
        """Rank by the rules; a passage that none matches keeps its score."""
        factors = np.ones(len(ranking.rows), np.float32)
        for _, of_rule in self.by_rule(generation, ranking.rows):
            factors *= of_rule
        # a negative cosine goes the same way
        scores: Scores = np.asarray(ranking.scores + np.abs(ranking.scores) * (factors - 1), np.float32)
        return ranking.ordered(np.argsort(-scores, kind="stable"), scores, boosted=scores)

    def by_rule(self, generation: Searchable, rows: Rows) -> Iterator[tuple[str, Scores]]:
        """Yield each rule, as it is written, with the factors that it gives to rows (n,); 1 where it does not apply."""
        for rule, only, factor in self.rules:
            yield rule, np.where(generation.matches(rows, only), np.float32(factor), np.float32(1))
        if self.days:
            numbers = generation.row_facts(rows).documents.tolist()
            dates = {number: facts.date for number, facts in generation.facts(sorted(set(numbers))).items()}
            today = date.today().toordinal()
            ages = np.zeros(len(numbers), np.float32)  # days; 0 where the date is not known, or still to come
            for place, number in enumerate(numbers):
                if day := dates.get(number):
                    ages[place] = max(0, today - date.fromisoformat(day).toordinal())
            yield f"{_AGE}={self.days:g}*{self.by_age:g}", np.asarray(self.by_age ** (ages / self.days), np.float32)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


class SynonymsFile:
    """The rules of a file as it is now. Safe to share between threads."""

    def __init__(self, path: str) -> None:
        """Read it. Raises SynonymsError, which names the file and, for a rule, its line."""
        self._path = Path(path).expanduser()
        self._stamp: tuple[int, ...] = ()
        self._rules = NO_SYNONYMS
        self._read_if_changed()
        self._looked = time.monotonic()

    def current(self) -> Synonyms:
        """Return the rules; while a changed file cannot be read, those before the change, and the log says why."""
        if time.monotonic() - self._looked >= _CHECK_SECONDS:
            self._looked = time.monotonic()
            try:
                if self._read_if_changed():
                    _log.info("synonyms were read again from %s", self._path)
            except SynonymsError as error:
                _log.warning("%s; the synonyms stay as they were", error)
        return self._rules

    def _read_if_changed(self) -> bool:
        try:
            found = os.stat(self._path)
            stamp = found.st_mtime_ns, found.st_size, found.st_ino
            if stamp == self._stamp:
                return False
            self._stamp = stamp
            self._rules = Synonyms.parse(self._path.read_text(encoding="utf-8-sig"), str(self._path))
        except OSError as error:
            raise SynonymsError(f"{self._path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise SynonymsError(f"{self._path}: it is not UTF-8 ({error.reason} at byte {error.start:,})") from error
        return True
