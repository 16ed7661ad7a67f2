"""Claims: the facts and content words of a sentence, and the one place of the passages that has them together.

A place is a row, a list item, or a few adjacent sentences, with its headings. If a claim combines facts from several
places, no single place has all of them.
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cached_property
from itertools import chain
from math import inf, log
from operator import attrgetter
from typing import NamedTuple

from indexer.generation.lexical.analysis import STOP_WORDS
from rag.answer.evidence import MAX_MISSING, Evidence, Term, Unit, read_numbers, read_terms
from rag.answer.sentences import Sentence

FACT_WEIGHT = 2 * MAX_MISSING
_MIN_WORDS, _MIN_STOP_WORDS, _MIN_COVERAGE = 4, 2, 0.2  # words, stop words, share of the words
_MIN_CLAUSE_WORDS, _MAX_CLAUSES = 2, 20
_CODE = re.compile(
    r"https?://[^\s<>\"'`\])]*[^\s<>\"'`\]).,;:!?]|(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+"  # addresses
    r"|(?<![\w/.])[~.]?/[\w.][\w./+-]*\w|(?<!\w)--?[A-Za-z][\w-]*+|(?<!\w)%\w++"  # paths, options and formats
    r"|(?<![\w.])[A-Za-z_]{2,64}+[.=][A-Za-z_]{2,64}"
)
_NAME = re.compile(r"(?<=\w)[A-Z_]", re.ASCII)  # CamelCase, snake_case, ABC
_WORD = re.compile(r"\w+")
_SENTENCE_START = '\n!?:;…(•|#>-–—"“„«'
_LIST_MARK = re.compile(r"\s*\d{1,3}[.)]\s*")
_CLAUSE_END = re.compile(r"[,;:—|]|\s\(|(?<!\()\)")
_LIST = re.compile(r"\W*+(?:(?<=,\s)|\w{1,3}\s)\W*")  # X, Y and Z
_CAPITALISING = frozenset({"de", "lb"})
_cost_of = attrgetter("cost")


class PassageWords:
    """The words of some passages, with their weights."""

    def __init__(self, passages: Sequence[Evidence]) -> None:
        """Take the passages."""
        units = [unit for each in passages for unit in each.units]
        counts = Counter(chain.from_iterable(unit.keys for unit in units))
        headings = Counter(chain.from_iterable(each.heading for each in passages))
        total = 1 + len(units)
        self.weights = {key: log(total / count, total) / max(1, headings[key]) for key, count in counts.items()}
        self.keys = frozenset(self.weights)
        self.labels = frozenset(chain.from_iterable(unit.label for unit in units))
        self.names = frozenset(chain.from_iterable(each.names for each in passages)).difference(
            chain.from_iterable(each.plain_words for each in passages)
        )


class Item(NamedTuple):
    """A word, a number, or code of a claim, with its place in the sentence."""

    start: int
    end: int
    keys: frozenset[str]
    is_fact: bool


class Placement(NamedTuple):
    """The place in passages that has most of a claim, with the cost and the keys of the parts that it lacks."""

    cost: float
    missing: frozenset[str] = frozenset()
    passage: Evidence | None = None
    unit: Unit | None = None

    @property
    def is_whole(self) -> bool:
        """True if the place has all facts and nearly all words."""
        return self.cost <= MAX_MISSING


class Claim:
    """The code, addresses, numbers and names of a sentence, and its content words."""

    def __init__(self, sentence: Sentence, language: str | None, proved: Collection[str]) -> None:
        """Take the sentence, the language of its passages, and the keys that need no proof."""
        prose, start = sentence.prose, sentence.start
        code = [Term(piece.text, piece.start, "") for piece in sentence.code if any(map(str.isalnum, piece.text))]
        code += [Term(match[0], start + match.start(), "") for match in _CODE.finditer(prose)]
        prose = _CODE.sub(lambda match: " " * len(match[0]), prose)
        terms = read_terms(prose, language)
        content = [term for term in terms if not term.is_stop]
        name_terms = {term for term in content if _is_fact(term, prose, language) and term.key not in proved}
        self.facts = code + [term._replace(start=start + term.start) for term in content if term in name_terms]
        self._stop_words = len(terms) - len(content)
        self._numbers = read_numbers(content)
        self._prose, self._start = prose, start
        self._capitals = frozenset(
            term.key for term in content if term.text[0].isupper() and language not in _CAPITALISING
        )
        items = [Item(term.start, term.end, frozenset([term.key]), term in name_terms) for term in content]
        for each in code:
            words = read_terms(" ".join(_WORD.findall(each.text)), language)
            keys = frozenset(term.key for term in words if not term.is_stop)
            items.append(Item(each.start - start, each.end - start, keys, is_fact=True))
        self._items = sorted(items, key=attrgetter("start"))

    @cached_property
    def keys(self) -> frozenset[str]:
        """The keys of its words, and of those within code."""
        return frozenset[str]().union(*(item.keys for item in self._items))

    def drop_derived(self, passages: Sequence[Evidence]) -> None:
        """Drop spelled-out numbers of things that the passages do not count, such as "two" in "two tools"."""
        counted = frozenset[str]().union(*(each.counted for each in passages))
        after = {number.key: number.after[:1] for number in self._numbers}
        names = [fact for fact in self.facts if fact.is_number and not fact.text[0].isdigit()]
        for fact in names:
            if counted.isdisjoint(after[fact.key]):
                self.facts.remove(fact)
                self._items = [item for item in self._items if item.start != fact.start - self._start]

    def facts_with(self, keys: frozenset[str]) -> list[Term]:
        """Return the facts that have at least one of the keys."""
        starts = {self._start + item.start for item in self._items if not item.keys.isdisjoint(keys)}
        return [fact for fact in self.facts if fact.start in starts]

    def is_foreign(self, passage_keys: frozenset[str]) -> bool:
        """Return whether the claim has hardly a word of the passages, although its stop words are in their language."""
        is_comparable = len(self.keys) >= _MIN_WORDS and self._stop_words >= _MIN_STOP_WORDS
        return is_comparable and len(self.keys & passage_keys) < _MIN_COVERAGE * len(self.keys)

    def can_add_name(self, reading: Placement) -> bool:
        """Return whether a place has most of the claim and no other name, so that an unknown name may be right."""
        if not reading.is_whole or reading.unit is None:
            return False
        return 2 * len(self.keys & reading.unit.window) >= len(self.keys) and reading.unit.names <= self.keys

    def read(self, passages: Sequence[Evidence], vocabulary: PassageWords, passage_keys: frozenset[str]) -> Placement:
        """Find the place with most words of the claim. If it lacks some, return that of the worst clause."""
        items = [item for item in self._items if not item.keys.isdisjoint(passage_keys)]
        reading = self._read(items, passages, vocabulary, passage_keys)
        if reading.is_whole:
            return reading
        clauses = self._clauses(items)
        return max((self._read(clause, passages, vocabulary, passage_keys) for clause in clauses), key=_cost_of)

    def _read(
        self,
        items: Sequence[Item],
        passages: Sequence[Evidence],
        vocabulary: PassageWords,
        passage_keys: frozenset[str],
    ) -> Placement:
        """Return the place with most of these items."""
        weights, names = vocabulary.weights, vocabulary.names & self._capitals | vocabulary.labels
        costs: list[tuple[frozenset[str], float]] = []
        for item in items:
            keys = item.keys & passage_keys
            is_fact = item.is_fact or not names.isdisjoint(keys)
            costs.append((keys, FACT_WEIGHT if is_fact else sum(weights.get(key, 0.0) for key in keys)))
        keys = frozenset[str]().union(*(each for each, _ in costs))
        best, overlap = Placement(inf if keys else 0.0), 0
        for passage in passages if keys else ():
            wrong = passage.misplaced([number for number in self._numbers if number.key in keys], self.keys, weights)
            for unit in passage.units:
                missing = keys - unit.window
                cost = sum(cost for each, cost in costs if not each.isdisjoint(missing)) if missing else 0.0
                cost += FACT_WEIGHT * len(wrong)
                if cost < best.cost or (cost == best.cost and len(keys & unit.keys) > overlap):
                    best, overlap = Placement(cost, missing | wrong, passage, unit), len(keys & unit.keys)
        return best

    def _clauses(self, items: Sequence[Item]) -> list[list[Item]]:
        """Split items between the facts of a list, and where a clause with enough words ends."""
        clauses: list[list[Item]] = [[]]
        for item in items:
            clause = clauses[-1]
            if clause and len(clauses) < _MAX_CLAUSES:
                between = self._prose[clause[-1].end : item.start]
                is_listed = clause[-1].is_fact or self._prose[clause[-1].start].isupper()
                is_list = is_listed and item.is_fact and _LIST.fullmatch(between)
                if is_list or (len(clause) >= _MIN_CLAUSE_WORDS and _CLAUSE_END.search(between)):
                    clauses.append([])
            clauses[-1].append(item)
        return clauses


def _is_fact(term: Term, prose: str, language: str | None) -> bool:
    """Return whether a term is a number, a function or a name."""
    is_function = prose.startswith("()", term.end)
    is_sure = term.is_number or is_function or any(map(str.isdigit, term.text)) or bool(_NAME.search(term.text))
    if not (is_sure or term.text[0].isupper()) or term.text.lower() in STOP_WORDS:
        return False
    before = term.start
    while before and prose[before - 1] in " \t*_":
        before -= 1
    is_first = not before or prose[before - 1] in _SENTENCE_START or bool(_LIST_MARK.fullmatch(prose, 0, before))
    is_item = is_first and term.text.isdecimal() and prose[term.end : term.end + 1] in (".", ")")
    is_possessive = prose[term.end : term.end + 2] in ("'s", "’s")
    is_name = (is_possessive or not is_first) and language not in _CAPITALISING
    return (is_sure or is_name) and not is_item
