"""Passages as evidence: prepared once, so that quotations and facts are found in them in linear time."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from typing import NamedTuple

from indexer.generation.lexical.analysis import TERMS, find_words, has_sign, rules_for
from rag.query.results import Hit, Span, text_of
from rag.query.text_fragment import link_to_text

MIN_SAME_WORDS = 0.85  # share of a quotation's words that an altered one has in order
_ANCHORS, _POSITIONS_PER_ANCHOR = 8, 50
_DRIFT = 4  # tokens
_NEAR = 8  # words between a number and a word of its sentence
_GAP = "\0"
_SIGNS = str.maketrans(
    dict.fromkeys("“”„‟«»″＂", '"') | dict.fromkeys("‘’‚‛‹›′`´", "'") | dict.fromkeys("‐‑‒–—―−", "-")
)
_SPACELESS = "\u0e00-\u11ff\u1780-\u17ff\u3005-\u30ff\u3400-\u9fff\uac00-\ud7ff"
_TOKEN = re.compile(rf"[{_SPACELESS}]|(?:(?![{_SPACELESS}])\w)+|[^\w\s]")
_ASCII_TOKEN = re.compile(r"\w+|[^\w\s]", re.ASCII)
_NUMBER_WORDS = dict(
    zip("two three four five six seven eight nine ten eleven twelve".split(), map(str, range(2, 13)), strict=True)
)


def tokens_of(text: str) -> list[str]:
    """Split a text into words and signs, with one form of quotation marks and dashes."""
    return _pattern(text).findall(text.translate(_SIGNS))


def _pattern(text: str) -> re.Pattern[str]:
    return _ASCII_TOKEN if text.isascii() else _TOKEN


def join(tokens: Iterable[str]) -> str:
    """Join tokens so that part of a word is never found as a word."""
    return f"{_GAP}{_GAP.join(tokens)}{_GAP}"


def key_of(word: str, language: str | None) -> str:
    """Return the term by which a word is compared: the value of a number, or the stem of a name."""
    return _NUMBER_WORDS.get(word.lower()) or next(iter(TERMS[rules_for(language)][word]), word)


class Match(NamedTuple):
    """The place of a quotation in a passage."""

    passage: "Evidence"
    span: Span | None  # None in its heading
    differing: Sequence[int] = ()  # the quotation's tokens that the passage does not have


class Evidence:
    """A passage with its heading."""

    def __init__(self, hit: Hit, number: int | None = None) -> None:
        """Take a hit, and the number by which an answer cites it."""
        self.hit, self.number = hit, number
        self.text = text_of(hit)
        self._all = "\n".join((self.text, hit.title, hit.section, hit.url))

    @property
    def name(self) -> str:
        """The passage in a sentence of a reason."""
        heading = self.hit.title or self.hit.url
        return f"“{heading[:80]}”" if self.number is None else f"passage {self.number}"

    @cached_property
    def _tokens(self) -> list[str]:
        return tokens_of(self._all)

    @cached_property
    def _joined(self) -> str:
        return join(self._tokens)

    @cached_property
    def _spans(self) -> list[Span]:
        """Characters of each token in the text."""
        return [match.span() for match in _pattern(self._all).finditer(self._all.translate(_SIGNS))]

    @cached_property
    def _positions(self) -> dict[str, list[int]]:
        positions: dict[str, list[int]] = {}
        for position, token in enumerate(self._tokens):
            positions.setdefault(token.lower(), []).append(position)
        return positions

    @cached_property
    def terms(self) -> frozenset[str]:
        """Terms of the passage; of a number only its value, so that 3.14 does not have 14."""
        terms, analysed = set[str](), TERMS[rules_for(self.hit.language)]
        for word in set(find_words(self._all)):
            is_fraction = word[0].isdecimal() and has_sign(word)
            terms.update(analysed[word][:1] if is_fraction else analysed[word])
            terms.add(_NUMBER_WORDS.get(word.lower(), word))
        return frozenset(terms)

    def has_text(self, text: str) -> bool:
        """Return whether the passage has code or an address as it is written, but for white space."""
        return join(tokens_of(text)) in self._joined

    @cached_property
    def _keys(self) -> list[str]:
        return [key_of(word, self.hit.language) for word in find_words(self._all)]

    def has_near(self, number: str, context: frozenset[str]) -> bool:
        """Return whether the passage has a number near one of some terms."""
        places = [place for place, key in enumerate(self._keys) if key == number]
        return any(not context.isdisjoint(self._keys[max(0, at - _NEAR) : at + _NEAR + 1]) for at in places)

    def find(self, clauses: Sequence[Sequence[str]]) -> Match | None:
        """Find the clauses of a quotation in order, word for word but for the case of the first letter."""
        first, stop = -1, 0
        for clause in clauses:
            initial = clause[0][0].swapcase() + clause[0][1:]
            places = [self._joined.find(join([word, *clause[1:]]), stop) for word in (clause[0], initial)]
            place = min((each for each in places if each >= 0), default=None)
            if place is None:
                return None
            first = place if first < 0 else first
            stop = place + len(join(clause)) - 1
        begin = self._joined.count(_GAP, 0, first)
        return Match(self, self._span(begin, begin + self._joined.count(_GAP, first, stop)))

    def find_altered(self, quote: Sequence[str]) -> Match | None:
        """Find the span with enough of a quotation's words in order."""
        folded, is_word = [token.lower() for token in quote], [token[0].isalnum() for token in quote]
        rare = sorted((len(self._positions[word]), at) for at, word in enumerate(folded) if word in self._positions)
        votes: Counter[int] = Counter()
        for _, at in [each for each in rare if is_word[each[1]]][:_ANCHORS]:
            positions = self._positions[folded[at]][:_POSITIONS_PER_ANCHOR]
            votes.update((position - at) // _DRIFT for position in positions)
        for place, _ in votes.most_common(2):
            start = max(0, (place - 1) * _DRIFT)
            window = [token.lower() for token in self._tokens[start : start + len(quote) + 3 * _DRIFT]]
            blocks = SequenceMatcher(None, folded, window, autojunk=False).get_matching_blocks()[:-1]
            same = {at for block in blocks for at in range(block.a, block.a + block.size) if is_word[at]}
            if not blocks:
                continue
            first, last = blocks[0], blocks[-1]
            span_words = sum(token[0].isalnum() for token in window[first.b : last.b + last.size])
            if len(same) >= MIN_SAME_WORDS * max(sum(is_word), span_words):
                differing = [at for at in range(len(quote)) if is_word[at] and at not in same]
                begin = max(0, start + first.b - first.a)
                end = min(len(self._tokens), start + last.b + len(quote) - last.a)
                return Match(self, self._span(begin, end), differing)
        return None

    def _span(self, first: int, stop: int) -> Span | None:
        start, end = self._spans[first][0], self._spans[stop - 1][1]
        return (start, end) if end <= len(self.text) else None

    def link(self, span: Span | None) -> str | None:
        """Return the address at which a browser marks a span, or else the passage."""
        url, media_type = self.hit.url, self.hit.content_type
        if span is None:
            return self.hit.link
        exact = link_to_text(url, media_type, self.text[slice(*span)], [])
        return exact or link_to_text(url, media_type, self.text, [span]) or self.hit.link
