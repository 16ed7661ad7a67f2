"""What a query asks for, in terms: its syntax, the words that tell passages apart, corrections and synonyms.

A query is text, never a language: reading it never fails.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, islice, zip_longest
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct

from indexer.decoding import visible, without_joiners
from indexer.generation.lexical import analysis
from indexer.generation.lexical.analysis import ENGLISH, TERMS, Cache, Passages, fold, has_sign, sign_name, words

_MOST_PARTS = 8  # of each kind
_QUOTES = '"“”„«»'
_PHRASE = f"[{_QUOTES}][^{_QUOTES}]+[{_QUOTES}]"
_QUOTED = re.compile(f"({_PHRASE})")
_SYNTAX = re.compile(rf"[{_QUOTES}]|(?<!\S)-")
# Excluded words have three letters at least, and a vowel if they are ASCII: others are options, such as -v and -xzf.
_EXCLUDED = re.compile(rf"(?<!\S)-({_PHRASE}|(?=[a-z]*[aeiouy]|[^a-z])[^\W\d_]\w{{2,}}(?:-\w+)*)(?!\S)", re.IGNORECASE)
# Brackets, operators and calls; options of commands; words of nothing but signs, except dashes and ampersands.
_CODE = re.compile(
    r"[{}=;<>|\\$`]|\w\(|::|(?<!\S)--\w|(?<!\S)-\w{1,2}(?!\S)|(?<!\S)-\w++(?<=[A-Za-z]\d)(?!\S)|"
    r"(?<!\S)[()\[\].*/+~^%#@]+(?!\S)"
)
_NAME = re.compile(r"(?<![\w-])\w++(?:(?:[.-]|::|->)\w++)+")


class ParsedQuery(NamedTuple):
    """A query, taken apart."""

    words: str  # what is left: any of these
    required: tuple[str, ...]  # phrases
    excluded: tuple[str, ...]  # words or phrases
    meaning: str  # the query without its syntax, for the search by meaning


def parse_query(text: str) -> ParsedQuery:
    """Take a query apart; it never fails, and one that would only exclude is words."""
    is_plain = text.isascii() and text.isprintable()  # as most are
    text = text if is_plain else visible(text)
    plain = ParsedQuery(text, (), (), text if is_plain else without_joiners(text))
    if not _SYNTAX.search(text):  # as most have none
        return plain

    def take(into: list[str], match: re.Match[str]) -> str:
        if len(into) == _MOST_PARTS:
            return match[0]
        into.append(match[1].strip(_QUOTES))
        return " "

    phrases: list[str] = []
    excluded: list[str] = []
    meaning = _EXCLUDED.sub(partial(take, excluded), text)
    words = _QUOTED.sub(partial(take, phrases), meaning)
    if _CODE.search(words) or (excluded and not (phrases or words.strip())):
        return plain
    meaning = " ".join(meaning.split()) if excluded else text
    return ParsedQuery(words, tuple(phrases), tuple(excluded), without_joiners(meaning or text))


Synonyms = Mapping[tuple[str, ...], Sequence[str]]  # by folded words: what stands for them, they themselves among it
Rules = Mapping[str, frozenset[str]]  # of terms that some languages give: those by whose rules they are of the query
LONGEST_SYNONYM = 8  # words
_LONGEST_PHRASE = 32  # words
_MOST_CORRECTED = 4  # words of a query
_MOST_LOOKED_UP = 128  # of them: what is longer is pasted text

Languages = tuple[str, ...]
Terms = tuple[str, ...]
Readings = tuple[Terms, ...]  # of a phrase: its terms by the rules of each language, each different reading once


class Clause(NamedTuple):
    """A word or phrase that must be found, or must not be."""

    readings: Readings  # any of these, term after term
    text: str  # as it was typed
    rules: tuple[tuple[str, frozenset[str]], ...] = ()  # `Rules` of readings of one term

    def __str__(self) -> str:
        """Write it as it can be typed."""
        return f'"{self.text}"'


class AlsoSearched(NamedTuple):
    """A word or phrase of the query, and what was searched for because of it."""

    typed: str
    searched: tuple[str, ...]
    reason: str  # correction or synonym


class Lookups(NamedTuple):
    """What an index knows of words."""

    is_known: Callable[[str], int]  # 0 where no passage has a term
    is_word: Callable[[str], bool]  # whether a word that none has is one all the same
    corrections: Callable[[str], Sequence[str]]  # of a word that none has, the likeliest first


class LexicalQuery(Struct, frozen=True):
    """What passages are searched for, in terms as `analysis.terms_in` gives them."""

    words: tuple[Terms, ...]  # any of these, each once; of each, the different terms that stand for it
    required: tuple[Clause, ...]  # and every one of these
    excluded: tuple[Clause, ...]  # and none of these
    synonyms: tuple[Readings, ...]  # phrases that count where they are found, as words do
    pairs: tuple[Readings, ...]  # stop words next to other words, which count likewise, but are not shown
    asked: tuple[Terms, ...]  # words within and outside phrases, but for stop words, as in `words`
    marked: frozenset[str]  # all terms of these and of synonyms, which are worth showing in a passage
    rules: Rules  # of the terms of words
    also: tuple[AlsoSearched, ...]
    meaning: str  # the query without its syntax, for the search by meaning
    did_you_mean: str | None = None  # the query with its mistakes corrected; None where there are none

    @property
    def is_bounded(self) -> bool:
        """Whether it says of passages that they must, or must not, be found."""
        return bool(self.required or self.excluded)

    def marked_in(self, language: str | None) -> frozenset[str]:
        """Return the terms that are worth showing in a passage of a document in a language; corrections among them."""
        rules = analysis.rules_for(language)
        wrong = [term for term, languages in self.rules.items() if rules not in languages]
        return self.marked.difference(wrong) if wrong else self.marked


def read_query(
    text: str,
    passages: Passages = MappingProxyType({ENGLISH: 1}),
    lookups: Lookups | None = None,
    synonyms: Synonyms = MappingProxyType({}),
) -> LexicalQuery:
    """Read what a user typed; stop words count only within quotation marks, or where little else is left.

    `passages` says how many passages of the index are in each language, at least one. Without `lookups`, nothing is
    corrected.
    """
    languages, parsed = analysis.all_rules(passages), parse_query(text)
    forms_of, readings = _FORMS[languages], partial(readings_of, languages=languages)
    required = _clauses(parsed.required, languages)
    expanded = _expand(analysis.found_words(parsed.words), synonyms)
    telling, pairs = _telling(expanded.words, passages, parsed.words, or_stop_words=not required)
    also = [AlsoSearched(typed, searched, "synonym") for typed, searched in expanded.also]
    corrector = _Corrector(lookups, languages) if lookups else None
    loose: dict[Terms, None] = {}
    searched = list(telling)
    for word, may_be_mistaken in telling.items():
        forms = forms_of[word]
        if others := expanded.alternatives.get(word):
            forms = (tuple(dict.fromkeys(chain(*forms, *chain(*map(forms_of.__getitem__, others))))),)
            searched += others
        elif corrector is not None and may_be_mistaken and (others := corrector[word]):
            also.append(AlsoSearched(word, others, "correction"))
            forms = (tuple(dict.fromkeys(chain(*chain(*map(forms_of.__getitem__, others))))),)
            searched += others
        elif lookups and len(telling) > 1 and not word.isalnum() and has_sign(word):
            # a sign, or a name that is searched for without its sign too, says little where the index lacks it
            says_little = analysis.words_within(word) or not any(map(str.isalpha, word))
            if says_little and not lookups.is_known(sign_name(word)):
                continue
        loose |= dict.fromkeys(forms)
    phrases = tuple(filter(None, map(readings, map(analysis.found_words, expanded.phrases))))
    asked = tuple(loose)
    if required:
        within = [word for phrase in parsed.required for word in analysis.found_words(phrase)]
        quoted, _ = _telling(within, passages, parsed.words, or_stop_words=not loose)
        searched += quoted
        asked = tuple(dict.fromkeys([*loose, *chain(*map(forms_of.__getitem__, quoted))]))
    wanted = frozenset(chain(*asked))
    return LexicalQuery(
        words=tuple(loose),
        required=required,
        excluded=tuple(
            clause
            for clause in _clauses(parsed.excluded, languages)
            if not any(len(reading) == 1 and wanted.issuperset(reading) for reading in clause.readings)
        ),
        synonyms=phrases,
        pairs=tuple(dict.fromkeys(map(readings, [*pairs, *_names(parsed.words)]))),
        asked=asked,
        marked=wanted.union(*chain(*phrases)),
        rules=_rules_of(searched, languages),
        also=tuple(also),
        meaning=parsed.meaning,
        did_you_mean=corrector.proposal(text, parsed, set(expanded.alternatives)) if corrector is not None else None,
    )


def _names(text: str) -> list[list[str]]:
    """Return the words of names of several words, which tell more side by side: os.path.join, std::vector, node->next.

    Prose has hyphens, too; they make a name where there is no other word: apt-get.
    """
    names = [name[0] for name in islice(_NAME.finditer(text), _MOST_PARTS)]
    alone = [name for name in names if "-" not in name.replace("->", "") or name == text.strip()]
    return [analysis.found_words(name)[:_LONGEST_PHRASE] for name in alone]


class _Expanded(NamedTuple):
    """The words of a query with what stands for them."""

    words: list[str]  # without those that others stand in place of
    alternatives: dict[str, tuple[str, ...]]  # by word of these
    phrases: list[str]  # of several words, that are searched for as well
    also: list[tuple[str, tuple[str, ...]]]  # what was matched, and what stands for it


def _expand(typed: list[str], synonyms: Synonyms) -> _Expanded:
    """Return the words of a query with what stands for them; of several rules, that of the most words."""
    if not synonyms:
        return _Expanded(typed, {}, [], [])
    found = _Expanded([], {}, [], [])
    folded = list(map(fold, typed))
    place = 0
    while place < len(typed):
        sizes = range(min(LONGEST_SYNONYM, len(folded) - place), 0, -1)
        size = next((size for size in sizes if tuple(folded[place : place + size]) in synonyms), 0)
        if not size:
            found.words.append(typed[place])
            place += 1
            continue
        here, key = typed[place : place + size], tuple(folded[place : place + size])
        place += size
        others = [other for other in synonyms[key] if folded_words(other) != key]
        single = tuple(other for other in others if len(folded_words(other)) == 1)
        found.phrases.extend(other for other in others if len(folded_words(other)) > 1)
        if len(others) < len(synonyms[key]):  # it stands for itself, too
            found.words.extend(here if size == 1 else (*here, *single))
            if size == 1:
                found.alternatives[here[0]] = single
        elif single:
            found.words.append(single[0])
            found.alternatives[single[0]] = single[1:]
        if others:
            found.also.append((" ".join(here), tuple(others)))
    return found


def folded_words(text: str) -> tuple[str, ...]:
    """Return the words of a text, folded."""
    return tuple(map(fold, analysis.found_words(text)))


class _Corrector(dict[str, tuple[str, ...]]):
    """What each word of one query may have been meant to be, the likeliest first; nothing for one that is known.

    Each word is looked up once, and a few of them are corrected at most.
    """

    def __init__(self, lookups: Lookups, languages: Languages) -> None:
        self._lookups = lookups
        self._languages = languages
        self._corrected = 0

    def __missing__(self, word: str) -> tuple[str, ...]:
        found: tuple[str, ...] = ()
        if self._corrected < _MOST_CORRECTED and len(self) < _MOST_LOOKED_UP:
            terms = chain(*_FORMS[self._languages][word])
            if not any(map(self._lookups.is_known, terms)) and not self._lookups.is_word(word):
                found = tuple(self._lookups.corrections(word))
        self[word] = found
        self._corrected += bool(found)
        return found

    def proposal(self, text: str, parsed: ParsedQuery, kept: set[str]) -> str | None:
        """Return a query with the likeliest correction in place of each word that has one; None where none has.

        Words in quotation marks, too: they are searched for as they stand, and so find nothing. `kept` are words that
        stay as they are.
        """
        kept = kept.union(*map(analysis.found_words, parsed.excluded))

        def correct(found: re.Match[str]) -> str:
            word = found[0]
            if word in kept or not self[word]:
                return word
            return self[word][0].capitalize() if word[:1].isupper() else self[word][0]

        are_mistaken = [word not in kept and bool(self[word]) for word in analysis.found_words(text)]
        return words(text).sub(correct, text) if any(are_mistaken) else None


def readings_of(phrase: Sequence[str], languages: Languages) -> Readings:
    """Return the terms of a phrase by the rules of each language, each different reading once."""
    readings = (tuple(chain(*map(TERMS[language].__getitem__, phrase))) for language in languages)
    return tuple(filter(None, dict.fromkeys(readings)))


def _clauses(parts: Sequence[str], languages: Languages) -> tuple[Clause, ...]:
    """Return words and phrases as terms, each once, but for those without a word."""
    found: dict[Readings, Clause] = {}
    for part in parts:
        typed = analysis.found_words(part)[:_LONGEST_PHRASE]
        if readings := readings_of(typed, languages):
            rules = tuple(_rules_of(typed, languages).items()) if len(typed) == 1 else ()
            found.setdefault(readings, Clause(readings, part, rules))
    return tuple(found.values())


def _rules_of(found: Iterable[str], languages: Languages) -> Rules:
    """Return by the rules of which languages each term of words is one; those of all languages are left out."""
    if len(languages) == 1:
        return {}
    rules: dict[str, set[str]] = {}
    for language in languages:
        for term in chain(*map(TERMS[language].__getitem__, found)):
            rules.setdefault(term, set()).add(language)
    return {term: frozenset(those) for term, those in rules.items() if len(those) < len(languages)}


def _telling(
    typed: Sequence[str], passages: Passages, text: str, *, or_stop_words: bool
) -> tuple[dict[str, bool], list[tuple[str, str]]]:
    """Return the words that are no stop words, or all, and whether each may be corrected; and pairs that tell, too."""
    # of names with signs, which count as well, and are as they are
    parts = [part for word in filter(has_sign, typed) for part in analysis.words_within(word)]
    telling = analysis.are_telling([*typed, *parts], passages, text)
    all_count = or_stop_words and not any(telling)
    found = dict(zip([*typed, *parts], telling, strict=True))
    chosen = {word: word not in parts for word, counts in found.items() if counts or all_count}
    return chosen, analysis.telling_pairs(typed, telling[: len(typed)])


def _forms(word: str, languages: Languages) -> tuple[Terms, ...]:
    """Of each term of a word, the different forms that it has by the rules of the languages."""
    if has_sign(word):
        return ((sign_name(word),),)
    if analysis.is_spaceless(word):  # a pair of characters tells more than either; one alone may be all that there is
        terms = TERMS[ENGLISH][word]
        return tuple((term,) for term in terms if analysis.is_pair(term)) or tuple((term,) for term in terms)
    forms = zip_longest(*(TERMS[each][word] for each in languages), fillvalue="")  # a mark alone is one in some only
    found = tuple(filter(None, (tuple(filter(None, dict.fromkeys(different))) for different in forms)))
    return tuple(form for form in found if not analysis.STOP_WORDS.issuperset(form)) or found  # user_by_id


_FORMS: Cache[Languages, Cache[str, tuple[Terms, ...]]] = Cache(
    8, lambda languages: Cache(1 << 13, partial(_forms, languages=languages))
)
