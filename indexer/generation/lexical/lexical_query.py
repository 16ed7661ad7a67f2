"""Words that a query asks for, and where a passage has them. A query is text, never a language.

Only quotation marks mean something: what stands between them must be found word for word.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from indexer.generation.lexical.analysis import STOP_WORDS, fold, is_spaceless, terms_of_word, without_signs, words

_QUOTED = re.compile('["“”„«»]([^"“”„«»]+)["“”„«»]')
_MOST_PHRASES = 8
_LONGEST_PHRASE = 32  # words
# The rest of a word, and the word that ends here.
_REST, _LAST_WORD = re.compile(r"\w*", re.ASCII), re.compile(r"\w*\Z", re.ASCII)
_BEGINNINGS = {"die": "d", "lie": "l", "tie": "t"}  # stems of dying, lying and tying
_CHANGED = ("e", "i", "y", "bl")  # the last of visibl is not in visibility
# A Latin word within a run of another script, or one character with the voicing marks that half-width kana write apart.
_UNIT = re.compile("[0-9A-Za-z]+|.[\u3099\u309a\uff9e\uff9f]*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class LexicalQuery:
    """Terms as `analysis.terms_in` gives them, each once."""

    words: tuple[str, ...]  # any of these
    phrases: tuple[tuple[str, ...], ...]  # and every one of these, term after term
    marked: frozenset[str]  # the terms worth showing in a passage


@lru_cache(maxsize=256)  # a query is read when it is searched, and again for every passage it found
def read_query(text: str) -> LexicalQuery:
    """Read what a user typed; stop words count only within quotation marks, or where there is nothing else."""
    quoted = [words(phrase).findall(phrase)[:_LONGEST_PHRASE] for phrase in _QUOTED.findall(text)[:_MOST_PHRASES]]
    phrases = dict.fromkeys(tuple(term for word in phrase for term in terms_of_word(word)) for phrase in quoted)
    phrases.pop((), None)
    rest = _QUOTED.sub(" ", text, count=_MOST_PHRASES)
    loose = _terms(words(rest).findall(rest), or_stop_words=not phrases)
    marked = [*loose, *_terms([word for phrase in quoted for word in phrase], or_stop_words=not loose)]
    return LexicalQuery(tuple(loose), tuple(phrases), frozenset(marked))


def spans(query: str, text: str) -> list[tuple[int, int]]:
    """Return the character spans [start, end) of the words of `text` by which `query` finds it, in order."""
    if text.isascii() or (text := without_signs(text)).isascii():  # most texts have no other signs than quotes
        return _spans_in_ascii(_marks(query), text)
    marked = read_query(query).marked
    found: list[tuple[int, int]] = []
    for match in words(text).finditer(text):
        if not marked.isdisjoint(terms_of_word(match[0])):
            found += _spans_within(marked, text, *match.span()) if is_spaceless(match[0]) else [match.span()]
    return found


class _Marks(dict[str, bool]):
    """Whether each ASCII word is one to show, and how such words can begin."""

    def __init__(self, marked: frozenset[str]) -> None:
        self._marked = marked
        found = sorted({_beginning(term) for term in marked if term.isascii() and "_" not in term})
        # after a shorter one, a longer one that begins alike finds nothing more
        self.beginnings = [one for i, one in enumerate(found) if not one.startswith(tuple(found[:i]))]

    def __missing__(self, word: str) -> bool:
        self[word] = is_marked = not self._marked.isdisjoint(terms_of_word(word))
        return is_marked


@lru_cache(maxsize=64)
def _marks(query: str) -> _Marks:
    return _Marks(read_query(query).marked)


def _beginning(stem: str) -> str:
    """Return how all words with this stem begin: the stem, but for a last letter that the ending may have changed."""
    return _BEGINNINGS.get(stem) or (stem[:-1] if stem.endswith(_CHANGED) and len(stem) > 1 else stem)


def _spans_in_ascii(marks: _Marks, text: str) -> list[tuple[int, int]]:
    """Do the same for ASCII text, three times as fast: few words are marked, so they are looked for."""
    lower = text.lower()
    found: set[tuple[int, int]] = set()
    for beginning in marks.beginnings:
        start = lower.find(beginning)
        while start >= 0:
            before = lower[start - 1 : start]
            end = start + 1
            if not before.isalnum():
                end = _REST.match(text, start).end()  # type: ignore[union-attr]  # it matches nothing, too
                first = _LAST_WORD.search(text, 0, start).start() if before == "_" else start  # type: ignore[union-attr]
                if marks[text[first:end]]:
                    found.add((first, end))
            start = lower.find(beginning, end)
    return sorted(found)


def _terms(found: Sequence[str], *, or_stop_words: bool) -> list[str]:
    """Terms of the words that are no stop words, each once; or of all words, if that leaves none."""
    telling = [word for word in found if fold(word) not in STOP_WORDS] or (found if or_stop_words else [])
    terms: dict[str, None] = {}
    for word in telling:
        all_terms = terms_of_word(word)
        if is_spaceless(word):  # a pair of characters tells more than either; one alone may be all that there is
            all_terms = tuple(term for term in all_terms if len(term) > 1) or all_terms
        terms |= dict.fromkeys(all_terms)
    return list(terms)


def _spans_within(marked: frozenset[str], text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Spans within a word of a script without spaces: the marked characters and pairs, joined where they touch."""
    ends = [match.end() for match in _UNIT.finditer(text, start, end)]
    found: list[tuple[int, int]] = []
    for first, single, pair in zip([start, *ends], ends, [*ends[1:], end], strict=False):
        if fold(text[first:pair]) in marked:
            last = pair
        elif not marked.isdisjoint(terms_of_word(text[first:single])):
            last = single
        else:
            continue
        if found and found[-1][1] >= first:
            first, last = found[-1][0], max(found.pop()[1], last)
        found.append((first, last))
    return found
