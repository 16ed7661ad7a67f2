"""XLSX, XLS and ODS to content: a section for each sheet; hidden sheets, of XLSX rows and columns, are left out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO

from lxml import etree
from python_calamine import CalamineError, CalamineWorkbook, PasswordError, SheetTypeEnum, SheetVisibleEnum

from indexer.errors import ParseError
from indexer.read.extraction import Extraction
from indexer.read.files.table_text import rows_to_text
from indexer.read.office.properties import core_properties, main_part
from indexer.read.office.zipped import Package
from indexer.records import Section

_MOST_CELLS = 5_000_000  # of one sheet: a single cell far out makes a grid of nothing
_BOOK = "xl/workbook.xml"
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"


@dataclass(frozen=True, slots=True)
class _Hidden:
    """Rows and columns of one sheet that are not shown, counted from 0."""

    rows: set[int] = field(default_factory=set)
    columns: list[tuple[int, int]] = field(default_factory=list)  # first and last

    def has_column(self, place: int) -> bool:
        return any(first <= place <= last for first, last in self.columns)


def read(body: bytes, charset: str | None) -> Extraction:
    """Read a workbook; raises ParseError."""
    title, declared, hidden = None, None, list[_Hidden]()
    if body.startswith(b"PK"):
        with Package(body) as package:
            title, declared = core_properties(package)
            package.check_sizes()  # the reader of sheets has no caps of its own
            hidden = _hidden(package)
    try:
        book = CalamineWorkbook.from_filelike(BytesIO(body))
    except PasswordError as error:
        raise ParseError("encrypted: it opens only with a password") from error
    except CalamineError as error:
        raise ParseError(f"truncated or damaged: {' '.join(str(error).split())[:100]}") from error
    sections = tuple(_sections(book, hidden))
    return Extraction(title, sections, declared) if declared else Extraction(title, sections)


def _sections(book: CalamineWorkbook, hidden: Sequence[_Hidden]) -> Iterator[Section]:
    for number, meta in enumerate(book.sheets_metadata):
        if meta.visible != SheetVisibleEnum.Visible or meta.typ != SheetTypeEnum.WorkSheet:
            continue
        try:
            sheet = book.get_sheet_by_index(number)
        except CalamineError as error:
            raise ParseError(f"truncated or damaged: sheet {meta.name[:50]} cannot be read") from error
        if sheet.width * sheet.total_height > _MOST_CELLS:
            raise ParseError(f"more than {_MOST_CELLS:,} cells in sheet {meta.name[:50]}")
        unseen = hidden[number] if number < len(hidden) else _Hidden()
        first = sheet.start[1] if sheet.start is not None else 0
        columns = [place for place in range(sheet.width) if not unseen.has_column(first + place)]
        rows = (row for place, row in enumerate(sheet.iter_rows()) if place not in unseen.rows)
        yield Section((meta.name,), None, rows_to_text([_text(row[place]) for place in columns] for row in rows))


def _hidden(package: Package) -> list[_Hidden]:
    """Return the rows and columns that each sheet of an XLSX file hides; nothing of another format."""
    book = main_part(package, _BOOK)
    if book not in package:
        return []
    parts = package.relations(book)
    sheets = [parts.get(sheet.get(_RELATION, ""), ("", ""))[1] for sheet in package.xml(book).iter("{*}sheet")]
    return [_hidden_in(package, part) for part in sheets]


def _hidden_in(package: Package, part: str) -> _Hidden:
    data = package.read(part) if part in package else b""
    hidden = _Hidden()
    if b"hidden" not in data:
        return hidden
    tags, place = ("{*}row", "{*}col"), -1
    try:
        for _, element in etree.iterparse(BytesIO(data), tag=tags, resolve_entities=False, no_network=True):
            is_hidden = element.get("hidden", "").strip() in ("1", "true")
            if etree.QName(element).localname == "row":
                place = int(element.get("r", place + 2)) - 1
                if is_hidden:
                    hidden.rows.add(place)
                element.clear()
            elif is_hidden:
                hidden.columns.append((int(element.get("min", 1)) - 1, int(element.get("max", 1)) - 1))
    except (etree.LxmlError, ValueError) as error:
        raise ParseError(f"XML that cannot be read: {' '.join(str(error).split())[:100]}") from error
    return hidden


def _text(cell: object) -> str:
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell)
