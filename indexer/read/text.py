"""Extract text from plain text files, source code, notebooks and tables. Each table row repeats its column names."""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from indexer.errors import ParseError
from indexer.read.access_list import begins_with_list
from indexer.read.extraction import clean, tidy
from indexer.read.markup import asciidoc
from indexer.read.markup.includes import decode_without_keys, is_asciidoc
from indexer.read.markup.markdown import render
from indexer.read.table_grid import column_names, find_head
from indexer.records import COLUMNS, Extraction, Section
from indexer.text import reader_notes
from indexer.text.charsets import decode

_BULLETS = frozenset("- * + • ◦ ▪ ‣".split())
_MAX_TITLE_CHARS = 100
_MAX_CHARS_BEFORE_TITLE = 2_000
_TITLE_DECORATION = " \t#=-*~_+|/"


def read_plain(body: bytes, charset: str | None) -> Extraction:
    """Extract the text of a plain text file, or of an AsciiDoc document in a plain text file."""
    source = decode_without_keys(body, charset)
    if is_asciidoc(source):
        return asciidoc.read(body, charset)
    lines = tidy(source).split("\n")
    text = clean("\n".join(line for line in lines if line.lstrip() not in _BULLETS))
    return Extraction(_title_of(text), (Section((), None, text),) if text else ())


def _title_of(text: str) -> str | None:
    """Return the first line with words, or None if the line begins a paragraph, a list or a program."""
    lines = text[:_MAX_CHARS_BEFORE_TITLE].split("\n")
    place = next((place for place, line in enumerate(lines) if line.strip(_TITLE_DECORATION)), 0)
    first, below = lines[place].strip(_TITLE_DECORATION), "".join(lines[place + 1 : place + 2])
    is_indented = len(below) - len(below.lstrip()) > len(lines[place]) - len(lines[place].lstrip())
    is_apart = (is_indented or not below.strip(_TITLE_DECORATION)) and not first.endswith((",", ";", ":", "{"))
    return first if is_apart and len(first) <= _MAX_TITLE_CHARS and re.match(r"\w", first) else None


_DEFINITION = re.compile(
    r"(?P<indent>[ \t]*)"
    r"(?:(?:export|default|public|private|protected|internal|static|final|abstract|async|pub(?:\([\w ]+\))?|unsafe|"
    r"open|sealed|data|partial|declare|local|virtual|override|const)\s+)*"
    r"(?:(?:def|class|func|fn|fun|function|interface|struct|enum|impl|trait|module|namespace|protocol|object|sub|"
    r"record|type)(?:\s+|(?=<))(?:\([^)\n]{0,100}\)\s*)?(?:<[^>\n]{0,100}>\s*)?(?P<name>[A-Za-z_$][\w$.:]*)"
    r"|(?i:create)\s+(?i:or\s+replace\s+)?(?:\w+\s+){0,3}?(?i:table|view|function|procedure|trigger|index|type)\s+"
    r"(?i:if\s+not\s+exists\s+)?(?P<sql>[\w.\"]+)"
    r"|(?P<shell>[A-Za-z_][\w-]*)\s*\(\)\s*\{)"
)
_C_FUNCTION = re.compile(
    r"(?![ \t]|return|else|typedef)(?:[A-Za-z_][\w:<>,]*[ \t*&]+){1,6}(?P<name>[A-Za-z_~][\w:~]*)\("
)
_COMMENT_OR_DECORATOR = re.compile(r"[ \t]*(?:#(?!include|define|if|endif)|//|/\*|\*|--|@|\"\"\")")
_MAX_LINE_CHARS = 500  # longer lines, which are data or generated code, are cut off
_TAB_COLUMNS = 4


def read_source_code(body: bytes, charset: str | None) -> Extraction:
    """Divide a source file into sections. Each definition, such as a class or function, begins a section."""
    lines = decode(body, charset, markup=False).replace("\r\n", "\n").split("\n")
    lines = [line[:_MAX_LINE_CHARS] for line in lines]
    starts: list[tuple[int, tuple[str, ...]]] = [(0, ())]
    outline: list[tuple[int, str]] = []
    end_of_last = 0
    for number, line in enumerate(lines):
        if match := _DEFINITION.match(line):
            indent = len(match["indent"].expandtabs(_TAB_COLUMNS))
            name = match["name"] or match["sql"] or match["shell"]
        elif (match := _C_FUNCTION.match(line)) and not line.rstrip().endswith(";"):
            indent, name = 0, match["name"]
        else:
            continue
        while outline and outline[-1][0] >= indent:
            outline.pop()
        outline.append((indent, name.strip('":.')))
        start = number
        while start > end_of_last and _COMMENT_OR_DECORATOR.match(lines[start - 1]):
            start -= 1
        end_of_last = number + 1
        starts.append((start, tuple(text for _, text in outline)))
    sections = (
        Section(path, f"L{start + 1}" if path else None, "\n".join(lines[start:end]))
        for (start, path), (end, _) in zip(starts, [*starts[1:], (len(lines), ())], strict=True)
    )
    return Extraction(None, tuple(section for section in sections if section.text.strip()))


