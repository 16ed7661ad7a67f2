"""Plain text to content: one section, with its first line as title if that looks like one."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from indexer.decoding import decode
from indexer.errors import ParseError
from indexer.read.extraction import clean, tidy
from indexer.read.html.main_content import extract
from indexer.read.markup.markdown import render
from indexer.records import Extraction, Section

_BULLETS = frozenset("- * + • ◦ ▪ ‣".split())  # alone on a line: an empty list item
_TITLE_LENGTH = 100  # characters of the first line that may be the title


def read_plain(body: bytes, charset: str | None) -> Extraction:
    """Read a plain text file."""
    lines = tidy(decode(body, charset, markup=False)).split("\n")
    text = clean("\n".join(line for line in lines if line.lstrip() not in _BULLETS))
    first = text.partition("\n")[0].strip(" \t#=-*")
    title = first if len(first) <= _TITLE_LENGTH and re.match(r"\w", first) else None
    return Extraction(title, (Section((), None, text),) if text else ())


_DEFINES = re.compile(
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
_ABOVE = re.compile(r"[ \t]*(?:#(?!include|define|if|endif)|//|/\*|\*|--|@|\"\"\")")
_LONGEST_LINE = 500  # characters; a longer one is data, or was made by a program
_TAB_WIDTH = 4  # columns


def read_source_code(body: bytes, charset: str | None) -> Extraction:
    """Cut a source file at its definitions."""
    lines = decode(body, charset, markup=False).replace("\r\n", "\n").split("\n")
    lines = [line[:_LONGEST_LINE] for line in lines]
    starts = list(_starts(lines))
    sections = [_code_section((), 0, starts[0][0] if starts else len(lines), lines)]
    for (start, path), (end, _) in zip(starts, [*starts[1:], (len(lines), ())], strict=False):
        sections.append(_code_section(path, start, end, lines))
    return Extraction(None, tuple(section for section in sections if section.text.strip()))


def _starts(lines: list[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    outline: list[tuple[int, str]] = []
    end_of_last = 0
    for number, line in enumerate(lines):
        found = _DEFINES.match(line)
        if found is None:
            found = _C_FUNCTION.match(line)
            if found is None or line.rstrip().endswith(";"):
                continue
            indent, name = 0, found["name"]
        else:
            indent = len(found["indent"].expandtabs(_TAB_WIDTH))
            name = found["name"] or found["sql"] or found["shell"]
        while outline and outline[-1][0] >= indent:
            outline.pop()
        outline.append((indent, name.strip('":.')))
        start = number
        while start > end_of_last and _ABOVE.match(lines[start - 1]):
            start -= 1
        end_of_last = number + 1
        yield start, tuple(text for _, text in outline)


def _code_section(path: tuple[str, ...], start: int, end: int, lines: list[str]) -> Section:
    return Section(path, f"L{start + 1}" if path else None, "\n".join(lines[start:end]))


_TEXTS = ("text", "content", "body", "contents", "page_content", "passage")
_TITLES = ("title", "name", "subject", "heading")


def read_json(body: bytes, charset: str | None) -> Extraction:
    """Read a record, a list of records, an object that holds one, or a record in each line; raises ParseError.

    JSON in which no record has text, such as settings, gives no section.
    """
    text = decode(body, charset, markup=False)
    records: Iterable[Any]
    try:
        records = _json_records(json.loads(text))
    except json.JSONDecodeError as error:
        records = _json_lines(text, error)
    except ValueError as error:  # such as a number of too many digits
        raise ParseError(f"JSON that cannot be read_json: {error}") from error
    sections = tuple(section for record in records if (section := _record_section(record)))
    alone = sections[0].path[0] if len(sections) == 1 and sections[0].path else None
    return Extraction(alone, sections)


def _json_lines(text: str, whole: json.JSONDecodeError) -> Iterator[Any]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError as error:
                first = number == 1
                where = f"line {whole.lineno}: {whole.msg}" if first else f"line {number}: {error}"
                raise ParseError(f"neither JSON nor a record in each line, see {where}") from error


def _json_records(value: object) -> list[Any]:
    if isinstance(value, dict) and not _string_field(value, _TEXTS):
        return next((held for held in value.values() if isinstance(held, list) and held), [])
    return value if isinstance(value, list) else [value]


def _record_section(record: object) -> Section | None:
    if not isinstance(record, dict):
        return None
    text, title = _string_field(record, _TEXTS), _string_field(record, _TITLES)
    return Section((title,) if title else (), None, text) if text else None


def _string_field(record: dict[str, Any], names: tuple[str, ...]) -> str:
    return next((value for name in names if isinstance(value := record.get(name), str) and value.strip()), "")


_LONGEST_OUTPUT = 2_000  # characters of what one cell printed
_TICKS = re.compile("`+")
_ESCAPES = re.compile("\x1b\\[[0-9;]*[A-Za-z]")  # colours of a terminal


def read_notebook(body: bytes, charset: str | None) -> Extraction:
    """Read a notebook of format 3 or 4; raises ParseError."""
    try:
        notebook = json.loads(decode(body, charset, markup=False))
    except ValueError as error:
        raise ParseError("not JSON, as a notebook is") from error
    cells = _list(notebook, "cells") or [
        cell for sheet in _list(notebook, "worksheets") for cell in _list(sheet, "cells")
    ]
    blocks = [block for cell in cells if isinstance(cell, dict) for block in _blocks(cell)]
    found = extract(render("\n\n".join(blocks)).html)
    return Extraction(found.title, found.sections)


def _blocks(cell: dict[str, Any]) -> list[str]:
    """Return one cell as Markdown."""
    kind, source = cell.get("cell_type"), _text(cell.get("source", cell.get("input")))
    if kind == "markdown":
        return [source]
    if kind == "heading":
        return [f"# {source}"]
    if kind != "code":
        return []
    printed = "\n".join(_printed(output) for output in _list(cell, "outputs") if isinstance(output, dict))
    printed = _ESCAPES.sub("", printed)[:_LONGEST_OUTPUT]
    return [_fenced(text) for text in (source, printed) if text.strip()]


def _printed(output: dict[str, Any]) -> str:
    data = output.get("data")
    return _text(output.get("text")) or (_text(data.get("text/plain")) if isinstance(data, dict) else "")


def _fenced(text: str) -> str:
    fence = "`" * (max([2, *map(len, _TICKS.findall(text))]) + 1)
    return f"{fence}\n{text}\n{fence}"


def _text(value: object) -> str:
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _list(value: object, name: str) -> list[Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []
