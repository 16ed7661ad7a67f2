"""Where a passage has the words that a query asks for: the spans to mark, and which fields have which word."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, partial
from itertools import chain
from typing import NamedTuple
from urllib.parse import unquote

from indexer.generation.lexical.analysis import (
    END_SIGN,
    ENGLISH,
    FOREIGN_SIGN,
    TERMS,
    Cache,
    bare_words,
    fold,
    has_sign,
    is_spaceless,
    rules_for,
    sign_name,
    terms_in,
    words,
    words_within,
)
from indexer.generation.lexical.lexical_query import LexicalQuery, Readings, parse_query, readings_of

Span = tuple[int, int]  # characters [start, end)
_BEGINNINGS = {"die": "d", "lie": "l", "tie": "t"}  # stems of dying, lying and tying
_CHANGED = ("e", "i", "y", "bl")  # the last of visibl is not in visibility
# A Latin word within a run of another script, or one character with the voicing marks that half-width kana write apart.
_UNIT = re.compile("[0-9A-Za-z]+|.[\u3099\u309a\uff9e\uff9f]*", re.DOTALL)


def spans(marked: frozenset[str], text: str, language: str | None = ENGLISH) -> list[Span]:
    """Return the spans of the words of a text that have one of the terms of `LexicalQuery.marked_in`, in order."""
    rules = rules_for(language)
    plain = text if text.isascii() else FOREIGN_SIGN.sub(" ", text)  # most texts have no other signs than quotes
    candidates, is_marked = _marks(marked)
    if rules == ENGLISH and candidates and plain.isascii():
        # In ASCII text, marked words, of which there are few, are looked for: three times as fast.
        return [
            match.span()
            for match in candidates["_" in plain].finditer(plain.lower())
            if is_marked[match[0]]
            and not (len(match[0]) == 1 and match[0].isalpha() and END_SIGN.match(plain, match.end()))
        ]
    found: list[Span] = []
    for match in words(text).finditer(text):
        if marked.isdisjoint(TERMS[rules][match[0]]):
            continue
        if is_spaceless(match[0]):
            found += _spans_within(marked, text, match)
        elif has_sign(match[0]) and sign_name(match[0]) not in marked:
            # the marked words within a name with signs, such as --no-cache, or single pictures
            pattern = bare_words(text)
            if not pattern.search(match[0]):
                pattern = re.compile("|".join(words_within(match[0])))
            parts = pattern.finditer(text, *match.span())
            found += [part.span() for part in parts if not marked.isdisjoint(TERMS[rules][part[0]])]
        else:
            found.append(match.span())
    return found


@lru_cache(maxsize=64)
def _marks(marked: frozenset[str]) -> tuple[tuple[re.Pattern[str], ...], Cache[str, bool]]:
    """Return patterns of words that may be marked, of ASCII texts without and with underscores, and whether each is."""
    is_marked = Cache(1 << 12, partial(_has_any, marked))
    if any(map(has_sign, marked)):
        return (), is_marked  # a name with signs has no pattern
    # All words with a stem begin like it, but for a last letter that the ending may have changed.
    beginnings = sorted(
        _BEGINNINGS.get(term) or (term[:-1] if term.endswith(_CHANGED) and len(term) > 1 else term)
        for term in marked
        if term.isascii() and "_" not in term
    )
    # after a shorter one, a longer one that begins alike finds nothing more
    shortest = [one for place, one in enumerate(beginnings) if not one.startswith(tuple(beginnings[:place]))]
    either = "|".join(map(re.escape, shortest)) or "(?!)"
    patterns = rf"\b(?:{either})\w*", rf"\b(?:\w*_)?(?:{either})\w*"
    return tuple(re.compile(pattern, re.ASCII) for pattern in patterns), is_marked


def _has_any(marked: frozenset[str], word: str) -> bool:
    return not marked.isdisjoint(TERMS[ENGLISH][word])


def _spans_within(marked: frozenset[str], text: str, run: re.Match[str]) -> list[Span]:
    """Spans within a word of a script without spaces: the marked characters and pairs, joined where they touch."""
    ends = [match.end() for match in _UNIT.finditer(text, *run.span())]
    found: list[Span] = []
    for first, single, pair in zip([run.start(), *ends], ends, [*ends[1:], run.end()], strict=False):
        if fold(text[first:pair]) in marked:
            last = pair
        elif not marked.isdisjoint(TERMS[ENGLISH][text[first:single]]):
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
    readings: Readings  # any of these, term after term


_SCORED = ("title", "section", "body")


def sought_by(text: str, query: LexicalQuery, languages: tuple[str, ...]) -> list[Sought]:
    """Return the words and phrases that a query, as it was typed and read, searches for, in the order of the text."""
    wanted = frozenset(chain(*query.words))

    def forms(word: str) -> Readings:
        found = wanted.intersection(chain(*(TERMS[each][word] for each in languages)))
        return tuple((term,) for term in found if term)

    parsed = parse_query(text)
    typed = dict.fromkeys(words(parsed.words).findall(parsed.words))
    found = [Sought(word, word, None, _SCORED, forms(word)) for word in typed]
    for also in query.also:
        for other in also.searched:
            several = words(other).findall(other)
            readings = readings_of(several, languages) if len(several) > 1 else forms(other)
            found.append(Sought(also.typed, other, also.reason, _SCORED, readings))
    for clause in query.required:
        fields = (clause.field,) if clause.field else _SCORED
        found.append(Sought(clause.text, clause.text, None, fields, clause.readings))
    return [one for one in found if one.readings]


def matching(
    sought: Iterable[Sought], texts: Mapping[str, str], language: str | None
) -> Iterator[tuple[Sought, list[str]]]:
    """Yield what a passage of these texts (title, section, body and url) has, with the fields that have it."""
    terms = {
        name: f" {' '.join(terms_in(unquote(text) if name == 'url' else text, language))} "
        for name, text in texts.items()
    }
    for one in sought:
        phrases = [f" {' '.join(reading)} " for reading in one.readings]
        if fields := [name for name in one.fields if any(phrase in terms[name] for phrase in phrases)]:
            yield one, fields
