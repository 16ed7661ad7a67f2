"""A page to a document, by its media type."""

import hashlib
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from bs4.exceptions import ParserRejectedMarkup
from lxml import etree

from indexer.content import Content, from_json
from indexer.decoding import decode, visible
from indexer.errors import ParseError
from indexer.formats import CONTAINER, CONTENT_TYPES, TEXT_READERS, content_type_of, effective_type, reader_of
from indexer.html import extract
from indexer.language import detect
from indexer.markdown import render
from indexer.metadata import day_of
from indexer.records import Document, Page, Section
from indexer.sandbox import borrowed

__all__ = ["CONTENT_TYPES", "LinkList", "content_type_of", "parse"]

_TITLE_LENGTH = 100  # characters of the first line of a plain text that may be its title
_BLANK_LINES = re.compile(r"\n[^\S\n]*(?:\n[^\S\n]*)+")


class LinkList(ParseError):
    """A page that is an index or a table of contents: nothing of its own to find."""


def parse(page: Page) -> Document:
    """Read a page's title and sections, and what it says about itself.

    Raises:
        ParseError: the page is not what it says it is, cannot be read, or takes too much time or memory. A document
            without sections is no error.
    """
    content_type = effective_type(page.content_type, urlsplit(page.url).path)
    reader = reader_of(content_type)
    is_text = reader is None or reader in TEXT_READERS
    if is_text and page.body[:1024].count(0) and not page.body.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ParseError("binary data where text was promised")
    if reader is None or reader == CONTAINER:
        raise ParseError(f"content type {content_type} is not read")
    here = _READERS.get(reader)
    content = _read_here(here, page) if here is not None else _read_apart(reader, page)
    declared = content.declared
    return Document(
        url=page.url,
        source=page.source,
        title=content.title or _name(page.url),
        sections=content.sections,
        content_hash=hashlib.sha256(page.body).hexdigest(),
        etag=page.etag,
        last_modified=page.last_modified,
        fetched_at=page.fetched_at,
        content_type=content_type,
        language=declared.language or detect("\n".join(section.text for section in content.sections)),
        date=declared.date or day_of(page.last_modified),
        metadata=declared.metadata,
    )


def _read_apart(reader: str, page: Page) -> Content:
    """Have a page read in another process, which may die of it."""
    with borrowed() as worker, closing(worker.ask(reader, page.charset, page.body)) as answers:
        [(answer, _)] = answers
    return from_json(answer)


def _read_here(read: Callable[[Page], Content], page: Page) -> Content:
    try:
        return read(page)
    except RecursionError as error:
        raise ParseError("elements nested too deep") from error
    except (ParserRejectedMarkup, etree.LxmlError, ValueError) as error:
        raise ParseError(f"markup that cannot be read: {' '.join(str(error).split())[:100]}") from error


def _html(page: Page) -> Content:
    found = extract(decode(page.body, page.charset, markup=True))
    if found.is_link_list:
        raise LinkList("a list of links")
    return Content(found.title, found.sections, found.declared)


def _markdown(page: Page) -> Content:
    rendered = render(decode(page.body, page.charset, markup=False))
    found = extract(rendered.html)
    return Content(rendered.title or found.title, found.sections, rendered.declared)


def _plain_text(page: Page) -> Content:
    return Content(*_plain(visible(decode(page.body, page.charset, markup=False))))


_READERS = {"html": _html, "markdown": _markdown, "plain": _plain_text}  # those that run in this process


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
