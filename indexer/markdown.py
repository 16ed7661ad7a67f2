"""Markdown to HTML, so that there is one way from markup to text."""

import re
from dataclasses import dataclass
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

from indexer.records import Page

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?\n)?(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TITLE = re.compile(r"^title:[ \t]*(.+?)[ \t]*$", re.MULTILINE)
_NOT_IN_SLUG = re.compile(r"[^\w\- ]")
_PARSER = MarkdownIt("commonmark").enable("table")


@dataclass(frozen=True, slots=True)
class Rendered:
    """A Markdown text as HTML."""

    html: str
    title: str | None  # from the front matter


def is_markdown(page: Page) -> bool:
    """Whether a page is Markdown, by its media type or, for servers that call it plain text, by its name."""
    if page.content_type == "text/markdown":
        return True
    return page.content_type == "text/plain" and page.url.lower().endswith((".md", ".markdown"))


def render(text: str) -> Rendered:
    """Render CommonMark with tables; headings get the ids GitHub would give them; front matter is dropped."""
    text = text.replace("\r\n", "\n")
    front = _FRONT_MATTER.match(text)
    title = None
    if front is not None:
        text = text[front.end() :]
        named = _TITLE.search(front[1] or "")
        title = named[1].strip("\"'") if named else None
    tokens = _PARSER.parse(text)
    taken: dict[str, int] = {}
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open":
            opening.attrSet("id", _slug(_plain(inline), taken))
    return Rendered(_PARSER.renderer.render(tokens, _PARSER.options, {}), title or None)


def _plain(inline: Token) -> str:
    return "".join(token.content for token in inline.children or () if token.type in ("text", "code_inline"))


def _slug(heading: str, taken: dict[str, int]) -> str:
    slug = _NOT_IN_SLUG.sub("", heading.strip().lower()).replace(" ", "-")
    count = taken.get(slug, 0)
    taken[slug] = count + 1
    return f"{slug}-{count}" if count else slug
