"""Passages as evidence: prepared once, so that quotations and facts are found in them in linear time."""

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cached_property, lru_cache, partial
from itertools import groupby, takewhile
from operator import attrgetter
from typing import NamedTuple

from indexer.generation.lexical.analysis import TERMS, is_stop_word, rules_for, words
from rag.answer.sentences import is_abbreviated
from rag.query.results import Hit, Span, link_to_text, text_of

MIN_SAME_WORDS = 0.85  # an altered quotation has at least this share of the words in order
_DRIFT = 12  # tokens
MAX_MISSING = 1.0  # the weight of one rare word
_NEIGHBOURS = 2  # sentences on each side of a sentence
_NEAR = 4  # words on each side of a number
_MAX_LINE = 70  # characters
_BULLETS = ("- ", "* ", "• ", "· ", "– ")
_STOPS = tuple(".!?:;")
_UNIT_END = re.compile(
    r"(?<=[.!?])[\"”’)]*+\s++(?=[^\sa-z])|(?<![^\n]{50})\n|\n(?![^\S\n]*+[a-z][^|\n]*(?:\n|$))|\n\n+|(?<=[。！？])"
)
_CELL_END = re.compile(r"\S(?: \||\t| {3})")
_GAP = "\0"
_start_of = attrgetter("start")
_QUOTES_AND_DASHES = str.maketrans(
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
_NUMBER_PARTS = {*_NUMBERS, *_SCALES, "one"}
_MAX_NUMBER = 10**15
_NUMERAL = re.compile(r"\d{1,15}(?:\.\d{1,9})?", re.ASCII)
_VERSION = re.compile(r"\b[vV](?=\d+\.\d)")
_APOSTROPHES, _MAX_CONTRACTION = ("'", "’"), 2
_MAX_INITIALS = 6
_WITHIN_NAMES = ("of", "the", "and", "for")
_ROOT = 4  # characters


class Term(NamedTuple):
    """A word, or a number in one or more words, with its key for comparison: a stem or a value."""

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
    """Split a text into words and punctuation, with all quotation marks and dashes in one form."""
    return _TOKEN.findall(text.translate(_QUOTES_AND_DASHES))


def join(tokens: Iterable[str]) -> str:
    """Join tokens so that part of a word is never found as a word."""
    return f"{_GAP}{_GAP.join(tokens)}{_GAP}"


def read_terms(text: str, language: str | None) -> list[Term]:
    """Return the words and numbers of a text; "30,000", "thirty thousand" and "30 thousand" have the same key."""
    terms: list[Term] = []
    text = _VERSION.sub(" ", text)
    thousands = rest = 0.0  # their sum is the value of the last term
    for match in words(text).finditer(text):
        word, start = match[0], match.start()
        key, is_plain, is_stop = _read_word(word, language or "en")
        is_stop = is_stop or (len(word) <= _MAX_CONTRACTION and text[start - 1 : start] in _APOSTROPHES)
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
    """Return the key of a word, whether it is plain (no number or single letter), and whether it is a stop word."""
    lower = word.lower()
    is_plain = word.isalpha() and len(word) > 1 and lower not in _NUMBER_PARTS
    return next(iter(TERMS[rules_for(language)][word]), word), is_plain, is_stop_word(lower, language)


def _initials_of(terms: Iterable[Term]) -> Iterator[str]:
    """Yield the initials of sequences of adjacent capitalised words."""
    letters = (term.text[0] if term.text[0].isupper() else " " for term in terms if term.text not in _WITHIN_NAMES)
    for run in "".join(letters).split():
        for start in range(len(run)):
            yield from (run[start:stop] for stop in range(start + 2, min(len(run), start + _MAX_INITIALS) + 1))


class NumberContext(NamedTuple):
    """A number with the content words before and after it, up to the next numbers."""

    key: str
    before: Sequence[str]
    after: Sequence[str]


def read_numbers(content: Sequence[Term]) -> list[NumberContext]:
    """Return the numbers in a sentence with their context; numbers in a row share the words before and after it."""
    runs = [(is_number, [term.key for term in group]) for is_number, group in groupby(content, _is_numeric)]
    runs = [(False, []), *runs, (False, [])]
    places = [at for at, (is_number, _) in enumerate(runs) if is_number]
    words = [keys for _, keys in runs]
    return [NumberContext(key, words[at - 1][-_NEAR:], words[at + 1][:_NEAR]) for at in places for key in words[at]]


def _is_numeric(term: Term) -> bool:
    return term.key[0].isdigit()


class Unit:
    """A sentence, a row or a list item of a passage."""

    label = frozenset[str]()
    """Keys of the first cell of a row."""

    def __init__(self, span: Span, kind: str, content: Sequence[Term], keys: frozenset[str]) -> None:
        """Take the span and kind of the unit, its content words, and their keys with those of words within names."""
        self.span, self.kind, self.keys, self._content = span, kind, keys, content
        self.window = keys
        """Keys of the unit, the sentences around it, its header row or the sentence above its list, its headings."""

    @cached_property
    def names(self) -> frozenset[str]:
        """Keys of the capitalised words, except for the first."""
        return frozenset(term.key for term in self._content[1:] if term.text[0].isupper())

    @cached_property
    def numbers(self) -> Sequence[NumberContext]:
        """The numbers with the words around them."""
        return read_numbers(self._content)


def _is_sentence(unit: Unit) -> bool:
    return unit.kind == "sentence"


class Match(NamedTuple):
    """The place of a quotation in a passage."""

    passage: "Evidence"
    span: Span | None  # None if it is in the heading
    differing: Sequence[int] = ()  # indexes of the quotation's tokens that the passage does not have


class Evidence:
    """A passage with its heading."""

    def __init__(self, hit: Hit, number: int | None = None) -> None:
        """Take a hit, and the number by which an answer cites it."""
        self.hit, self.number = hit, number
        self.text = text_of(hit)
        self._all = "\n".join((self.text, hit.title, hit.section, hit.url))

    @property
    def name(self) -> str:
        """The name of the passage in the reason of a proof."""
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

    def _lines(self) -> Iterator[tuple[Span, str]]:
        """Yield span and kind of each sentence, row and list item; a short line belongs to the sentence below it."""
        text, start = self.text, 0
        ends = [match.end() for match in _UNIT_END.finditer(text) if not is_abbreviated(text, match.start() - 1)]
        for end in [*ends, len(text)]:
            line, below = text[start:end].strip(), text[end : end + _MAX_LINE].lstrip()
            kind = "row" if _CELL_END.search(line) else "item" if line.startswith(_BULLETS) else "sentence"
            is_short = kind == "sentence" and len(line) <= _MAX_LINE and not line.endswith(_STOPS)
            if line and not (is_short and below[:1].isupper() and not _CELL_END.search(below.partition("\n")[0])):
                yield (start, end), kind
                start = end

    @cached_property
    def units(self) -> Sequence[Unit]:
        """The sentences, rows and list items of the text."""
        analysed, units = TERMS[rules_for(self.hit.language)], list[Unit]()
        header = lead = frozenset[str]()
        last, at = "", 0
        for span, kind in self._lines():
            first, at = at, bisect_left(self._terms, span[1], at, key=_start_of)
            content = [term for term in self._terms[first:at] if not term.is_stop]
            if not content:
                continue
            keys = frozenset(term.key for term in content)
            keys = keys.union(*(analysed[term.text] for term in content if not _is_numeric(term)))
            keys |= {term.text.partition(" ")[0] for term in content if _is_numeric(term)}  # "31" of "31 million"
            unit = Unit(span, kind, content, keys)
            if kind == "row":
                if last != kind:
                    header = lead if any(key[0].isdigit() or "_" in key for key in keys) else keys
                unit.window |= header
                label_end = span[0] + len(_CELL_END.split(self.text[slice(*span)], maxsplit=1)[0]) + 1
                unit.label = frozenset(term.key for term in content if term.start < label_end)
            elif kind == "item":
                unit.window |= lead
            else:
                lead = keys
                for other in takewhile(_is_sentence, units[: -_NEIGHBOURS - 1 : -1]):
                    other.window |= keys
                    unit.window |= other.keys
            last = kind
            units.append(unit)
        for unit in units:
            unit.window |= self.heading
        return units

    def misplaced(
        self, numbers: Iterable[NumberContext], claim_keys: Collection[str], weights: Mapping[str, float]
    ) -> frozenset[str]:
        """Return the numbers of a claim for which the passage has a different number in the same context."""
        wrong = set[str]()
        for number in numbers:
            around = {*number.before, *number.after}
            same, rivals = list[float](), [0.0]
            for other in self._numbers:
                if other.key == number.key or other.key not in claim_keys:
                    fit = sum(weights.get(key, 0.0) for key in around.intersection([*other.before, *other.after]))
                    (same if other.key == number.key else rivals).append(fit)
            if same and max(rivals) - max(same) > MAX_MISSING:
                wrong.add(number.key)
        return frozenset(wrong)

    @cached_property
    def _numbers(self) -> Sequence[NumberContext]:
        return [number for unit in self.units for number in unit.numbers]

    @cached_property
    def counted(self) -> frozenset[str]:
        """Keys of the words directly after numbers."""
        return frozenset(number.after[0] for number in self._numbers if number.after)

    @cached_property
    def heading(self) -> frozenset[str]:
        """Keys of the words of title, section and address, and of the words within names."""
        analysed = TERMS[rules_for(self.hit.language)]
        terms = self._terms[bisect_left(self._terms, len(self.text), key=_start_of) :]
        return frozenset(term.key for term in terms).union(*(analysed[term.text] for term in terms))

    @cached_property
    def keys(self) -> frozenset[str]:
        """Keys of all words, and of the words within names such as max_connections."""
        return self.heading.union(*(unit.keys for unit in self.units))

    @cached_property
    def names(self) -> frozenset[str]:
        """Keys of the capitalised words."""
        return frozenset(term.key for term in self._terms if term.text[0].isupper())

    @cached_property
    def plain_words(self) -> frozenset[str]:
        """Keys of the words without a capital."""
        return frozenset(term.key for term in self._terms if not term.text[0].isupper())

    @cached_property
    def _initials(self) -> frozenset[str]:
        return frozenset(_initials_of(self._terms))

    @cached_property
    def _roots(self) -> frozenset[str]:
        return frozenset(
            term.text[:_ROOT] for term in self._terms if term.text[0].isupper() and len(term.text) >= _ROOT
        )

    def has_name(self, name: Term) -> bool:
        """Return whether the passage has a number; or a name, the words it abbreviates, or a name that begins alike."""
        if name.is_number:
            return not self.keys.isdisjoint((name.key, f"{name.key}th", _ORDINALS.get(name.key, name.key)))
        keys = (name.key, name.key.removesuffix("s"))
        return not self.keys.isdisjoint(keys) or name.text in self._initials or name.text[:_ROOT] in self._roots

    def has_code(self, text: str) -> bool:
        """Return whether the passage has each word of some code or address."""
        text = text if "://" in text else text.replace("=", " ")
        words = text.rstrip("/").removesuffix("()").split()
        return all(join(tokens_of(word)) in self._joined for word in words)

    def find(self, clauses: Sequence[Sequence[str]]) -> Match | None:
        """Find the clauses of a quotation in order, word for word except for the case of the first letter."""
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
        places = [match.span() for match in _TOKEN.finditer(self._all.translate(_QUOTES_AND_DASHES))][first:stop]
        return (places[0][0], places[-1][1]) if places[-1][1] <= len(self.text) else None

    def link(self, span: Span | None) -> str | None:
        """Return a link that marks a span in browsers, or else the link of the passage."""
        url, media_type = self.hit.url, self.hit.content_type
        if span is None:
            return self.hit.link
        exact = link_to_text(url, media_type, self.text[slice(*span)], [])
        return exact or link_to_text(url, media_type, self.text, [span]) or self.hit.link
