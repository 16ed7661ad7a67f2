"""Check the facts of a sentence (numbers, names, code and addresses) against passages, with the words around them.

A passage contradicts a fact if it has the same words around a different fact of the same kind.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from itertools import chain, islice, pairwise
from math import log
from operator import attrgetter, itemgetter
from typing import NamedTuple

from indexer.generation.lexical.analysis import STOP_WORDS
from rag.answer.evidence import (
    CAPITALISING,
    RARE_WORD_WEIGHT,
    Evidence,
    Segment,
    Term,
    is_derived,
    is_unit_of_measure,
    read_facts,
    read_terms,
)
from rag.answer.sentences import Sentence

FACT_WEIGHT = 2 * RARE_WORD_WEIGHT
_LABEL = "label"  # the kind of a word in the first cell of a table row, unless it is a fact
_MIN_CLAIM_WORDS = 4  # a shorter claim is never foreign
_MIN_COVERAGE = 0.2  # share of a claim's words; below it, the claim is foreign to its passages
_MAX_NUMBERS_TO_DERIVE = 20  # numbers per sentence; the time grows with their square
_MAX_FACTS_TO_COMPARE = 50  # facts per sentence; each takes time in proportion to the passages
_CONTEXT_ITEMS = 4  # words and facts on each side of a fact
_CODE = re.compile(
    r"https?://[^\s<>\"'`\])]*[^\s<>\"'`\]).,;:!?]|(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+"  # addresses
    r"|(?<![\w.])v?\d{1,3}(?:\.\d{1,3}){2,3}(?!\w|\.\w)"  # versions and IP addresses
    r"|(?<![\w-])[A-Z]\w*+(?:-[A-Z\d]\w*+)++"  # identifiers such as X-Forwarded-For
    r"|(?<![\w/.])[~.]?/[\w.][\w./+-]*\w|(?<!\w)--?[A-Za-z][\w-]*+|(?<!\w)%\w++"  # paths, options and formats
    r"|(?<![\w.])[A-Za-z_]{2,64}+[.=][A-Za-z_]{2,64}"  # attributes and assignments
)
_NAME = re.compile(r"(?<=\w)[A-Z_]", re.ASCII)  # CamelCase, snake_case, ABC
_WORD = re.compile(r"\w+")
_NUMERIC_MONTH = re.compile(r"(?<=\d)[./](?:0?[1-9]|1[012])[./](?=[12]\d{3}\b)")  # may be a word in the passage
_SENTENCE_OPENERS = '\n!?:;…(•|#>-–—"“„«'  # characters before the first word of a sentence
_LIST_NUMBER = re.compile(r"\s*\d{1,3}[.)]\s*")


class PassageWords:
    """The words of passages, weighted by rarity: RARE_WORD_WEIGHT for words of one segment, less for others."""

    def __init__(self, passages: Sequence[Evidence]) -> None:
        counts, total = Counter[str](), 1 + sum(len(each.segments) for each in passages)
        for each in passages:
            counts.update({key: len(places) for key, places in each.places.items()})
        self.weights = {key: log(total / count, total) for key, count in counts.items()}
        self.keys = frozenset(self.weights).union(*(each.heading for each in passages))
        self.labels = frozenset(chain.from_iterable(unit.label for each in passages for unit in each.units))
        self.names = frozenset(chain.from_iterable(name for each in passages for name in each.names))

    def weight(self, item: "Item") -> float:
        """Return the weight of an item: FACT_WEIGHT for a fact, or the sum over the keys of a word."""
        return FACT_WEIGHT if item.kind else sum(self.weights.get(key, 0.0) for key in item.keys)


class Item(NamedTuple):
    """A word, name, number or piece of code, with its place in the sentence."""

    start: int
    end: int
    keys: frozenset[str]
    kind: str = ""  # name, number, code or label; empty for other words


class Claim:
    """The facts of a sentence and its other words, without stop words."""

    def __init__(self, sentence: Sentence, language: str | None, exempt: Collection[str], words: PassageWords) -> None:
        """Read a sentence.

        Args:
            sentence: the sentence.
            language: the language of the passages.
            exempt: keys of facts that need no check, such as those of the question.
            words: the words of all passages.
        """
        prose, start = sentence.prose, sentence.start
        code = [Term(piece.text, piece.start, "") for piece in sentence.code if any(map(str.isalnum, piece.text))]
        code += [Term(match[0], start + match.start(), "") for match in _CODE.finditer(prose)]
        prose = _CODE.sub(lambda match: " " * len(match[0]), prose)
        prose = _NUMERIC_MONTH.sub(lambda match: " " * len(match[0]), prose)
        terms = read_terms(prose, language)
        content = [term for term in terms if not term.is_stop]
        fact_terms = [
            term
            for term in content
            if (_is_fact(term, prose, language) or (term.key in words.names and term.text[0].isupper()))
            and term.key not in exempt
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
        """Drop derived numbers, and spelled-out counts of things that no passage counts, as in "for two reasons".

        Args:
            passages: the passages to derive numbers from.
            unmatched: the facts that no passage has.

        Returns:
            The unmatched facts that remain.
        """
        counted = frozenset[str]().union(*(each.counted for each in passages))
        numbers = [fact for fact in self.facts if fact.is_number][:_MAX_NUMBERS_TO_DERIVE]
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
        """Return whether a sentence in the language of the passages shares hardly any words with them."""
        has_words = len(self.keys) >= _MIN_CLAIM_WORDS and self._has_stop_words and not self._has_excerpts
        shared = self.keys.intersection(chain.from_iterable(each.keys for each in passages))
        return has_words and len(shared) < _MIN_COVERAGE * len(self.keys)

    def can_add(self, names: Sequence[Term], passages: Sequence[Evidence]) -> bool:
        """Return whether the claim may only add names to a sentence of the passages.

        That sentence must have at least half of the claim's words, and no name that the claim lacks. A name of which
        the passages have some of the words is a different name, not an addition.
        """
        added = {name.key for name in names}
        best = self.best_segment(passages)
        if best is None or any(not item.keys.isdisjoint(added) and not item.keys <= added for item in self.items):
            return False
        passage, segment = best
        segments = [each for each in passage.segments if each.unit is segment.unit]
        keys = (self.keys & passage.heading).union(*(each.common_keys(self.keys) for each in segments))
        has_all_names = all(name <= self.keys for each in segments for name in each.facts.get("name", ()))
        return has_all_names and 2 * len(keys) >= len(self.keys)

    def missing(self, passage: Evidence) -> float:
        """Return the total weight of the items that this passage lacks and another passage has."""
        items = [item for item in self.items if item.keys.isdisjoint(passage.keys)]
        return sum(self._words.weight(item) for item in items if not item.keys.isdisjoint(self._words.keys))

    def best_segment(self, passages: Sequence[Evidence]) -> tuple[Evidence, Segment] | None:
        """Return the segment that matches most of the claim, with its passage, or None if no segment shares a word."""
        scores = self._scores(self.items, passages)
        if not scores:
            return None
        passage, at = max(scores, key=scores.__getitem__)
        return passage, passage.segments[at]

    def find_contradiction(self, passages: Sequence[Evidence]) -> tuple[Item, Evidence, Segment | None] | None:
        """Find a fact that a passage contradicts.

        Returns:
            The fact, with the passage and the segment that contradict it, or None. The segment is None for a name that
            combines words of different names.
        """
        for item in self.items:
            if item.kind == "name" and _is_stitched(item.keys & self._words.keys, passages):
                return item, passages[0], None
        facts = (at for at, item in enumerate(self.items) if item.kind not in ("", _LABEL))
        for at in islice(facts, _MAX_FACTS_TO_COMPARE):
            if rival := self._rival(at, passages):
                return self.items[at], *rival
        return None

    def _rival(self, index: int, passages: Sequence[Evidence]) -> tuple[Evidence, Segment] | None:
        """Return the segment that matches the words around a fact best, if it has a different fact of the same kind.

        It must have all of these words that the segments with the fact have, and outweigh each of those segments by
        more than RARE_WORD_WEIGHT.
        """
        fact = self.items[index]
        around = self.items[max(0, index - _CONTEXT_ITEMS) : index] + self.items[index + 1 : index + 1 + _CONTEXT_ITEMS]
        near = [item for item in around if item.kind != fact.kind]
        places = [(each, at) for each in passages for at in each.segments_with(fact.keys, fact.kind, self.keys)]
        if not places:
            return None
        scores = self._scores(near, passages)
        least = RARE_WORD_WEIGHT + max(scores.get(place, 0.0) for place in places)
        near_keys = frozenset(chain.from_iterable(item.keys for item in near if self._words.weight(item)))
        shared = frozenset[str]().union(
            *(each.segments[at].common_keys(near_keys) - each.heading for each, at in places)
        )
        units = {id(each.segments[at].unit) for each, at in places if fact.kind == "name"}
        rivals = [
            (score, each, segment)
            for (each, at), score in scores.items()
            if score > least
            and (segment := each.segments[at]).has_rival(fact.kind, self.keys)
            and not segment.common_keys(fact.keys)
            and segment.common_keys(shared) == shared
            and id(segment.unit) not in units
        ]
        return max(rivals, key=itemgetter(0))[1:] if rivals else None

    def _scores(self, items: Iterable[Item], passages: Sequence[Evidence]) -> dict[tuple[Evidence, int], float]:
        """Sum the weights of the items that each segment has, by passage and index of the segment."""
        weights = [(item.keys, self._words.weight(item)) for item in items]
        return {(each, at): score for each in passages for at, score in each.scores(weights).items()}


def _is_stitched(keys: frozenset[str], passages: Sequence[Evidence]) -> bool:
    """Return whether a name combines words from different names of several words in the passages."""
    names = [name for each in passages for name in each.names]
    is_whole = len(keys) < 2 or any(keys <= name for name in names)
    return not is_whole and all(any(key in name for name in names if len(name) > 1) for key in keys)


def _is_fact(term: Term, prose: str, language: str | None) -> bool:
    """Return whether a term is a number, a name, an identifier or a function call."""
    if term.text.isalpha() and is_unit_of_measure(prose, term):  # a passage may convert the unit or spell it out
        return False
    is_function = prose.startswith("()", term.end)
    is_sure = term.is_number or is_function or any(map(str.isdigit, term.text)) or bool(_NAME.search(term.text))
    if not (is_sure or term.text[0].isupper()) or term.text.lower() in STOP_WORDS:
        return False
    before = term.start
    while before and prose[before - 1] in " \t*_":
        before -= 1
    is_first = not before or prose[before - 1] in _SENTENCE_OPENERS or bool(_LIST_NUMBER.fullmatch(prose, 0, before))
    is_item = is_first and term.text.isdecimal() and prose[term.end : term.end + 1] in (".", ")")
    is_possessive = prose[term.end : term.end + 2] in ("'s", "’s")
    is_name = (is_possessive or not is_first) and language not in CAPITALISING
    return (is_sure or is_name) and not is_item
