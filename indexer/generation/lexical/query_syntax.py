"""The syntax of a query: "phrases", -word and field:word. What is not plainly syntax stays words.

Queries are pasted from code and command lines, too. So an excluded word or a field stands apart, with a space or
nothing before it, and a query with signs of code outside its quotes is words and nothing else.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

from indexer.decoding import visible, without_joiners

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


@dataclass(frozen=True, slots=True)
class Part:
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
