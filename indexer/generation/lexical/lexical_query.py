"""What a query asks for, in terms: its syntax, the languages of the index, corrections and synonyms.

A query is text, never a language: `query_syntax` says what little of it means something, and reading it never fails.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from indexer.generation.lexical.analysis import fold, is_spaceless, terms_of_asked, words
from indexer.generation.lexical.languages import ENGLISH, is_stop_word, language_of_query
from indexer.generation.lexical.method_cache import remembers_words
from indexer.generation.lexical.query_syntax import FIELDS, ParsedQuery, Part, parse_query
from indexer.generation.lexical.statistics import Statistics
from indexer.generation.lexical.synonyms import NO_SYNONYMS, Synonyms

_LONGEST_PHRASE = 32  # words
_REMEMBERED = 1 << 14  # words
_MOST_CORRECTED = 4  # words of a query
_MOST_LOOKED_UP = 128  # of them: what is longer is pasted text

Terms = tuple[str, ...]
Readings = tuple[Terms, ...]  # of a phrase: its terms by the rules of each language, each different reading once


class Clause(NamedTuple):
    """A word or phrase that must be found, or must not be."""

    readings: Readings  # any of these, term after term
    field: str  # one of the values of `query_syntax.FIELDS`; empty for anywhere
    text: str  # as it was typed

    def __str__(self) -> str:
        """Write it as it can be typed."""
        text = self.text if re.fullmatch(r"\S+", self.text) and self.field else f'"{self.text}"'
        return f"{self.field}:{text}" if self.field else text


class AlsoSearched(NamedTuple):
    """A word or phrase of the query, and what was searched for because of it."""

    typed: str
    searched: tuple[str, ...]
    reason: str  # correction or synonym


@dataclass(frozen=True, slots=True)
class Lookups:
    """What an index knows of words."""

    is_known: Callable[[str], bool]  # whether a passage has a term
    is_word: Callable[[str], bool]  # whether a word that none has is one all the same
    corrections: Callable[[str], Sequence[str]]  # of a word that none has, the likeliest first


@dataclass(frozen=True, slots=True)
class LexicalQuery:
    """What passages are searched for, in terms as `analysis.terms_in` gives them."""

    words: tuple[Terms, ...]  # any of these, each once; of each, the different terms that stand for it
    required: tuple[Clause, ...]  # and every one of these
    excluded: tuple[Clause, ...]  # and none of these
    synonyms: tuple[Readings, ...]  # phrases that count where they are found, as words do
    asked: tuple[Terms, ...]  # words within and outside phrases, but for stop words, as in `words`
    marked: frozenset[str]  # all terms of these, which are worth showing in a passage
    also: tuple[AlsoSearched, ...]
    meaning: str  # the query without its syntax, for the search by meaning
    did_you_mean: str | None = None  # the query with its mistakes corrected; None where there are none
    statistics: Statistics | None = None  # by which it scores; None: those of all passages

    @property
    def is_bounded(self) -> bool:
        """Whether it says of passages that they must, or must not, be found."""
        return bool(self.required or self.excluded)


def read_query(
    text: str,
    languages: tuple[str, ...] = (ENGLISH,),
    lookups: Lookups | None = None,
    synonyms: Synonyms = NO_SYNONYMS,
) -> LexicalQuery:
    """Read what a user typed; stop words count only within quotation marks, or where there is nothing else.

    Args:
        text: the query.
        languages: by whose rules the index is stemmed, see `Manifest.languages`; at least one.
        lookups: what the index knows; without it, nothing is corrected.
        synonyms: which words stand for which.
    """
    parsed = parse_query(text)
    required = _clauses(parsed.required, languages)
    expanded = synonyms.expand(words(parsed.words).findall(parsed.words))
    telling = _telling(expanded.words, languages, or_stop_words=not required)
    also = [AlsoSearched(typed, searched, "synonym") for typed, searched in expanded.also]
    corrector = _Corrector(lookups, languages) if lookups else None
    loose: dict[Terms, None] = {}
    for word in telling:
        forms = _terms_of(word, languages)
        if others := expanded.alternatives.get(word):
            forms = (_joined([*forms, *chain(*(_terms_of(other, languages) for other in others))]),)
        elif corrector and (corrected := corrector.corrections(word)):
            also.append(AlsoSearched(word, corrected, "correction"))
            forms = (_joined(list(chain(*(_terms_of(other, languages) for other in corrected)))),)
        loose |= dict.fromkeys(forms)
    phrases = tuple(filter(None, (readings_of(words(each).findall(each), languages) for each in expanded.phrases)))
    asked = tuple(loose)
    if required:
        within = [word for part in parsed.required if not part.field for word in words(part.text).findall(part.text)]
        quoted = chain(*(_terms_of(word, languages) for word in _telling(within, languages, or_stop_words=not loose)))
        asked = tuple(dict.fromkeys([*loose, *quoted]))
    wanted = frozenset(chain(*asked))
    return LexicalQuery(
        words=tuple(loose),
        required=required,
        excluded=tuple(
            clause
            for clause in _clauses(parsed.excluded, languages)
            if clause.field or not any(len(reading) == 1 and wanted.issuperset(reading) for reading in clause.readings)
        ),
        synonyms=phrases,
        asked=asked,
        marked=wanted.union(*chain(*phrases)),
        also=tuple(also),
        meaning=parsed.meaning,
        did_you_mean=corrector.proposal(text, parsed, set(expanded.alternatives)) if corrector else None,
    )


class _Corrector:
    """Corrects the words of one query, each once, and a few of them at most."""

    def __init__(self, lookups: Lookups, languages: tuple[str, ...]) -> None:
        self._lookups = lookups
        self._languages = languages
        self._corrections: dict[str, tuple[str, ...]] = {}
        self._corrected = 0

    def corrections(self, word: str) -> tuple[str, ...]:
        """Return what a word may have been meant to be, the likeliest first; nothing for one that is known."""
        if word not in self._corrections:
            may_be = self._corrected < _MOST_CORRECTED and len(self._corrections) < _MOST_LOOKED_UP
            found = self._look_up(word) if may_be else ()
            self._corrections[word] = found
            self._corrected += bool(found)
        return self._corrections[word]

    def proposal(self, text: str, parsed: ParsedQuery, kept: set[str]) -> str | None:
        """Return a query with the likeliest correction in place of each word that has one; None where none has.

        Words in quotation marks, too: they are searched for as they stand, and so find nothing. `kept` are words that
        stay as they are.
        """
        kept = kept.union(*(words(part.text).findall(part.text) for part in parsed.excluded))
        kept.update(*(words(part.text).findall(part.text) for part in parsed.required if part.field == "url"))
        corrected = 0

        def correct(found: re.Match[str]) -> str:
            nonlocal corrected
            word = found[0]
            is_field = text[found.end() : found.end() + 1] == ":" and word.lower() in FIELDS
            if word in kept or is_field or not (others := self.corrections(word)):
                return word
            corrected += 1
            return others[0].capitalize() if word[:1].isupper() else others[0]

        proposed = words(text).sub(correct, text)
        return proposed if corrected else None

    def _look_up(self, word: str) -> tuple[str, ...]:
        terms = chain(*_terms_of(word, self._languages))
        if any(map(self._lookups.is_known, terms)) or self._lookups.is_word(word):
            return ()
        return tuple(self._lookups.corrections(word))


def _clauses(parts: Sequence[Part], languages: tuple[str, ...]) -> tuple[Clause, ...]:
    """Parts as terms, each once, but for those without a word."""
    found: dict[tuple[Readings, str], Clause] = {}
    for part in parts:
        readings = readings_of(words(part.text).findall(part.text)[:_LONGEST_PHRASE], languages)
        if readings:
            found.setdefault((readings, part.field), Clause(readings, part.field, part.text))
    return tuple(found.values())


def readings_of(phrase: Sequence[str], languages: tuple[str, ...]) -> Readings:
    """Return the terms of a phrase by the rules of each language, each different reading once."""
    readings = (tuple(chain(*(terms_of_asked(word, language) for word in phrase))) for language in languages)
    return tuple(filter(None, dict.fromkeys(readings)))


def _telling(found: Sequence[str], languages: tuple[str, ...], *, or_stop_words: bool) -> list[str]:
    """The words that are no stop words; or all of them, if that leaves none."""
    spoken = languages[0] if len(languages) == 1 else language_of_query([word.casefold() for word in found], languages)
    telling = [word for word in found if not _is_common(word, spoken)]
    return telling if telling or not or_stop_words else list(found)


@remembers_words(_REMEMBERED)
def _is_common(word: str, language: str) -> bool:
    return is_stop_word(fold(word) if language == ENGLISH else word.casefold(), language)


@remembers_words(_REMEMBERED)
def _terms_of(word: str, languages: tuple[str, ...]) -> tuple[Terms, ...]:
    """Of each term of a word, the different forms that it has by the rules of the languages."""
    if is_spaceless(word):  # a pair of characters tells more than either; one alone may be all that there is
        terms = terms_of_asked(word)
        return tuple((term,) for term in terms if len(term) > 1) or tuple((term,) for term in terms)
    forms = zip(*(terms_of_asked(word, each) for each in languages), strict=True)
    return tuple(tuple(dict.fromkeys(different)) for different in forms)


def _joined(forms: Sequence[Terms]) -> Terms:
    return tuple(dict.fromkeys(chain(*forms)))
