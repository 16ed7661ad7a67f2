"""DOCX to content.

The text is written as HTML and read by the one reader of HTML there is, so that headings, lists and tables come out
alike. What a reader of the document would not see is left out: hidden runs, deletions, field codes; comments are in a
part of their own, which is not read. Libraries for DOCX miss insertions and content controls, or show hidden text.
"""

import email
import email.policy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

from indexer import notes
from indexer.decoding import decode
from indexer.read.html.main_content import extract
from indexer.read.office.drawings import DRAWN, M, children, drawn, is_private, linear, readable, text_of_symbol
from indexer.read.office.word_styles import Numbering, Styles, W, switch, value_of, whole_number
from indexer.read.office.zipped import Package, core_properties, main_part
from indexer.records import Extraction

_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_DELETED = frozenset({f"{W}del", f"{W}moveFrom"})
_PROPERTIES = frozenset({f"{W}pPr", f"{W}rPr", f"{W}sdtPr", f"{W}sdtEndPr", f"{W}instrText", f"{W}delText"})
_LAST_HEADING = re.compile("<h[1-6]>([^<]*)</h[1-6]>\\Z")
_BODY = re.compile("</?body[^<>]*>", re.IGNORECASE)
_WIDEST = 1_000  # columns that a cell may span, as in HTML
_PARAGRAPH, _TABLE, _RUN, _TEXT = (f"{W}{name}" for name in ("p", "tbl", "r", "t"))
_FIELD, _BOX = f"{W}fldChar", f"{W}txbxContent"
_REFERENCES = (f"{W}footnoteReference", f"{W}endnoteReference")
_BOXES = ("☐", "☒")
_SIGNS = {
    f"{W}tab": " ",
    f"{W}ptab": " ",
    f"{W}br": "<br>",
    f"{W}cr": "<br>",
    f"{W}noBreakHyphen": "-",
    f"{W}softHyphen": "&shy;",
}


def read(body: bytes, charset: str | None) -> Extraction:
    """Read a DOCX file; raises ParseError."""
    with Package(body) as package:
        main = main_part(package, "word/document.xml")
        markup = "".join(_Walker(package, main).blocks(package.xml(main)))
        markup = _LAST_HEADING.sub(r"<p>\1</p>", markup)  # on a page of the web it would be one that a script fills
        title, declared = core_properties(package)
    found = extract(f"<body>{markup.replace('</ul><ul>', '')}</body>")
    return Extraction(title or found.title, found.sections, declared)


