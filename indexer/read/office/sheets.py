"""Convert each sheet of a workbook (XLSX, XLS, ODS) to a section, with values as a spreadsheet program shows them.

Calamine reads the values of XLSX and XLS files. Regular expressions read the number formats of XLSX files from the XML,
because an XML parser would take 5 times as long for a large sheet. Numbers of XLS files are not formatted. Hidden rows
and columns are read, because users can show them with a click.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from io import BytesIO
from itertools import groupby, takewhile
from typing import Any, NamedTuple

from lxml import etree
from python_calamine import CalamineError, CalamineWorkbook, PasswordError, SheetTypeEnum, SheetVisibleEnum

from indexer.errors import ParseError
from indexer.read.office.package import OLE, A, Package, R, document_properties, main_part, refuse_ole
from indexer.read.text import rows_to_text
from indexer.records import Declared, Extraction, Section
from indexer.text import reader_notes

_MAX_CELLS = 5_000_000
_MAX_MERGED_CELLS = 200_000
_MAX_ROWS = 2_000_000
_MAX_COLUMNS = 16_384
_MAX_STYLES_IN_PATTERN = 100
_THREAD_AUTHOR_PREFIX = "tc="  # marks the copy of a threaded comment for older programs
_MAX_REPEAT_LENGTH = 200  # characters of a merged cell
Range = tuple[int, int, int, int]  # first row, first column, last row, last column; counted from 0


@dataclass(slots=True)
class _Sheet:
    """A visible sheet. `merged` lists its merged cell ranges, and `boxes` the texts of its text boxes and comments."""

    name: str
    rows: Iterable[list[str]] = ()
    height: int = 0
    width: int = 0
    merged: list[Range] = field(default_factory=list)
    boxes: Iterable[str] = ()


def read(body: bytes, charset: str | None) -> Extraction:
    """Extract the text of a workbook. Raises ParseError if the file is damaged, encrypted or too large."""
    if not body.startswith(b"PK"):
        if body.startswith(OLE):
            refuse_ole(body, is_workbook=True)
        return Extraction(None, tuple(map(_sheet_section, _read_sheets(body, None))), Declared())
    package = Package(body)
    if _MANIFEST in package and _ENCRYPTED.search(package.read(_MANIFEST)):
        raise ParseError("encrypted: it opens only with a password")
    title, declared = document_properties(package)
    if _CONTENT in package:
        sheets = _ods_sheets(package.xml(_CONTENT))
    else:
        package.check_sizes()  # Calamine does not limit the size of zip entries
        sheets = _read_sheets(body, package)
    return Extraction(title, tuple(map(_sheet_section, sheets)), declared)


def _sheet_section(sheet: _Sheet) -> Section:
    return Section((sheet.name,), None, "\n".join(filter(None, (rows_to_text(_fill_merged(sheet)), *sheet.boxes))))


def _fill_merged(sheet: _Sheet) -> Iterator[list[str]]:
    """Yield the rows of a sheet. The text of a merged range is repeated in each of its cells.

    If the range is as wide as the sheet, the text is only in the first cell of each row.
    """
    starting: defaultdict[int, list[Range]] = defaultdict(list)
    allowance = _MAX_MERGED_CELLS
    for top, first, bottom, last in sorted(sheet.merged):
        bottom, last = min(bottom, sheet.height - 1), min(last, sheet.width - 1)
        allowance -= max(0, bottom - top + 1) * max(0, last - first + 1)
        if allowance < 0:
            reader_notes.add("a table with too many merged cells: the text of only some was repeated")
            break
        if 0 <= first <= last:
            starting[top].append((top, first, bottom, last))
    filling: list[tuple[Range, str]] = []
    for number, row in enumerate(sheet.rows):
        filling = [(merged, text) for merged, text in filling if merged[2] >= number]
        starts = starting.get(number, ())
        if starts or filling:
            row = [*row, *[""] * (sheet.width - len(row))]
        filling += [(merged, row[merged[1]]) for merged in starts if 0 < len(row[merged[1]]) <= _MAX_REPEAT_LENGTH]
        for (_, first, _, last), text in filling:
            count = last - first + 1
            row[first : last + 1] = [text] * count if count < sheet.width else [text, *[""] * (count - 1)]
        yield row


def _read_sheets(body: bytes, package: Package | None) -> Iterator[_Sheet]:
    names, codes = _sheet_parts(package) if package is not None else ([], {})
    try:
        book = CalamineWorkbook.from_filelike(BytesIO(body))
    except PasswordError as error:
        raise ParseError("encrypted: it opens only with a password") from error
    except CalamineError as error:
        raise ParseError(f"truncated or damaged: {' '.join(str(error).split())[:100]}") from error
    for number, meta in enumerate(book.sheets_metadata):
        if meta.visible != SheetVisibleEnum.Visible:
            continue
        if meta.typ != SheetTypeEnum.WorkSheet:
            reader_notes.add("a sheet that is a chart or a macro was not read")
            continue
        try:
            values = book.get_sheet_by_index(number)
        except CalamineError:
            reader_notes.add("a damaged sheet of a workbook was not read")
            continue
        if values.width * values.total_height > _MAX_CELLS:
            raise ParseError(f"more than {_MAX_CELLS:,} cells in sheet {meta.name[:50]}")
        west = values.start[1] if values.start is not None else 0
        sheet = _Sheet(meta.name, height=values.end[0] + 1 if values.end else 0, width=values.width)
        data = b""
        if package is not None and number < len(names) and names[number] in package:
            data = package.read(names[number])
            if b"<f" in data and _FORMULA_WITHOUT_RESULT.search(data):
                reader_notes.add("formulas without a stored value were left out")
            sheet.boxes = _text_boxes(package, package.relations(names[number]).values())
        sheet.rows = _shown_rows(values, west, _cell_formats(data, codes))
        sheet.merged = [
            (top, first - west, bottom, last - west) for (top, first), (bottom, last) in values.merged_cell_ranges or ()
        ]
        yield sheet


_SHAPE = "{http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing}sp"
_PLACE = rb'(?=[^<>]*?\br="([A-Z]{1,3})(\d{1,7})")'
_FORMULA_WITHOUT_RESULT = re.compile(
    rb"(?:</(?:\w+:)?f>|<(?:\w+:)?f\b[^<>]*/>)(?:<(?:\w+:)?v ?/>|<(?:\w+:)?v></(?:\w+:)?v>)?</(?:\w+:)?c>"
)


def _sheet_parts(package: Package) -> tuple[list[str], dict[int, str]]:
    book = main_part(package, "xl/workbook.xml")
    if book not in package:
        return [], {}
    relations = package.relations(book)
    names = [relations.get(sheet.get(f"{R}id", ""), ("", ""))[1] for sheet in package.xml(book).iter("{*}sheet")]
    styles = next((name for kind, name in relations.values() if kind == "styles"), "")
    if styles not in package:
        return names, {}
    root = package.xml(styles)
    customs = {entry.get("numFmtId"): entry.get("formatCode", "") for entry in root.iter("{*}numFmt")}
    codes: dict[int, str] = {}
    for style, entry in enumerate(entry for group in root.iter("{*}cellXfs") for entry in group.iter("{*}xf")):
        number = entry.get("numFmtId", "0")
        code = customs.get(number) or _BUILT_IN_FORMATS.get(number, _GENERAL)
        if code not in (_GENERAL, "@"):
            codes[style] = code
    return names, codes


def _text_boxes(package: Package, related: Iterable[tuple[str, str]]) -> Iterator[str]:
    for kind, name in related:
        if name not in package:
            continue
        if kind == "drawing":
            for shape in package.xml(name).iter(_SHAPE):
                for paragraph in shape.iter(f"{A}p"):
                    yield "".join(text.text or "" for text in paragraph.iter(f"{A}t")).strip()
        elif kind in ("comments", "threadedComment"):
            root = package.xml(name)
            authors = {str(number): author.text or "" for number, author in enumerate(root.iter("{*}author"))}
            for comment in root.iter("{*}comment", "{*}threadedComment"):
                author = authors.get(comment.get("authorId", ""), "")
                if not author.startswith(_THREAD_AUTHOR_PREFIX):
                    yield " ".join("".join(text.text or "" for text in comment.iter("{*}t", "{*}text")).split())


def _cell_formats(data: bytes, codes: Mapping[int, str]) -> Iterator[tuple[int, dict[int, str]]]:
    if not codes:
        return
    # a pattern that lists a few style numbers is twice as fast as a pattern for any number
    styles = b"|".join(b"%d" % style for style in codes) if len(codes) < _MAX_STYLES_IN_PATTERN else rb"\d{1,7}"
    cells = re.finditer(rb'<(?:\w+:)?c\s(?=[^<>]*?\bs="(' + styles + rb')")' + _PLACE, data)
    for row, row_cells in groupby(cells, key=lambda cell: cell[3]):
        yield int(row) - 1, {_column_number(cell[2]): codes.get(int(cell[1]), _GENERAL) for cell in row_cells}


@lru_cache(maxsize=1_024)
def _column_number(letters: bytes) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + letter - 64
    return number - 1


def _shown_rows(values: Any, west: int, formats: Iterator[tuple[int, dict[int, str]]]) -> Iterator[list[str]]:
    format_row, codes = next(formats, (-1, {}))
    for number, row in enumerate(values.iter_rows()):
        while -1 < format_row < number:
            format_row, codes = next(formats, (-1, {}))
        row_codes = codes if format_row == number else {}
        yield [
            value if isinstance(value, str) else format_value(value, row_codes.get(column, _GENERAL))
            for column, value in enumerate(row, west)
        ]


_CONTENT, _MANIFEST = "content.xml", "META-INF/manifest.xml"
_ENCRYPTED = re.compile(rb"<(?:\w+:)?encryption-data\b")
_OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_DRAW = "{urn:oasis:names:tc:opendocument:xmlns:drawing:1.0}"
_STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_CELLS = (f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell")
_GAPS = (f"{_TEXT}s", f"{_TEXT}tab", f"{_TEXT}line-break")
_ANNOTATION = f"{_OFFICE}annotation"


def _ods_sheets(root: Any) -> Iterator[_Sheet]:
    etree.strip_elements(root, etree.Comment, with_tail=False)
    for gap in root.iter(*_GAPS):
        gap.text = " "
    hidden = {
        style.get(f"{_STYLE}name")
        for style in root.iter(f"{_STYLE}style")
        if any(entry.get(f"{_TABLE}display") == "false" for entry in style.iter(f"{_STYLE}table-properties"))
    }
    for table in root.iterfind(f"{_OFFICE}body/{_OFFICE}spreadsheet/{_TABLE}table"):
        if table.get(f"{_TABLE}style-name") in hidden:
            continue
        sheet, rows = _Sheet(table.get(f"{_TABLE}name", "")), list[list[str]]()
        shapes = (line for shape in table.iter(f"{_DRAW}*", _ANNOTATION) for line in shape.iterchildren(f"{_TEXT}p"))
        sheet.boxes = ["".join(line.itertext()).strip() for line in shapes]
        etree.strip_elements(table, _ANNOTATION, with_tail=False)
        cells = 0
        for row in table.iter(f"{_TABLE}table-row"):
            texts = _ods_row(row, sheet, len(rows))
            count = _repeat_count(row, "rows-repeated") if texts else 1
            cells += len(texts) * count
            if cells > _MAX_CELLS or len(rows) + count > _MAX_ROWS:
                raise ParseError(f"more than {_MAX_CELLS:,} cells or {_MAX_ROWS:,} rows in sheet {sheet.name[:50]}")
            rows += [texts] * count
        sheet.rows, sheet.height, sheet.width = rows, len(rows), max(map(len, rows), default=0)
        yield sheet


def _ods_row(row: Any, sheet: _Sheet, number: int) -> list[str]:
    """Return the texts of a row up to its last filled or merged cell. Append its merged ranges to `sheet.merged`."""
    texts: list[str] = []
    column = 0
    for cell in row.iterchildren(*_CELLS):
        count = min(_repeat_count(cell, "columns-repeated"), _MAX_COLUMNS)
        is_covered = cell.tag != _CELLS[0]
        lines = () if is_covered else cell.iterchildren(f"{_TEXT}p", f"{_TEXT}h")
        text = "\n".join("".join(line.itertext()) for line in lines)
        if (text or is_covered) and column + count <= _MAX_COLUMNS:
            texts += [""] * (column - len(texts)) + [text] * count
        column += count
        across, down = _repeat_count(cell, "columns-spanned"), _repeat_count(cell, "rows-spanned")
        if across > 1 or down > 1:
            sheet.merged.append((number, column - count, number + down - 1, column - count + across - 1))
    return texts


def _repeat_count(element: Any, name: str) -> int:
    text = element.get(f"{_TABLE}number-{name}", "1")
    return max(1, int(text)) if text.isdecimal() and len(text) < 8 else 1


Value = float | int | bool | str | date | datetime | time | timedelta
_GENERAL = "General"
_BUILT_IN_FORMATS = {  # ECMA-376 format codes by number; without date formats, so that dates are written in ISO 8601
    "1": "0", "2": "0.00", "9": "0%", "10": "0.00%",
    **dict.fromkeys("3 37 38 41".split(), "#,##0"), **dict.fromkeys("4 39 40 43".split(), "#,##0.00"),
    **dict.fromkeys("5 6 42".split(), '"$"#,##0'), **dict.fromkeys("7 8 44".split(), '"$"#,##0.00'),
}  # fmt: skip
_MAX_FORMAT_LENGTH = 255
_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|[_*].|\[\$(?P<currency>[^\]-]*)[^\]]*\]|'
    r"(?P<field>y+|m+|d+|h+|s+)|\[[^\]]*\]|(?P<half>AM/PM|A/P)|(?P<general>General|@)|"
    r"(?P<digits>[0#?][0#?,]*(?:\.[0#?]*)?|\.[0#?]+)|(?P<other>.)",
    re.IGNORECASE | re.DOTALL | re.ASCII,  # Unicode matching would also accept ſ for s
)
# number formats with conditions, exponents, division by thousands or elapsed hours; they are read as `General`
_UNSUPPORTED = re.compile(r"\[(?:[<>=]|[hms]+\])|E[+-][0#?]|[0#?],+(?:[^0#?,]|$)", re.IGNORECASE)
_DAY_ZERO = datetime(1899, 12, 30)
_LAST_DAY = 2_958_466  # days from `_DAY_ZERO` to the end of the year 9999
_MAX_EXACT, _MAX_INTEGER = 1e15, 1e21  # numbers between these are shown with zeros after the 15th digit
_ROUNDING = 1 + 4e-16  # factor, so that 2.675, which is stored as slightly less, is rounded to 2.68
_NOT_ZERO = re.compile("[1-9]")
_FIELDS = {  # strftime codes; `n` means minutes, and `i` hours of a 12-hour clock
    "yy": "%y", "m": "%-m", "mm": "%m", "mmm": "%b", "d": "%-d", "dd": "%d", "ddd": "%a", "h": "%-H", "hh": "%H",
    "i": "%-I", "ii": "%I", "n": "%-M", "nn": "%M", "s": "%-S", "ss": "%S",
}  # fmt: skip
_LONG_FIELDS = {"y": "%Y", "m": "%B", "d": "%A"}


class _Format(NamedTuple):
    """A parsed format code of dates or numbers. Without arguments, `_Format()` is the format `General`."""

    strftime_format: str = ""
    format_spec: str = ""
    prefix: str = ""
    suffix: str = ""
    factor: float = 1
    min_integer_digits: int = 1
    min_decimals: int = 0


def format_value(value: Value, code: str = _GENERAL) -> str:
    """Return a cell value as a spreadsheet program displays it with the format `code`."""
    if isinstance(value, float):
        return _format_plain(value) if code == _GENERAL else _format_number(value, code)
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).upper()
    return format_value(float(value), code) if isinstance(value, int) else _format_date(value, code)


def _format_plain(value: float) -> str:
    text = f"{value:.15g}"
    if "e" not in text:
        return text
    return f"{Decimal(text):f}" if _MAX_EXACT <= abs(value) < _MAX_INTEGER else text.upper()


def _format_date(value: date | datetime | time | timedelta, code: str) -> str:
    if isinstance(value, timedelta):
        minutes, seconds = divmod(abs(round(value.total_seconds())), 60)
        return f"{'-' * (value < timedelta(0))}{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    if strftime_format := _parse_format(code).strftime_format:
        return _format_moment(datetime.combine(_DAY_ZERO, value) if isinstance(value, time) else value, strftime_format)
    if isinstance(value, datetime | time):
        has_seconds = value.second or value.microsecond
        return value.isoformat(timespec="seconds" if has_seconds else "minutes").replace("T", " ")
    return value.isoformat()


def _format_moment(moment: date, strftime_format: str) -> str:
    if isinstance(moment, datetime):
        moment = min(moment, datetime.max - timedelta(seconds=1)) + timedelta(milliseconds=500)
    return moment.strftime(strftime_format)


def _format_number(value: float, code: str) -> str:
    parsed = _parse_format(code)
    if parsed.strftime_format and 0 <= value < _LAST_DAY:
        return _format_moment(_DAY_ZERO + timedelta(days=value), parsed.strftime_format)
    if not parsed.format_spec:
        return _format_plain(value)
    text = format(abs(value) * parsed.factor, parsed.format_spec)
    integer, point, rest = text.partition(".")
    if parsed.min_integer_digits != 1 or parsed.min_decimals < len(rest):
        integer = integer.zfill(parsed.min_integer_digits) if parsed.min_integer_digits else integer.removeprefix("0")
        rest = rest[: parsed.min_decimals] + rest[parsed.min_decimals :].rstrip("0")
        text = f"{integer}{point if rest else ''}{rest}"
    text = f"{parsed.prefix}{text}{parsed.suffix}"
    return f"-{text}" if value < 0 and _NOT_ZERO.search(text) else text


@lru_cache(maxsize=512)
def _parse_format(code: str) -> _Format:
    matches = takewhile(lambda token: token[0] != ";", _TOKEN.finditer(code[:_MAX_FORMAT_LENGTH]))
    tokens = [(token.lastgroup, token[token.lastgroup]) for token in matches if token.lastgroup]
    kinds = [kind for kind, _ in tokens]
    if _UNSUPPORTED.search(code) or "general" in kinds:
        return _Format()
    if "field" in kinds:
        return _Format(strftime_format=_date_format(tokens))
    texts = [text for kind, text in tokens if kind != "digits"]
    if kinds.count("digits") != 1:
        return _Format()
    place = kinds.index("digits")
    integer, _, behind = tokens[place][1].partition(".")
    return _Format(
        format_spec=f"{',' if ',' in integer else ''}.{len(behind)}f",
        prefix="".join(texts[:place]).lstrip(),
        suffix="".join(texts[place:]).rstrip(),
        factor=_ROUNDING * 100 ** tokens.count(("other", "%")),
        min_integer_digits=integer.count("0"),
        min_decimals=behind.count("0"),
    )


def _date_format(tokens: list[tuple[str, str]]) -> str:
    names = ["", *(text.lower() for kind, text in tokens if kind == "field"), ""]
    pieces: list[str] = []
    place = 0
    for kind, text in tokens:
        if kind == "half":
            pieces.append("%p")
        elif kind != "field":
            pieces.append("" if text == "@" else text.replace("%", "%%"))
        else:
            before, name, after = names[place : place + 3]
            place += 1
            if name in ("m", "mm") and ("h" in before or after[:1] == "s"):
                name = name.replace("m", "n")
            elif name[0] == "h" and any(kind == "half" for kind, _ in tokens):
                name = name.replace("h", "i")
            pieces.append(_FIELDS.get(name) or _LONG_FIELDS.get(name[0]) or _FIELDS[name[0]])
    return " ".join("".join(pieces).split())
