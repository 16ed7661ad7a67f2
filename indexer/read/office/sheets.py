"""XLSX, XLS and ODS to content: a section for each sheet, with its values as people see them.

Hidden sheets are left out, and of XLSX and ODS hidden rows and columns. The formats of numbers are known of XLSX and
ODS; numbers of XLS are written in full.
"""

from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from typing import Any

from python_calamine import CalamineError, CalamineWorkbook, PasswordError, SheetTypeEnum, SheetVisibleEnum

from indexer import notes
from indexer.errors import ParseError
from indexer.read.extraction import Extraction
from indexer.read.files.table_text import rows_to_text
from indexer.read.metadata import Declared
from indexer.read.office.number_formats import GENERAL, shown
from indexer.read.office.opendocument import CONTENT, Range, Sheet, properties, read_sheets
from indexer.read.office.properties import core_properties
from indexer.read.office.xlsx_parts import SheetPart, XlsxParts
from indexer.read.office.zipped import OLE, Package, refuse_ole
from indexer.read.tables import Cell, spread
from indexer.records import Section

_MOST_CELLS = 5_000_000  # of one sheet: a single cell far out makes a grid of nothing
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
            sheets = [Section((sheet.name,), None, _text(sheet.rows, sheet)) for sheet in read_sheets(package)]
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
        if sheet.width * sheet.total_height > _MOST_CELLS:
            raise ParseError(f"more than {_MOST_CELLS:,} cells in sheet {meta.name[:50]}")
        part = parts.sheet(number) if parts is not None else SheetPart()
        left = sheet.start[1] if sheet.start is not None else 0
        layout = Sheet(meta.name, width=sheet.width, hidden_rows=part.hidden_rows)
        layout.hidden_columns = [(first - left, last - left) for first, last in part.hidden_columns]
        layout.merged = [
            (top, first - left, min(bottom, sheet.end[0]), min(last, sheet.end[1]) - left)
            for (top, first), (bottom, last) in sheet.merged_cell_ranges or ()
            if sheet.end is not None and left <= first <= sheet.end[1]
        ]
        text = _text(_shown_rows(sheet, part, left), layout)
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


def _text(rows: Iterable[list[str]], sheet: Sheet) -> str:
    rows = _merged(rows, sheet.merged, sheet.width)
    if sheet.hidden_rows:
        rows = (row for place, row in enumerate(rows) if place not in sheet.hidden_rows)
    if sheet.hidden_columns:
        rows = (_without(row, sheet.hidden_columns) for row in rows)
    return rows_to_text(rows)


def _without(row: Sequence[str], hidden: Sequence[tuple[int, int]]) -> list[str]:
    return [cell for place, cell in enumerate(row) if not any(first <= place <= last for first, last in hidden)]


def _merged(rows: Iterable[list[str]], ranges: Sequence[Range], width: int) -> Iterator[list[str]]:
    """Yield the rows of a sheet of so many columns in which the text of a merged range stands in all its cells."""
    waiting = sorted(ranges, reverse=True)
    block: list[list[str]] = []  # rows that some ranges have in common
    inside: list[Range] = []
    first, last = 0, -1  # rows of the block
    left = _MOST_MERGED
    for place, row in enumerate(rows):
        if block and place > last:
            yield from _spread(block, inside, first, width)
            block, inside = [], []
        while waiting and waiting[-1][0] <= place:
            found = waiting.pop()
            left -= (found[2] - found[0] + 1) * (found[3] - found[1] + 1)
            if left < 0:
                notes.add("a table with too many merged cells: only some were repeated")
                waiting = []
            elif found[0] == place:
                first = first if block else place
                last = max(last, found[2])
                inside.append(found)
        if inside:
            block.append(row)
        else:
            yield row
    if block:
        yield from _spread(block, inside, first, width)


def _spread(block: Sequence[list[str]], ranges: Iterable[Range], first: int, width: int) -> list[list[str]]:
    """Return rows with the merged ranges in them spread; `first` is the number of the first row."""
    rows = [texts + [""] * (width - len(texts)) for texts in block]
    spans: dict[tuple[int, int], tuple[int, int]] = {}
    covered: set[tuple[int, int]] = set()
    for top, start, bottom, end in ranges:
        places = [(row - first, column) for row in range(top, bottom + 1) for column in range(start, end + 1)]
        if places and covered.isdisjoint(places):
            spans[places[0]] = bottom - top + 1, end - start + 1
            covered.update(places)
    cells = [
        [
            Cell(text, *spans.get((row, column), (1, 1)))
            for column, text in enumerate(texts)
            if (row, column) in spans or (row, column) not in covered
        ]
        for row, texts in enumerate(rows)
    ]
    return spread([*cells, [Cell("")] * width])[:-1]  # the last row says how wide the sheet is
