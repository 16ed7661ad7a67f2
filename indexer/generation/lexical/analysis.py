"""Split passages and queries into search terms, detect stop words, and find the words of a text to highlight.

A word is folded (case, accents, compatibility forms) and stemmed by the rules of the language of its document. If the
language is unknown or has no rules, an ASCII word is stemmed by the rules of English. A name such as getUserById,
max_connections or --no-cache is a term, and each word within it is a term too. C++ and similar names are one term.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain, pairwise
from typing import TypeVar

import tantivy

from indexer.generation.lexical.letters import fold, fold_case

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

ENGLISH = "en"
STEMMERS = {
    "ar": "arabic", "da": "danish", "de": "german", "el": "greek", "en": "english", "es": "spanish", "fi": "finnish",
    "fr": "french", "hi": "hindi", "hu": "hungarian", "it": "italian", "nb": "norwegian", "nl": "dutch",
    "nn": "norwegian", "no": "norwegian", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sv": "swedish",
    "ta": "tamil", "tr": "turkish",
}  # fmt: skip
# Tantivy has no stemmer for Hindi. This pattern matches endings of number and case. Removing verb endings too
# (Ramanathan and Rao 2003) does not improve nDCG@10 on XQuAD.
_HINDI_ENDING = re.compile("(?<=..)(?:िय[ाो]|[ाु][ओएआ])?[ािीुूेो]?[ँं]?$")
_STOP_WORD_LANGUAGES = STEMMERS.keys() - {"ar", "el", "hi", "ro", "ta", "tr"}
COMPOUNDING_LANGUAGES = frozenset({"da", "de", "fi", "hu", "nb", "nl", "nn", "no", "sv"})
# Stop words are indexed, but searched for only if a query has no other words.
STOP_WORDS = frozenset(
    "a an and are as at be but by can could did do does for from had has have how i if in into is it its me my no not "
    "of on or our shall should so such than that the their them then there these they this to was we were what when "
    "where which who whom why will with would you your".split()
)

_MAX_WORD_CHARS = 64
# Scripts without spaces between words (South-East Asian, Tibetan, Chinese, Japanese) or before particles (Korean). In
# these scripts, each character and each pair of adjacent characters is a term, so no dictionary is needed.
_SPACELESS = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3130-\u318f"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\U00020000-\U0003ffff"
)
# Vowel signs and tone marks of Thai, Lao, Tibetan, Burmese and Khmer, which are part of the letter before them. If they
# counted as characters, nDCG@10 on XQuAD in Thai would be lower by 0.02.
_JOINED = (
    "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u0f71-\u0f87\u0f8d-\u0fbc"
    "\u102b-\u103e\u1056-\u1060\u17b4-\u17d3"
)
_CHARACTER = re.compile(f".[{_JOINED}]*", re.DOTALL)
# Parts of words that \w does not match: combining accents, Hebrew and Arabic points, Indic vowel signs.
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0900-\u0963\u0966-\u0dff\u200c\u200d\u3099\u309a"
)
_LETTERS = rf"[\w{_MARKS}{_SPACELESS}]+"
_BARE_WORD = re.compile(_LETTERS)
_BARE_ASCII_WORD = re.compile(r"\w+", re.ASCII)
# `_PREFIX` matches a symbol before a name (.NET, @property, $PATH, #include, %s, \d, <a), but not after another word.
# `_SUFFIX` matches symbols after a name (C++, C#, A*, 18+). `_OPTION` and `_PAIR` match -v, --no-cache, R&D and I/O.
_PREFIX = r"(?<![A-Za-z0-9_)\]}.@$#%\\<&-])(?:[.@$#%\\<]|\$\{)(?=[^\W\d]|_)"
_OPTION = r"(?<![\w-])--?[A-Za-z]\w*(?:-\w+)*"
_PAIR = r"(?<![\w/&.])[A-Za-z]{1,2}[&/][A-Za-z]{1,2}(?![\w/&+#*])"
_SUFFIX = r"(?:[+\uff0b]{2}(?!\+)|[+#*\u266f\uff03\uff0b](?![A-Za-z0-9_+#*=]))"
# Numbers with thousands separators, a fraction or both. Versions, dates and IP addresses, with more dots, do not match.
_THOUSANDS = (
    r"(?!0)\d{1,3}(?:(?:,\d{2,3})*,\d{3}|(?:\.\d{3})+|(?:['\u2019\u066c]\d{3})+|(?:[ \u00a0\u2009\u202f]\d{3})+)"
)
_NUMBER = rf"(?<![\w.,])(?:{_THOUSANDS}(?:[.,\u066b]\d+)?|\d+[.,\u066b]\d+)(?![.,]?\d)"
_IS_NUMBER = re.compile(rf"(?P<grouped>{_THOUSANDS})?(?P<digits>\d*)(?:[.,\u066b](?P<fraction>\d+))?")
_WITH_UNIT = re.compile(r"([0-9]+)([^\W\d_]{1,4})")
# Operators with space around them, such as ===, -> and ??
_OPERATOR = r"(?<![^\s(\"'`\[])(?:[=!<>]==?|[-=]>|<=>|<<|>>|&&|\|\||\?\?|\?\.|:=|::|\*\*|//)(?![^\s)\"'`,.;:?\]])"
# Emoji, arrows and mathematical symbols. Joiners, variation selectors and skin tones after them are ignored.
_PICTURE = (
    "[\u2190-\u2211\u2213-\u23ff\u2600-\u27bf\u2b00-\u2bff"
    "\U0001f000-\U0001f1e5\U0001f200-\U0001f3fa\U0001f400-\U0001faff]"
)
_VARIANTS = "\u20e3\ufe0e\ufe0f\U0001f3fb-\U0001f3ff"
_FLAG = "[\U0001f1e6-\U0001f1ff]{2}"
_PICTURES = f"{_FLAG}|{_PICTURE}[{_VARIANTS}]*(?:\u200d{_PICTURE}[{_VARIANTS}]*)*"
_IGNORED = re.compile(f"[{_VARIANTS}\u200c\u200d]+|(?<=^\\$){{")
_SUFFIX_PATTERN = re.compile(_SUFFIX)
_SINGLE_PICTURE = re.compile(f"{_FLAG}|{_PICTURE}")
# These two subpatterns make the patterns below three times as fast without changing their matches.
_FIRST = r"(?=[^\s,;()\[\]{}\"'`])"
_PLAIN = r"\w{3,}+(?![+#*])"
_ASCII_WORD = re.compile(
    rf"{_FIRST}(?:{_NUMBER}|{_PLAIN}|{_PAIR}|{_OPTION}|(?:{_PREFIX})?\w+{_SUFFIX}?|{_OPERATOR})", re.ASCII
)
_WORD = re.compile(
    rf"{_FIRST}(?:{_NUMBER}|{_PAIR}|{_OPTION}|[{_SPACELESS}]+(?=[A-Za-z]{{1,16}}[+#\uff03\uff0b])|"
    rf"(?:{_PREFIX})?{_LETTERS}{_SUFFIX}?|{_OPERATOR}|{_PICTURES})"
)
_FOREIGN_SYMBOL = re.compile(rf"[^\x00-\x7f\w{_MARKS}{_SPACELESS}]")
_SPACELESS_RUN = re.compile(f"[{_SPACELESS}]+")
_HUMP = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_HUMPED = re.compile(r"\b(?:[A-Z]*+[a-z0-9_]++[A-Z]|[A-Z]{2,}+[a-z])\w*", re.ASCII)
_PIECE = re.compile(rf"[{_SPACELESS}]+|(?:(?![{_SPACELESS}_])[\w{_MARKS}])+")


class Cache(dict[Key, Value]):
    """A dict that computes missing values, and is cleared when it is full. A hit runs no Python code.

    Strings with over 64 characters are not cached, so that long queries cannot fill the memory. An entry takes about
    300 bytes. The caches in a `family` share one limit, and are cleared together.
    """

    def __init__(
        self, size: int, make: Callable[[Key], Value], family: "list[Cache[Key, Value]] | None" = None
    ) -> None:
        super().__init__()
        self._size, self._make, self._family = size, make, family
        if family is not None:
            family.append(self)

    def __missing__(self, key: Key) -> Value:
        value = self._make(key)
        if not isinstance(key, str) or len(key) <= _MAX_WORD_CHARS:
            if self._family is None:
                if len(self) >= self._size:
                    self.clear()
            elif sum(map(len, self._family)) >= self._size:
                for each in self._family:
                    each.clear()
            self[key] = value
        return value


def terms_in(text: str, language: str | None = ENGLISH) -> list[str]:
    """Return the search terms of a text in order. `language` is the language of the text's document."""
    return list(chain.from_iterable(map(TERMS[rules_for(language)].__getitem__, find_words(text))))


