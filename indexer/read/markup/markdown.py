"""Markdown to HTML, so that there is one way from markup to text."""

import re
from dataclasses import dataclass
from itertools import pairwise

from markdown_it.token import Token

from indexer.decoding import decode
from indexer.errors import ParseError
from indexer.read.extraction import Extraction
from indexer.read.html.main_content import extract
from indexer.read.markup.blocks import begins_like_mdx
from indexer.read.markup.dialects import MDX_PARSER, PARSER
from indexer.read.markup.front_matter import split_front_matter
from indexer.read.markup.tags import IS_MDX
from indexer.read.metadata import Declared

_MOST_LINES = 200_000
_NOT_IN_SLUG = re.compile(r"[^\w\- ]")


@dataclass(frozen=True, slots=True)
class Rendered:
    """A Markdown text as HTML."""

    html: str
    title: str | None  # from the front matter
    declared: Declared  # from there too


def read(body: bytes, charset: str | None, *, is_mdx: bool = False) -> Extraction:
    """Read a Markdown text."""
    rendered = render(decode(body, charset, markup=False), is_mdx=is_mdx)
    found = extract(rendered.html)
    return Extraction(rendered.title or found.title, found.sections, rendered.declared)


def render(text: str, *, is_mdx: bool = False) -> Rendered:
    """Render Markdown with what its dialects add; headings get the ids they name, else those GitHub would give them.

    Front matter is read and dropped.

    Args:
        text: in whatever dialect.
        is_mdx: whether it is known to have JSX and expressions, which are told by an import or export otherwise.

    Raises:
        ParseError: it has too many lines.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.count("\n") > _MOST_LINES:
        raise ParseError(f"more than {_MOST_LINES:,} lines of Markdown")
    title, declared, text = split_front_matter(text)
    is_mdx = is_mdx or begins_like_mdx(text)
    parser, env = (MDX_PARSER if is_mdx else PARSER), {IS_MDX: is_mdx}
    tokens = parser.parse(text, env)
    taken: dict[str, int] = {}
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open" and opening.attrGet("id") is None:
            opening.attrSet("id", _slug(_plain(inline), taken))
    html = parser.renderer.render(tokens, parser.options, env)
    return Rendered(html, title, declared)


def _plain(inline: Token) -> str:
    return "".join(token.content for token in inline.children or () if token.type in ("text", "code_inline"))


def _slug(heading: str, taken: dict[str, int]) -> str:
    slug = _NOT_IN_SLUG.sub("", heading.strip().lower()).replace(" ", "-")
    count = taken.get(slug, 0)
    taken[slug] = count + 1
    return f"{slug}-{count}" if count else slug
