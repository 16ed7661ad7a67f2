"""Which words of a query tell passages apart: those that are no stop words in the language of the query."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise

from indexer.generation.lexical.analysis import ENGLISH, cached_by_word, fold, is_stop_word

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
    """Return of each word of a query whether it counts: whether it is not surely a stop word here.

    It is one where the languages that have it in their lists are together at least `_SURE` to be that of the query. How
    likely each language is follows from its share of the passages and from how many words of the query are in its list
    (naive Bayes). So one word that is something else in another language decides nothing. An abbreviation in capitals
    among other words, such as IT or WHO, is no stop word.

    Args:
        words: of the query, as they are written.
        passages: of the index, by language.
        text: the query.
    """
    elided = {letter.casefold() for letter in _ELIDED.findall(text)}
    different = {word for word in words if word.casefold() not in _LETTERS or word.casefold() in elided}
    if not text.isupper():
        different = {word for word in different if len(word) < 2 or not word.isupper() or word in _OPERATORS}
    common = {language: {word for word in different if _is_common(word, language)} for language in passages}
    clues = {language: len(found) for language, found in common.items()}
    if ENGLISH in clues:
        clues[ENGLISH] += sum(word.casefold() in _ENGLISH_CLUES for word in different)
    weights = {each: max(count, 1) * _CLUE ** min(clues[each], _MOST_CLUES) for each, count in passages.items()}
    enough = _SURE * sum(weights.values())
    return [sum(weights[each] for each in passages if word in common[each]) < enough for word in words]


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


@cache
def shares_by_order(languages: Sequence[str]) -> Passages:
    """Return how many passages each language may have where only their order is known, the most frequent first."""
    return {language: 1 << (len(languages) - place) for place, language in enumerate(languages)}


@cached_by_word(1 << 14)
def _is_common(word: str, language: str) -> bool:
    return is_stop_word(fold(word) if language == ENGLISH else word.casefold(), language)