@lru_cache(1 << 8)
def rules_for(language: str | None) -> str:
    """Return the language of a document, or English if the language is unknown or has no stemming rules."""
    return language if language in STEMMERS else ENGLISH


def all_rules(languages: Iterable[str]) -> tuple[str, ...]:
    """Apply `rules_for` to the languages of documents, and return the distinct results in the same order."""
    return tuple(dict.fromkeys(map(rules_for, languages)))


def words(text: str) -> re.Pattern[str]:
    """Return a pattern that matches words, numbers, symbols and names such as C++. ASCII texts get a faster one."""
    return _ASCII_WORD if text.isascii() else _WORD


@lru_cache(8)  # consecutive passages share title and headings
def find_words(text: str) -> list[str]:
    """Return the words, numbers, symbols and names such as C++ in a text, in order."""
    return words(text).findall(text)


def bare_words(text: str) -> re.Pattern[str]:
    """Return a pattern that matches words without symbols. ASCII texts get a faster one."""
    return _BARE_ASCII_WORD if text.isascii() else _BARE_WORD


def has_symbol(word: str) -> bool:
    """Return whether a match of `words` contains symbols: characters other than letters, digits and underscores."""
    return not (word.isalnum() or word.isidentifier()) and _BARE_WORD.fullmatch(word) is None


