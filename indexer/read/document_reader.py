"""A page to a document, by its media type."""

import hashlib
import re
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from indexer.errors import ParseError
from indexer.read.extraction import day_of, from_json
from indexer.read.formats import CONTAINER, HTML, PAGE, SCANS, TEXT_READERS, effective_type, reader_of
from indexer.read.html.template import MOST_BLOCKS
from indexer.read.ocr.pages import NO_OCR, Ocr, Scans, count_pages, read_scans
from indexer.read.reader_process import ReaderProcess, borrowed
from indexer.records import AccessLists, Document, Extraction, Page, PageBlocks, PageReading, Section
from indexer.text.charsets import is_binary
from indexer.text.cleaning import visible

_HASHES = 1 << 64  # number of hashes of blocks
_PAGE = re.compile(r"page=(\d+)")  # how a section of a PDF names its page


class Unwanted(ParseError):
    """A page that is left out on purpose."""


@dataclass(frozen=True, slots=True)
class PageParts:
    """The parts of a page of HTML or Markdown that are read together."""

    links: bool = False
    needs_rendering: bool = False  # whether scripts draw it
    blocks: bool = False
    text: bool = False
    template: str = ""  # of its site, left out of the text


Parts = tuple[Mapping[str, Any], bool, PageReading | None]  # links, whether scripts draw it, text and blocks


def read_page_parts(page: Page, wanted: PageParts, process: ReaderProcess) -> Parts:
    """Read a page of HTML or Markdown, once.

    The links are those of `indexer.read.web_page`, not checked. A page that only leads on, is not to be indexed or has
    to be rendered has no reading; an error of its text is its text.

    Raises:
        ParseError: its links, or whether scripts draw it, cannot be found.
    """
    reader = reader_of(effective_type(page.content_type, urlsplit(page.url).path))
    argument = asdict(wanted) | {"charset": page.charset, "reader": reader}
    parts: dict[str, Any] = {}
    content: Extraction | ParseError | None = None
    try:
        with closing(process.ask(PAGE, argument, page.body)) as answers:
            for answer, _ in answers:
                parts |= answer
        if "sections" in parts:
            content = from_json(parts)
    except ParseError as error:
        if (wanted.links and "links" not in parts) or (wanted.needs_rendering and "needs_rendering" not in parts):
            raise
        content = error if wanted.text else None
    blocks = validate_blocks(parts["blocks"]) if parts.get("blocks") else None
    reading = PageReading(content, wanted.template, blocks) if content is not None or blocks is not None else None
    return parts.get("links", {}), parts.get("needs_rendering") is True, reading


def validate_blocks(found: Mapping[str, Any]) -> PageBlocks | None:
    """Return blocks of an answer of the reader process, which is not trusted; None if they are none."""
    try:
        blocks = tuple(
            (int(outer) % _HASHES, int(place) % _HASHES, int(text) % _HASHES, bool(is_linked))
            for outer, place, text, is_linked in islice(found["blocks"], MOST_BLOCKS)
        )
        return PageBlocks(int(found["about"]) % _HASHES, blocks)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def read_document(page: Page, process: ReaderProcess | None = None, ocr: Ocr = NO_OCR) -> Document:
    """Read a page's title and sections, and what it says about itself.

    The process that reads it is any that is free by default. Raises ParseError if the page is not what it says it is,
    cannot be read, or takes too much time or memory.
    """
    path = urlsplit(page.url).path
    content_type = effective_type(page.content_type, path)
    reader = reader_of(content_type)
    if (reader is None or reader in TEXT_READERS) and is_binary(page.body, page.charset):
        raise ParseError("binary data instead of text")
    if reader is None or reader == CONTAINER:
        raise ParseError(f"content type {content_type} is not read")
    if page.reading is not None and page.reading.content is not None:
        if isinstance(page.reading.content, ParseError):
            raise page.reading.content
        content, scans = page.reading.content, Scans()
    elif process is None:
        with borrowed() as process:
            return read_document(page, process, ocr)
    else:
        content, scans = _read(reader, page, process, ocr)
    if content.is_link_list:
        raise Unwanted("a list of links")
    sections = tuple(sorted((*content.sections, *scans.sections), key=_page_of) if scans.sections else content.sections)
    declared, stated = content.declared, page.sender_facts
    confidence = {} if scans.confidence is None else {"ocr_confidence": (f"{scans.confidence:.0f}",)}
    name = visible(PurePosixPath(unquote(path, errors="replace")).name)  # for a page without a title
    return Document(
        url=page.url,
        source=page.source,
        title=stated.title or content.title or name or urlsplit(page.url).netloc or page.url,
        sections=sections,
        content_hash=hashlib.sha256(page.body).hexdigest(),
        etag=page.etag,
        last_modified=page.last_modified,
        fetched_at=page.fetched_at,
        content_type=content_type,
        language=stated.language or declared.language or page.language or content.detected or scans.language,
        date=stated.date or declared.date or day_of(page.last_modified),
        metadata={**declared.metadata, **confidence, **dict(stated.metadata)},
        scans=scans.counts,
        access=AccessLists(stated.access, declared.access),
        notes=content.notes,
    )


def _read(reader: str, page: Page, process: ReaderProcess, ocr: Ocr) -> tuple[Extraction, Scans]:
    """Have a page read in another process, which may die of it: its text, and what is on pages that have none."""
    if reader == SCANS:
        if ocr.obstacle:
            raise Unwanted(f"an image: {ocr.obstacle}")
        process.use(ocr.engine)
        pages = range(1, 1 + count_pages(page.body, page.content_type, process))
        scans = read_scans(page.body, page.content_type, pages, ocr, process)
        if len(pages) == 1:  # it is no page of anything
            if scans.counts.unread:
                raise ParseError(scans.counts.unread[0][1])
            scans.sections = [replace(section, path=(), anchor=None) for section in scans.sections]
        return Extraction(None, ()), scans
    argument = f"{page.charset or ''}\n{page.template}" if reader == HTML and page.template else page.charset
    with closing(process.ask(reader, argument, page.body)) as answers:
        [(answer, _)] = answers
    content = from_json(answer)
    if not content.scanned:
        return content, Scans()
    return content, read_scans(page.body, page.content_type, content.scanned, ocr, process)


def _page_of(section: Section) -> int:
    named = _PAGE.fullmatch(section.anchor or "")
    return int(named[1]) if named else 0
