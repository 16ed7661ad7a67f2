"""Which words of a query a passage has, and where: what was typed, what it was corrected to, and its synonyms."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple
from urllib.parse import unquote

from indexer.generation.lexical.analysis import terms_in, terms_of_word, words
from indexer.generation.lexical.lexical_query import LexicalQuery, Readings, readings_of
from indexer.generation.lexical.query_syntax import parse_query


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