def symbol_term(word: str) -> str:
    """Return the search term for a match of `words` that contains a symbol.

    A number becomes ASCII digits without thousands separators, and with a point before a fraction. A name is folded.
    """
    if number := _read_number(word):
        integer = "".join(filter(str.isdecimal, fold(number["grouped"] or number["digits"])))
        return (f"{integer}.{fold(number['fraction'])}" if number["fraction"] else integer)[:_MAX_WORD_CHARS]
    name = _IGNORED.sub("", word).replace("\u266f", "#")
    return fold(name)[:_MAX_WORD_CHARS]


def _read_number(word: str) -> re.Match[str] | None:
    return _IS_NUMBER.fullmatch(word) if word[0].isdecimal() else None


def is_grouped(word: str) -> bool:
    """Return whether a word is a number with thousands separators other than spaces."""
    number = _read_number(word)
    return number is not None and bool(number["grouped"]) and not any(map(str.isspace, word))


def words_within(word: str) -> list[str]:
    """Return the words in a name with symbols ("no", "cache" in --no-cache), or each emoji in a sequence of emoji."""
    bare = _BARE_WORD.findall(word)
    if not bare:
        pictures = _SINGLE_PICTURE.findall(word)
        return pictures if len(pictures) > 1 else []
    return [] if len(bare[0]) == 1 and word.startswith(bare[0]) and bare[0].isalpha() and len(bare) == 1 else bare


def _analyse(word: str, language: str) -> tuple[str, ...]:
    if has_symbol(word):
        return (symbol_term(word), *chain.from_iterable(TERMS[language][inner] for inner in words_within(word)))
    is_english = language == ENGLISH
    # the stemming rules of other languages need accents
    pieces = _PIECE.findall(fold(word) if is_english else fold_case(word))
    terms: list[str] = []
    for piece in pieces:
        if _SPACELESS_RUN.match(piece):
            # "abc" becomes a, ab, b, bc, c. This list contains the terms of "bc" in sequence, so a phrase "bc" matches.
            characters = _CHARACTER.findall(piece)
            terms += [term for first, second in pairwise(characters) for term in (first, first + second)]
            terms.append(characters[-1])
            continue
        piece = piece[:_MAX_WORD_CHARS]
        if not is_english or piece.isascii():
            is_hindi = language == "hi"
            piece = _HINDI_ENDING.sub("", piece) if is_hindi else str(_stemmers[language].analyze(piece)[0])
        terms.append(piece if is_english else fold(piece))
        if with_unit := _WITH_UNIT.fullmatch(terms[-1]):  # 10MB gets the terms of 10 MB too
            terms += chain.from_iterable(map(TERMS[language].__getitem__, with_unit.groups()))
    if "_" in word and len(pieces) > 1 and not _SPACELESS_RUN.search(word):
        terms.insert(0, "_".join(map(fold, pieces))[:_MAX_WORD_CHARS])
    if _HUMPED.match(word):
        terms += chain.from_iterable(TERMS[language][hump.lower()] for one in word.split("_") for hump in _humps(one))
    return tuple(terms)


def _humps(name: str) -> list[str]:
    """Return the words within a name such as getUserById or HTTPServer2, but none for PostgreSQL, DNAs or iPhone."""
    humps = _HUMP.findall(name) if name.isascii() and len(name) <= _MAX_WORD_CHARS else []
    match [hump for hump in humps if hump.isalpha()]:
        case [first, second, *others] as words if min(map(len, words)) > 1:
            return humps if others or first.islower() or (len(second) > 2 and not second.isupper()) else []
    return []


