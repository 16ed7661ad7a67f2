"""Convert fetched pages to documents: choose the reader for the media type, and run it in a reader process."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from indexer.errors import ParseError
from indexer.network.urls import normalise, origin, with_anchor
from indexer.read.extraction import day_of, from_json
from indexer.read.formats import CONTAINER, HTML, PAGE, SCANS, TEXT_READERS, effective_type, reader_of
from indexer.read.html.site_template import MAX_BLOCKS
from indexer.read.ocr import NO_OCR, Ocr, Scans, count_pages, read_scans
from indexer.read.reader_process import ReaderProcess, borrowed
from indexer.records import AccessLists, Document, Extraction, Page, PageBlocks, PageReading, Section
from indexer.text.charsets import is_binary
from indexer.text.cleaning import visible

_HASH_COUNT = 1 << 64
_PAGE_ANCHOR = re.compile(r"page=(\d+)")
_MAX_LINK_TEXTS = 8


class Unwanted(ParseError):
    """An error for a page that is left out on purpose, such as a list of links."""


@dataclass(frozen=True, slots=True)
class PageParts:
    """A request for parts of an HTML or Markdown page. Text of the site's `template` is removed."""

    links: bool = False
    needs_rendering: bool = False
    blocks: bool = False
    text: bool = False
    template: str = ""


ReadParts = tuple[Mapping[str, Any], bool, PageReading | None]  # (links, needs_rendering, reading)


def read_page_parts(page: Page, requested: PageParts, process: ReaderProcess) -> ReadParts:
    """Read the requested parts of an HTML or Markdown page in one pass.

    Returns:
        links: the links from the reader process, not validated. See `web_page.page_parts`.
        needs_rendering: whether a browser must run the scripts of the page first.
        reading: the text and blocks. None if neither was requested, or if the page needs rendering, only refers to
            other pages, or must not be indexed. If the text cannot be read, `reading.content` is a ParseError.

    Raises:
        ParseError: `links` or `needs_rendering` was requested, but the page cannot be read.
    """
    reader = reader_of(effective_type(page.content_type, urlsplit(page.url).path))
    argument = asdict(requested) | {"charset": page.charset, "reader": reader}
    fields: dict[str, Any] = {}
    content: Extraction | ParseError | None = None
    try:
        with closing(process.ask(PAGE, argument, page.body)) as answers:
            for answer, _ in answers:
                fields |= answer
        if "sections" in fields:
            content = from_json(fields)
    except ParseError as error:
        if any(getattr(requested, name) and name not in fields for name in ("links", "needs_rendering")):
            raise
        content = error if requested.text else None
    blocks = validate_blocks(fields["blocks"]) if fields.get("blocks") else None
    reading = PageReading(content, requested.template, blocks) if content is not None or blocks is not None else None
    return fields.get("links", {}), fields.get("needs_rendering") is True, reading


def validate_blocks(answer: Mapping[str, Any]) -> PageBlocks | None:
    """Return the block hashes in the response of a reader process, or None if the response is invalid."""
    try:
        blocks = tuple(
            (int(parent_path) % _HASH_COUNT, int(path) % _HASH_COUNT, int(text) % _HASH_COUNT, bool(is_linked))
            for parent_path, path, text, is_linked in islice(answer["blocks"], MAX_BLOCKS)
        )
        return PageBlocks(int(answer["about"]) % _HASH_COUNT, blocks)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def read_document(page: Page, process: ReaderProcess | None = None, ocr: Ocr = NO_OCR) -> Document:
    """Read the title, sections and metadata of a page.

    Args:
        page: the fetched page. If its `reading` has text, its body is not read again.
        process: the reader process to use, or None to borrow an idle process.
        ocr: the engine for scanned pages.

    Raises:
        Unwanted: the page is left out on purpose, such as a list of links.
        ParseError: the page does not match its media type, cannot be read, or takes too much time or memory.
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
        content, scans = _read_content(reader, page, process, ocr)
    if content.is_link_list:
        raise Unwanted("a list of links")
    sections = content.sections
    if scans.sections:
        sections = tuple(sorted((*sections, *scans.sections), key=_page_number))
    declared, facts = content.declared, page.sender_facts
    confidence = {} if scans.confidence is None else {"ocr_confidence": (f"{scans.confidence:.0f}",)}
    name = visible(PurePosixPath(unquote(path, errors="replace")).name)
    return Document(
        url=page.url,
        source=page.source,
        title=facts.title or content.title or name or urlsplit(page.url).netloc or page.url,
        sections=sections,
        content_hash=hashlib.sha256(page.body).hexdigest(),
        etag=page.etag,
        last_modified=page.last_modified,
        fetched_at=page.fetched_at,
        content_type=content_type,
        language=facts.language or declared.language or page.language or content.detected or scans.language,
        date=facts.date or declared.date or day_of(page.last_modified),
        metadata={**declared.metadata, **confidence, **dict(facts.metadata)},
        scans=scans.counts,
        access=AccessLists(facts.access, declared.access),
        notes=content.notes,
        link_texts=_absolute_links(page.url, content.link_texts),
    )


def _absolute_links(page_url: str, link_texts: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the absolute URLs and the texts of the first eight links to other pages of the same site."""
    texts: dict[str, str] = {}
    site = origin(page_url)
    for target, text in link_texts:
        if len(texts) == _MAX_LINK_TEXTS:
            break
        address, _, anchor = target.partition("#")
        with suppress(ValueError):
            url = normalise(page_url, address) or urljoin(page_url, address)
            if origin(url) == site and url != page_url:
                texts.setdefault(with_anchor(url, unquote(anchor)), text)
    return tuple(texts.items())


def _read_content(reader: str, page: Page, process: ReaderProcess, ocr: Ocr) -> tuple[Extraction, Scans]:
    """Read a document in a reader process. Return its text, and the text that OCR recognised on scanned pages."""
    if reader == SCANS:
        if ocr.obstacle:
            raise Unwanted(f"an image: {ocr.obstacle}")
        process.use(ocr.engine)
        pages = range(1, 1 + count_pages(page.body, page.content_type, process))
        scans = read_scans(page.body, page.content_type, pages, ocr, process)
        if len(pages) == 1:
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


def _page_number(section: Section) -> int:
    match = _PAGE_ANCHOR.fullmatch(section.anchor or "")
    return int(match[1]) if match else 0
