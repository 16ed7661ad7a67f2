"""Markdown to HTML, so that there is one way from markup to text."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

from indexer.decoding import decode
from indexer.errors import ParseError
from indexer.filter import MOST_VALUES
from indexer.read.access_list import NOBODY, readers_of
from indexer.read.extraction import Extraction
from indexer.read.html.main_content import extract
from indexer.read.metadata import Declared, collect, first_day, language_of
from indexer.records import Readers

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?\n)?(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_LINE = re.compile(r"^(\w[\w-]*):[ \t]+(\S.*?)[ \t]*$", re.MULTILINE)
_LONGEST_FRONT = 16_000  # characters; the parser takes a millisecond for each few hundred
_CHANGED = ("lastmod", "last_modified", "modified", "updated", "date")  # the surest first
_ACCESS = "access"
_OURS = ("title", "language", "lang", _ACCESS, *_CHANGED)
_MENTIONS_ACCESS = re.compile(rf"^(?:[^\S\n]|[{{,\"'?-])*{_ACCESS}\b", re.MULTILINE | re.IGNORECASE)
_STATES_ACCESS = re.compile(rf"^[^\S\n]*[\"']?{_ACCESS}[\"']?[^\S\n]*[:=]", re.MULTILINE | re.IGNORECASE)
_BEGINS_LIKE_FRONT_MATTER = re.compile(r"[\s\ufeff]*(?:---|\+\+\+)")  # is not closed, or is TOML
_MOST_LINES = 200_000
_NOTHING = ("", "~", "null")
_NOT_IN_SLUG = re.compile(r"[^\w\- ]")
_PARSER = MarkdownIt("commonmark").enable("table")


@dataclass(frozen=True, slots=True)
class Rendered:
    """A Markdown text as HTML."""

    html: str
    title: str | None  # from the front matter
    declared: Declared  # from there too


def read(body: bytes, charset: str | None) -> Extraction:
    """Read a Markdown text."""
    rendered = render(decode(body, charset, markup=False))
    found = extract(rendered.html)
    return Extraction(rendered.title or found.title, found.sections, rendered.declared)


def render(text: str) -> Rendered:
    """Render CommonMark with tables; headings get the ids GitHub would give them; front matter is read and dropped.

    Raises:
        ParseError: it has too many lines.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.count("\n") > _MOST_LINES:
        raise ParseError(f"more than {_MOST_LINES:,} lines of Markdown")
    found = _FRONT_MATTER.match(text)
    front, access = _front_matter(found[1] or "") if found else ({}, _readers_without(text))
    if found is not None:
        text = text[found.end() :]
    tokens = _PARSER.parse(text)
    taken: dict[str, int] = {}
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open":
            opening.attrSet("id", _slug(_plain(inline), taken))
    html = _PARSER.renderer.render(tokens, _PARSER.options, {})
    return Rendered(html, next(iter(front.get("title", ())), None), _declared(front, access))


def _declared(front: Mapping[str, list[str]], access: Readers) -> Declared:
    languages = [*front.get("language", ()), *front.get("lang", ())]
    return Declared(
        language=next((code for tag in languages if (code := language_of(tag))), None),
        date=first_day(day for name in _CHANGED for day in front.get(name, ())),
        metadata=collect((name, value) for name, values in front.items() if name not in _OURS for value in values),
        access=access,
    )


def _front_matter(text: str) -> tuple[dict[str, list[str]], Readers]:
    """Fields of a YAML front matter that are a text or a list of texts, as they are written: no value is converted.

    Also who may read the text: nobody, where it says something of that which cannot be read.
    """
    access = NOBODY if _MENTIONS_ACCESS.search(text) else None
    if len(text) > _LONGEST_FRONT:
        return {}, access
    try:
        # The loader without any types: nothing to construct, no merge keys to multiply; aliases share what they name.
        fields = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - safer than safe_load
    except (yaml.YAMLError, RecursionError, ValueError):  # such as "title: Part 1: Cats", which people do write
        fields = {name: value.strip("\"'") for name, value in _LINE.findall(text)}
    fields = fields if isinstance(fields, dict) else {}
    if _ACCESS in fields and len(_STATES_ACCESS.findall(text)) < 2:  # of two, the parser would take the last
        with suppress(ValueError):
            access = readers_of(fields[_ACCESS])
    lists = {str(name): value if isinstance(value, list) else [value] for name, value in fields.items()}
    texts = {
        name: [value for value in values[:MOST_VALUES] if isinstance(value, str) and value not in _NOTHING]
        for name, values in lists.items()
    }
    return {name: values for name, values in texts.items() if values}, access


def _readers_without(text: str) -> Readers:
    """Who may read a text without front matter: nobody, where it says who, in what was meant to be some."""
    was_meant = _BEGINS_LIKE_FRONT_MATTER.match(text) and _STATES_ACCESS.search(text, 0, _LONGEST_FRONT)
    return NOBODY if was_meant else None


def _plain(inline: Token) -> str:
    return "".join(token.content for token in inline.children or () if token.type in ("text", "code_inline"))


def _slug(heading: str, taken: dict[str, int]) -> str:
    slug = _NOT_IN_SLUG.sub("", heading.strip().lower()).replace(" ", "-")
    count = taken.get(slug, 0)
    taken[slug] = count + 1
    return f"{slug}-{count}" if count else slug