_MAX_OUTPUT_CHARS = 2_000
_TICKS = re.compile("`+")
_COLOUR_ESCAPES = re.compile("\x1b\\[[0-9;]*[A-Za-z]")
_OBJECT_REPR = re.compile(r"(?:<(?!class )[A-Za-z][^<>\n]*>|array\(|dtype=\w++|[\s\[\](){},.\de+-]++)++")
_SCRIPT_OR_FRAME = re.compile("<script|<iframe")
_ERASED = re.compile(r"[^\x08]\x08")
_EMPTY_LINE = re.compile(r"\n(?:[^\S\n]*+\n)++")
_FRONT_MATTER = re.compile(r"---[ \t]*\n")
_TYPES_IN_OLD_FORMATS = {
    "text": "text/plain", "html": "text/html", "latex": "text/latex", "png": "image/png", "svg": "image/svg+xml",
}  # fmt: skip


def read_notebook(body: bytes, charset: str | None) -> Extraction:
    """Extract the text of a Jupyter notebook in format 2 to 4. Raises ParseError if the file is not JSON."""
    try:
        notebook = json.loads(decode(body, charset, markup=False))
    except ValueError as error:
        raise ParseError("not a notebook: it is not valid JSON") from error
    blocks: list[str] = []
    sheets = _dicts(notebook, "worksheets")
    for cell in chain(_dicts(notebook, "cells"), *(_dicts(sheet, "cells") for sheet in sheets)):
        kind, source = cell.get("cell_type"), _text(cell.get("source") or cell.get("input"))
        if kind == "heading":
            level = cell.get("level")
            blocks.append(f"{'#' * min(level, 6) if isinstance(level, int) else '#'} {source}")
        elif kind == "markdown" or (kind == "raw" and (begins_with_list(source) or _is_markup(cell, source, blocks))):
            blocks.append(source)
        elif kind in ("raw", "code"):
            blocks += [_fenced(source), *_outputs(cell)]
    return render("\n\n".join(filter(None, blocks))).extraction()


def _is_markup(cell: dict[str, Any], source: str, blocks: list[str]) -> bool:
    """Return whether a raw cell is front matter, Markdown or HTML."""
    metadata = cell.get("metadata")
    fields = metadata if isinstance(metadata, dict) else {}
    media_type = fields.get("raw_mimetype") or fields.get("format")
    return media_type in ("text/markdown", "text/html") or (not blocks and _FRONT_MATTER.match(source) is not None)


def _outputs(cell: dict[str, Any]) -> Iterator[str]:
    """Yield the visible texts of a cell's outputs as Markdown, without pictures and widgets."""
    characters_left = _MAX_OUTPUT_CHARS
    for output in _dicts(cell, "outputs"):
        data = output.get("data")
        if not isinstance(data, dict):  # a stream, or an output in notebook format 2 or 3
            data = {_TYPES_IN_OLD_FORMATS.get(name, name): value for name, value in output.items()}
        html, text = _text(data.get("text/html")), _text(data.get("text/plain"))
        if output.get("output_type") in ("error", "pyerr"):
            message = f"{_text(output.get('ename'))}: {_text(output.get('evalue'))}"
            trace = _COLOUR_ESCAPES.sub("", "\n".join(_strings(output.get("traceback"))))
            yield _fenced(trace[-_MAX_OUTPUT_CHARS:] if message in trace else message[:_MAX_OUTPUT_CHARS])
        elif markdown := _text(data.get("text/markdown")):
            yield markdown
        elif latex := _text(data.get("text/latex")):
            yield f"$$\n{_EMPTY_LINE.sub(' ', latex.strip('$ '))}\n$$"
        elif _replaces_media(data):
            continue
        elif text and not ("<" in text and _OBJECT_REPR.fullmatch(text)):
            lines = _COLOUR_ESCAPES.sub("", text[: 2 * characters_left]).split("\n")
            shown = "\n".join(map(_last_state, lines))[:characters_left]
            characters_left -= len(shown)
            yield _fenced(shown)
        elif not _SCRIPT_OR_FRAME.search(html):
            yield f"<div>\n{' '.join(html.split())}\n</div>"


def _last_state(line: str) -> str:
    """Return the text of a line that a terminal shows after all its carriage returns and backspaces."""
    line = line.rstrip("\r").rpartition("\r")[2]
    while (shorter := _ERASED.sub("", line)) != line:
        line = shorter
    return line


def _replaces_media(data: dict[str, Any]) -> bool:
    """Return whether an output is a picture or a widget. The text of such an output is only a placeholder."""
    is_media = any(name.startswith(("image/", "video/", "audio/", "application/")) for name in data)
    return is_media and "<table" not in _text(data.get("text/html"))


def _fenced(text: str) -> str:
    fence = "`" * (max([2, *map(len, _TICKS.findall(text))]) + 1)
    return f"{fence}\n{text}\n{fence}" if text.strip() else ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else "".join(_strings(value))