def is_stop_word(word: str, language: str) -> bool:
    """Return whether a lower-case word is a stop word of a language. Languages without a list have none."""
    if language == ENGLISH:
        return word in STOP_WORDS
    return language in _STOP_WORD_LANGUAGES and not _stop_filters[language].analyze(word)


def _analyzer(token_filter: tantivy.Filter) -> tantivy.TextAnalyzer:
    return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.raw()).filter(token_filter).build()


def _by_language(make: Callable[..., Value]) -> dict[str, Cache[str, Value]]:
    """Return a cache of results of `make` for each language. Together, the caches have at most 65,536 entries."""
    family: list[Cache[str, Value]] = []
    return {language: Cache(1 << 16, partial(make, language=language), family) for language in STEMMERS}


_stemmers = Cache[str, tantivy.TextAnalyzer](99, lambda each: _analyzer(tantivy.Filter.stemmer(STEMMERS[each])))
_stop_filters = Cache[str, tantivy.TextAnalyzer](99, lambda each: _analyzer(tantivy.Filter.stopword(STEMMERS[each])))
# The search terms of words, by language. A lookup in these caches takes a twentieth of the time of `_analyse`.
TERMS = _by_language(_analyse)
_is_stop_word = _by_language(lambda word, language: is_stop_word(fold_case(word), language))


def is_pair(term: str) -> bool:
    """Return whether a term has more than one character. A letter with its attached marks is one character."""
    return _CHARACTER.fullmatch(term) is None


def is_spaceless(text: str) -> bool:
    """Return whether a text has a character of a script that puts no space between words."""
    return _SPACELESS_RUN.search(text) is not None


_LIKELIHOOD_RATIO_PER_CLUE = 7
_MAX_CLUES = 12
_MIN_STOP_WORD_PROBABILITY = 0.9
_MAX_SHORT_QUERY_WORDS = 4
_OPERATORS = frozenset(("AND", "OR", "NOT", "TO"))

Passages = Mapping[str, int]  # number of passages by language, never empty; an unknown language counts as English


def are_distinctive(words: Sequence[str], passages: Passages, text: str) -> list[bool]:
    """Return for each word of a query whether it is distinctive, that is, not a stop word.

    A naive Bayes classifier estimates the probability of each language, from its share of the passages and from the
    number of the query's words in its stop word list. A word is a stop word if the languages whose lists contain it
    have a total probability of at least `_MIN_STOP_WORD_PROBABILITY`. Words in capitals, such as IT or WHO, are
    distinctive unless the whole query is in capitals.
    """
    different = set(words)
    if not text.isupper():
        different = {word for word in different if len(word) < 2 or not word.isupper() or word in _OPERATORS}
    stop_weights = dict.fromkeys(words, 0.0)
    total = 0.0
    for language, count in passages.items():
        has_list = language in _STOP_WORD_LANGUAGES
        stop_words = list(filter(_is_stop_word[language].__getitem__, different)) if has_list else []
        clues = len(stop_words)
        if language == ENGLISH:
            # Non-ASCII words are evidence against English, because many languages have no list of stop words.
            clues -= len(different) - sum(map(str.isascii, different))
        weight = max(count, 1) * _LIKELIHOOD_RATIO_PER_CLUE ** min(clues, _MAX_CLUES)
        total += weight
        for word in stop_words:
            stop_weights[word] += weight
    return [stop_weights[word] < _MIN_STOP_WORD_PROBABILITY * total for word in words]


def distinctive_pairs(words: Sequence[str], distinctive: Sequence[bool]) -> list[tuple[str, str]]:
    """Return pairs of neighbouring words of a short query that are distinctive as a phrase.

    One word must be a stop word, as in "vitamin A". If the query has only stop words, both must be.
    """
    if len(words) > _MAX_SHORT_QUERY_WORDS:
        return []
    none_clear = not any(distinctive)
    return [
        (first, second)
        for (first, clear), (second, next_clear) in pairwise(zip(words, distinctive, strict=True))
        if none_clear or clear != next_clear
    ]


Span = tuple[int, int]  # characters [start, end)
_MAX_SOUGHT_WORDS = 64
_BEGINNINGS = {"die": "d", "lie": "l", "tie": "t"}  # dying has the stem die, but shares only the d with it
_CHANGING_ENDINGS = ("e", "i", "y", "bl")  # endings of stems that differ in longer words: visibl, visibility
# Translation table for ASCII texts: letters become lower case, and characters outside words become spaces.
_SPACED = bytes(code if chr(code).isalnum() or chr(code) == "_" else ord(" ") for code in range(128)).lower().ljust(256)
# Matches a Latin word, or one character of another script with its attached marks, such as voicing marks of kana.
_WORD_OR_CHARACTER = re.compile(f"[0-9A-Za-z]+|.[\u3099\u309a\uff9e\uff9f{_JOINED}]*", re.DOTALL)


