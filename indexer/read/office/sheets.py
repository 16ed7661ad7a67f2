"""Read workbooks (XLSX, XLS, ODS): a section for each sheet, with its values as people see them.

Calamine reads the values of XLSX and XLS. Formats, errors, hidden rows and text boxes of XLSX come from its parts,
which are searched instead of parsed: five times as fast for large sheets. Of XLS, numbers are written in full.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from io import BytesIO
from itertools import groupby, islice
from typing import Any

from lxml import etree
from python_calamine import CalamineError, CalamineWorkbook, PasswordError, SheetTypeEnum, SheetVisibleEnum

from indexer import notes
from indexer.errors import ParseError
from indexer.read.extraction import first_day, language_of
from indexer.read.files.separated import rows_to_text
from indexer.read.office.number_formats import BUILT_IN, GENERAL, shown
from indexer.read.office.zipped import OLE, Package, core_properties, main_part, refuse_ole
from indexer.read.tables import Cell, spread
from indexer.records import Declared, Extraction, Section

_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_XDR = "{http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing}"
_PLACE = rb'(?=[^<>]*?\br="([A-Z]{1,3})(\d{1,7})")'
_ERROR = re.compile(  # a cell up to its value, whether there is a formula before it or not
    rb'<[^<>]*\bt="e"[^<>]*>(?:<(?:\w+:)?f\b[^<>]*/?>(?:[^<]*</(?:\w+:)?f>)?)?<(?:\w+:)?v>([^<]{1,20})<'
)
_NEAR = 20_000  # bytes from a cell to its value, behind a formula
_WITHOUT_VALUE = re.compile(  # a formula whose result the program has not stored
    rb"(?:</(?:\w+:)?f>|<(?:\w+:)?f\b[^<>]*/>)(?:<(?:\w+:)?v ?/>|<(?:\w+:)?v></(?:\w+:)?v>)?</(?:\w+:)?c>"
)


class XlsxParts:
    """The parts of a workbook."""

    def __init__(self, package: Package) -> None:
        """Read the styles and the list of sheets; raises ParseError."""
        self._package = package
        book = main_part(package, "xl/workbook.xml")
        known = package.relations(book) if book in package else {}
        sheets = package.xml(book).iter("{*}sheet") if book in package else ()
        self._sheets = [known.get(sheet.get(_RELATION, ""), ("", ""))[1] for sheet in sheets]
        styles = next((name for kind, name in known.values() if kind == "styles"), "")
        self._codes = _format_codes(package, styles) if styles in package else {}

    def sheet(self, number: int) -> "SheetPart":
        """Return the part of a sheet; raises ParseError."""
        name = self._sheets[number] if number < len(self._sheets) else ""
        if name not in self._package:
            return SheetPart()
        part = SheetPart(self._package.read(name), self._codes, self._package, name)
        part.find_hidden()
        if b"<f" in part.data and _WITHOUT_VALUE.search(part.data):
            notes.add("formulas without a stored value were left out")
        return part


@dataclass(slots=True)
class SheetPart:
    """The part of one sheet; empty for formats that have none."""

    data: bytes = b""
    codes: dict[int, str] = field(default_factory=dict)  # formats by style
    package: Package | None = None
    name: str = ""
    hidden_rows: set[int] = field(default_factory=set)  # counted from 0
    hidden_columns: list[tuple[int, int]] = field(default_factory=list)  # first and last

    def marks(self) -> Iterator[tuple[int, dict[int, str], dict[int, str]]]:
        """Yield rows from 0 with the formats and the errors in them by column; rows without either are left out."""
        has_errors = b't="e"' in self.data
        if not self.codes and not has_errors:
            return
        styles = b"|".join(b"%d" % style for style in self.codes) or b"-"
        wanted = rb'(?=[^<>]*?\b(?:s="(' + styles + rb')"|t="e"))'
        cells = re.finditer(rb"<(?:\w+:)?c\s" + wanted + _PLACE, self.data)
        for row, found in groupby(cells, key=lambda cell: cell[3]):
            codes: dict[int, str] = {}
            errors: dict[int, str] = {}
            for cell in found:
                column = _column(cell[2])
                if cell[1]:
                    codes[column] = self.codes[int(cell[1])]
                if has_errors and (error := _ERROR.match(self.data, cell.start(), cell.start() + _NEAR)):
                    errors[column] = error[1].decode("utf-8", "replace")
            yield int(row) - 1, codes, errors

    def shapes(self) -> Iterator[str]:
        """Yield the paragraphs of text boxes on the sheet."""
        if self.package is None:
            return
        for kind, name in self.package.relations(self.name).values():
            if kind == "drawing" and name in self.package:
                for shape in self.package.xml(name).iter(f"{_XDR}sp"):
                    for paragraph in shape.iter(f"{_A}p"):
                        yield "".join(text.text or "" for text in paragraph.iter(f"{_A}t")).strip()

    def find_hidden(self) -> None:
        """Find the rows and columns that are not shown; raises ParseError."""
        if b"hidden" not in self.data:
            return
        tags, place = ("{*}row", "{*}col"), -1
        try:
            for _, element in etree.iterparse(BytesIO(self.data), tag=tags, resolve_entities=False, no_network=True):
                is_hidden = element.get("hidden", "").strip() in ("1", "true")
                if etree.QName(element).localname == "row":
                    place = int(element.get("r", place + 2)) - 1
                    if is_hidden:
                        self.hidden_rows.add(place)
                    element.clear()
                elif is_hidden:
                    self.hidden_columns.append((int(element.get("min", 1)) - 1, int(element.get("max", 1)) - 1))
        except (etree.LxmlError, ValueError) as error:
            raise ParseError(f"XML that cannot be read: {' '.join(str(error).split())[:100]}") from error


@lru_cache(maxsize=1_024)
def _column(letters: bytes) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + letter - 64
    return number - 1


def _format_codes(package: Package, name: str) -> dict[int, str]:
    """Return the formats of numbers by style, of those styles that have one."""
    root = package.xml(name)
    own = {entry.get("numFmtId"): entry.get("formatCode", "") for entry in root.iter("{*}numFmt")}
    codes: dict[int, str] = {}
    for style, entry in enumerate(entry for group in root.iter("{*}cellXfs") for entry in group.iter("{*}xf")):
        number = entry.get("numFmtId", "0")
        code = own.get(number) or BUILT_IN.get(int(number) if number.isdecimal() and len(number) < 4 else 0, GENERAL)
        if code not in (GENERAL, "@"):
            codes[style] = code
    return codes


CONTENT = "content.xml"
_META, _MANIFEST = "meta.xml", "META-INF/manifest.xml"
_OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_DC = "{http://purl.org/dc/elements/1.1/}"
_ROWS = (f"{_TABLE}table-row",)
_CELLS = (f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell")
MOST_CELLS = 5_000_000  # of one sheet
_MOST_ROWS = 2_000_000
_WIDEST = 16_384  # columns
_LONGEST_NUMBER = 8  # digits
_GAPS = (f"{_TEXT}s", f"{_TEXT}tab", f"{_TEXT}line-break")
_LEFT_OUT = (f"{_OFFICE}annotation", f"{_TEXT}ruby-text")
_ENCRYPTED = re.compile(rb"<(?:\w+:)?encryption-data\b")
Range = tuple[int, int, int, int]  # first row and column, last row and column, from 0


@dataclass(slots=True)
class Sheet:
    """A sheet, and what of it is merged or hidden, in rows and columns from 0."""

    name: str
    width: int = 0  # columns
    rows: list[list[str]] = field(default_factory=list)
    merged: list[Range] = field(default_factory=list)
    hidden_rows: set[int] = field(default_factory=set)
    hidden_columns: list[tuple[int, int]] = field(default_factory=list)  # first and last


def properties(package: Package) -> tuple[str | None, Declared]:
    """Return the title, and language and day of the last change; raises ParseError if the document is encrypted."""
    if _MANIFEST in package and _ENCRYPTED.search(package.read(_MANIFEST)):
        raise ParseError("encrypted: it opens only with a password")
    if _META not in package:
        return None, Declared()
    root = package.xml(_META)
    found = {
        name: next((entry.text for entry in root.iter(f"{_DC}{name}")), None) for name in ("title", "language", "date")
    }
    return found["title"], Declared(language_of(found["language"]), first_day([found["date"]]))


def read_sheets(package: Package) -> Iterator[Sheet]:
    """Yield the sheets that are shown; raises ParseError."""
    root = package.xml(CONTENT)
    hidden = {
        style.get(f"{_STYLE}name")
        for style in root.iter(f"{_STYLE}style")
        if any(entry.get(f"{_TABLE}display") == "false" for entry in style.iter(f"{_STYLE}table-properties"))
    }
    for table in root.iterfind(f"{_OFFICE}body/{_OFFICE}spreadsheet/{_TABLE}table"):
        if table.get(f"{_TABLE}style-name") not in hidden:
            yield _sheet(table)


def _sheet(table: Any) -> Sheet:
    sheet = Sheet(table.get(f"{_TABLE}name", ""))
    column = 0
    for entry in table.iter(f"{_TABLE}table-column"):
        count = _number(entry, "number-columns-repeated")
        if entry.get(f"{_TABLE}visibility") in ("collapse", "filter"):
            sheet.hidden_columns.append((column, column + count - 1))
        column += count
    cells = 0
    for row in table.iter(*_ROWS):
        texts = _row(row, sheet)
        count = _number(row, "number-rows-repeated") if texts else 1
        cells += len(texts) * count
        if cells > MOST_CELLS or len(sheet.rows) + count > _MOST_ROWS:
            raise ParseError(f"more than {MOST_CELLS:,} cells in sheet {sheet.name[:50]}")
        if row.get(f"{_TABLE}visibility") in ("collapse", "filter"):
            sheet.hidden_rows.update(range(len(sheet.rows), len(sheet.rows) + count))
        sheet.rows += [texts] * count
    sheet.width = max(map(len, sheet.rows), default=0)
    sheet.merged = [
        (top, first, min(bottom, len(sheet.rows) - 1), min(last, sheet.width - 1))
        for top, first, bottom, last in sheet.merged
        if first < sheet.width
    ]
    return sheet


def _row(row: Any, sheet: Sheet) -> list[str]:
    """Return the texts of a row up to the last that is not empty or merged, and take note of what is merged."""
    texts: list[str] = []
    column = 0
    for cell in row.iterchildren(*_CELLS):
        count = min(_number(cell, "number-columns-repeated"), _WIDEST)
        is_covered = cell.tag != _CELLS[0]
        text = "" if is_covered else _shown(cell)
        if (text or is_covered) and column + count <= _WIDEST:
            texts += [""] * (column - len(texts)) + [text] * count
        column += count
        across, down = _number(cell, "number-columns-spanned"), _number(cell, "number-rows-spanned")
        if across > 1 or down > 1:
            place = len(sheet.rows)
            sheet.merged.append((place, column - count, place + down - 1, column - count + across - 1))
    return texts


def _shown(cell: Any) -> str:
    """Return what a cell shows: its text, or else its value."""
    if text := "\n".join(_words(line) for line in cell.iterchildren(f"{_TEXT}p", f"{_TEXT}h")):
        return text
    kind, value = cell.get(f"{_OFFICE}value-type", ""), cell.get(f"{_OFFICE}value")
    if cell.get(f"{_TABLE}formula") and not kind:
        notes.add("formulas without a stored value were left out")
    if kind == "string" or value is None:
        stored = cell.get(f"{_OFFICE}{kind}-value", "") if kind else ""
        return str(stored).replace("T", " ") if kind == "date" else str(stored)
    try:
        return shown(float(value), "0.##########%" if kind == "percentage" else GENERAL)
    except (ValueError, OverflowError):
        return str(value)


def _words(node: Any) -> str:
    """Return the words of a paragraph, with the blanks that are elements in it."""
    pieces = [node.text or ""]
    for child in node:
        if child.tag in _GAPS:
            pieces.append(" ")
        elif isinstance(child.tag, str) and child.tag not in _LEFT_OUT:
            pieces.append(_words(child))
        pieces.append(child.tail or "")
    return "".join(pieces)


def _number(element: Any, name: str) -> int:
    text = element.get(_TABLE + name, "1")
    return max(1, int(text)) if text.isdecimal() and len(text) < _LONGEST_NUMBER else 1


_MOST_MERGED = 200_000  # cells of one sheet that merged ranges may cover


def read(body: bytes, charset: str | None) -> Extraction:
    """Read a workbook; raises ParseError."""
    if not body.startswith(b"PK"):
        if body.startswith(OLE):
            refuse_ole(body, is_workbook=True)
        return Extraction(None, tuple(_sections(body, None)), Declared())
    with Package(body) as package:
        if CONTENT in package:
            title, declared = properties(package)
            sheets = [Section((sheet.name,), None, _sheet_text(sheet.rows, sheet)) for sheet in read_sheets(package)]
            return Extraction(title, tuple(sheets), declared)
        title, declared = core_properties(package)
        package.check_sizes()  # the reader of sheets has no caps of its own
        return Extraction(title, tuple(_sections(body, XlsxParts(package))), declared)


def _sections(body: bytes, parts: XlsxParts | None) -> Iterator[Section]:
    try:
        book = CalamineWorkbook.from_filelike(BytesIO(body))
    except PasswordError as error:
        raise ParseError("encrypted: it opens only with a password") from error
    except CalamineError as error:
        raise ParseError(f"truncated or damaged: {' '.join(str(error).split())[:100]}") from error
    damaged: list[str] = []
    is_read = False
    for number, meta in enumerate(book.sheets_metadata):
        if meta.visible != SheetVisibleEnum.Visible:
            continue
        if meta.typ != SheetTypeEnum.WorkSheet:
            notes.add("a sheet that is a chart or a macro was not read")
            continue
        try:
            sheet = book.get_sheet_by_index(number)
        except CalamineError:
            damaged.append(meta.name[:50])
            continue
        if sheet.width * sheet.total_height > MOST_CELLS:
            raise ParseError(f"more than {MOST_CELLS:,} cells in sheet {meta.name[:50]}")
        part = parts.sheet(number) if parts is not None else SheetPart()
        left = sheet.start[1] if sheet.start is not None else 0
        layout = Sheet(meta.name, width=sheet.width, hidden_rows=part.hidden_rows)
        layout.hidden_columns = [(first - left, last - left) for first, last in part.hidden_columns]
        layout.merged = [
            (top, first - left, min(bottom, sheet.end[0]), min(last, sheet.end[1]) - left)
            for (top, first), (bottom, last) in sheet.merged_cell_ranges or ()
            if sheet.end is not None and left <= first <= sheet.end[1]
        ]
        text = _sheet_text(_shown_rows(sheet, part, left), layout)
        yield Section((meta.name,), None, "\n".join(filter(None, (text, *part.shapes()))))
        is_read = True
    if damaged and not is_read:
        raise ParseError(f"truncated or damaged: sheet {damaged[0]} cannot be read")
    if damaged:
        notes.add("a damaged sheet of a workbook was not read")


def _shown_rows(sheet: Any, part: SheetPart, left: int) -> Iterator[list[str]]:
    """Yield the rows of a sheet, with the formats and errors that stand in its part."""
    marks = part.marks()
    mark = next(marks, None)
    for place, values in enumerate(sheet.iter_rows()):
        while mark is not None and mark[0] < place:
            mark = next(marks, None)
        if mark is None or mark[0] > place:
            yield [value if isinstance(value, str) else shown(value) for value in values]
            continue
        _, codes, errors = mark
        for column, error in errors.items():
            if left <= column < left + len(values):
                values[column - left] = error
        yield [
            value if isinstance(value, str) else shown(value, codes.get(column, GENERAL))
            for column, value in enumerate(values, left)
        ]


def _sheet_text(rows: Iterable[list[str]], sheet: Sheet) -> str:
    hidden = {column for first, last in sheet.hidden_columns for column in range(max(0, first), min(last, _WIDEST) + 1)}
    shown_rows = (
        [cell for place, cell in enumerate(row) if place not in hidden] if hidden else row
        for place, row in enumerate(_merged(rows, sheet.merged, sheet.width))
        if place not in sheet.hidden_rows
    )
    return rows_to_text(shown_rows)


def _merged(rows: Iterable[list[str]], ranges: Iterable[Range], width: int) -> Iterator[list[str]]:
    """Yield the rows of a sheet of so many columns in which the text of a merged range stands in all its cells."""
    blocks: list[tuple[int, int, list[Range]]] = []  # first and last row, and the ranges in them
    left = _MOST_MERGED
    for merged in sorted(ranges):
        top, start, bottom, end = merged
        left -= (bottom - top + 1) * (end - start + 1)
        if left < 0:
            notes.add("a table with too many merged cells: only some were repeated")
            break
        if blocks and top <= blocks[-1][1]:
            first, last, inside = blocks[-1]
            inside.append(merged)
            blocks[-1] = first, max(last, bottom), inside
        else:
            blocks.append((top, bottom, [merged]))
    rows, place = iter(rows), 0
    for first, last, inside in blocks:
        yield from islice(rows, first - place)
        yield from _spread(list(islice(rows, last + 1 - first)), inside, first, width)
        place = last + 1
    yield from rows


def _spread(block: Sequence[list[str]], ranges: Iterable[Range], first: int, width: int) -> list[list[str]]:
    """Return rows with the merged ranges in them spread; `first` is the number of the first row."""
    spans: dict[tuple[int, int], tuple[int, int]] = {}
    covered: set[tuple[int, int]] = set()
    for top, start, bottom, end in ranges:
        places = [(row - first, column) for row in range(top, bottom + 1) for column in range(start, end + 1)]
        if places and covered.isdisjoint(places):
            spans[places[0]] = bottom - top + 1, end - start + 1
            covered.update(places)
    covered.difference_update(spans)
    cells = [
        [
            Cell(text, *spans.get((row, column), (1, 1)))
            for column, text in enumerate([*texts, *[""] * (width - len(texts))])
            if (row, column) not in covered
        ]
        for row, texts in enumerate(block)
    ]
    return spread([*cells, [Cell("")] * width])[:-1]  # the last row says how wide the sheet is
