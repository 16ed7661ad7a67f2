"""Rules that say which words stand for which, in the form of Solr's and Elasticsearch's synonym files.

A line is a rule, empty, or a comment after #. `a, b c, d` is two-way: each stands for all. `a, b => c, d` is one-way:
c and d are searched for in place of a or b; to search for a as well, name it on the right, too. A backslash takes the
meaning from a comma or from =>.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from indexer.errors import SynonymsError
from indexer.generation.lexical.analysis import fold, words

_COMMA, _ARROW = re.compile(r"(?<!\\),"), re.compile(r"(?<!\\)=>")
_LARGEST = 100_000  # rules
_LONGEST = 8  # words on one side


@dataclass(frozen=True, slots=True)
class Expanded:
    """The words of a query with what stands for them."""

    words: list[str]  # without those that others stand in place of
    alternatives: Mapping[str, tuple[str, ...]]  # by word of these
    phrases: tuple[str, ...]  # of several words, that are searched for as well
    also: tuple[tuple[str, tuple[str, ...]], ...]  # what was matched, and what stands for it


class Synonyms:
    """The rules of one file."""

    def __init__(self, rules: Mapping[tuple[str, ...], Sequence[str]] = MappingProxyType({})) -> None:
        """Take for each sequence of folded words what stands for it; itself, where it is still searched for."""
        self._rules = rules
        self._longest = max(map(len, rules), default=0)

    @classmethod
    def parse(cls, text: str, name: str) -> "Synonyms":
        """Read the text of a file; raises SynonymsError naming the file and line."""
        rules: dict[tuple[str, ...], list[str]] = {}
        for number, line in enumerate(text.splitlines(), 1):
            rule = line.partition("#")[0].strip()
            if not rule:
                continue
            if len(rules) >= _LARGEST:
                raise SynonymsError(f"{name} line {number}: there are more than {_LARGEST:,} words with rules")
            sides = [_members(side, f"{name} line {number}") for side in _ARROW.split(rule)]
            if len(sides) > 2:
                raise SynonymsError(f"{name} line {number}: a rule has one =>, not {len(sides) - 1}")
            if len(sides) == 1 and len(sides[0]) == 1:
                raise SynonymsError(f"{name} line {number}: {sides[0][0]!r} has no synonym: write a, b or a => b")
            for member in sides[0]:
                standing = rules.setdefault(_key(member), [])
                standing += [other for other in (member, *sides[-1])[len(sides) - 1 :] if other not in standing]
        return cls(rules)

    def expand(self, typed: Sequence[str]) -> Expanded:
        """Return the words of a query with what stands for them; of several rules, that of the most words."""
        if not self._rules:
            return Expanded(list(typed), {}, (), ())
        folded = [fold(word) for word in typed]
        kept: list[str] = []
        alternatives: dict[str, tuple[str, ...]] = {}
        phrases: list[str] = []
        also: list[tuple[str, tuple[str, ...]]] = []
        place = 0
        while place < len(typed):
            sizes = range(min(self._longest, len(typed) - place), 0, -1)
            size = next((size for size in sizes if tuple(folded[place : place + size]) in self._rules), 0)
            if not size:
                kept.append(typed[place])
                place += 1
                continue
            key = tuple(folded[place : place + size])
            others = [other for other in self._rules[key] if _key(other) != key]
            single = tuple(other for other in others if len(_key(other)) == 1)
            phrases += [other for other in others if len(_key(other)) > 1]
            if len(others) < len(self._rules[key]):  # it stands for itself, too
                kept += typed[place : place + size]
                if size == 1:
                    alternatives[typed[place]] = single
                else:
                    kept += single
            elif single:
                kept.append(single[0])
                alternatives[single[0]] = single[1:]
            if others:
                also.append((" ".join(typed[place : place + size]), tuple(others)))
            place += size
        return Expanded(kept, alternatives, tuple(phrases), tuple(also))


NO_SYNONYMS = Synonyms()


def _members(side: str, where: str) -> list[str]:
    members = [" ".join(re.sub(r"\\(.)", r"\1", member).split()) for member in _COMMA.split(side)]
    for member in members:
        if not 1 <= len(_key(member)) <= _LONGEST:
            raise SynonymsError(f"{where}: {member!r} is not one to {_LONGEST} words")
    return members


def _key(text: str) -> tuple[str, ...]:
    return tuple(fold(word) for word in words(text).findall(text))
