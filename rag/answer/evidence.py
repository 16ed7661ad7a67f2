"""Index the words and facts of a passage, so that quotations and facts are found in linear time."""

import re
from bisect import bisect_left
from calendar import month_name
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from difflib import SequenceMatcher
from functools import cached_property, lru_cache, partial
from itertools import chain, pairwise, permutations
from math import isfinite, nan
from operator import attrgetter, itemgetter
from typing import NamedTuple

from indexer.generation.lexical.analysis import TERMS, is_stop_word, rules_for, words
from rag.answer.sentences import is_abbreviated
from rag.query.results import Hit, Span, link_to_text, text_of

MIN_SAME_WORDS = 0.85  # share of an altered quotation's words that the passage has in the same order
_WINDOW_MARGIN = 12  # tokens on each side of the expected place of a quotation
RARE_WORD_WEIGHT = 1.0
STEM_CHARS = 5  # words with the same beginning count as the same: configure, configuration
_SENTENCE_END = re.compile(
    r"(?<=[.!?])[\"”’)]*+\s++(?=[^\sa-z])|(?<![^\n]{50})\n|\n(?![^\S\n]*+[a-z][^|\n]*(?:\n|$))|\n\n+|(?<=[。！？])"
)
_PUNCTUATION = re.compile(r"[,.;:()]")
_CODE_GAP = re.compile(r":?[\s=…]+|\.{2,}|\(\)")  # separators of words in a command
_URL = re.compile(r"(?<!\w)\w++://\S+")
_PLACEHOLDER = re.compile(r"(?<=[\s=/\\:@])<[a-z][\w-]*>")  # such as <name> in a command
CAPITALISING = frozenset({"de", "lb"})  # languages that capitalise all nouns
_SEPARATOR = "\0"
_get_start, _get_keys = attrgetter("start"), attrgetter("keys")
_QUOTES_AND_DASHES = str.maketrans(
    dict.fromkeys("“”„‟«»″＂", '"') | dict.fromkeys("‘’‚‛‹›′´", "'") | dict.fromkeys("‐‑‒–—―−", "-") | {"`": " "}
)
_SPACELESS = "\u0e00-\u11ff\u1780-\u17ff\u3005-\u30ff\u3400-\u9fff\uac00-\ud7ff"  # each character is a token
_TOKEN = re.compile(rf"[{_SPACELESS}]|\b[vV](?=\d+\.\d)|(?:(?![{_SPACELESS}])\w)+|[^\w\s]")
_NUMBER_IN_SPACELESS = re.compile(rf"[{_SPACELESS}]\d")
_NUMBER_OR_OTHER = re.compile(rf"(?<=[{_SPACELESS}])\d+|(?:(?<![{_SPACELESS}])\d|\D)+")
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_BELOW_TWENTY = "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen".split()
_BELOW_TWENTY += ["seventeen", "eighteen", "nineteen"]
_NUMBER_WORDS = {name: value for value, name in enumerate(_BELOW_TWENTY, 2)}
_NUMBER_WORDS |= {name: 10 * tens for tens, name in enumerate(_TENS, 2)}
_ORDINALS = dict(zip("123456789", "first second third fourth fifth sixth seventh eighth ninth".split(), strict=True))
_SCALES = {"dozen": 12, "hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_WORDS_IN_NUMBERS = {*_NUMBER_WORDS, *_SCALES, "one"}
_MAX_NUMBER = 10**15
_NUMERAL = re.compile(r"\d{1,15}(?:\.\d{1,9})?", re.ASCII)
_NUMBER_AND_UNIT = re.compile(rf"({_NUMERAL.pattern})([a-z]{{0,4}})", re.ASCII)
_VERSION_PREFIX = re.compile(r"\b[vV](?=\d+\.\d)")
_APOSTROPHES, _MAX_CONTRACTION_CHARS = ("'", "’"), 2
_NOT_IN_ACRONYMS = ("of", "the", "and", "for")  # FDA: Food and Drug Administration
_SHARED_PREFIX = 4  # characters; names with the same prefix of this length are treated as one name
_UNIT_RATIOS = (100, 1_000, 1_024, 1_000_000, 1_000_000_000)  # ratios of units, such as km to m
_MONTH_NUMBERS = {TERMS["en"][name][0]: str(number) for number, name in enumerate(month_name) if number}
_CLOCK = re.compile(
    r"\b(?P<hour>[01]?\d|2[0-3])(?:[:.](?P<minute>[0-5]\d))?(?:\s?(?P<half>[ap])\.?m\b|\s(?:Uhr|o['’]clock)\b)"
    r"|\b([01]?\d|2[0-3]):([0-5]\d)\b",
    re.IGNORECASE,
)
_CLOCK_KEY = re.compile(r"(\d+)h0?(\d+)")
_DIGIT_GAP = re.compile(r"(?<=\d)[\s./-]+(?=\d)")
_MIN_IDENTIFIER_DIGITS = 5  # numbers this long may be identifiers, such as telephone numbers
_DATE = re.compile(r"\b\d{4}-(0[1-9]|1[012])-\d\d(?!\d)|(?<![\d./])(?:\d\d?[./])?(0?[1-9]|1[012])[./](?:\d\d?/)?\d{4}")


class Term(NamedTuple):
    """A word, or a number of one or more words. Terms with the same stem or the same value have the same key."""

    text: str
    start: int
    key: str
    is_stop: bool = False
    keys: tuple[str, ...] = ()
    """The key, and the keys of the parts: max and connections in max_connections, or 31 in "31 million"."""
    shape: str = ""
    """The kind of fact that the term can be: number, name or code. Empty for other words."""

    @property
    def end(self) -> int:
        """The index of the character after the term."""
        return self.start + len(self.text)

    @property
    def is_number(self) -> bool:
        """True if the key is a number, with or without a unit, and not a time of day such as 19h30."""
        return isfinite(value_of(self.key))


def value_of(key: str) -> float:
    """Return the value of a number with or without a unit, such as 5 and 5gb, or NaN for other keys."""
    number = _NUMBER_AND_UNIT.fullmatch(key) if key[:1].isdigit() else None
    return float(number[1]) if number else nan


_make_term = partial(tuple.__new__, Term)  # three times as fast as calling the class


def tokens_of(text: str) -> list[str]:
    """Split a text into words and punctuation, with all quotation marks and dashes normalised to ASCII."""
    return _TOKEN.findall(text.translate(_QUOTES_AND_DASHES))


def join(tokens: Iterable[str]) -> str:
    """Join tokens with a separator, so that a search for a token never matches part of another."""
    return f"{_SEPARATOR}{_SEPARATOR.join(tokens)}{_SEPARATOR}"


def read_terms(text: str, language: str | None) -> list[Term]:
    """Return the words and numbers of a text; "30,000", "thirty thousand" and "30 thousand" have the same key."""
    terms: list[Term] = []
    text = _VERSION_PREFIX.sub(" ", text)
    thousands = rest = 0.0  # the number read so far is `thousands + rest`, and "million" multiplies only the rest
    clocks = {match.start(): match for match in _CLOCK.finditer(text)}
    clock_end = 0
    matches: Iterable[re.Match[str]] = words(text).finditer(text)
    if _NUMBER_IN_SPACELESS.search(text):
        matches = chain.from_iterable(_NUMBER_OR_OTHER.finditer(text, *match.span()) for match in matches)
    for match in matches:
        word, start = match[0], match.start()
        if start < clock_end:
            continue
        key, is_plain, is_stop, keys, shape = _read_word(word, language or "en")
        is_stop = is_stop or (len(word) <= _MAX_CONTRACTION_CHARS and text[start - 1 : start] in _APOSTROPHES)
        if is_plain:
            terms.append(_make_term((word, start, key, is_stop, keys, shape)))
            if word != "and":  # "and" continues a number: a hundred and five
                thousands = rest = 0.0
            continue
        if clock := clocks.get(start):
            terms.append(_number(clock[0], start, _clock_key(clock)))
            clock_end, thousands, rest = clock.end(), 0.0, 0.0
            continue
        lower = word.lower()
        gap = text[terms[-1].end : start] if terms else ""
        value, scale = _NUMBER_WORDS.get(lower, 0), _SCALES.get(lower, 0)
        is_joined = gap in (" ", "-") and 0 < thousands + rest < _MAX_NUMBER
        is_after_and = bool(terms) and terms[-1].text == "and"
        if is_after_and:
            is_joined = is_joined and value > 0 and rest >= 100 and rest % 100 == 0
        if scale and is_joined:
            thousands, rest = (thousands, rest * scale) if scale < 1_000 else (thousands + rest * scale, 0.0)
        elif value and is_joined and (rest % 100 == 0 or (rest % 10 == 0 and rest % 100 >= 20 and value < 10)):
            rest += value
        else:
            is_number = _NUMERAL.fullmatch(key) is not None
            is_joined, thousands, rest = False, 0.0, float(key) if is_number else value or float(lower in ("a", "one"))
            is_plain_number = is_number and ("," in word or rest % 1 == 0)  # 3.10 is a version
            key = str(value) if value else f"{rest:.15g}" if is_plain_number else key  # 3 for 03 and 3.00
        if is_joined:
            if is_after_and:
                terms.pop()
            first, number = terms.pop(), round(thousands + rest, 6)
            word, start = text[first.start : match.end()], first.start
            key = str(int(number) if number.is_integer() else number)
        if key[0].isdigit():
            terms.append(_number(word, start, key))
        else:
            terms.append(Term(word, start, key, is_stop, keys, shape))
    return terms


@lru_cache(1 << 14)
def _read_word(word: str, language: str) -> tuple[str, bool, bool, tuple[str, ...], str]:
    """Return `(key, is_plain, is_stop, keys, shape)` of a word. Numbers and single letters are not plain."""
    lower = word.lower()
    is_plain = word.isalpha() and len(word) > 1 and lower not in _WORDS_IN_NUMBERS
    keys = tuple(filter(None, TERMS[rules_for(language)][word])) or (word,)  # a lone accent has an empty key
    shape = "name" if word[0].isupper() else "code" if "_" in word else ""
    return keys[0], is_plain, is_stop_word(lower, language), keys, shape


def _number(text: str, start: int, key: str) -> Term:
    keys = (key, text.partition(" ")[0], *_NUMERAL.findall(key)[:1])
    return Term(text, start, key, False, keys, "number")


def _clock_key(clock: re.Match[str]) -> str:
    """Return the key of a time of day on the 24-hour clock, such as 19h30."""
    hour, minute = int(clock["hour"] or clock[4]), int(clock["minute"] or clock[5] or 0)
    if clock["half"]:
        hour = hour % 12 + 12 * (clock["half"].lower() == "p")
    return f"{hour}h{minute:02}"


def is_derived(value: float, sources: Set[float], addends: Set[float], factors: Set[float]) -> bool:
    """Return whether a number in a sentence can be computed from other numbers.

    It may be a sum or difference of addends; a product or quotient of a factor and another number; or a number of the
    passages that is rounded or in another unit. Whole numbers below ten are in most passages: nothing follows from one
    of the passages, nor from the sum of two.

    Args:
        value: the number.
        sources: the numbers of the passages.
        addends: numbers of the sentence that the passages contain, and numbers of the question.
        factors: the addends, and numbers of the sentence that are words, such as "two".
    """
    addends, factors = addends - {value}, factors - {value, 1.0}
    if len(addends) > 1 and value == sum(addends):
        return True
    numbers = (sources | factors) - {value, 0.0, 1.0}
    operands = {each for each in numbers | addends if each >= 10 or each % 1}
    pairs = ((each, addends - {each}) for each in addends & operands)
    if any(round(value - each, 6) in partners or round(value + each, 6) in partners for each, partners in pairs):
        return True
    products = (round(each, 6) for factor in factors - {0.0} for each in (value / factor, value * factor))
    converted = (round(each, 6) for ratio in _UNIT_RATIOS for each in (value * ratio, value / ratio))
    if not operands.isdisjoint(products) or (value != 1.0 and not numbers.isdisjoint(converted)):
        return True
    digits = len(f"{value:.15g}".replace(".", "").strip("0"))
    if digits > 1 and any(_rounded(each, digits) == value for each in numbers - factors):
        return True
    # Compare rounded results only for two factors. With every number of a passage, too many would match by chance.
    results = (
        result for first, second in permutations(factors - {0.0}, 2) for result in (first * second, first / second)
    )
    return any(_rounded(each, digits) == value for result in results for each in (result, result / 100, 100 * result))


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{max(2, digits)}g}")


