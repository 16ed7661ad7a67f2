"""PDF to content: one section per page, so that a hit can name its page.

Uses PDFium, because it is the engine of a browser: fast, and fuzzed every day. Text outside the visible page is left
out; invisible text is kept, because scanned pages carry their recognised text that way.
"""

import re
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium

from indexer.errors import ParseError
from indexer.read.extraction import Extraction, tidy
from indexer.read.metadata import Declared
from indexer.records import Section

_MOST_PAGES = 20_000
_LONGEST = 20_000_000  # characters of the whole document
_HYPHEN = re.compile("[\ufffe\x02]\r?\n?")  # what PDFium gives for a hyphen that only ends a line
_WRAPPED = re.compile(r"(?<=[^\W\d_A-Z]|[,;])\n(?=[^\W\d_A-Z])")  # a line end inside a sentence
_MADE_UP = re.compile(r"^(?:Microsoft \w+ - |untitled)|\.(?:docx?|dvi|tex|indd|pptx?|xlsx?|pdf)$", re.IGNORECASE)
_DATE = re.compile(r"(?:D:)?(\d{4})(\d\d)(\d\d)")


def read(body: bytes, charset: str | None) -> Extraction:
    """Read a PDF file; raises ParseError."""
    try:
        document = pypdfium2.PdfDocument(body)
    except pypdfium2.PdfiumError as error:
        if error.err_code == pdfium.FPDF_ERR_PASSWORD:
            raise ParseError("encrypted: it opens only with a password") from error
        raise ParseError("truncated or damaged: it is not a readable PDF") from error
    try:
        return _content(document)
    finally:
        document.close()


def _content(document: Any) -> Extraction:
    count = len(document)
    if count > _MOST_PAGES:
        raise ParseError(f"more than {_MOST_PAGES:,} pages")
    sections, length = [], 0
    for index in range(count):
        text = _text(document, index)
        length += len(text)
        if length > _LONGEST:
            raise ParseError(f"more than {_LONGEST:,} characters of text")
        sections.append(Section((f"Page {index + 1}",), f"page={index + 1}", text))
    title = document.get_metadata_value("Title").strip()
    changed = document.get_metadata_value("ModDate") or document.get_metadata_value("CreationDate")
    day = _DATE.match(changed)
    return Extraction(
        None if _MADE_UP.search(title) else title,
        tuple(sections),
        Declared(date="-".join(day.groups()) if day else None),
    )


def _text(document: Any, index: int) -> str:
    try:
        page = document[index]
    except pypdfium2.PdfiumError:  # a damaged page among good ones fails alone
        return ""
    try:
        text_page = page.get_textpage()
        text = _HYPHEN.sub("", text_page.get_text_bounded()).replace("\r\n", "\n")
        text_page.close()
    except pypdfium2.PdfiumError:
        return ""
    finally:
        page.close()
    return _WRAPPED.sub(" ", tidy(text))
