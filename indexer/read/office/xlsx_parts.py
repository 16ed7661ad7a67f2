"""What the parts of an XLSX file say beside the values: formats of cells, errors, hidden rows, texts of shapes.

The reader of values gives none of these. A sheet has millions of cells, so its part is searched for those alone that
have a format or an error, which is five times as fast as parsing it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from io import BytesIO

from lxml import etree

from indexer import notes
from indexer.errors import ParseError
from indexer.read.office.number_formats import BUILT_IN, GENERAL
from indexer.read.office.properties import main_part
from indexer.read.office.zipped import Package

_BOOK = "xl/workbook.xml"
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
        book = main_part(package, _BOOK)
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
        last, codes, errors = b"", dict[int, str](), dict[int, str]()
        for cell in re.finditer(rb"<(?:\w+:)?c\s" + wanted + _PLACE, self.data):
            style, letters, row = cell.groups()
            if row != last:
                if last:
                    yield int(last) - 1, codes, errors
                last, codes, errors = row, {}, {}
            column = _column(letters)
            if style:
                codes[column] = self.codes[int(style)]
            if has_errors and (error := _ERROR.match(self.data, cell.start(), cell.start() + _NEAR)):
                errors[column] = error[1].decode("utf-8", "replace")
        if last:
            yield int(last) - 1, codes, errors

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