def spans(marked: frozenset[str], text: str, language: str | None = ENGLISH) -> list[Span]:
    """Return the spans of words to highlight, in the order of the text.

    Args:
        marked: terms from `LexicalQuery.marked_in`; a word is highlighted if any of its terms is one of these.
        language: language of the passage's document, or None if it is unknown.
    """
    rules = rules_for(language)
    plain = text if text.isascii() else _FOREIGN_SYMBOL.sub(" ", text)
    beginnings, last_groups = _beginnings(marked)
    if rules == ENGLISH and beginnings and plain.isascii():
        spaced = plain.encode().translate(_SPACED) + b" "
        if not (last_groups and any(group in spaced for group in last_groups)):
            # In ASCII text, searching for the few marked words is 3 to 10 times as fast as checking every word.
            return _find_marked(beginnings, marked, plain, spaced)
    matches: list[Span] = []
    for match in words(text).finditer(text):
        if marked.isdisjoint(TERMS[rules][match[0]]):
            continue
        if is_spaceless(match[0]):
            matches += _spans_within(marked, text, match)
        elif has_symbol(match[0]) and symbol_term(match[0]) not in marked:
            # mark only part of the match: a word within a name such as --no-cache, or one emoji of a sequence
            pattern = bare_words(text)
            if not pattern.search(match[0]):
                pattern = re.compile("|".join(words_within(match[0])))
            inner = pattern.finditer(text, *match.span())
            matches += [each.span() for each in inner if not marked.isdisjoint(TERMS[rules][each[0]])]
        else:
            matches.append(match.span())
    return matches


def _find_marked(search_strings: Iterable[bytes], marked: frozenset[str], text: str, spaced: bytes) -> list[Span]:
    """Return the spans of the marked words in an ASCII text, in order. Each marked word contains a search string.

    `spaced` is the text in lower case, with spaces instead of characters outside words, and with a space at the end.
    """
    terms = TERMS[ENGLISH]
    matches: set[Span] = set()
    for string in search_strings:
        place = spaced.find(string)
        while place >= 0:
            start, end = spaced.rfind(b" ", 0, place) + 1, spaced.find(b" ", place)
            word = text[start:end]
            if not marked.isdisjoint(terms[word]) and not (
                len(word) == 1 and word.isalpha() and _SUFFIX_PATTERN.match(text, end)
            ):
                matches.add((start, end))
            place = spaced.find(string, end)
    return sorted(matches)


@lru_cache(maxsize=64)
def _beginnings(marked: frozenset[str]) -> tuple[list[bytes], list[bytes]]:
    """Return (search strings, number endings) for ASCII texts. If terms are many or have symbols, return empty lists.

    Every marked word contains one of the search strings, except a number with thousands separators, because `_SPACED`
    replaces the separators by spaces. Such a number contains a number ending: a space and its last three digits.
    """
    if len(marked) > _MAX_SOUGHT_WORDS or any(map(has_symbol, marked)):
        return [], []
    # Every word begins with its stem, except that an ending may change the last letter of the stem.
    beginnings = sorted(
        _BEGINNINGS.get(term) or (term[:-1] if term.endswith(_CHANGING_ENDINGS) and len(term) > 1 else term)
        for term in marked
        if term.isascii() and "_" not in term
    )
    # a string that begins with another string is redundant
    shortest = [one for place, one in enumerate(beginnings) if not one.startswith(tuple(beginnings[:place]))]
    last_groups = [f" {term[-3:]}".encode() for term in marked if term.isdecimal() and len(term) > 3]
    return [one.encode() for one in shortest], last_groups


def _spans_within(marked: frozenset[str], text: str, run: re.Match[str]) -> list[Span]:
    """Return the spans of marked characters, and of marked pairs of characters, in `run`, a match without spaces."""
    ends = [match.end() for match in _WORD_OR_CHARACTER.finditer(text, *run.span())]
    spans: list[Span] = []
    for first, single, pair in zip([run.start(), *ends], ends, [*ends[1:], run.end()], strict=False):
        if fold(text[first:pair]) in marked:
            last = pair
        elif not marked.isdisjoint(TERMS[ENGLISH][text[first:single]]):
            last = single
        else:
            continue
        if spans and spans[-1][1] >= first:
            first, last = spans[-1][0], max(spans.pop()[1], last)
        spans.append((first, last))
    return spans
