"""Compare the facts of a sentence with passages: numbers, names, code and addresses, and the words around them.

A fact is contradicted if a passage has the words around it together with another fact of the same kind.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from itertools import chain, pairwise
from math import log
from operator import attrgetter, itemgetter
from typing import NamedTuple

from indexer.generation.lexical.analysis import STOP_WORDS
from rag.answer.evidence import (
    CAPITALISING,
    RARE_WORD,
    Evidence,
    Segment,
    Term,
    is_derived,
    is_unit,
    read_facts,
    read_terms,
)
from rag.answer.sentences import Sentence

FACT_WEIGHT = 2 * RARE_WORD
_LABEL = "label"  # the kind of a lower-case word in the first cell of a row
_MIN_WORDS, _MIN_COVERAGE = 4, 0.2  # share of the words
_MAX_COMPUTED = 20  # numbers of a sentence; the time grows with their square
_NEAR = 4  # words and facts on each side of a fact
_CODE = re.compile(
    r"https?://[^\s<>\"'`\])]*[^\s<>\"'`\]).,;:!?]|(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+"  # addresses
    r"|(?<![\w.])v?\d{1,3}(?:\.\d{1,3}){2,3}(?![.\w])"  # versions
    r"|(?<![\w-])[A-Z]\w*+(?:-[A-Z\d]\w*+)++"
    r"|(?<![\w/.])[~.]?/[\w.][\w./+-]*\w|(?<!\w)--?[A-Za-z][\w-]*+|(?<!\w)%\w++"  # paths, options and formats
    r"|(?<![\w.])[A-Za-z_]{2,64}+[.=][A-Za-z_]{2,64}"
)
_NAME = re.compile(r"(?<=\w)[A-Z_]", re.ASCII)  # CamelCase, snake_case, ABC
_WORD = re.compile(r"\w+")
_MONTH = re.compile(r"(?<=\d)[./](?:0?[1-9]|1[012])[./](?=[12]\d{3}\b)")  # a passage may have the month's name
_SENTENCE_START = '\n!?:;…(•|#>-–—"“„«'
_LIST_MARK = re.compile(r"\s*\d{1,3}[.)]\s*")


class PassageWords:
    """The words of some passages, each with a weight: RARE_WORD for the rarest, less for frequent words."""

    def __init__(self, passages: Sequence[Evidence]) -> None:
        counts, total = Counter[str](), 1 + sum(len(each.segments) for each in passages)
        for each in passages:
            counts.update({key: len(places) for key, places in each.places.items()})
        self.weights = {key: log(total / count, total) for key, count in counts.items()}
        self.keys = frozenset(self.weights).union(*(each.heading for each in passages))
        self.labels = frozenset(chain.from_iterable(unit.label for each in passages for unit in each.units))
        self.names = frozenset(chain.from_iterable(name for each in passages for name in each.names))

    def weight(self, item: "Item") -> float:
        """Return FACT_WEIGHT for a fact, and the summed weight of the keys for a word."""
        return FACT_WEIGHT if item.kind else sum(self.weights.get(key, 0.0) for key in item.keys)


class Item(NamedTuple):
    """A word, name, number or piece of code, with its place in the sentence."""

    start: int
    end: int
    keys: frozenset[str]
    kind: str = ""  # empty for a word


class Claim:
    """The facts of a sentence, and the words that are not stop words."""

    def __init__(self, sentence: Sentence, language: str | None, proved: Collection[str], words: PassageWords) -> None:
        """Read a sentence.

        Args:
            sentence: the sentence.
            language: the language of the passages.
            proved: keys of facts that need no proof.
            words: the words of all passages.
        """
        prose, start = sentence.prose, sentence.start
        code = [Term(piece.text, piece.start, "") for piece in sentence.code if any(map(str.isalnum, piece.text))]
        code += [Term(match[0], start + match.start(), "") for match in _CODE.finditer(prose)]
        prose = _CODE.sub(lambda match: " " * len(match[0]), prose)
        prose = _MONTH.sub(lambda match: " " * len(match[0]), prose)
        terms = read_terms(prose, language)
        content = [term for term in terms if not term.is_stop]
        fact_terms = [
            term
            for term in content
            if (_is_fact(term, prose, language) or (term.key in words.names and term.text[0].isupper()))
            and term.key not in proved
        ]
        self.facts = code + [term._replace(start=start + term.start) for term in fact_terms]
        self._words, self._start = words, start
        self._has_stop_words = len(content) < len(terms)
        self._has_excerpts = bool(sentence.quotes or sentence.code)
        self._after = {start + first.start: second.key for first, second in pairwise(content)}
        facts = read_facts(prose, fact_terms, words.names, language)
        in_facts = {term for _, run in facts for term in run}
        facts += [(_LABEL if term.key in words.labels else "", [term]) for term in content if term not in in_facts]
        items = [Item(run[0].start, run[-1].end, frozenset(term.key for term in run), kind) for kind, run in facts]
        for each in code:
            keys = (term.key for term in read_terms(" ".join(_WORD.findall(each.text)), language) if not term.is_stop)
            items.append(Item(each.start - start, each.end - start, frozenset(keys), "code"))
        for quote in sentence.quotes:
            offset = quote.start - start
            items += [
                Item(offset + term.start, offset + term.end, frozenset((term.key,)))
                for term in read_terms(quote.text, language)
                if not term.is_stop
            ]
        self.items = sorted(items, key=attrgetter("start"))

    @cached_property
    def keys(self) -> frozenset[str]:
        """The keys of all words and facts."""
        return frozenset[str]().union(*(item.keys for item in self.items))

    def drop_derived(self, passages: Sequence[Evidence], unmatched: Sequence[Term]) -> list[Term]:
        """Drop numbers that follow from others, and spelled-out numbers of things that no passage counts.

        Args:
            passages: the passages to derive numbers from.
            unmatched: the facts that no passage has.

        Returns:
            The unmatched facts that remain.
        """
        counted = frozenset[str]().union(*(each.counted for each in passages))
        numbers = [fact for fact in self.facts if fact.is_number][:_MAX_COMPUTED]
        claimed = {float(fact.key) for fact in numbers if fact not in unmatched or not fact.text[0].isdigit()}
        sentences = defaultdict[float, list[int]](list)
        for value, unit in chain.from_iterable(each.quantities for each in passages):
            sentences[value].append(id(unit))
        for fact in numbers:
            is_uncounted = not fact.text[0].isdigit() and self._after.get(fact.start) not in counted
            origins = sentences if fact in unmatched else {}
            if is_uncounted or is_derived(float(fact.key), origins, claimed):
                self.facts.remove(fact)
                self.items = [item for item in self.items if item.start != fact.start - self._start]
        return [fact for fact in unmatched if fact in self.facts]

    def is_foreign(self, passages: Sequence[Evidence]) -> bool:
        """Return whether the passages have hardly a word of the sentence, although they are in its language."""
        has_words = len(self.keys) >= _MIN_WORDS and self._has_stop_words and not self._has_excerpts
        shared = self.keys.intersection(chain.from_iterable(each.keys for each in passages))
        return has_words and len(shared) < _MIN_COVERAGE * len(self.keys)

    def can_add(self, names: Sequence[Term], passages: Sequence[Evidence]) -> bool:
        """Return whether a sentence of the passages has most of the claim's words, and could be about the names.

        It must have no name that the claim lacks. A name with other words that the passages have is a different name.
        """
        added = {name.key for name in names}
        best = self.best_segment(passages)
        if best is None or any(not item.keys.isdisjoint(added) and not item.keys <= added for item in self.items):
            return False
        passage, segment = best
        segments = [each for each in passage.segments if each.unit is segment.unit]
        keys = self.keys & passage.heading.union(*(each.keys_in_context() for each in segments))
        has_all_names = all(name <= self.keys for each in segments for name in each.facts.get("name", ()))
        return has_all_names and 2 * len(keys) >= len(self.keys)

    def missing(self, passage: Evidence) -> float:
        """Return the summed weight of the words and facts that only other passages have."""
        items = [item for item in self.items if item.keys.isdisjoint(passage.keys)]
        return sum(self._words.weight(item) for item in items if not item.keys.isdisjoint(self._words.keys))

    def best_segment(self, passages: Sequence[Evidence]) -> tuple[Evidence, Segment] | None:
        """Return the segment of the passages with most of the claim's words, or None if they have none."""
        scores = self._scores(self.items, passages)
        if not scores:
            return None
        passage, at = max(scores, key=scores.__getitem__)
        return passage, passage.segments[at]

    def contradicted(self, passages: Sequence[Evidence]) -> tuple[Item, Evidence, Segment | None] | None:
        """Find a fact that contradicts the passages.

        Returns:
            The fact, the passage and the segment that contradict it, or None. The segment is None for a name that joins
            words of different names.
        """
        for item in self.items:
            if item.kind == "name" and _is_stitched(item.keys & self._words.keys, passages):
                return item, passages[0], None
        for at, item in enumerate(self.items):
            if rival := self._rival(at, passages) if item.kind not in ("", _LABEL) else None:
                return item, *rival
        return None

    def _rival(self, index: int, passages: Sequence[Evidence]) -> tuple[Evidence, Segment] | None:
        """Return the segment with most words around a fact, if it has another fact of the same kind instead.

        It must have all words around the fact that the fact's segments have, and more than one rare word besides.
        """
        fact = self.items[index]
        around = self.items[max(0, index - _NEAR) : index] + self.items[index + 1 : index + 1 + _NEAR]
        near = [item for item in around if item.kind != fact.kind]
        places = [(each, at) for each in passages for at in each.segments_with(fact.keys, fact.kind, self.keys)]
        if not places:
            return None
        scores = self._scores(near, passages)
        least = RARE_WORD + max(scores.get(place, 0.0) for place in places)
        shared = frozenset(
            chain.from_iterable(each.segments[at].keys_in_context() - each.heading for each, at in places)
        )
        shared &= frozenset(chain.from_iterable(item.keys for item in near if self._words.weight(item)))
        units = {id(each.segments[at].unit) for each, at in places if fact.kind == "name"}
        rivals = [
            (score, each, segment)
            for (each, at), score in scores.items()
            if score > least
            and (segment := each.segments[at]).has_rival(fact.kind, self.keys)
            and (keys := segment.keys_in_context()).isdisjoint(fact.keys)
            and shared <= keys
            and id(segment.unit) not in units
        ]
        return max(rivals, key=itemgetter(0))[1:] if rivals else None

    def _scores(self, items: Iterable[Item], passages: Sequence[Evidence]) -> dict[tuple[Evidence, int], float]:
        """Return the weight of some items in each segment, by passage and index of the segment."""
        weights = [(item.keys, self._words.weight(item)) for item in items]
        return {(each, at): score for each in passages for at, score in each.scores(weights).items()}


def _is_stitched(keys: frozenset[str], passages: Sequence[Evidence]) -> bool:
    """Return whether a name takes its words from several longer names of the passages."""
    names = [name for each in passages for name in each.names]
    is_whole = len(keys) < 2 or any(keys <= name for name in names)
    return not is_whole and all(any(key in name for name in names if len(name) > 1) for key in keys)


def _is_fact(term: Term, prose: str, language: str | None) -> bool:
    """Return whether a term is a number, a function or a name."""
    if term.text.isalpha() and is_unit(prose, term):  # the passage may have another unit, or its name in full
        return False
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
    is_name = (is_possessive or not is_first) and language not in CAPITALISING
    return (is_sure or is_name) and not is_item