def _strings(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _dicts(value: object, name: str) -> list[dict[str, Any]]:
    values = value.get(name) if isinstance(value, dict) else None
    return [one for one in values if isinstance(one, dict)] if isinstance(values, list) else []


_MAX_TABLE_CHARS = 20_000_000
_MAX_CELL_CHARS = 10_000
_MAX_COLUMNS = 16_384
_SAMPLE_ROWS = 30
_MAX_TABLES = 100
_SAMPLE_CHARS = 20_000
_DELIMITERS = "\t;|,"  # the comma has the lowest priority, because numbers may contain commas
_MAX_FIELD_CHARS = 10_000_000
# the first line may be `sep=;`, which tells Excel the delimiter
_SEP_LINE = re.compile(r'\A"?sep=([^\w\s"]|\t)"?[^\S\n\r]{0,9}(?:\r\n|\n|\r|\Z)', re.IGNORECASE)

csv.field_size_limit(_MAX_FIELD_CHARS)


def rows_to_text(rows: Iterable[Sequence[str]]) -> str:
    """Convert each row that is not empty to a line with the column names, such as `name: value | name: value`.

    Titles, remarks, and the names of columns without values become separate lines. An empty row may separate tables
    with different column names. Raises ParseError if a table is too long or too wide.
    """
    rest = _clean(rows)
    ahead = list(islice(rest, _SAMPLE_ROWS))
    lines: list[str] = []
    names: list[str] = []
    empty: dict[int, str] = {}
    heads: list[tuple[int, dict[int, str]]] = []  # per table: (index of the header line, names of empty columns)
    tables = length = 0
    while ahead:
        may_begin = not tables or not ahead[0]
        if may_begin and tables < _MAX_TABLES:
            places = [place for place, row in enumerate(ahead[:_SAMPLE_ROWS]) if row]
            sample = [ahead[place] for place in places]
            begin, end = find_head(sample, by_numbers=tables > 0)
            if end > begin or not tables:
                lines += [COLUMNS.join(dict.fromkeys(filter(None, cells))) for cells in sample[:begin]]
                names = column_names(sample[begin:end])
                empty = {column: name for column, name in enumerate(names) if name}
                heads.append((len(lines), empty))
                lines.append("")
                ahead = ahead[places[end - 1] + 1 :] if end else ahead
            tables += 1
        if len(ahead) < _SAMPLE_ROWS:
            ahead += islice(rest, _SAMPLE_ROWS)
        if ahead and (cells := ahead.pop(0)):
            named_cells = zip(cells, chain(names, [""] * len(cells)), strict=False)
            lines.append(COLUMNS.join(f"{name}: {cell}" if name else cell for cell, name in named_cells if cell))
            for column in [column for column in empty if column < len(cells) and cells[column]]:
                del empty[column]
            length += len(lines[-1])
            if length > _MAX_TABLE_CHARS:
                raise ParseError(f"more than {_MAX_TABLE_CHARS:,} characters in a table")
    for line, empty in heads:
        lines[line] = COLUMNS.join(empty.values())
    return "\n".join(filter(None, lines))


def _clean(rows: Iterable[Sequence[str]]) -> Iterator[list[str]]:
    """Yield rows whose cells are single lines. Consecutive empty rows become one empty list."""
    is_gap = True
    for row in rows:
        if len(row) > _MAX_COLUMNS:
            raise ParseError(f"more than {_MAX_COLUMNS:,} columns in a table")
        cells = [" ".join(cell.split()) for cell in row]
        if max(map(len, cells), default=0) > _MAX_CELL_CHARS:
            reader_notes.add("a long cell of a table was cut off")
            cells = [cell[:_MAX_CELL_CHARS] for cell in cells]
        is_empty = not any(cells)
        if not is_empty:
            yield cells
        elif not is_gap:
            yield []
        is_gap = is_empty


def read_csv(body: bytes, charset: str | None) -> Extraction:
    """Extract the text of a CSV or TSV file. Raises ParseError if it is invalid or too large."""
    text = decode(body, charset, markup=False).replace("\x00", "")
    sep_line = _SEP_LINE.match(text)
    text = text[sep_line.end() :] if sep_line else text
    sample = text[:_SAMPLE_CHARS]
    escape = "\\" if '\\"' in sample and '""' not in sample else None

    def rows(text: str, delimiter: str) -> Iterator[list[str]]:
        file = io.StringIO(text, newline="")
        return csv.reader(file, delimiter=delimiter, escapechar=escape, skipinitialspace=True)

    def consistency(delimiter: str) -> int:
        """Return how many sample rows have the most common number of cells. Rows with only one cell are ignored."""
        counts = Counter(len(row) for row in islice(rows(sample, delimiter), _SAMPLE_ROWS) if len(row) > 1)
        return max(counts.values(), default=0)

    try:
        rows_text = rows_to_text(rows(text, sep_line[1] if sep_line else max(_DELIMITERS, key=consistency)))
    except csv.Error as error:
        raise ParseError(f"not a table of separated values: {error}") from error
    return Extraction(None, (Section((), None, rows_text),))
