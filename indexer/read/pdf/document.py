"""Extract the sections of a PDF file in reading order, each with the page on which it begins.

PDFium is used because it is fast and, as part of Chromium, continuously fuzzed. Text outside the visible page is left
out. Invisible text is read, because OCR software adds the text of scanned pages as invisible text.
"""

import logging
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium

from indexer.errors import ParseError
from indexer.read.pdf.layout import HYPHENS, Hyphens, PdfBlock, read_pages
from indexer.read.pdf.lines import LINE_END_MARK
from indexer.records import Declared, Extraction, Section, SectionBlock
from indexer.text import reader_notes

_MAX_PAGES = 20_000
_MAX_CHARACTERS = 20_000_000
_MAX_BOOKMARKS = 20_000
_FAKE_TITLE = re.compile(r"^(?:Microsoft \w+ - |untitled)|\.(?:docx?|dvi|tex|indd|pptx?|xlsx?|pdf)$", re.IGNORECASE)
_DATE = re.compile(r"(?:D:)?(\d{4})(\d\d)(\d\d)")
_SECTION_NUMBER = re.compile(
    r"^(?:(?:chapter|appendix|part|section|kapitel|chapitre)\s+)?(?:\d++|[A-Z]\d*+|[IVXL]+)?(?:\.\d++)*+[.):]?\s+",
    re.IGNORECASE,
)
_NON_WORD = re.compile(r"[\W_]+")
_WORD = re.compile(r"[^\W\d_]{3}")
logging.getLogger("pypdfium2").setLevel(logging.ERROR)  # suppress warnings about forms

BlockIndex = tuple[int, int]  # index of the page, index of the block on the page
Heading = tuple[int, str]  # level from 0, text


def read(body: bytes, charset: str | None) -> Extraction:
    """Extract the text of a PDF file. Raises ParseError if the file is encrypted, damaged or too long."""
    try:
        document = pypdfium2.PdfDocument(body)
        document.init_forms()
    except pypdfium2.PdfiumError as error:
        if error.err_code == pdfium.FPDF_ERR_PASSWORD:
            raise ParseError("encrypted: it opens only with a password") from error
        raise ParseError("truncated or damaged: it is not a readable PDF") from error
    with closing(document):
        if len(document) > _MAX_PAGES:
            raise ParseError(f"more than {_MAX_PAGES:,} pages")
        if document.get_formtype() in (pdfium.FORMTYPE_XFA_FULL, pdfium.FORMTYPE_XFA_FOREGROUND):
            reader_notes.add("an XFA form in a PDF: only its static pages were read")
        if pdfium.FPDFDoc_GetAttachmentCount(document):
            reader_notes.add("a file attached to a PDF was not read")
        pages, scanned, length = [], list[int](), 0
        for blocks in read_pages(document, scanned):
            length += sum(len(block.text) for block in blocks)
            if length > _MAX_CHARACTERS:
                raise ParseError(f"more than {_MAX_CHARACTERS:,} characters of text")
            pages.append(blocks)
        hyphens = Hyphens(block.text for blocks in pages for block in blocks)
        for blocks in pages:
            for place, block in enumerate(blocks):
                if LINE_END_MARK in block.text:
                    blocks[place] = replace(block, text=hyphens.resolve(block.text), head=hyphens.resolve(block.head))
        headings = _headings_by_outline(document, pages)
        has_outline = len(headings) >= 3
        title = document.get_metadata_value("Title").strip()
        is_untitled = not title or _FAKE_TITLE.search(title)
        by_type = {} if has_outline and not is_untitled else _headings_by_type(pages)
        headings = headings if has_outline else by_type
        if is_untitled:
            largest = [(page, text) for (page, _), (level, text) in by_type.items() if not level]
            title = largest[0][1] if len(largest) == 1 and largest[0][0] == 0 else ""
        changed = document.get_metadata_value("ModDate") or document.get_metadata_value("CreationDate")
        day = _DATE.match(changed)
        return Extraction(
            title or None,
            _build_sections(pages, headings),
            Declared(date="-".join(day.groups()) if day else None),
            scanned=tuple(scanned),
        )


def _headings_by_outline(document: Any, pages: Sequence[Sequence[PdfBlock]]) -> dict[BlockIndex, Heading]:
    """Return the blocks that match the page and text of a bookmark, each with the level of the bookmark.

    If a title occurs several times on a page, the first block matches the first bookmark, and so on.
    """
    headings: dict[BlockIndex, Heading] = {}
    on_page: defaultdict[int, list[Heading]] = defaultdict(list)
    for mark in islice(document.get_toc(max_depth=8), _MAX_BOOKMARKS):
        destination = mark.get_dest()
        number = destination.get_index() if destination else None
        if number is not None and number < len(pages):
            on_page[number].append((mark.level, mark.get_title()[:1_000]))
    for page, marks in on_page.items():
        places: defaultdict[str, list[int]] = defaultdict(list)
        for place, block in enumerate(pages[page]):
            for key in _title_keys(block.text) if block.is_short else ():
                places[key].append(place)
        for level, title in marks:
            free = (
                place for key in _title_keys(title) for place in places.get(key, ()) if (page, place) not in headings
            )
            place = min(free, default=-1)
            if place >= 0:
                headings[page, place] = level, " ".join(pages[page][place].text.split())
    return headings


