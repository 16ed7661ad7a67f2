"""Passages as evidence: prepared once, so that quotations and facts are found in them in linear time."""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import cached_property, lru_cache, partial
from itertools import takewhile
from operator import attrgetter
from typing import NamedTuple

from indexer.generation.lexical.analysis import TERMS, is_stop_word, rules_for, words
from rag.query.results import Hit, Span, link_to_text, text_of

MIN_SAME_WORDS = 0.85  # share of a quotation's words that its altered form has in order
_DRIFT = 12  # tokens
_MAX_COMMAND_WORDS, _MAX_BETWEEN = 8, 60  # words; characters between two words
_MAX_TOPIC, _MAX_LINE = 60, 70  # keys; characters
_BULLETS = ("-", "*", "•", "·", "–")
_STOPS = tuple(".!?:;")
_ARTICLES = ("the", "a", "an")
_PRONOUNS = frozenset("it its they their this these that those such both he his she her".split())
_UNIT_END = re.compile(
    r"(?<=[.!?])[\"”’)]*+\s++(?=[^\sa-z])|(?<![^\n]{50})\n|\n(?![^\S\n]*+[a-z][^|\n]*(?:\n|$))|\n\n+|;\s|(?<=[。！？])"
)
CLAUSE_END = re.compile(r"[,;:()—|]")
_CELL_END = re.compile(r"\S(?: \||\t| {3})")
_GAP = "\0"
_start_of, _is_stop = attrgetter("start"), attrgetter("is_stop")
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
_ORDINALS = dict(zip("3456789", "third fourth fifth sixth seventh eighth ninth".split(), strict=True))
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
    is_stop: bool = False

    @property
    def end(self) -> int:
        """The index of the character after the term."""
        return self.start + len(self.text)

    @property
    def is_number(self) -> bool:
        """True if the key is a value."""
        return self.key[:1].isdigit() and _NUMERAL.fullmatch(self.key) is not None


_make_term = partial(tuple.__new__, Term)  # three times as fast as the class


def tokens_of(text: str) -> list[str]:
    """Split a text into words and signs, with all quotation marks and dashes in one form."""
    return _TOKEN.findall(text.translate(_SIGNS))


def join(tokens: Iterable[str]) -> str:
    """Join tokens so that part of a word is never found as a word."""
    return f"{_GAP}{_GAP.join(tokens)}{_GAP}"


def read_terms(text: str, language: str | None) -> list[Term]:
    """Return the words of a text; 30,000, thirty thousand and 30 thousand have the same key, and U.S. is one term."""
    terms: list[Term] = []
    thousands = rest = 0.0  # their sum is the value of the last term
    for match in words(text).finditer(text):
        word, start = match[0], match.start()
        key, is_plain, is_stop = _read_word(word, language or "en")
        if is_plain:
            terms.append(_make_term((word, start, key, is_stop)))
            thousands = rest = 0.0
            continue
        lower = word.lower()
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
        terms.append(Term(word, start, key, is_stop))
    return terms


@lru_cache(1 << 14)
def _read_word(word: str, language: str) -> tuple[str, bool, bool]:
    """Return the key of a word, and whether it is neither a number nor a letter, and whether it is a stop word."""
    lower = word.lower()
    is_plain = word.isalpha() and len(word) > 1 and lower not in _NUMBER_PARTS
    return next(iter(TERMS[rules_for(language)][word]), word), is_plain, is_stop_word(lower, language)


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
    """A number or a name among the content words of a text."""

    is_number: bool
    keys: frozenset[str]
    start: int
    stop: int


def read_slots(content: Sequence[Term]) -> list[Slot]:
    """Return the numbers and names among content words; adjacent capitalised words are one name."""
    slots: list[Slot] = []
    start = 0
    for at, term in enumerate(content, 1):
        text, is_number = term.text, term.key[0].isdigit()
        after = content[at] if at < len(content) and text[0].isupper() else None
        if after and after.text[0].isupper() and after.start == term.end + 1:
            continue
        if is_number or "_" in text or text != text.lower():
            slots.append(Slot(is_number, frozenset(each.key for each in content[start:at]), start, at))
        start = at
    return slots


