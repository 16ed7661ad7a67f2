"""Convert DOCX files to HTML, which the HTML reader divides into sections, and PPTX files to one section per slide.

Hidden text, deleted text, field codes and hidden slides are left out. No DOCX library is used, because these libraries
skip inserted text and content controls, or return hidden text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

from lxml import etree

from indexer.read.html.main_content import extract
from indexer.read.office.package import (
    DELETED,
    DRAWN,
    A,
    M,
    P,
    Package,
    R,
    W,
    decode_font_text,
    document_properties,
    drawing_texts,
    equation_text,
    main_part,
    text_of_symbol,
    visible_children,
)
from indexer.read.table_grid import Cell, column_names, find_head, spread_cells
from indexer.records import COLUMNS, Extraction, Section
from indexer.text import reader_notes

_PROPERTIES = frozenset({f"{W}pPr", f"{W}rPr", f"{W}sdtPr", f"{W}sdtEndPr", f"{W}instrText", f"{W}delText", f"{W}rt"})
_EMPTY = etree.Element("nothing")
_LAST_HEADING = re.compile("<h[1-6]>([^<]*)</h[1-6]>\\Z")
_MIN_FOOTER_WORDS = 3
_MAX_SPAN = 1_000  # rows or columns
_PARAGRAPH, _TABLE, _RUN, _TEXT, _BOX = (f"{W}{name}" for name in "p tbl r t txbxContent".split())
_NOTES = ("footnote", "endnote", "comment")
_REFERENCES = frozenset(f"{W}{kind}Reference" for kind in _NOTES)
_PAGE_NUMBER_FIELD = re.compile(r"\b(?:NUM|SECTION)?PAGES?\b")
_CHARACTERS = {
    f"{W}tab": " ", f"{W}ptab": " ", f"{W}br": "<br>", f"{W}cr": "<br>", f"{W}noBreakHyphen": "-",
    f"{W}softHyphen": "&shy;",
}  # fmt: skip


def read_docx(body: bytes, charset: str | None) -> Extraction:
    """Extract the text of a DOCX file. Raises ParseError if the file is damaged, encrypted or too large."""
    package = Package(body)
    main = main_part(package, "word/document.xml")
    walker = _Walker(package, main)
    markup = "".join([*walker.letterhead(), *walker.blocks(package.xml(main))])
    markup = _LAST_HEADING.sub(r"<p>\1</p>", markup)  # the HTML reader drops a heading that no text follows
    title, declared = document_properties(package)
    extraction = extract(f"<body>{markup.replace('</ul><ul>', '')}</body>")
    return Extraction(title or extraction.title, extraction.sections, declared)


@dataclass(slots=True)
class _Cell:
    html: str
    columns: int = 1
    rows: int = 1


class _Walker:
    def __init__(self, package: Package, main: str) -> None:
        self._package = package
        self._relations = package.relations(main)
        names = {kind: name for kind, name in reversed(self._relations.values()) if name in package}
        kinds = ("styles", *(f"{kind}s" for kind in _NOTES))
        styles, *roots = (package.xml(names[kind]) if kind in names else _EMPTY for kind in kinds)
        self._styles = _Styles(styles)
        # footnotes, endnotes and comments that are not read yet, by (tag, id)
        self._notes = {(note.tag, note.get(f"{W}id", "")): note for root in roots for note in root.iterchildren("*")}
        self._is_hidden = False
        self._after: list[str] = []  # HTML of text boxes, notes and diagrams, to append to the current paragraph
        self._pending = ""  # HTML of a paragraph to join with the next one, because the break between them is deleted

    def letterhead(self) -> dict[str, None]:
        """Return the distinct paragraphs of headers and footers as HTML, except page numbers."""
        names = dict.fromkeys(name for kind, name in self._relations.values() if kind in ("header", "footer"))
        blocks: dict[str, None] = {}
        for root in (self._package.xml(name) for name in names if name in self._package):
            for paragraph in list(root.iter(_PARAGRAPH)):
                fields = [text.text or "" for text in paragraph.iter(f"{W}instrText")]
                fields += [field.get(f"{W}instr", "") for field in paragraph.iter(f"{W}fldSimple")]
                words = "".join(text.text or "" for text in paragraph.iter(_TEXT)).split()
                if _PAGE_NUMBER_FIELD.search(" ".join(fields)) and sum(map(str.isalpha, words)) < _MIN_FOOTER_WORDS:
                    paragraph.clear()
            blocks |= dict.fromkeys(self.blocks(root))
        return blocks

    def blocks(self, root: Any) -> Iterator[str]:
        """Yield the paragraphs and tables in an element as HTML."""
        for child in visible_children(root):
            if child.tag == _PARAGRAPH:
                yield self._paragraph(child)
            elif child.tag == _TABLE:
                yield self._table(child)
            elif child.tag in (f"{W}altChunk", f"{W}subDoc"):
                reader_notes.add("a document inside a document was not read")
            elif child.tag == f"{M}oMathPara":
                yield f"<p>{escape(equation_text(child))}</p>"
            else:
                yield from self.blocks(child)
        if self._pending:
            yield f"<p>{self._pending}</p>"
            self._pending = ""

    def _paragraph(self, paragraph: Any) -> str:
        outer = self._is_hidden, self._after
        properties = paragraph.find(f"{W}pPr")
        is_hidden = properties is not None and bool(self._styles.inherited(properties, "hidden"))
        self._is_hidden, self._after = is_hidden, []
        pending, self._pending = self._pending, ""
        text = pending + "".join(self._inline(paragraph))
        following = "".join(self._after)
        self._is_hidden, self._after = outer
        if properties is None:
            return f"<p>{text}</p>{following}"
        if any(properties.find(f"{W}rPr/{mark}") is not None for mark in DELETED):
            self._pending = text
            return following
        outline = _attribute(properties.find(f"{W}outlineLvl"))
        level = self._styles.inherited(properties, "level", _BODY_TEXT_LEVEL)
        level = _number(outline, _BODY_TEXT_LEVEL) if outline else level
        if level >= _BODY_TEXT_LEVEL and self._styles.is_item(properties):
            return f"<ul><li>{text}</li></ul>{following}"
        tag = f"h{min(level + 1, 6)}" if level < _BODY_TEXT_LEVEL else "p"
        return f"<{tag}>{text}</{tag}>{following}"

    def _table(self, table: Any) -> str:
        rows: list[tuple[str, list[_Cell]]] = []
        above: dict[int, _Cell] = {}
        for row in _within(table, f"{W}tr"):
            deleted, hidden, before, head = (
                row.find(f"{W}trPr/{W}{name}") for name in ("del", "hidden", "gridBefore", "tblHeader")
            )
            if deleted is not None or _is_on(hidden):
                continue
            column = min(_number(_attribute(before), 0), _MAX_SPAN)
            cells = [_Cell("", column)] if column else []
            below: dict[int, _Cell] = {}
            for element in _within(row, f"{W}tc"):
                spanned, down = (element.find(f"{W}tcPr/{W}{name}") for name in ("gridSpan", "vMerge"))
                span = _span(_attribute(spanned))
                if down is not None and _attribute(down) != "restart" and column in above:
                    above[column].rows += 1
                    below[column] = above[column]
                else:
                    cells.append(_Cell("".join(self.blocks(element)), span))
                    if down is not None:
                        below[column] = cells[-1]
                column += span
            above = below
            rows.append(("th" if _is_on(head) else "td", cells))
        lines = (
            "".join(f"<{tag} colspan={cell.columns} rowspan={cell.rows}>{cell.html}</{tag}>" for cell in cells)
            for tag, cells in rows
        )
        return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"

    def _inline(self, node: Any) -> Iterator[str]:
        for child in visible_children(node):
            tag = child.tag
            if tag in _PROPERTIES:
                continue
            if tag == _TEXT:
                text = child.text or ""
                fonts = None if text.isascii() else node.find(f"{W}rPr/{W}rFonts")
                yield escape(decode_font_text(text, fonts.get(f"{W}ascii", "") if fonts is not None else ""))
            elif tag == _RUN:
                properties, hidden = child.find(f"{W}rPr"), self._is_hidden
                if properties is not None:
                    state = _is_on(properties.find(f"{W}vanish"))
                    hidden = self._styles.inherited(properties, "hidden", hidden, "rStyle") if state is None else state
                if not hidden:
                    yield from self._inline(child)
            elif tag in _REFERENCES:
                note = self._notes.pop((tag.removesuffix("Reference"), child.get(f"{W}id", "")), None)
                self._after += self.blocks(note) if note is not None else ()
            elif tag == _BOX:
                self._after += self.blocks(child)
            elif tag in DRAWN:
                self._after += (
                    f"<p>{escape(text)}</p>" for text in drawing_texts(child, self._package, self._relations)
                )
            elif tag in _CHARACTERS:
                yield _CHARACTERS[tag]
            elif tag == f"{W}sym":
                yield escape(text_of_symbol(child))
            elif tag in (f"{M}oMath", f"{M}oMathPara"):
                yield escape(equation_text(child))
            else:
                yield from self._inline(child)


def _within(node: Any, tag: str) -> Iterator[Any]:
    for child in visible_children(node):
        if child.tag == tag:
            yield child
        else:
            yield from _within(child, tag)


def _attribute(element: Any) -> str:
    return element.get(f"{W}val", "") if element is not None else ""


def _is_on(element: Any) -> bool | None:
    return None if element is None else element.get(f"{W}val", "true") not in ("0", "false", "off", "none")


def _number(text: str | None, default: int) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= 6 else default


def _span(text: str | None) -> int:
    return min(max(1, _number(text, 1)), _MAX_SPAN)


_BODY_TEXT_LEVEL = 9
_HEADING = re.compile("heading ?([1-9])")  # the name in the file is English in every language of the program


class _Style(NamedTuple):
    based_on: str
    level: int | None
    hidden: bool | None
    numbering: Any


class _Styles:
    def __init__(self, root: Any) -> None:
        self._styles: dict[str, _Style] = {}
        for style in root.iterchildren(f"{W}style"):
            identity, level = style.get(f"{W}styleId", ""), None
            style_name = _attribute(style.find(f"{W}name")).lower()
            if outline := _attribute(style.find(f"{W}pPr/{W}outlineLvl")):
                level = _number(outline, _BODY_TEXT_LEVEL)
            elif style.get(f"{W}type", "paragraph") == "paragraph":
                match = _HEADING.fullmatch(style_name)
                level = 0 if style_name == "title" else int(match[1]) - 1 if match else None
            hidden, numbering = _is_on(style.find(f"{W}rPr/{W}vanish")), style.find(f"{W}pPr/{W}numPr")
            self._styles[identity] = _Style(_attribute(style.find(f"{W}basedOn")), level, hidden, numbering)

    def inherited(self, properties: Any, name: str, default: Any = None, kind: str = "pStyle") -> Any:
        """Return the attribute `name` of the style named in `properties`, else of its base styles, else `default`."""
        identity = _attribute(properties.find(W + kind))
        for _ in range(30):
            style = self._styles.get(identity)
            if style is None:
                break
            if (value := getattr(style, name)) is not None:
                return value
            identity = style.based_on
        return default

    def is_item(self, properties: Any) -> bool:
        numbering = properties.find(f"{W}numPr")
        if numbering is None:
            numbering = self.inherited(properties, "numbering")
        return numbering is not None and _attribute(numbering.find(f"{W}numId")) != "0"  # 0 means no list


_SHAPE_PROPERTIES = tuple(f"{P}nv{kind}Pr" for kind in ("Sp", "GrpSp", "GraphicFrame", "Pic", "CxnSp"))
_TITLES = ("title", "ctrTitle")
_SKIPPED_PLACEHOLDERS = ("sldNum", "dt", "sldImg")
_FOOTERS_AND_HEADERS = ("ftr", "hdr")  # placeholders that are the same on most slides
_Relations = dict[str, tuple[str, str]]


def read_pptx(body: bytes, charset: str | None) -> Extraction:
    """Extract the text of a PPTX file. Raises ParseError if the file is damaged, encrypted or too large."""
    package = Package(body)
    main = main_part(package, "ppt/presentation.xml")
    slides = package.relations(main)
    sections = []
    running: set[str] = set()
    for number, entry in enumerate(package.xml(main).iter(f"{P}sldId"), start=1):
        _, name = slides.get(entry.get(f"{R}id", ""), ("", ""))
        root = package.xml(name) if name in package else None
        if root is None or root.get("show") in ("0", "false"):
            continue
        relations = package.relations(name)
        shown = list(_blocks(root, package, relations))
        title = " ".join(" ".join(lines) for kind, lines in shown if kind in _TITLES)
        for kind, page in relations.values():
            if kind == "notesSlide" and page in package:
                shown += _blocks(package.xml(page), package, package.relations(page))
            elif kind == "comments" and page in package:
                comments = package.xml(page)
                shown.append(("", [*(text.text or "" for text in comments.iter(f"{P}text")), *_lines(comments)]))
        blocks = []
        for kind, lines in shown:
            block = "\n".join(lines)
            if kind not in (*_TITLES, *_FOOTERS_AND_HEADERS) or (kind in _FOOTERS_AND_HEADERS and block not in running):
                blocks.append(block)
            running.update([block] if kind in _FOOTERS_AND_HEADERS else [])
        label = f"Slide {number}"
        text = "\n\n".join(block for block in blocks if block.strip())
        sections.append(Section((f"{label}: {title}" if title else label,), f"slide={number}", text or title))
    name_of_deck, declared = document_properties(package)
    return Extraction(name_of_deck, tuple(sections), declared)


def _blocks(node: Any, package: Package, relations: _Relations) -> Iterator[tuple[str, list[str]]]:
    for child in visible_children(node):
        names = next((element.find(f"{P}cNvPr") for element in child.iterchildren(*_SHAPE_PROPERTIES)), None)
        if names is not None and names.get("hidden") in ("1", "true"):
            continue
        if child.tag == f"{P}sp":
            placeholder = child.find(f"{P}nvSpPr/{P}nvPr/{P}ph")
            kind = str(placeholder.get("type", "")) if placeholder is not None else ""
            if kind not in _SKIPPED_PLACEHOLDERS and (lines := _lines(child)):
                yield kind, lines
        elif child.tag == f"{A}tbl":
            yield "", _table(child)
        elif child.tag in DRAWN:
            yield from (("", [text]) for text in drawing_texts(child, package, relations))
        else:
            yield from _blocks(child, package, relations)


def _table(table: Any) -> list[str]:
    grid = spread_cells(
        [
            Cell(" ".join(_lines(cell)), _span(cell.get("rowSpan")), _span(cell.get("gridSpan")))
            for cell in row.iterchildren(f"{A}tc")
            if not any(cell.get(mark) in ("1", "true") for mark in ("hMerge", "vMerge"))
        ]
        for row in table.iterchildren(f"{A}tr")
    )
    begin, end = find_head(grid)
    names = [column_names(grid[begin:end])] if end > begin else []
    return [COLUMNS.join(row) for row in (*grid[:begin], *names, *grid[end:]) if any(row)]


def _lines(shape: Any) -> list[str]:
    paragraphs = ("".join(_run_texts(paragraph)) for paragraph in shape.iter(f"{A}p"))
    return [line for paragraph in paragraphs for line in paragraph.split("\n") if line.strip()]


def _run_texts(node: Any) -> Iterator[str]:
    for child in visible_children(node):
        if child.tag == f"{A}t":
            fonts = node.find(f"{A}rPr/{A}sym")
            yield decode_font_text(child.text or "", fonts.get("typeface", "") if fonts is not None else "")
        elif child.tag == f"{A}br":
            yield "\n"
        elif child.tag.startswith(M):
            yield equation_text(child)
        else:
            yield from _run_texts(child)