class _Walker:
    def __init__(self, package: Package, main: str) -> None:
        self._package = package
        self._relations = package.relations(main)
        self._styles = Styles(self._part("styles"))
        self._numbering = Numbering(self._part("numbering"), self._styles)
        self._notes = {  # footnotes and endnotes that have not been read, by kind and id
            (note.tag, note.get(f"{W}id", "")): note
            for root in (self._part("footnotes"), self._part("endnotes"))
            if root is not None
            for note in root.iterchildren(f"{W}footnote", f"{W}endnote")
        }
        self._is_hidden = False  # whether the style of the open paragraph hides its text
        self._after: list[str] = []  # what is set beside the open paragraph: text boxes, notes, diagrams
        self._carried = ""  # text of a paragraph that goes on in the next
        self._fields: list[bool] = []  # open fields: whether their result has begun

    def _part(self, kind: str) -> Any:
        name = next((name for other, name in self._relations.values() if other == kind), "")
        return self._package.xml(name) if name in self._package else None

    def blocks(self, root: Any) -> Iterator[str]:
        """Yield the paragraphs and tables inside an element as HTML."""
        for child in _children(root):
            if child.tag == _PARAGRAPH:
                yield self._paragraph(child)
            elif child.tag == _TABLE:
                yield self._table(child)
            elif child.tag in (f"{W}altChunk", f"{W}subDoc"):
                yield self._inserted(child)
            elif child.tag == f"{M}oMathPara":
                yield f"<p>{escape(linear(child))}</p>"
            else:  # body, content controls, insertions, notes
                yield from self.blocks(child)
        if self._carried:
            yield f"<p>{self._carried}</p>"
            self._carried = ""

    def _paragraph(self, paragraph: Any) -> str:
        outer = self._is_hidden, self._after, self._fields
        properties = paragraph.find(f"{W}pPr")
        is_plain = properties is None
        self._is_hidden, self._after, self._fields = not is_plain and self._styles.hides(properties), [], []
        carried, self._carried = self._carried, ""
        label = None if is_plain else self._numbering.label(properties)
        text = carried + "".join(self._inline(paragraph))
        beside = "".join(self._after)
        self._is_hidden, self._after, self._fields = outer
        if is_plain:
            return f"<p>{text}</p>{beside}"
        frame = properties.find(f"{W}framePr")
        is_large_letter = frame is not None and frame.get(f"{W}dropCap", "none") != "none"
        if is_large_letter or any(properties.find(f"{W}rPr/{mark}") is not None for mark in _DELETED):
            self._carried = text  # it goes on in the next paragraph
            return beside
        level = self._styles.heading_level(properties)
        if level is None and label == "":
            return f"<ul><li>{text}</li></ul>{beside}"
        if label and text.strip():
            text = f"{escape(label)} {text}"
        return f"<p>{text}</p>{beside}" if level is None else f"<h{level}>{text}</h{level}>{beside}"

    def _inserted(self, chunk: Any) -> str:
        """Return the HTML of a page that a program has put into the document; other documents are noted."""
        _, name = self._relations.get(chunk.get(f"{_R}id", ""), ("", ""))
        kind = name.rpartition(".")[2].lower()
        if name not in self._package or kind not in ("htm", "html", "xhtml", "mht", "mhtml"):
            notes.add("a document inside a document was not read")
            return ""
        body, charset = self._package.read(name), None
        if kind.startswith("mht"):  # packed as an e-mail is
            part = email.message_from_bytes(body, policy=email.policy.default).get_body(("html",))
            payload = part.get_payload(decode=True) if part is not None else b""
            body = payload if isinstance(payload, bytes) else b""
            charset = part.get_content_charset() if part is not None else None
        pieces = _BODY.split(decode(body, charset, markup=True), 2)
        return f"<div>{pieces[1] if len(pieces) > 1 else pieces[0]}</div>"

    def _table(self, table: Any) -> str:
        """Return a table whose cells name the rows and columns that they span."""
        rows: list[tuple[str, list[_Cell]]] = []
        above: dict[int, _Cell] = {}  # by column: cells that may go on below
        for row in _within(table, f"{W}tr"):
            properties = row.find(f"{W}trPr")
            deleted, hidden, before, head = (
                properties.find(W + name) if properties is not None else None
                for name in ("del", "hidden", "gridBefore", "tblHeader")
            )
            if deleted is not None or switch(hidden):
                continue
            indent = value_of(before)
            cells, above = self._cells(row, min(whole_number(indent, 0), _WIDEST), above)
            rows.append(("th" if switch(head) else "td", cells))
        lines = ("".join(cell.markup(tag) for cell in cells) for tag, cells in rows)
        return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"

    def _cells(self, row: Any, column: int, above: dict[int, "_Cell"]) -> tuple[list["_Cell"], dict[int, "_Cell"]]:
        """Return the cells that begin in a row, and those that may go on in the next, by column."""
        cells = [_Cell("", column)] if column else []
        below: dict[int, _Cell] = {}
        for element in _within(row, f"{W}tc"):
            properties = element.find(f"{W}tcPr")
            properties = element if properties is None else properties
            if properties.find(f"{W}cellDel") is not None:
                continue
            span = min(max(1, whole_number(value_of(properties.find(f"{W}gridSpan")), 1)), _WIDEST)
            down, across = properties.find(f"{W}vMerge"), properties.find(f"{W}hMerge")
            if across is not None and value_of(across) != "restart" and cells:
                cells[-1].columns = min(cells[-1].columns + span, _WIDEST)
            elif down is not None and value_of(down) != "restart" and column in above:
                above[column].rows += 1
                below[column] = above[column]
            else:
                cells.append(_Cell("".join(self.blocks(element)), span))
                if down is not None:
                    below[column] = cells[-1]
            column += span
        return cells, below

    def _inline(self, node: Any) -> Iterator[str]:
        for child in _children(node):
            tag = child.tag
            if tag in _PROPERTIES:
                continue
            is_shown = not self._fields or all(self._fields)
            if tag == _TEXT and is_shown:
                fonts = node.find(f"{W}rPr/{W}rFonts") if is_private(child.text or "") else None
                yield escape(readable(child.text or "", fonts.get(f"{W}ascii", "") if fonts is not None else ""))
            elif tag == _RUN and is_shown:
                if not self._styles.is_hidden(child, self._is_hidden):
                    yield from self._inline(child)
            elif tag == _FIELD:
                yield from self._field(child)
            elif tag in _REFERENCES:
                note = self._notes.pop((tag.removesuffix("Reference"), child.get(f"{W}id", "")), None)
                self._after += self.blocks(note) if note is not None else ()
            elif tag == _BOX:
                self._after += self.blocks(child)
            elif tag in DRAWN:
                self._after += (_table_or_text(rows) for rows in drawn(child, self._package, self._relations))
            elif not is_shown:
                yield from self._inline(child)
            elif tag in _SIGNS:
                yield _SIGNS[tag]
            elif tag == f"{W}sym":
                yield escape(text_of_symbol(child))
            elif tag in (f"{M}oMath", f"{M}oMathPara"):
                yield escape(linear(child))
            elif tag == f"{W}ruby":
                base, above = (child.find(W + name) for name in ("rubyBase", "rt"))
                yield f"<ruby>{self._text(base)}<rt>{self._text(above)}</rt></ruby>"
            else:
                yield from self._inline(child)

    def _text(self, node: Any) -> str:
        return "".join(self._inline(node)) if node is not None else ""

    def _field(self, mark: Any) -> Iterator[str]:
        """Follow the begin, the result and the end of a field; a field of a form shows its value."""
        kind = mark.get(f"{W}fldCharType")
        if kind == "begin":
            if len(self._fields) < 30:
                self._fields.append(False)
            box, choice = mark.find(f"{W}ffData/{W}checkBox"), mark.find(f"{W}ffData/{W}ddList")
            if box is not None:
                state = switch(box.find(f"{W}checked"))
                yield _BOXES[bool(switch(box.find(f"{W}default")) if state is None else state)]
            elif choice is not None:
                entries = [value_of(entry) for entry in choice.iterchildren(f"{W}listEntry")]
                place = whole_number(value_of(choice.find(f"{W}result")), 0)
                yield escape(entries[place]) if place < len(entries) else ""
        elif kind == "separate" and self._fields:
            self._fields[-1] = True
        elif kind == "end" and self._fields:
            self._fields.pop()


@dataclass(slots=True)
class _Cell:
    """A cell of a table while its rows are read."""

    html: str
    columns: int = 1
    rows: int = 1

    def markup(self, tag: str) -> str:
        spans = ((name, count) for name, count in (("colspan", self.columns), ("rowspan", self.rows)) if count > 1)
        return f"<{tag}{''.join(f' {name}={count}' for name, count in spans)}>{self.html}</{tag}>"


def _children(node: Any) -> Iterator[Any]:
    return (child for child in children(node) if child.tag not in _DELETED)


def _within(node: Any, wanted: str) -> Iterator[Any]:
    """Yield the rows of a table, or the cells of a row, whatever stands around each."""
    for child in _children(node):
        if child.tag == wanted:
            yield child
        else:
            yield from _within(child, wanted)


def _table_or_text(rows: list[list[str]]) -> str:
    """Return rows that a drawing says as HTML."""
    if len(rows) == 1:
        return f"<p>{escape(' '.join(rows[0]))}</p>"
    tags = ["th", *["td"] * (len(rows) - 1)]
    lines = ("".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row) for tag, row in zip(tags, rows, strict=True))
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"
