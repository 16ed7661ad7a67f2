"""Where a passage has the words that a query asks for: the spans to mark, and which fields have which word."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import NamedTuple
from urllib.parse import unquote

from indexer.generation.lexical.analysis import (
    ENGLISH,
    STEMMERS,
    bare_words,
    fold,
    has_sign,
    is_end_sign,
    is_spaceless,
    sign_name,
    terms_in,
    terms_of_word,
    without_signs,
    words,
    words_within,
)
from indexer.generation.lexical.lexical_query import LexicalQuery, Readings, readings_of
from indexer.generation.lexical.query_words import parse_query

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
    rules = language if language in STEMMERS else ENGLISH
    marks = _marks(marked)
    plain = text if text.isascii() else without_signs(text)  # most texts have no other signs than quotes
    if rules != ENGLISH or not marks.are_plain or not plain.isascii():
        return _spans_in_any(marked, text, rules)
    # In ASCII text, marked words, of which there are few, are looked for: three times as fast.
    text = plain
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
                is_letter = end - first == 1 and text[first].isalpha()
                if marks[text[first:end]] and not (is_letter and is_end_sign(text, end)):
                    found.add((first, end))
            start = lower.find(beginning, end)
    return sorted(found)


def _spans_in_any(marked: frozenset[str], text: str, rules: str) -> list[tuple[int, int]]:
    """Return the spans of marked words in a text of any script."""
    found: list[tuple[int, int]] = []
    for match in words(text).finditer(text):
        if marked.isdisjoint(terms_of_word(match[0], rules)):
            continue
        if is_spaceless(match[0]):
            found += _spans_within(marked, text, *match.span())
        elif has_sign(match[0]) and sign_name(match[0]) not in marked:
            found += _spans_of_parts(marked, text, match, rules)
        else:
            found.append(match.span())
    return found


def _spans_of_parts(marked: frozenset[str], text: str, match: re.Match[str], rules: str) -> list[tuple[int, int]]:
    """Spans of the marked words within a name with signs, such as --no-cache, or of the first such picture."""
    pattern = bare_words(text) if bare_words(text).search(match[0]) else re.compile("|".join(words_within(match[0])))
    parts = pattern.finditer(text, *match.span())
    return [part.span() for part in parts if not marked.isdisjoint(terms_of_word(part[0], rules))]


class _Marks(dict[str, bool]):
    """Whether each ASCII word is one to show, and how such words can begin."""

    def __init__(self, marked: frozenset[str]) -> None:
        self._marked = marked
        self.are_plain = not any(map(has_sign, marked))
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


class Sought(NamedTuple):
    """A word or phrase that is searched for."""

    typed: str
    searched: str  # the same, unless there is a reason
    reason: str | None  # correction or synonym
    fields: tuple[str, ...]  # where it counts
    terms: frozenset[str]  # any of these; or
    readings: Readings  # any of these, term after term


_SCORED = ("title", "section", "body")
_ANYWHERE = frozenset[str]()


def sought_by(text: str, query: LexicalQuery, languages: tuple[str, ...]) -> list[Sought]:
    """Return the words and phrases that a query searches for, in the order in which they were typed.

    Args:
        text: the query as it was typed.
        query: the same, read.
        languages: by whose rules the index is stemmed.
    """
    wanted = frozenset(chain(*query.words))
    parsed = parse_query(text)
    typed = dict.fromkeys(words(parsed.words).findall(parsed.words))
    found = [Sought(word, word, None, _SCORED, _terms(word, languages) & wanted, ()) for word in typed]
    for also in query.also:
        for other in also.searched:
            several = words(other).findall(other)
            terms = _terms(other, languages) & wanted if len(several) == 1 else _ANYWHERE
            readings = readings_of(several, languages) if len(several) > 1 else ()
            found.append(Sought(also.typed, other, also.reason, _SCORED, terms, readings))
    for clause in query.required:
        fields = (clause.field,) if clause.field else _SCORED
        found.append(Sought(clause.text, clause.text, None, fields, _ANYWHERE, clause.readings))
    return [one for one in found if one.terms or one.readings]


def matching(
    sought: Iterable[Sought], texts: Mapping[str, str], language: str | None
) -> Iterator[tuple[Sought, list[str]]]:
    """Yield what a passage has, with the fields that have it.

    Args:
        sought: of `sought_by`.
        texts: title, section, body and url of the passage.
        language: of its document.
    """
    terms = {name: terms_in(unquote(text) if name == "url" else text, language) for name, text in texts.items()}
    for one in sought:
        if fields := [name for name in one.fields if _has(terms[name], one)]:
            yield one, fields


def _has(terms: list[str], sought: Sought) -> bool:
    if sought.terms:
        return not sought.terms.isdisjoint(terms)
    return any(
        tuple(terms[start : start + len(reading)]) == reading
        for reading in sought.readings
        for start in range(len(terms) - len(reading) + 1)
    )


def _terms(word: str, languages: tuple[str, ...]) -> frozenset[str]:
    return frozenset(chain(*(terms_of_word(word, language) for language in languages)))
