"""Claims: the facts and content words of a sentence, and whether the facts are with the same words in passages.

If a part of a passage has the words next to a fact, but a different fact of the same kind, the claim is altered.
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
    MAX_MISSING,
    Evidence,
    Part,
    Term,
    is_derived,
    is_unit,
    read_facts,
    read_terms,
)
from rag.answer.sentences import Sentence

FACT_WEIGHT = 2 * MAX_MISSING
_LABEL = "label"  # the kind of a lower-case word that heads a row
_MIN_WORDS, _MIN_STOP_WORDS, _MIN_COVERAGE = 4, 2, 0.2  # words, stop words, share of the words
_MAX_COMPUTED = 20  # the first numbers of a claim; the time grows with their square
_NEAR = 4  # words and facts on each side of a fact
_CODE = re.compile(
    r"https?://[^\s<>\"'`\])]*[^\s<>\"'`\]).,;:!?]|(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+"  # addresses
    r"|(?<![\w.])v?\d{1,3}(?:\.\d{1,3}){2,3}(?![.\w])"
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
    """The words of some passages, with their weights."""

    def __init__(self, passages: Sequence[Evidence]) -> None:
        """Take the passages."""
        counts, total = Counter[str](), 1 + sum(len(each.parts) for each in passages)
        for each in passages:
            counts.update({key: len(places) for key, places in each.places.items()})
        self.weights = {key: log(total / count, total) for key, count in counts.items()}
        self.keys = frozenset(self.weights).union(*(each.heading for each in passages))
        self.labels = frozenset(chain.from_iterable(unit.label for each in passages for unit in each.units))
        self.names = frozenset(chain.from_iterable(name for each in passages for name in each.names))

    def weight(self, item: "Item") -> float:
        """Return the weight of an item: FACT_WEIGHT for a fact, and more for a rare word than for a common one."""
        return FACT_WEIGHT if item.kind else sum(self.weights.get(key, 0.0) for key in item.keys)


class Item(NamedTuple):
    """A word, a number, or code of a claim, with its place in the sentence."""

    start: int
    end: int
    keys: frozenset[str]
    kind: str = ""


class Claim:
    """The code, addresses, numbers and names of a sentence, and its content words."""

    def __init__(
        self, sentence: Sentence, language: str | None, proved: Collection[str], vocabulary: "PassageWords"
    ) -> None:
        """Take the sentence, the language and words of its passages, and the keys that need no proof."""
        prose, start = sentence.prose, sentence.start
        code = [Term(piece.text, piece.start, "") for piece in sentence.code if any(map(str.isalnum, piece.text))]
        code += [Term(match[0], start + match.start(), "") for match in _CODE.finditer(prose)]
        prose = _CODE.sub(lambda match: " " * len(match[0]), prose)
        prose = _MONTH.sub(lambda match: " " * len(match[0]), prose)
        terms = read_terms(prose, language)
        content = [term for term in terms if not term.is_stop]
        name_terms = {
            term
            for term in content
            if (_is_fact(term, prose, language) or (term.key in vocabulary.names and term.text[0].isupper()))
            and term.key not in proved
        }
        self.facts = code + [term._replace(start=start + term.start) for term in content if term in name_terms]
        self._stop_words, self._has_excerpts = len(terms) - len(content), bool(sentence.quotes or sentence.code)
        self._after = {start + first.start: second.key for first, second in pairwise(content)}
        self._start = start
        facts = read_facts(prose, [term for term in content if term in name_terms], vocabulary.names, language)
        known = {term for _, words in facts for term in words}
        facts += [(_LABEL if term.key in vocabulary.labels else "", [term]) for term in content if term not in known]
        items = [
            Item(words[0].start, words[-1].end, frozenset(term.key for term in words), kind) for kind, words in facts
        ]
        for each in code:
            words = read_terms(" ".join(_WORD.findall(each.text)), language)
            keys = frozenset(term.key for term in words if not term.is_stop)
            items.append(Item(each.start - start, each.end - start, keys, "code"))
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
        """The keys of its words, and of those within code."""
        return frozenset[str]().union(*(item.keys for item in self.items))

    def drop_derived(self, passages: Sequence[Evidence], unmatched: Collection[Term]) -> None:
        """Drop unmatched numbers that follow from others, and spelled-out numbers of things that no passage counts."""
        counted = frozenset[str]().union(*(each.counted for each in passages))
        numbers = [fact for fact in self.facts if fact.is_number][:_MAX_COMPUTED]
        claimed = {float(fact.key) for fact in numbers if fact not in unmatched or not fact.text[0].isdigit()}
        sentences = defaultdict[float, list[int]](list)
        for value, unit in chain.from_iterable(each.quantities for each in passages):
            sentences[value].append(id(unit))
        for fact in numbers:
            is_uncounted = not fact.text[0].isdigit() and self._after.get(fact.start) not in counted
            if is_uncounted or (fact in unmatched and is_derived(float(fact.key), sentences, claimed)):
                self.facts.remove(fact)
                self.items = [item for item in self.items if item.start != fact.start - self._start]

    def is_foreign(self, passage_keys: frozenset[str]) -> bool:
        """Return whether the claim has hardly a word of the passages, although its stop words are in their language."""
        has_words = len(self.keys) >= _MIN_WORDS and self._stop_words >= _MIN_STOP_WORDS
        is_comparable = has_words and not self._has_excerpts
        return is_comparable and len(self.keys & passage_keys) < _MIN_COVERAGE * len(self.keys)

    def can_add_name(self, names: Collection[Term], passage: Evidence, at: int) -> bool:
        """Return whether the sentence of a part has most of the claim's words, and no name that the claim lacks.

        The names must not be only part of a longer name, which is then a different name.
        """
        parts = [each for each in passage.parts if each.unit is passage.parts[at].unit]
        added = {name.key for name in names}
        if any(not item.keys.isdisjoint(added) and not item.keys <= added for item in self.items):
            return False
        keys = self.keys & passage.heading.union(*(each.keys_in_context() for each in parts))
        return 2 * len(keys) >= len(self.keys) and all(
            name <= self.keys for each in parts for name in each.facts.get("name", ())
        )

    def missing(self, passage: Evidence, vocabulary: PassageWords) -> float:
        """Return the summed weight of the words and facts that are in some passage, but not in this one."""
        items = [item for item in self.items if not item.keys.isdisjoint(vocabulary.keys)]
        return sum(vocabulary.weight(item) for item in items if item.keys.isdisjoint(passage.keys))

    def misplaced(
        self, passages: Sequence[Evidence], vocabulary: PassageWords
    ) -> tuple[Item, Evidence, Part | None] | None:
        """Find a fact that contradicts the passages. Return it, and the passage and part with its neighbouring words.

        The part is None for a name that is put together from other names. Return None if nothing contradicts.
        """
        for item in self.items:
            if item.kind == "name" and _is_stitched(item.keys & vocabulary.keys, passages):
                return item, passages[0], None
        for index, item in enumerate(self.items):
            if rival := self._rival(index, passages, vocabulary) if item.kind not in ("", _LABEL) else None:
                return item, *rival
        return None

    def _rival(
        self, index: int, passages: Sequence[Evidence], vocabulary: PassageWords
    ) -> tuple[Evidence, Part] | None:
        """Find the part that has most words around a fact of the claim, but another fact of the same kind.

        It must have all of these words that the parts with the fact have, and outweigh them by more than a rare word.
        """
        fact = self.items[index]
        around = self.items[max(0, index - _NEAR) : index] + self.items[index + 1 : index + 1 + _NEAR]
        near = [item for item in around if item.kind != fact.kind]
        parts_with_fact = [(each, at) for each in passages for at in each.parts_with(fact.keys, fact.kind, self.keys)]
        if not parts_with_fact:
            return None
        scores = score_parts(near, passages, vocabulary)
        least = MAX_MISSING + max(scores.get(place, 0.0) for place in parts_with_fact)
        words = frozenset(chain.from_iterable(item.keys for item in near if vocabulary.weight(item)))
        words &= frozenset(
            chain.from_iterable(each.parts[at].keys_in_context() - each.heading for each, at in parts_with_fact)
        )
        sentences = {(each, each.parts[at].unit.number) for each, at in parts_with_fact if fact.kind == "name"}
        rivals = [
            (score, each, part)
            for (each, at), score in scores.items()
            if score > least
            and (part := each.parts[at]).has_rival(fact.kind, self.keys)
            and (keys := part.keys_in_context()).isdisjoint(fact.keys)
            and words <= keys
            and (each, part.unit.number) not in sentences
        ]
        return max(rivals, key=itemgetter(0))[1:] if rivals else None


def score_parts(
    items: Iterable[Item], passages: Sequence[Evidence], vocabulary: PassageWords
) -> dict[tuple[Evidence, int], float]:
    """Return the weight of some items in each part of the passages, by passage and index of the part."""
    weights = [(item.keys, vocabulary.weight(item)) for item in items]
    return {(each, at): score for each in passages for at, score in each.scores(weights).items()}


def _is_stitched(keys: frozenset[str], passages: Sequence[Evidence]) -> bool:
    """Return whether a name combines words of different names of several words, and no name has all its words."""
    names = [name for each in passages for name in each.names]
    others = [name for name in names if len(name) > 1]
    is_together = len(keys) < 2 or any(keys <= name for name in names)
    return not is_together and all(any(key in name for name in others) for key in keys)


def _is_fact(term: Term, prose: str, language: str | None) -> bool:
    """Return whether a term is a number, a function or a name."""
    is_function = prose.startswith("()", term.end)
    if term.text.isalpha() and is_unit(prose, term):  # the passage may have another unit, or its name in full
        return False
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
