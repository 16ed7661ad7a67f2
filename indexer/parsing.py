"""A page to a document, by its media type."""

import hashlib
import re
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from bs4.exceptions import ParserRejectedMarkup
from lxml import etree

from indexer.decoding import decode, visible
from indexer.errors import ParseError
from indexer.html import extract
from indexer.language import detect
from indexer.markdown import is_markdown, render
from indexer.metadata import Declared, day_of
from indexer.records import Document, Page, Section

_HTML = ("text/html", "application/xhtml+xml")
_TITLE_LENGTH = 100  # characters of the first line of a plain text that may be its title
_BLANK_LINES = re.compile(r"\n[^\S\n]*(?:\n[^\S\n]*)+")


class LinkList(ParseError):
    """A page that is an index or a table of contents: nothing of its own to find."""


def parse(page: Page) -> Document:
    """Read a page's title and sections, and what it says about itself.

    Raises:
        ParseError: the page is not text, or its markup cannot be read. A document without sections is no error.
    """
    if page.body[:1024].count(0) and not page.body.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ParseError("binary data where text was promised")
    try:
        title, sections, declared = _read(page)
    except RecursionError as error:
        raise ParseError("elements nested too deep") from error
    except (ParserRejectedMarkup, etree.LxmlError, ValueError) as error:
        raise ParseError(f"markup that cannot be read: {' '.join(str(error).split())[:100]}") from error
    return Document(
        url=page.url,
        source=page.source,
        title=title or _name(page.url),
        sections=sections,
        content_hash=hashlib.sha256(page.body).hexdigest(),
        etag=page.etag,
        last_modified=page.last_modified,
        fetched_at=page.fetched_at,
        content_type="text/markdown" if is_markdown(page) else page.content_type,
        language=declared.language or detect("\n".join(section.text for section in sections)),
        date=declared.date or day_of(page.last_modified),
        metadata=declared.metadata,
    )


def _read(page: Page) -> tuple[str | None, tuple[Section, ...], Declared]:
    if is_markdown(page):
        rendered = render(decode(page.body, page.charset, markup=False))
        found = extract(rendered.html)
        return rendered.title or found.title, found.sections, rendered.declared
    if page.content_type in _HTML:
        found = extract(decode(page.body, page.charset, markup=True))
        if found.is_link_list:
            raise LinkList("a list of links")
        return found.title, found.sections, found.declared
    if page.content_type == "text/plain":
        return *_plain(visible(decode(page.body, page.charset, markup=False))), Declared()
    raise ParseError(f"content type {page.content_type} is not read")


def _plain(text: str) -> tuple[str | None, tuple[Section, ...]]:
    text = _BLANK_LINES.sub("\n\n", text).strip()
    first = text.partition("\n")[0].strip(" \t#=-*")
    title = first if len(first) <= _TITLE_LENGTH and re.match(r"\w", first) else None
    return title, (Section((), None, text),) if text else ()


def _name(url: str) -> str:
    """File name of an address, for a page without a title."""
    parts = urlsplit(url)
    name = PurePosixPath(unquote(parts.path, errors="replace")).name
    return visible(name) or parts.netloc or url