def _abbreviates(*names: str) -> bool:
    """Return whether one of two names has up to three letters of the other, in order, such as St and Saint."""
    short, long = sorted(names, key=len)
    letters = iter(long.lower())
    return len(short) < _SHARED_PREFIX <= len(long) and all(letter in letters for letter in short.lower())


def is_unit_of_measure(text: str, term: Term) -> bool:
    """Return whether a term is the unit of the number before it, as in 5 GB."""
    before = text[max(0, term.start - 3) : term.start].rstrip(" /°\u00a0\u202f")
    return before[-1:].isdigit() and not term.text[1:3].islower()


class Match(NamedTuple):
    """The place where a passage has a quotation or a fact."""

    passage: "Evidence"
    span: Span | None  # None for the heading, or for several places
    differing: Sequence[int] = ()  # indexes of the quotation's tokens that the passage does not have


class Evidence:
    """The text and the heading of a passage. Indexes and other derived values are computed on first use."""

    def __init__(self, hit: Hit, number: int | None = None) -> None:
        """Wrap a hit. Answers cite it by its number, such as [1]."""
        self.hit, self.number = hit, number
        self.text = text_of(hit)
        self._full_text = "\n".join((self.text, hit.title, hit.section, hit.url))

    @property
    def name(self) -> str:
        """The passage's number, as in "passage 1", or else its title, for messages to users."""
        heading = self.hit.title or self.hit.url
        return f"“{heading[:80]}”" if self.number is None else f"passage {self.number}"

    @cached_property
    def _tokens(self) -> list[str]:
        return tokens_of(self._full_text)

    @cached_property
    def _joined(self) -> str:
        return join(self._tokens)

    @cached_property
    def _aligner(self) -> SequenceMatcher[str]:
        return SequenceMatcher(None, "", [token.lower() for token in self._tokens], autojunk=False)

    @cached_property
    def _terms(self) -> list[Term]:
        return read_terms(self._full_text, self.hit.language)

    @cached_property
    def sentences(self) -> Sequence[Sequence[Term]]:
        """The words of each sentence, line of a list and row of a table, without stop words."""
        matches = _SENTENCE_END.finditer(self.text)
        ends = [match.end() for match in matches if not is_abbreviated(self.text, match.start() - 1)]
        cuts = [bisect_left(self._terms, end, key=_get_start) for end in [0, *ends, len(self.text)]]
        sentences = [[term for term in self._terms[first:at] if not term.is_stop] for first, at in pairwise(cuts)]
        return [sentence for sentence in sentences if sentence]

    @cached_property
    def places(self) -> Mapping[str, Sequence[int]]:
        """For each key, the indexes of the sentences that have a word with this key."""
        places = defaultdict[str, list[int]](list)
        for at, sentence in enumerate(self.sentences):
            for key in {key for term in sentence for key in term.keys}:
                places[key].append(at)
        return places

    def nearest_sentence(self, words: Iterable[frozenset[str]]) -> tuple[int, Sequence[Term]]:
        """Return how many of the words the most similar sentence has, and this sentence.

        Words of the passage's heading count for every sentence.
        """
        counts, in_heading = Counter[int](), 0
        for keys in words:
            if keys.isdisjoint(self.heading):
                counts.update({at for key in keys for at in self.places.get(key, ())})
            else:
                in_heading += 1
        at, count = max(counts.items(), key=itemgetter(1), default=(0, 0))
        return in_heading + count, self.sentences[at] if counts else ()

    @cached_property
    def quantities(self) -> frozenset[float]:
        """The values of the numbers in the text."""
        return frozenset(filter(isfinite, (value_of(term.key) for term in chain(*self.sentences) if term.shape)))

    @cached_property
    def counted(self) -> frozenset[str]:
        """The keys of words that directly follow a number, such as "reasons" in "two reasons"."""
        pairs = chain.from_iterable(map(pairwise, self.sentences))
        return frozenset(
            second.key
            for first, second in pairs
            if first.shape == "number" and not _PUNCTUATION.search(self._full_text, first.end, second.start)
        )

    @cached_property
    def heading(self) -> frozenset[str]:
        """The keys of the words in title, section and address."""
        start = bisect_left(self._terms, len(self.text), key=_get_start)
        return frozenset(chain.from_iterable(map(_get_keys, self._terms[start:])))

    @cached_property
    def keys(self) -> frozenset[str]:
        """The keys of all words in text, title, section and address. A month has its name and its number as keys."""
        keys = frozenset(chain.from_iterable(map(_get_keys, self._terms)))
        months = {TERMS["en"][month_name[int(iso or other)]][0] for iso, other in _DATE.findall(self.text)}
        return keys | months | {_MONTH_NUMBERS[key] for key in keys & _MONTH_NUMBERS.keys()}

    @cached_property
    def stems(self) -> frozenset[str]:
        """The first STEM_CHARS characters of each key."""
        return frozenset(key[:STEM_CHARS] for key in self.keys)

    @cached_property
    def _capitalised(self) -> Mapping[str, Mapping[str, str]]:
        """Capitalised words by their first letter, one for each prefix of _SHARED_PREFIX characters."""
        names, text = defaultdict[str, dict[str, str]](dict), self._full_text
        for term in self._terms:
            is_name = term.text[0].isupper() and not term.is_stop
            if is_name and (len(term.text) > 1 or is_unit_of_measure(text, term)):
                names[term.text[0]][term.text[:_SHARED_PREFIX]] = term.text
        return names

    @cached_property
    def _initials(self) -> str:
        """The initials of the capitalised words, to find acronyms, with a space for each other word."""
        return "".join(
            term.text[0] if term.text[0].isupper() else " " for term in self._terms if term.text not in _NOT_IN_ACRONYMS
        )

    @cached_property
    def _digits(self) -> str:
        """The text without spaces and punctuation between digits."""
        return _DIGIT_GAP.sub("", self._full_text)

    def has(self, fact: Term) -> bool:
        """Return whether the passage has a fact: a number or name, which has a key, or code, which has an empty key."""
        return self._has_number_or_name(fact) if fact.key else self._has_code(fact.text)

    def _has_number_or_name(self, name: Term) -> bool:
        """Return whether the passage has a number, or a name in full, abbreviated or with a similar beginning."""
        if name.text.isdecimal() and len(name.text) >= _MIN_IDENTIFIER_DIGITS and name.text in self._digits:
            return True
        if clock := _CLOCK_KEY.fullmatch(name.key):
            as_decimal = f"{clock[1]}.{clock[2]:0>2}"  # a passage may have 13.10 for 13:10
            return not self.keys.isdisjoint((name.key, as_decimal)) or self.keys >= {*clock.groups()}  # may be a score
        if number := _NUMBER_AND_UNIT.fullmatch(name.key):
            ordinals = (f"{number[1]}th", _ORDINALS.get(number[1], name.key))
            forms = (name.key, name.key.removesuffix("s"), *ordinals)
            return not self.keys.isdisjoint(forms) or self.keys.issuperset(number.groups())  # 5 GB for 5GB
        is_acronym = len(name.text) > 1 and name.text in self._initials
        if is_acronym or not self.keys.isdisjoint((name.key, name.key.removesuffix("s"))):
            return True
        names = self._capitalised.get(name.text[0], {})
        return name.text[:_SHARED_PREFIX] in names or any(_abbreviates(name.text, each) for each in names.values())

    def _has_code(self, text: str) -> bool:
        """Return whether the passage has a piece of code. The words of a command are searched for one by one."""
        text = _PLACEHOLDER.sub(" ", _VERSION_PREFIX.sub("", text))
        chunks = [*_URL.findall(text), *_CODE_GAP.split(_URL.sub(" ", text))]
        return all(join(tokens_of(chunk.rstrip("/,;}]"))) in self._joined for chunk in chunks if chunk)

    def find(self, clauses: Sequence[Sequence[str]]) -> Match | None:
        """Find the clauses of a quotation, in order. Only the case of their first letters may differ."""
        first, stop = -1, 0
        for word, *rest in clauses:
            forms = [join([form, *rest]) for form in (word, word[0].swapcase() + word[1:])]
            places = [place for form in forms if (place := self._joined.find(form, stop)) >= 0]
            if not places:
                return None
            first = min(places) if first < 0 else first
            stop = min(places) + len(forms[0]) - 1
        begin = self._joined.count(_SEPARATOR, 0, first)
        return Match(self, self._span(begin, begin + self._joined.count(_SEPARATOR, first, stop)))

    def find_altered(self, quote: Sequence[str]) -> Match | None:
        """Find the span that has at least MIN_SAME_WORDS of a quotation's words in order."""
        folded, is_word = [token.lower() for token in quote], [token[0].isalnum() for token in quote]
        self._aligner.set_seq1(folded)
        anchor = self._aligner.find_longest_match()
        start = max(0, anchor.b - anchor.a - _WINDOW_MARGIN)
        window = [token.lower() for token in self._tokens[start : anchor.b - anchor.a + len(quote) + _WINDOW_MARGIN]]
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
        """Return the span of some tokens in the text, or None if they are in the heading."""
        places = [match.span() for match in _TOKEN.finditer(self._full_text.translate(_QUOTES_AND_DASHES))][first:stop]
        return (places[0][0], places[-1][1]) if places[-1][1] <= len(self.text) else None

    def link(self, span: Span | None) -> str | None:
        """Return a link at which browsers highlight a span, or the link of the passage if there is no such link."""
        url, media_type = self.hit.url, self.hit.content_type
        if span is None:
            return self.hit.link
        exact = link_to_text(url, media_type, self.text[slice(*span)], [])
        return exact or link_to_text(url, media_type, self.text, [span]) or self.hit.link
