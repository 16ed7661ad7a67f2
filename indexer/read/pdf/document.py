"""PDF to content: sections under its headings in reading order, each with the page it begins on.

Uses PDFium, because it is the engine of a browser: fast, and fuzzed every day. Text outside the visible page is left
out; invisible text is kept, because scanned pages carry their recognised text that way.
"""

import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium

from indexer import notes
from indexer.errors import ParseError
from indexer.read.extraction import Extraction
from indexer.read.metadata import Declared
from indexer.read.pdf.characters import read_page, shows_something
from indexer.read.pdf.headings import by_outline, by_type, paths
from indexer.read.pdf.hyphens import Hyphens
from indexer.read.pdf.lines import HYPHEN
from indexer.read.pdf.outline import entries
from indexer.read.pdf.pages import Page, laid_out
from indexer.read.pdf.paragraphs import Block
from indexer.read.pdf.running_heads import NEAR, are_twins, running
from indexer.read.pdf.sections import sections_of

_MOST_PAGES = 20_000
_LONGEST = 20_000_000  # characters of the whole document
_LEAST_ENTRIES = 3  # of an outline that says where sections begin
_MADE_UP = re.compile(r"^(?:Microsoft \w+ - |untitled)|\.(?:docx?|dvi|tex|indd|pptx?|xlsx?|pdf)$", re.IGNORECASE)
logging.getLogger("pypdfium2").setLevel(logging.ERROR)  # which warns of forms
_DATE = re.compile(r"(?:D:)?(\d{4})(\d\d)(\d\d)")


def read(body: bytes, charset: str | None) -> Extraction:
    """Read a PDF file; raises ParseError."""
    try:
        document = pypdfium2.PdfDocument(body)
        document.init_forms()
    except pypdfium2.PdfiumError as error:
        if error.err_code == pdfium.FPDF_ERR_PASSWORD:
            raise ParseError("encrypted: it opens only with a password") from error
        raise ParseError("truncated or damaged: it is not a readable PDF") from error
    try:
        return _content(document)
    finally:
        document.close()


def _content(document: Any) -> Extraction:
    if len(document) > _MOST_PAGES:
        raise ParseError(f"more than {_MOST_PAGES:,} pages")
    if document.get_formtype() in (pdfium.FORMTYPE_XFA_FULL, pdfium.FORMTYPE_XFA_FOREGROUND):
        notes.add("an XFA form in a PDF: only what its pages show without a program for forms was read")
    if pdfium.FPDFDoc_GetAttachmentCount(document):
        notes.add("a file attached to a PDF was not read")
    pages, scanned, length = [], list[int](), 0
    for blocks in _pages(document, scanned):
        length += sum(len(block.text) for block in blocks)
        if length > _LONGEST:
            raise ParseError(f"more than {_LONGEST:,} characters of text")
        pages.append(blocks)
    hyphens = Hyphens(block.text for blocks in pages for block in blocks)
    pages = [[_resolved(block, hyphens) for block in blocks] for blocks in pages]
    outline = entries(document)
    headings = by_outline(outline, pages)
    if len(headings) < _LEAST_ENTRIES:
        headings = by_type(pages)
    title = document.get_metadata_value("Title").strip()
    changed = document.get_metadata_value("ModDate") or document.get_metadata_value("CreationDate")
    day = _DATE.match(changed)
    return Extraction(
        None if _MADE_UP.search(title) else title,
        sections_of(pages, paths(headings), hyphens),
        Declared(date="-".join(day.groups()) if day else None),
        scanned=tuple(scanned),
    )


def _resolved(block: Block, hyphens: Hyphens) -> Block:
    if HYPHEN not in block.text:
        return block
    return replace(block, text=hyphens.resolved(block.text), head=hyphens.resolved(block.head))


def _pages(document: Any, scanned: list[int]) -> Iterator[list[Block]]:
    """Yield the blocks of each page; only those near it are in memory with all their words.

    Pages that have no text but show something are added to `scanned`.
    """
    count = len(document)
    near: dict[int, Page] = {}
    for index in range(count + NEAR):
        if index < count:
            found = read_page(document, index)
            if not (found.words or found.text.strip()) and shows_something(document, index):
                scanned.append(index + 1)
            near[index] = Page(found)
        page = index - NEAR
        if page >= 0:
            others = {number: other for number, other in near.items() if number != page}
            twins = [number for number, other in others.items() if are_twins(near[page].ends, other.ends)]
            heads = running(page, {number: other.edges for number, other in near.items()}, twins, count)
            yield laid_out(near[page], heads)
            near.pop(page - NEAR, None)
