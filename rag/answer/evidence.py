"""Passages as evidence: prepared once, so that quotations and facts are found in them in linear time."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from itertools import takewhile
from typing import NamedTuple

from indexer.generation.lexical.analysis import TERMS, is_stop_word, rules_for, words
from rag.query.results import Hit, Span, link_to_text, text_of

MIN_SAME_WORDS = 0.85  # share of a quotation's words that its altered form has in order
_DRIFT = 12  # tokens
_NEAR = 8  # words between a number and a word of its sentence
_MAX_COMMAND_WORDS, _MAX_BETWEEN = 8, 60  # words; characters between two words
_REACH = {"number": 2, "name": 3, "code": 3, "word": 3}  # content words on each side
_GAP = "\0"
_SIGNS = str.maketrans(
    dict.fromkeys("“”„‟«»″＂", '"') | dict.fromkeys("‘’‚‛‹›′`´", "'") | dict.fromkeys("‐‑‒–—―−", "-")
)
_SPACELESS = "\u0e00-\u11ff\u1780-\u17ff\u3005-\u30ff\u3400-\u9fff\uac00-\ud7ff"
_TOKEN = re.compile(rf"[{_SPACELESS}]|(?:(?![{_SPACELESS}])\w)+|[^\w\s]")
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_UNITS = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen".split()
)
_UNITS += ["eighteen", "nineteen"]
_NUMBERS = {name: value for value, name in enumerate(_UNITS, 2)} | {name: 10 * at for at, name in enumerate(_TENS, 2)}
_SCALES = {"dozen": 12, "hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_NUMBER_PARTS = {*_NUMBERS, *_SCALES, "one", "century"}
_MAX_NUMBER = 10**15
_NUMERAL = re.compile(r"\d{1,15}(?:\.\d{1,9})?", re.ASCII)
_ORDINAL = re.compile(r"(\d{1,2})(?:st|nd|rd|th)", re.ASCII)
_MAX_INITIALS = 6
_WITHIN_NAMES = ("of", "the", "and", "for")
_ADJECTIVE = re.compile("(?:[ie]?an|n|ish|ese|ic)")  # Kenyan, Swedish, Japanese
_MIN_ROOT, _MAX_ENDING = 4, 2  # characters


class Term(NamedTuple):
    """A word, or a number of several words, with its key for comparison: a value or a stem."""

    text: str
    start: int
    key: str

    @property
    def end(self) -> int:
        """The index of the character after the term."""
        return self.start + len(self.text)

    @property
    def is_number(self) -> bool:
        """True if the key is a value."""
        return self.key[:1].isdigit() and _NUMERAL.fullmatch(self.key) is not None


def tokens_of(text: str) -> list[str]:
    """Split a text into words and signs, with all quotation marks and dashes in one form."""
    return _TOKEN.findall(text.translate(_SIGNS))


def join(tokens: Iterable[str]) -> str:
    """Join tokens so that part of a word is never found as a word."""
    return f"{_GAP}{_GAP.join(tokens)}{_GAP}"


def read_terms(text: str, language: str | None) -> list[Term]:
    """Return the words of a text; 30,000, thirty thousand and 30 thousand have the same key, and U.S. is one term."""
    terms: list[Term] = []
    analysed = TERMS[rules_for(language)]
    thousands = rest = 0.0  # their sum is the value of the last term
    for match in words(text).finditer(text):
        word, start = match[0], match.start()
        lower, key = word.lower(), next(iter(analysed[word]), word)
        if word.isalpha() and len(word) > 1 and lower not in _NUMBER_PARTS:
            terms.append(Term(word, start, key))
            thousands = rest = 0.0
            continue
        gap = text[terms[-1].end : start] if terms else ""
        value, scale = _NUMBERS.get(lower, 0), _SCALES.get(lower, 0)
        is_joined = gap in (" ", "-", " and ") and 0 < thousands + rest < _MAX_NUMBER
        if scale and is_joined:
            thousands, rest = (thousands, rest * scale) if scale < 1_000 else (thousands + rest * scale, 0.0)
        elif value and is_joined and (rest % 100 == 0 or (rest % 10 == 0 and rest % 100 >= 20 and value < 10)):
            rest += value
        elif lower == "century" and terms and (ordinal := _ORDINAL.fullmatch(terms[-1].key)):
            terms[-1] = terms[-1]._replace(key=_century(int(ordinal[1])))
            is_joined, thousands, rest = False, 0.0, 0.0
        elif gap == "." and len(word) == 1 and word.isupper() and terms[-1].text.replace(".", "").isupper():
            terms[-1] = Term(f"{terms[-1].text}.{word}", terms[-1].start, terms[-1].key + lower)
            continue
        else:
            is_numeral = _NUMERAL.fullmatch(key) is not None
            is_joined, thousands, rest = False, 0.0, float(key) if is_numeral else value or float(lower in ("a", "one"))
            key = str(value) if value else key
        if is_joined:
            first, number = terms.pop(), round(thousands + rest, 6)
            word, start = text[first.start : match.end()], first.start
            key = str(int(number) if number.is_integer() else number)
        terms.append(Term(word, start, key))
    return terms


def _century(number: int) -> str:
    return f"{number} century"


def initials_of(terms: Iterable[Term]) -> Iterator[tuple[Sequence[Term], str]]:
    """Yield sequences of adjacent capitalised words, each with its initials."""
    runs: list[list[Term]] = [[]]
    for term in terms:
        if term.text[0].isupper():
            runs[-1].append(term)
        elif term.text not in _WITHIN_NAMES:
            runs.append([])
    for run in runs:
        for start in range(len(run)):
            for stop in range(start + 2, min(len(run), start + _MAX_INITIALS) + 1):
                yield run[start:stop], "".join(term.text[0] for term in run[start:stop]).lower()


class Slot(NamedTuple):
    """A number or a name in a text, with the content words next to it."""

    kind: str  # number, name (of several words), code or word
    keys: frozenset[str]
    neighbours: frozenset[str]  # keys


def read_slots(terms: Iterable[Term], language: str | None) -> Iterator[Slot]:
    """Yield the numbers and names of a text; adjacent capitalised words are one name."""
    names: list[list[Term]] = []
    for term in terms:
        if not is_stop_word(term.text.lower(), language or "en"):
            last = names[-1][-1] if names else None
            if last and last.text[0].isupper() and term.text[0].isupper() and term.start == last.end + 1:
                names[-1].append(term)
            else:
                names.append([term])
    keys, at = [term.key for name in names for term in name], 0
    for name in names:
        start, at = at, at + len(name)
        if kind := _kind_of(name):
            reach = _REACH[kind]
            neighbours = keys[max(0, start - reach) : start] + keys[at : at + reach]
            yield Slot(kind, frozenset(keys[start:at]), frozenset(neighbours))


def _kind_of(name: Sequence[Term]) -> str:
    """Return the kind of a name; an empty string for other words, and for abbreviations, which stand anywhere."""
    if len(name) > 1:
        return "name"
    text = name[0].text
    if name[0].is_number:
        return "number"
    if "_" in text or any(map(str.isdigit, text)):
        return "code"
    return "word" if text != text.lower() and (not text.isupper() or len(text) == 1) else ""


def is_taken(slot: Slot, words: frozenset[str], passages: Sequence["Evidence"]) -> bool:
    """Return whether passages with similar words have something else in the place of a number or name."""
    is_number = slot.kind == "number"
    if not is_number and any(slot.keys <= passage.heading for passage in passages):
        return False
    same = other = 0
    for passage in passages:
        for each in passage.slots:
            shared = len((slot.neighbours & each.neighbours) - slot.keys)
            if not slot.keys.isdisjoint(each.keys):
                same = max(same, shared)
            elif each.kind == slot.kind and each.keys.isdisjoint(words if is_number else words | passage.heading):
                other = max(other, shared)
    return other >= (3 if slot.kind == "word" else 2) and other - same >= (1 if is_number else 2)


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
        """The name of the passage in a reason."""
        heading = self.hit.title or self.hit.url
        return f"“{heading[:80]}”" if self.number is None else f"passage {self.number}"

    @cached_property
    def _tokens(self) -> list[str]:
        return tokens_of(self._all)

    @cached_property
    def _joined(self) -> str:
        return join(self._tokens)

    @cached_property
    def _aligner(self) -> SequenceMatcher[str]:
        return SequenceMatcher(None, "", [token.lower() for token in self._tokens], autojunk=False)

    @cached_property
    def _terms(self) -> list[Term]:
        return read_terms(self._all, self.hit.language)

    @cached_property
    def slots(self) -> Sequence[Slot]:
        """The numbers and names of the text."""
        return list(read_slots((term for term in self._terms if term.start < len(self.text)), self.hit.language))

    @cached_property
    def heading(self) -> frozenset[str]:
        """Keys of the words of title, section and address."""
        return frozenset(term.key for term in self._terms if term.start >= len(self.text))

    @cached_property
    def keys(self) -> frozenset[str]:
        """Keys of all words, of the words within names such as max_connections, and of the century of each year."""
        analysed = TERMS[rules_for(self.hit.language)]
        keys = {term.key for term in self._terms}
        for word in {term.text for term in self._terms if not term.is_number}:
            keys.update((word, *analysed[word]))
        years = [int(key) for key in keys if len(key) in (3, 4) and key.isdecimal()]
        return frozenset(keys.union(_century((year - 1) // 100 + 1) for year in years))

    @cached_property
    def _names(self) -> dict[str, set[str]]:
        """Capitalised words by their first letters."""
        names = defaultdict[str, set[str]](set)
        for term in self._terms:
            if term.text[0].isupper():
                names[term.text[:_MIN_ROOT]].add(term.text)
        return names

    @cached_property
    def _initials(self) -> frozenset[str]:
        return frozenset(initials for _, initials in initials_of(self._terms))

    @cached_property
    def _abbreviations(self) -> frozenset[str]:
        return frozenset(
            name.replace(".", "").lower() for names in self._names.values() for name in names if name.isupper()
        )

    def has_name(self, name: Term, initials: Iterable[str]) -> bool:
        """Return whether the passage has a name, its abbreviation, its long form, or its relative (Swedish, Sweden)."""
        if name.key in self.keys or not self._abbreviations.isdisjoint(initials):
            return True
        if name.text.replace(".", "").isupper() and name.key in self._initials:
            return True
        similar = self._names.get(name.text[:_MIN_ROOT], ())
        return any(_is_same_root(name.text, other) or _is_same_root(other, name.text) for other in similar)

    def has_number(self, key: str, context: frozenset[str]) -> bool:
        """Return whether the passage has a value, near one of the words of `context` if there are any."""
        places = [place for place, term in enumerate(self._terms) if term.key == key]
        near = (self._terms[max(0, at - _NEAR) : at + _NEAR + 1] for at in places)
        return any(not context or any(term.key in context for term in terms) for terms in near)

    def has_code(self, text: str) -> bool:
        """Return whether the passage has some code or address, ignoring white space, or a command's words in order."""
        if join(tokens_of(text)) in self._joined:
            return True
        command, place = [join(tokens_of(word)) for word in text.split()], -1
        while 1 < len(command) <= _MAX_COMMAND_WORDS and (place := self._joined.find(command[0], place + 1)) >= 0:
            if self._has_in_order(command, place):
                return True
        return False

    def _has_in_order(self, command: Sequence[str], place: int) -> bool:
        for word in command:
            place = self._joined.find(word, place, place + len(word) + _MAX_BETWEEN)
            if place < 0:
                return False
        return True

    def find(self, clauses: Sequence[Sequence[str]]) -> Match | None:
        """Find the clauses of a quotation in order, word for word but for the case of the first letter."""
        first, stop = -1, 0
        for word, *rest in clauses:
            forms = [join([form, *rest]) for form in (word, word[0].swapcase() + word[1:])]
            places = [place for form in forms if (place := self._joined.find(form, stop)) >= 0]
            if not places:
                return None
            first = min(places) if first < 0 else first
            stop = min(places) + len(forms[0]) - 1
        begin = self._joined.count(_GAP, 0, first)
        return Match(self, self._span(begin, begin + self._joined.count(_GAP, first, stop)))

    def find_altered(self, quote: Sequence[str]) -> Match | None:
        """Find the span with enough of a quotation's words in order."""
        folded, is_word = [token.lower() for token in quote], [token[0].isalnum() for token in quote]
        self._aligner.set_seq1(folded)
        anchor = self._aligner.find_longest_match()
        start = max(0, anchor.b - anchor.a - _DRIFT)
        window = [token.lower() for token in self._tokens[start : anchor.b - anchor.a + len(quote) + _DRIFT]]
        blocks = SequenceMatcher(None, folded, window, autojunk=False).get_matching_blocks()[:-1]
        same = {at for block in blocks for at in range(block.a, block.a + block.size) if is_word[at]}
        if not same:
            return None
        first, last = blocks[0], blocks[-1]
        span_words = sum(token[0].isalnum() for token in window[first.b : last.b + last.size])
        if len(same) < MIN_SAME_WORDS * max(sum(is_word), span_words):
            return None
        begin = max(0, start + first.b - first.a)
        end = min(len(self._tokens), start + last.b + len(quote) - last.a)
        return Match(self, self._span(begin, end), [at for at in range(len(quote)) if is_word[at] and at not in same])

    def _span(self, first: int, stop: int) -> Span | None:
        """Return the characters of some tokens, or None if the tokens are in the heading."""
        places = [match.span() for match in _TOKEN.finditer(self._all.translate(_SIGNS))][first:stop]
        return (places[0][0], places[-1][1]) if places[-1][1] <= len(self.text) else None

    def link(self, span: Span | None) -> str | None:
        """Return a link that marks a span in browsers, or else the link of the passage."""
        url, media_type = self.hit.url, self.hit.content_type
        if span is None:
            return self.hit.link
        exact = link_to_text(url, media_type, self.text[slice(*span)], [])
        return exact or link_to_text(url, media_type, self.text, [span]) or self.hit.link


def _is_same_root(adjective: str, name: str) -> bool:
    """Return whether an adjective derives from a name, as Swedish from Sweden."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(adjective, name, strict=False))
    root = sum(1 for _ in same)
    is_close = root >= _MIN_ROOT and len(name) - root <= _MAX_ENDING
    return is_close and _ADJECTIVE.fullmatch(adjective, root) is not None
