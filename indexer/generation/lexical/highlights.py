"""Where a passage has the words that a query asks for."""

import re
from functools import lru_cache

from indexer.generation.lexical.analysis import fold, is_spaceless, rules_for, terms_of_word, without_signs, words
from indexer.generation.lexical.languages import ENGLISH

_REST = re.compile(r"\w*", re.ASCII)  # of a word
_BEGINNINGS = {"die": "d", "lie": "l", "tie": "t"}  # stems of dying, lying and tying
_CHANGED = ("e", "i", "y", "bl")  # the last of visibl is not in visibility
# A Latin word within a run of another script, or one character with the voicing marks that half-width kana write apart.
_UNIT = re.compile("[0-9A-Za-z]+|.[\u3099\u309a\uff9e\uff9f]*", re.DOTALL)


def spans(marked: frozenset[str], text: str, language: str | None = ENGLISH) -> list[tuple[int, int]]:
    """Return the character spans [start, end) of the words of a text that have one of the marked terms, in order.

    Args:
        marked: `LexicalQuery.marked`.
        text: a passage.
        language: of its document.
    """
    rules = rules_for(language)
    # most texts have no other signs than quotes
    if (text.isascii() or (text := without_signs(text)).isascii()) and rules == ENGLISH:
        return _spans_in_ascii(_marks(marked), text)
    found: list[tuple[int, int]] = []
    for match in words(text).finditer(text):
        if not marked.isdisjoint(terms_of_word(match[0], rules)):
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
def _marks(marked: frozenset[str]) -> _Marks:
    return _Marks(marked)


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
                first = start
                while before == "_" or before.isalnum():  # such a word is short, and has other words before its last _
                    first -= 1
                    before = text[first - 1 : first]
                if marks[text[first:end]]:
                    found.add((first, end))
            start = lower.find(beginning, end)
    return sorted(found)


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
