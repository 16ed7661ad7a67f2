"""Words that a query asks for. A query is text, never a language.

Only quotation marks mean something: what stands between them must be found word for word.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from indexer.generation.lexical.analysis import fold, is_spaceless, terms_of_word, words
from indexer.generation.lexical.languages import ENGLISH, is_stop_word, language_of_query

_QUOTED = re.compile('["“”„«»]([^"“”„«»]+)["“”„«»]')
_MOST_PHRASES = 8
_LONGEST_PHRASE = 32  # words

Terms = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LexicalQuery:
    """What passages are searched for, in terms as `analysis.terms_in` gives them."""

    words: tuple[Terms, ...]  # any of these, each once; of each, the different terms by the rules of the languages
    phrases: tuple[tuple[Terms, ...], ...]  # and every one of these: of each, one such reading, term after term
    asked: tuple[Terms, ...]  # words within and outside phrases, but for stop words, as in `words`
    marked: frozenset[str]  # all terms of these, which are worth showing in a passage


@lru_cache(maxsize=256)
def read_query(text: str, languages: tuple[str, ...] = (ENGLISH,)) -> LexicalQuery:
    """Read what a user typed; stop words count only within quotation marks, or where there is nothing else.

    Args:
        text: the query.
        languages: by whose rules the index is stemmed, see `Manifest.languages`; at least one.
    """
    quoted = [words(phrase).findall(phrase)[:_LONGEST_PHRASE] for phrase in _QUOTED.findall(text)[:_MOST_PHRASES]]
    phrases = dict.fromkeys(_readings(phrase, languages) for phrase in quoted)
    phrases.pop((), None)
    rest = _QUOTED.sub(" ", text, count=_MOST_PHRASES)
    loose = _terms(words(rest).findall(rest), languages, or_stop_words=not phrases)
    asked = dict.fromkeys([*loose, *_terms(list(chain(*quoted)), languages, or_stop_words=not loose)])
    return LexicalQuery(tuple(loose), tuple(phrases), tuple(asked), frozenset(chain(*asked)))


def _readings(phrase: Sequence[str], languages: Sequence[str]) -> tuple[Terms, ...]:
    """The terms of a phrase by the rules of each language, each different reading once; none where it has none."""
    readings = (tuple(chain(*(terms_of_word(word, language) for word in phrase))) for language in languages)
    return tuple(filter(None, dict.fromkeys(readings)))


def _terms(found: Sequence[str], languages: Sequence[str], *, or_stop_words: bool) -> list[Terms]:
    """Terms of the words that are no stop words, each once; or of all words, if that leaves none."""
    spoken = language_of_query([word.casefold() for word in found], languages)
    telling = [word for word in found if not is_stop_word(fold(word) if spoken == ENGLISH else word.casefold(), spoken)]
    if not telling and or_stop_words:
        telling = list(found)
    return list(dict.fromkeys(chain(*(_terms_of(word, languages) for word in telling))))


def _terms_of(word: str, languages: Sequence[str]) -> list[Terms]:
    """Of each term of a word, the different forms that it has by the rules of the languages."""
    if is_spaceless(word):  # a pair of characters tells more than either; one alone may be all that there is
        terms = terms_of_word(word)
        return [(term,) for term in terms if len(term) > 1] or [(term,) for term in terms]
    return [
        tuple(dict.fromkeys(forms)) for forms in zip(*(terms_of_word(word, each) for each in languages), strict=True)
    ]
