"""XLSX, XLS and ODS to content: a section for each sheet; hidden sheets and comments are left out."""

import io
from collections.abc import Iterator

from python_calamine import CalamineError, CalamineWorkbook, PasswordError, SheetTypeEnum, SheetVisibleEnum

from indexer.content import Content
from indexer.errors import ParseError
from indexer.office import core_properties
from indexer.records import Section
from indexer.table_text import rows_to_text
from indexer.zipped import Package

_MOST_CELLS = 5_000_000  # of one sheet: a single cell far out makes a grid of nothing


def read(body: bytes, charset: str | None) -> Content:
    """Read a workbook; raises ParseError."""
    title, declared = None, None
    if body.startswith(b"PK"):
        with Package(body) as package:
            title, declared = core_properties(package)
            package.check_sizes()  # the reader of sheets has no caps of its own
    try:
        book = CalamineWorkbook.from_filelike(io.BytesIO(body))
    except PasswordError as error:
        raise ParseError("encrypted: it opens only with a password") from error
    except CalamineError as error:
        raise ParseError(f"truncated or damaged: {' '.join(str(error).split())[:100]}") from error
    sections = tuple(_sections(book))
    return Content(title, sections, declared) if declared else Content(title, sections)


def _sections(book: CalamineWorkbook) -> Iterator[Section]:
    for number, meta in enumerate(book.sheets_metadata):
        if meta.visible != SheetVisibleEnum.Visible or meta.typ != SheetTypeEnum.WorkSheet:
            continue
        try:
            sheet = book.get_sheet_by_index(number)
        except CalamineError as error:
            raise ParseError(f"truncated or damaged: sheet {meta.name[:50]} cannot be read") from error
        if sheet.width * sheet.height > _MOST_CELLS:
            raise ParseError(f"more than {_MOST_CELLS:,} cells in sheet {meta.name[:50]}")
        yield Section((meta.name,), None, rows_to_text([_text(cell) for cell in row] for row in sheet.iter_rows()))


def _text(cell: object) -> str:
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell)
