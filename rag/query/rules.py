"""Rules of the operator: the settings `boost` and `synonyms`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np

from indexer.errors import FilterError, SynonymsError
from indexer.filter import Filter
from indexer.generation.lexical.lexical_query import LONGEST_SYNONYM, Synonyms, folded_words
from indexer.stores.store import Searchable
from rag.errors import SettingsError
from rag.query.ranking import Ranking, Rows, Scores
from rag.query.request import KEYS, fields_of

_AGE = "age"
_LEAST, _MOST = 0.1, 10.0  # factors
_MOST_RULES = 100_000  # words with synonyms
_COMMA, _ARROW = re.compile(r"(?<!\\),"), re.compile(r"(?<!\\)=>")


@dataclass(frozen=True, slots=True)
class Boosts:
    """The rules of the setting `boost`; the factors of those that match a passage are multiplied."""

    rules: tuple[tuple[str, Filter, float], ...] = ()  # as written, the documents, the factor
    days: float = 0.0  # age at which a document has the whole of `by_age`; 0 for no such rule
    by_age: float = 1.0

    @classmethod
    def parse(cls, text: str) -> "Boosts | None":
        """Read rules `KEY=VALUE*FACTOR`, separated by semicolons; raises SettingsError naming the rule."""
        rules: list[tuple[str, Filter, float]] = []
        days, by_age = 0.0, 1.0
        for rule in filter(None, map(str.strip, text.split(";"))):
            test, _, number = rule.rpartition("*")
            name, _, value = map(str.strip, test.partition("="))
            try:
                factor = float(number)
                if not _LEAST <= factor <= _MOST or (name == _AGE and not float(value) > 0) or not value:
                    raise ValueError
                if name == _AGE:
                    days, by_age = float(value), factor
                else:
                    rules.append((rule, Filter.parse(fields_of({name: [value]})), factor))
            except FilterError as error:
                raise SettingsError(f"boost: {rule!r}: {error}; keys are {', '.join((*KEYS, _AGE))}") from error
            except ValueError:
                raise SettingsError(
                    f"boost: {rule!r} must be KEY=VALUE*FACTOR, with a factor from {_LEAST:g} to {_MOST:g}, such as "
                    f"language=en*1.5, or {_AGE}=365*0.5 for a number of days"
                ) from None
        return cls(tuple(rules), days, by_age) if rules or days else None

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


def read_synonyms(path: str) -> Synonyms:
    """Read a file of rules; raises SynonymsError, which names the file and, for a rule, its line."""
    file = Path(path).expanduser()
    try:
        return parse_synonyms(file.read_text(encoding="utf-8-sig"), str(file))
    except OSError as error:
        raise SynonymsError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SynonymsError(f"{file}: it is not UTF-8 ({error.reason} at byte {error.start:,})") from error


def parse_synonyms(text: str, name: str) -> Synonyms:
    """Read the text of a file; raises SynonymsError naming the file and line."""
    rules: dict[tuple[str, ...], list[str]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{name} line {number}"
        rule = line.partition("#")[0].strip()
        if not rule:
            continue
        if len(rules) >= _MOST_RULES:
            raise SynonymsError(f"{where}: there are more than {_MOST_RULES:,} words with rules")
        sides = [_members(side, where) for side in _ARROW.split(rule)]
        if len(sides) > 2:
            raise SynonymsError(f"{where}: a rule has one =>, not {len(sides) - 1}")
        if len(sides) == 1 and len(sides[0]) == 1:
            raise SynonymsError(f"{where}: {sides[0][0]!r} has no synonym: write a, b or a => b")
        for member in sides[0]:
            standing = rules.setdefault(folded_words(member), [])
            standing += [other for other in (member, *sides[-1])[len(sides) - 1 :] if other not in standing]
    return rules


def _members(side: str, where: str) -> list[str]:
    members = [" ".join(re.sub(r"\\(.)", r"\1", member).split()) for member in _COMMA.split(side)]
    for member in members:
        if not 1 <= len(folded_words(member)) <= LONGEST_SYNONYM:
            raise SynonymsError(f"{where}: {member!r} is not one to {LONGEST_SYNONYM} words")
    return members
