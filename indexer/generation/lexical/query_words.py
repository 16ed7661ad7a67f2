"""The words of a query: its syntax, the words that tell passages apart, and synonyms."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

from indexer.decoding import visible, without_joiners
from indexer.errors import SynonymsError
from indexer.generation.lexical.analysis import ENGLISH, fold, is_stop_word, words

FIELDS = {"title": "title", "section": "section", "heading": "section", "url": "url", "body": "body"}
_MOST_PARTS = 8  # of each kind
_QUOTES = '"“”„«»'
_PHRASE = f"[{_QUOTES}][^{_QUOTES}]+[{_QUOTES}]"
_QUOTED = re.compile(_PHRASE)
_SYNTAX = re.compile(rf"[{_QUOTES}:]|(?<!\S)-")
# Excluded words have three letters at least, and a vowel if they are ASCII: others are options, such as -v and -xzf.
_MARKED = re.compile(
    rf"(?<!\S)(?:(-?)({'|'.join(FIELDS)}):({_PHRASE}|[^\s:{_QUOTES}]\S*)|-({_PHRASE}|(?=[a-z]*[aeiouy]|[^a-z])[^\W\d_]\w{{2,}}(?:-\w+)*))(?!\S)",
    re.IGNORECASE,
)
# Brackets, operators and calls; options of commands; words of nothing but signs, except dashes and ampersands.
_CODE = re.compile(
    r"[{}=;<>|\\$`]|\w\(|::|(?<!\S)--\w|(?<!\S)-\w{1,2}(?!\S)|(?<!\S)-\w*\d\w*(?<=[A-Za-z]\d)(?!\S)|"
    r"(?<!\S)[()\[\].*/+~^%#@]+(?!\S)"
)


class Part(NamedTuple):
    """A word or phrase that must be found, or must not be."""

    text: str
    field: str = ""  # one of the values of FIELDS; empty for anywhere


class ParsedQuery(NamedTuple):
    """A query, taken apart."""

    words: str  # what is left: any of these
    required: tuple[Part, ...]
    excluded: tuple[Part, ...]
    meaning: str  # the query without its syntax, for the search by meaning


def parse_query(text: str) -> ParsedQuery:
    """Take a query apart; it never fails, and one that would only exclude is words."""
    text = visible(text)
    if not _SYNTAX.search(text):  # as most have none
        return ParsedQuery(text, (), (), without_joiners(text))
    required: list[Part] = []
    excluded: list[Part] = []

    def note_marked(match: re.Match[str]) -> str:
        minus, field, value, word = match.groups()
        is_excluded = bool(minus or word)
        taken = excluded if is_excluded else required
        if len(taken) == _MOST_PARTS:
            return match[0]
        taken.append(Part((value or word).strip(_QUOTES), FIELDS[field.lower()] if field else ""))
        return " " if is_excluded or taken[-1].field == "url" else f" {value} "

    def note_phrase(match: re.Match[str]) -> str:
        if len(phrases) == _MOST_PARTS:
            return match[0]
        phrases.append(Part(match[0].strip(_QUOTES)))
        return " "

    phrases: list[Part] = []
    meaning = _MARKED.sub(note_marked, text)
    words = _QUOTED.sub(note_phrase, meaning)
    if _CODE.search(words) or (excluded and not (required or phrases or words.strip())):
        return ParsedQuery(text, (), (), without_joiners(text))
    in_fields = {part.text for part in required}
    phrases = [part for part in phrases if part.text not in in_fields]  # the value of a field is in words, too
    words = f"{words} {' '.join(part.text for part in required if part.field != 'url')}" if required else words
    meaning = " ".join(meaning.split()) if required or excluded else text
    return ParsedQuery(words, (*required, *phrases), tuple(excluded), without_joiners(meaning or text))


# Function words that are not in `STOP_WORDS`, but say that a query is English where other languages do.
_ENGLISH_CLUES = frozenset(
    "about after all also am any because been before being between both each every few he her here him his more most "
    "other over own same she some too under until very while without".split()
)
_CLUE = 7  # times as likely a language becomes by one of its stop words
_MOST_CLUES = 12  # words of a query
_SURE = 0.9  # of 1
_SHORT = 4  # words of a query, in which stop words count next to the other words
_OPERATORS = frozenset(("AND", "OR", "NOT", "TO"))  # which are habits from other search engines
_ELIDED = re.compile(r"(?<!\w)(\w)['\u2019]")
_LETTERS = frozenset("bcdfghjklmnpqrstvwxz")  # which stand for a word only before an apostrophe, as in d'accord

Passages = Mapping[str, int]  # how many are stemmed by the rules of each language of an index; at least one
Rules = Mapping[str, frozenset[str]]  # of terms that some languages give: those by whose rules they are of the query


def are_telling(words: Sequence[str], passages: Passages, text: str) -> list[bool]:
    """Return of each word of a query, as it is written, whether it counts: whether it is not surely a stop word here.

    It is one where the languages that have it in their lists are together at least `_SURE` to be that of the query. How
    likely each language is follows from its share of the passages and from how many words of the query are in its list
    (naive Bayes). So one word that is something else in another language decides nothing. An abbreviation in capitals
    among other words, such as IT or WHO, is no stop word.
    """
    elided = {letter.casefold() for letter in _ELIDED.findall(text)}
    different = {word for word in words if word.casefold() not in _LETTERS or word.casefold() in elided}
    if not text.isupper():
        different = {word for word in different if len(word) < 2 or not word.isupper() or word in _OPERATORS}
    common: dict[str, set[str]] = {}
    for language in passages:
        read = fold if language == ENGLISH else str.casefold
        common[language] = {word for word in different if is_stop_word(read(word), language)}
    clues = {language: len(found) for language, found in common.items()}
    if ENGLISH in clues:
        clues[ENGLISH] += sum(word.casefold() in _ENGLISH_CLUES for word in different)
    weights = {each: max(count, 1) * _CLUE ** min(clues[each], _MOST_CLUES) for each, count in passages.items()}
    enough = _SURE * sum(weights.values())
    likely = dict.fromkeys(words, 0.0)  # weight of the languages in which a word is a stop word
    for language, stop_words in common.items():
        for word in stop_words:
            likely[word] += weights[language]
    return [likely[word] < enough for word in words]


def telling_pairs(words: Sequence[str], telling: Sequence[bool]) -> list[tuple[str, str]]:
    """Return the stop words of a query, each with the word next to it, that are worth finding side by side.

    They are those of a short query, and single capitals: in "vitamin A" and "it support" the stop word tells most, but
    only next to its neighbour.
    """
    is_short = len(words) <= _SHORT
    alone = not any(telling)
    return [
        (first, second)
        for (first, counts), (second, also_counts) in pairwise(zip(words, telling, strict=True))
        if (is_short and (alone or counts != also_counts)) or (counts and not also_counts and second.isupper())
    ]


_COMMA, _ARROW = re.compile(r"(?<!\\),"), re.compile(r"(?<!\\)=>")
_LARGEST = 100_000  # rules
_LONGEST = 8  # words on one side


class Expanded(NamedTuple):
    """The words of a query with what stands for them."""

    words: list[str]  # without those that others stand in place of
    alternatives: dict[str, tuple[str, ...]]  # by word of these
    phrases: list[str]  # of several words, that are searched for as well
    also: list[tuple[str, tuple[str, ...]]]  # what was matched, and what stands for it


class Synonyms:
    """The rules of one file."""

    def __init__(self, rules: Mapping[tuple[str, ...], Sequence[str]] = MappingProxyType({})) -> None:
        """Take for each sequence of folded words what stands for it; itself, where it is still searched for."""
        self._rules = rules
        self._longest = max(map(len, rules), default=0)

    @classmethod
    def parse(cls, text: str, name: str) -> "Synonyms":
        """Read the text of a file; raises SynonymsError naming the file and line."""
        rules: dict[tuple[str, ...], list[str]] = {}
        for number, line in enumerate(text.splitlines(), 1):
            rule = line.partition("#")[0].strip()
            if not rule:
                continue
            if len(rules) >= _LARGEST:
                raise SynonymsError(f"{name} line {number}: there are more than {_LARGEST:,} words with rules")
            sides = [_members(side, f"{name} line {number}") for side in _ARROW.split(rule)]
            if len(sides) > 2:
                raise SynonymsError(f"{name} line {number}: a rule has one =>, not {len(sides) - 1}")
            if len(sides) == 1 and len(sides[0]) == 1:
                raise SynonymsError(f"{name} line {number}: {sides[0][0]!r} has no synonym: write a, b or a => b")
            for member in sides[0]:
                standing = rules.setdefault(_key(member), [])
                standing += [other for other in (member, *sides[-1])[len(sides) - 1 :] if other not in standing]
        return cls(rules)

    def expand(self, typed: Sequence[str]) -> Expanded:
        """Return the words of a query with what stands for them; of several rules, that of the most words."""
        if not self._rules:
            return Expanded(list(typed), {}, [], [])
        folded = [fold(word) for word in typed]
        found = Expanded([], {}, [], [])
        place = 0
        while place < len(typed):
            sizes = range(min(self._longest, len(typed) - place), 0, -1)
            size = next((size for size in sizes if tuple(folded[place : place + size]) in self._rules), 0)
            if not size:
                found.words.append(typed[place])
                place += 1
                continue
            here, key = typed[place : place + size], tuple(folded[place : place + size])
            place += size
            others = [other for other in self._rules[key] if _key(other) != key]
            single = tuple(other for other in others if len(_key(other)) == 1)
            found.phrases.extend(other for other in others if len(_key(other)) > 1)
            if len(others) < len(self._rules[key]):  # it stands for itself, too
                found.words.extend(here if size == 1 else (*here, *single))
                if size == 1:
                    found.alternatives[here[0]] = single
            elif single:
                found.words.append(single[0])
                found.alternatives[single[0]] = single[1:]
            if others:
                found.also.append((" ".join(here), tuple(others)))
        return found


NO_SYNONYMS = Synonyms()


def _members(side: str, where: str) -> list[str]:
    members = [" ".join(re.sub(r"\\(.)", r"\1", member).split()) for member in _COMMA.split(side)]
    for member in members:
        if not 1 <= len(_key(member)) <= _LONGEST:
            raise SynonymsError(f"{where}: {member!r} is not one to {_LONGEST} words")
    return members


def _key(text: str) -> tuple[str, ...]:
    return tuple(fold(word) for word in words(text).findall(text))