def _title_keys(text: str) -> set[str]:
    """Return the letters and digits of a title in lower case, with and without its section number."""
    variants = (text, _SECTION_NUMBER.sub("", text, count=1))
    return {key for variant in variants if (key := _NON_WORD.sub("", variant).casefold())}


def _headings_by_type(pages: Sequence[Sequence[PdfBlock]]) -> dict[BlockIndex, Heading]:
    """Return short blocks in large or bold type, or in capitals, as headings. The largest type is the top level."""
    blocks = {(page, place): block for page, page_blocks in enumerate(pages) for place, block in enumerate(page_blocks)}
    sizes: Counter[float] = Counter()
    for block in blocks.values():
        if block.kind in ("text", "item"):
            sizes[block.size] += len(block.text)
    if not sizes:
        return {}
    usual = max(sizes, key=lambda size: sizes[size])
    likely = {place: block for place, block in blocks.items() if _stands_out(block, usual)}
    if len(likely) > 0.34 * len(blocks) and len(likely) > len(pages):  # too many: bold is also used for text
        likely = {place: block for place, block in likely.items() if block.size >= 1.3 * usual}
    styles = {place: (max(block.size, usual), block.is_bold) for place, block in likely.items()}
    levels = {style: min(level, 5) for level, style in enumerate(sorted(set(styles.values()), reverse=True))}
    return {place: (levels[styles[place]], " ".join(block.text.split())) for place, block in likely.items()}


def _stands_out(block: PdfBlock, usual: float) -> bool:
    if block.kind in ("table", "code") or block.is_bullet or not block.is_short:
        return False
    if len(block.text) > 160 or not _WORD.search(block.text) or block.text.endswith((".", ",", ";", ":")):
        return False
    if block.size >= 1.1 * usual:
        return True
    if block.size < 0.95 * usual or "\n" in block.text:
        return False
    letters = [letter for letter in block.text if letter.isalpha()]
    return block.is_bold or (block.kind == "text" and len(letters) > 4 and all(map(str.isupper, letters)))


@dataclass(slots=True)
class _SectionDraft:
    path: tuple[str, ...]
    page: int
    text: str = ""
    page_marks: list[tuple[int, str]] = field(default_factory=list)
    blocks: list[SectionBlock] = field(default_factory=list)
    last: PdfBlock | None = None

    @property
    def has_no_heading(self) -> bool:
        return self.path == (f"Page {self.page + 1}",)

    def add(self, block: PdfBlock, page: int | None) -> None:
        """Append a block. `page` is the index of its page if the block is the first on that page, else None."""
        last, gap = self.last, "\n\n"
        if last:
            is_text = last.kind == block.kind == "text" and last.size == block.size
            if last.continues and is_text and block.text[:1].islower():
                gap = "" if self.text.endswith(HYPHENS) else " "
            elif last.kind == block.kind == "item":
                gap = "\n"
            self.text += gap
        if page is not None and page != self.page:
            self.page_marks.append((len(self.text), f"page={page + 1}"))
        if block.kind in ("table", "code"):
            head = block.head if block.kind == "table" else None
            self.blocks.append(SectionBlock(len(self.text), len(self.text) + len(block.text), head))
        self.text += block.text
        self.last = block


def _build_sections(pages: Sequence[Sequence[PdfBlock]], headings: Mapping[BlockIndex, Heading]) -> tuple[Section, ...]:
    above: list[Heading] = []
    drafts: list[_SectionDraft] = []
    for page, blocks in enumerate(pages):
        last = drafts[-1] if drafts else None
        if last is None or last.has_no_heading or not headings or len(last.text) > 10_000:
            path = last.path if last and headings and not last.has_no_heading else (f"Page {page + 1}",)
            drafts.append(_SectionDraft(path, page))
        for place, block in enumerate(blocks):
            heading = headings.get((page, place))
            if heading is None:
                drafts[-1].add(block, page if not place else None)
                continue
            while above and above[-1][0] >= heading[0]:
                above.pop()
            above.append(heading)
            drafts.append(_SectionDraft(tuple(text for _, text in above), page))
    for draft, after in zip(drafts, [*drafts[1:], None], strict=True):
        is_above = after is not None and after.path[: len(draft.path)] == draft.path
        if not draft.text and not is_above and not draft.has_no_heading:
            draft.text = draft.path[-1]
    return tuple(
        Section(draft.path, f"page={draft.page + 1}", draft.text, tuple(draft.page_marks), tuple(draft.blocks))
        for draft in drafts
        if draft.text
    )
