"""Claims: the facts of a sentence, and whether passages say them of the same things.

A fact belongs to the words next to it: a passage may have another fact there, or say the fact of another subject.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from heapq import nlargest
from itertools import chain, pairwise
from math import inf, log
from operator import attrgetter
from typing import NamedTuple

from indexer.generation.lexical.analysis import STOP_WORDS
from rag.answer.evidence import CLAUSE_END, Evidence, Match, Slot, Term, Unit, first_words, read_slots, read_terms
from rag.answer.sentences import Sentence

_MIN_GAIN = 0.4  # weight by which a place with another fact fits better
_MIN_SUBJECT_WEIGHT, _MIN_SUBJECT_WORDS, _MIN_SUBJECT_SHARE = 0.5, 0.5, 0.35  # weight; shares of the weight
_MIN_PREDICATE_WORDS, _MIN_PREDICATE_SHARE = 3, 0.6
_MIN_FIT = 0.75  # share of the weight of the best place
_REACH, _UNIT_REACH = 3, 2  # content words on each side of a fact
_FAR, _IN_UNIT, _IN_TOPIC, _NEXT_TO, _IN_HEADING = 0.5, 0.6, 0.3, 0.2, 0.5
_MAX_SLOTS, _MAX_CLAUSES, _MAX_PLACES = 20, 20, 40
_ADDRESS = re.compile(r"https?://[^\s<>\"'`\])]*[^\s<>\"'`\]).,;:!?]|(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+")
_NAME = re.compile(r"(?<=\w)[A-Z_]", re.ASCII)  # CamelCase, snake_case, ABC
_SENTENCE_START = '\n!?:;…(•|#>-–—"“„«'
_LIST_MARK = re.compile(r"\s*\d{1,3}[.)]\s*")
_CAPITALISING = frozenset({"de", "lb"})


class WordWeights:
    """The words of some passages."""

    def __init__(self, passages: Sequence[Evidence]) -> None:
        """Take the passages."""
        units = [unit for each in passages for unit in each.units]
        counts = Counter(chain.from_iterable(unit.keys for unit in units))
        headings = Counter(chain.from_iterable(each.heading for each in passages))
        total = 1 + len(units)
        self._weights = {key: log(total / count, total) / max(1, headings[key]) for key, count in counts.items()}
        self._subjects = frozenset(headings).union(*(unit.subject for unit in units))

    def weights_of(self, keys: Iterable[str]) -> dict[str, float]:
        """Return the weights of the words that the passages have: less for those in many units or headings."""
        return {key: self._weights[key] for key in keys if key in self._weights}

    def weight(self, keys: Iterable[str], unknown: float = 0.0) -> float:
        """Return the sum of the weights of some words."""
        return sum(self._weights.get(key, unknown) for key in keys)

    def is_subject(self, keys: frozenset[str]) -> bool:
        """Return True if some words are the subject of a unit or a heading."""
        return self.weight(keys & self._subjects) >= max(
            _MIN_SUBJECT_WEIGHT, _MIN_SUBJECT_WORDS * self.weight(keys, unknown=1.0)
        )


class _Place(NamedTuple):
    """A unit of a passage with some words of a claim."""

    passage: Evidence
    unit: Unit
    same: frozenset[str]  # keys
    around: frozenset[str]  # keys in its topic and heading
    weight: float

    @property
    def match(self) -> Match:
        return Match(self.passage, self.unit.span)


class Claim:
    """The code, addresses, numbers and names of a sentence, and its content words."""

    def __init__(self, sentence: Sentence, language: str | None, proved: Collection[str]) -> None:
        """Take the sentence, the language of its passages, and the keys that need no proof."""
        prose = sentence.prose
        self.facts = [Term(piece.text, piece.start, "") for piece in sentence.code if any(map(str.isalnum, piece.text))]
        for match in _ADDRESS.finditer(prose):
            self.facts.append(Term(match[0], sentence.start + match.start(), ""))
            prose = prose[: match.start()] + " " * len(match[0]) + prose[match.end() :]
        self._prose, self._terms = prose, read_terms(prose, language)
        names = [term for term in self._terms if _is_fact(term, prose, language) and term.key not in proved]
        self.facts += [term._replace(start=sentence.start + term.start) for term in names]
        self._content = [term for term in self._terms if not term.is_stop]
        self.words = [term.key for term in self._content]
        self.stop_words = len(self._terms) - len(self.words)
        self.keys = frozenset(self.words)
        keys = {term.key for term in names if term.key[0].isdigit() or language not in _CAPITALISING}
        self._slots = [slot for slot in read_slots(self._content) if not slot.keys.isdisjoint(keys)][:_MAX_SLOTS]

    @cached_property
    def _breaks(self) -> list[bool]:
        """True for each content word, except for the last, at which a clause ends."""
        return [CLAUSE_END.search(self._prose, a.end, b.start) is not None for a, b in pairwise(self._content)]

    def find_altered(self, passages: Iterable[Evidence], word_weights: WordWeights) -> tuple[list[Term], Match | None]:
        """Return the facts that the passages state differently or of another subject, and where they do."""
        weights = word_weights.weights_of(self.keys)
        candidates = (
            _Place(
                passage, unit, same, (unit.topic | passage.heading) & weights.keys() - same, word_weights.weight(same)
            )
            for passage in passages
            for unit in passage.units
            if (same := unit.keys & weights.keys())
        )
        places = nlargest(_MAX_PLACES, candidates, key=attrgetter("weight"))
        rivals = [(slot.keys, *self._find_rival(slot, places, weights)) for slot in self._slots]
        altered = [each for each in rivals if each[1] >= _MIN_GAIN]
        keys: frozenset[str] = frozenset().union(*(each[0] for each in altered))
        rival = max(altered, key=lambda each: each[1])[2] if altered else None
        if not rival:
            keys, rival = self._find_other_subject(places, word_weights)
        return [fact for fact in self.facts if fact.key in keys], rival

    def _find_rival(
        self, slot: Slot, places: Sequence[_Place], weights: dict[str, float]
    ) -> tuple[float, Match | None]:
        """Return how much better another fact fits the words around a number or name, and where it stands."""
        first, last = max(0, slot.start - _REACH), min(len(self.words), slot.stop + _REACH)
        while any(self._breaks[first : slot.start]):
            first += 1
        while any(self._breaks[slot.stop - 1 : last - 1]):
            last -= 1
        before, after = {*self.words[first : slot.start]}, {*self.words[slot.stop : last]}
        near = before | after
        counts = {key: weight * (1 if key in near else _FAR) for key, weight in weights.items() if key not in slot.keys}

        def fit(words: Sequence[str], start: int, stop: int) -> float:
            earlier, later = {*words[max(0, start - _UNIT_REACH) : start]}, {*words[stop : stop + _UNIT_REACH]}
            return _NEXT_TO * (_sum(counts, earlier & before | later & after) + _sum(counts, (earlier | later) & near))

        support, best, rival = -inf, 0.0, None
        for place in places:
            unit = place.unit
            score = _IN_UNIT * _sum(counts, place.same) + _IN_TOPIC * _sum(counts, place.around)
            lacking = slot.keys - unit.keys - unit.topic - place.passage.heading
            if lacking < slot.keys:
                fits = [fit(unit.words, at, at + 1) for at, key in enumerate(unit.words) if key in slot.keys]
                bonus = max(fits, default=0.0 if slot.is_number else _IN_HEADING)
                support = max(support, score + bonus - _IN_UNIT * _sum(weights, lacking))
            for other in unit.slots:
                if other.is_number == slot.is_number and not other.keys <= self.keys:
                    fitted = score + fit(unit.words, other.start, other.stop)
                    best, rival = (fitted, place.match) if fitted > best else (best, rival)
        return best - support if support > -inf else 0.0, rival

    def _find_other_subject(
        self, places: Sequence[_Place], word_weights: WordWeights
    ) -> tuple[frozenset[str], Match | None]:
        """Return the subject of a clause that the passages say of another subject, and where they do."""
        starts = [0, *(at for at, is_end in enumerate(self._breaks, 1) if is_end)][: min(_MAX_CLAUSES, len(self.words))]
        clauses = [
            (start, stop, first_words(self._prose, self._terms[self._terms.index(self._content[start]) :]))
            for start, stop in pairwise([*starts, len(self.words)])
        ]

        def is_about(subject: frozenset[str], place: _Place) -> bool:
            around = place.unit.keys | place.unit.topic | place.unit.before | place.passage.heading
            pairs = ((subject, around), (place.unit.subject, self.keys))
            return any(word_weights.weight(a & b) >= _MIN_SUBJECT_SHARE * word_weights.weight(a) for a, b in pairs)

        for start, stop, subject in clauses:
            predicate = {*self.words[start:stop]} - subject
            if len(predicate) < _MIN_PREDICATE_WORDS or not word_weights.is_subject(subject):
                continue
            weighed = [(word_weights.weight(place.same & predicate), place) for place in places]
            best = max([weight for weight, _ in weighed], default=0.0)
            fitting = [place for weight, place in weighed if weight >= _MIN_FIT * best]
            is_said = best >= _MIN_PREDICATE_SHARE * word_weights.weight(predicate, unknown=1.0)
            if is_said and not any(is_about(subject, place) for place in fitting):
                return subject, max(weighed, key=lambda each: each[0])[1].match
        return frozenset(), None


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
    is_owner = prose[term.end : term.end + 2] in ("'s", "’s")
    is_name = (is_owner or not is_first) and language not in _CAPITALISING
    return (is_sure or is_name) and not is_item


def _sum(weights: dict[str, float], keys: Iterable[str]) -> float:
    return sum(weights.get(key, 0.0) for key in keys)