class Unit:
    """A sentence, a row or a list item of a passage."""

    before = topic = subject = frozenset[str]()
    """Keys of the sentence before it; of what it continues, or the header row; and of what it speaks of."""

    def __init__(self, span: Span, content: Sequence[Term], keys: frozenset[str], *, is_sentence: bool) -> None:
        """Take its place, its content words, and their keys with those of the words within names."""
        self.span, self.keys, self._content, self._is_sentence = span, keys, content, is_sentence

    @cached_property
    def words(self) -> Sequence[str]:
        """The keys of the content words."""
        return [term.key for term in self._content]

    @cached_property
    def slots(self) -> Sequence[Slot]:
        """The numbers and names, except for the capital at the beginning of a sentence."""
        slots = read_slots(self._content)
        is_plain = self._is_sentence and self._content[0].text[1:].islower()
        return slots[1:] if is_plain and slots and slots[0].stop == 1 and not slots[0].is_number else slots


def first_words(text: str, terms: Iterable[Term]) -> frozenset[str]:
    """Return the keys of the first words of a text that no stop word or sign parts; numbers alone do not count.

    A word before an article is a verb.
    """
    run: list[Term] = []
    for term in terms:
        if run and (term.is_stop or CLAUSE_END.search(text, run[-1].end, term.start)):
            if term.text.lower() in _ARTICLES:
                run.pop()
            if not all(each.key[0].isdigit() for each in run):
                break
            run = []
        if not term.is_stop:
            run.append(term)
    return frozenset(term.key for term in run)


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
    def units(self) -> Sequence[Unit]:
        """The sentences, rows and list items of the text; a short line belongs to the sentence below it."""
        text, units = self.text, list[Unit]()
        analysed = TERMS[rules_for(self.hit.language)]
        header = lead = subject = frozenset[str]()
        was_row, start, at = False, 0, 0
        for end in [*(match.end() for match in _UNIT_END.finditer(text)), len(text)]:
            line, below = text[start:end].strip(), text[end : end + _MAX_LINE].lstrip()
            is_row = _CELL_END.search(line) is not None
            is_sentence = not is_row and not line.startswith(_BULLETS)
            is_heading = is_sentence and len(line) <= _MAX_LINE and not line.endswith(_STOPS) and below[:1].isupper()
            if is_heading and not _CELL_END.search(below.partition("\n")[0]):
                continue
            first = at
            at = bisect_left(self._terms, end, first, key=_start_of)
            terms, span, start = self._terms[first:at], (start, end), end
            content = [term for term in terms if not term.is_stop]
            if not content:
                continue
            keys = {term.key for term in content}
            keys.update(*(analysed[term.text] for term in content if not term.key[0].isdigit()))
            unit = Unit(span, content, frozenset(keys), is_sentence=is_sentence)
            opening = takewhile(_is_stop, terms) if is_sentence else ()
            is_continued = any(term.text.lower() in _PRONOUNS for term in opening)
            subject = unit.subject = subject if is_continued else first_words(text, terms)
            if is_sentence:
                unit.before = units[-1].keys if units else unit.before
                unit.topic = lead if is_continued else unit.topic
                lead = unit.keys | unit.topic if len(unit.topic) < _MAX_TOPIC else unit.keys
            elif is_row and not was_row:
                header = unit.topic = lead
                if not any(slot.is_number or "_" in unit.words[slot.start] for slot in unit.slots):
                    header, unit.slots = unit.keys, []
            else:
                unit.topic = header if is_row else lead
            was_row = is_row
            units.append(unit)
        return units

    @cached_property
    def heading(self) -> frozenset[str]:
        """Keys of the words of title, section and address, and of the words within names."""
        analysed = TERMS[rules_for(self.hit.language)]
        terms = self._terms[bisect_left(self._terms, len(self.text), key=_start_of) :]
        return frozenset(term.key for term in terms).union(*(analysed[term.text] for term in terms))

    @cached_property
    def keys(self) -> frozenset[str]:
        """Keys of all words, of the words within names such as max_connections, and of the century of each year."""
        keys = self.heading.union(*(unit.keys for unit in self.units))
        years = [int(key) for key in keys if len(key) in (3, 4) and key.isdecimal()]
        return keys.union(_century((year - 1) // 100 + 1) for year in years)

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
        """Return whether the passage has a number, or a name, its abbreviation, long form, or adjective (Swedish)."""
        if name.is_number:
            return not self.keys.isdisjoint((name.key, f"{name.key}th", _ORDINALS.get(name.key, name.key)))
        if name.key in self.keys or not self._abbreviations.isdisjoint(initials):
            return True
        if name.text.replace(".", "").isupper() and name.key in self._initials:
            return True
        similar = self._names.get(name.text[:_MIN_ROOT], ())
        return any(_is_same_root(name.text, other) or _is_same_root(other, name.text) for other in similar)

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
