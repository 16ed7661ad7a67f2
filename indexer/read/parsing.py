"""A page to a document, by its media type."""

import hashlib
from contextlib import closing
from dataclasses import replace
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from indexer.decoding import visible
from indexer.errors import ParseError
from indexer.link_template import line_anchor
from indexer.read.extraction import Extraction, from_json
from indexer.read.formats import (
    CONTAINER,
    CONTENT_TYPES,
    HTML,
    PACKED_READERS,
    TEXT_READERS,
    content_type_of,
    effective_type,
    reader_of,
)
from indexer.read.gzipped import MAGIC
from indexer.read.metadata import day_of
from indexer.read.reader_process import ReaderProcess, borrowed
from indexer.records import Document, Page, Section

__all__ = ["CONTENT_TYPES", "LinkList", "content_type_of", "parse"]


class LinkList(ParseError):
    """A page that is an index or a table of contents: nothing of its own to find."""


def parse(page: Page, process: ReaderProcess | None = None) -> Document:
    """Read a page's title and sections, and what it says about itself.

    Args:
        page: what was fetched.
        process: the process that reads it; None for any that is free.

    Raises:
        ParseError: the page is not what it says it is, cannot be read, or takes too much time or memory. A document
            without sections is no error.
    """
    content_type = effective_type(page.content_type, urlsplit(page.url).path)
    reader = reader_of(content_type)
    is_text = reader is None or reader in TEXT_READERS
    if (
        is_text
        and page.body[:1024].count(0)
        and not _is_packed(page, reader)
        and not page.body.startswith((b"\xff\xfe", b"\xfe\xff"))
    ):
        raise ParseError("binary data instead of text")
    if reader is None or reader == CONTAINER:
        raise ParseError(f"content type {content_type} is not read")
    content = _read(reader, page, process)
    if content.is_link_list:
        raise LinkList("a list of links")
    declared, stated = content.declared, page.stated
    return Document(
        url=page.url,
        source=page.source,
        title=stated.title or content.title or _name(page.url),
        sections=_linked(content.sections, page.line_fragment),
        content_hash=hashlib.sha256(page.body).hexdigest(),
        etag=page.etag,
        last_modified=page.last_modified,
        fetched_at=page.fetched_at,
        content_type=content_type,
        language=stated.language or declared.language or page.language or content.detected,
        date=stated.date or declared.date or day_of(page.last_modified),
        metadata={**declared.metadata, **dict(stated.metadata)},
    )


def _read(reader: str, page: Page, process: ReaderProcess | None) -> Extraction:
    """Have a page read in another process, which may die of it."""
    if process is None:
        with borrowed() as process:
            return _read(reader, page, process)
    argument = f"{page.charset or ''}\n{page.template}" if reader == HTML and page.template else page.charset
    with closing(process.ask(reader, argument, page.body)) as answers:
        [(answer, _)] = answers
    return from_json(answer)


def _linked(sections: tuple[Section, ...], fragment: str) -> tuple[Section, ...]:
    """Sections whose lines are named as a link template has it."""
    if not fragment:
        return sections
    return tuple(replace(section, anchor=line_anchor(fragment, section.anchor)) for section in sections)


def _is_packed(page: Page, reader: str | None) -> bool:
    """Whether it is a text that is packed with gzip, as folders have them."""
    return (
        reader in PACKED_READERS and page.body.startswith(MAGIC) and not (page.requested or page.url).startswith("http")
    )


def _name(url: str) -> str:
    """File name of an address, for a page without a title."""
    parts = urlsplit(url)
    name = PurePosixPath(unquote(parts.path, errors="replace")).name
    return visible(name) or parts.netloc or url
