"""Workbooks of LibreOffice and other programs (ODS): their sheets, with the texts that the cells show."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from indexer import notes
from indexer.errors import ParseError
from indexer.read.metadata import Declared, first_day, language_of
from indexer.read.office.number_formats import GENERAL, shown
from indexer.read.office.zipped import Package

CONTENT = "content.xml"
_META, _MANIFEST = "meta.xml", "META-INF/manifest.xml"
_OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_DC = "{http://purl.org/dc/elements/1.1/}"
_ROWS = (f"{_TABLE}table-row",)
_CELLS = (f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell")
_GAPS = (f"{_TEXT}s", f"{_TEXT}tab", f"{_TEXT}line-break")
_LEFT_OUT = (f"{_OFFICE}annotation", f"{_TEXT}ruby-text")
_MOST_CELLS = 5_000_000  # of one sheet
_MOST_ROWS = 2_000_000
_WIDEST = 16_384  # columns
_LONGEST_NUMBER = 8  # digits
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
        if cells > _MOST_CELLS or len(sheet.rows) + count > _MOST_ROWS:
            raise ParseError(f"more than {_MOST_CELLS:,} cells in sheet {sheet.name[:50]}")
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
    if text := "\n".join(_text(line) for line in cell.iterchildren(f"{_TEXT}p", f"{_TEXT}h")):
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


def _text(node: Any) -> str:
    """Return the words of a paragraph, with the blanks that are elements in it."""
    pieces = [node.text or ""]
    for child in node:
        if child.tag in _GAPS:
            pieces.append(" ")
        elif isinstance(child.tag, str) and child.tag not in _LEFT_OUT:
            pieces.append(_text(child))
        pieces.append(child.tail or "")
    return "".join(pieces)


def _number(element: Any, name: str) -> int:
    """Return how often an element stands there, or how far it spans."""
    text = element.get(_TABLE + name, "1")
    return max(1, int(text)) if text.isdecimal() and len(text) < _LONGEST_NUMBER else 1
