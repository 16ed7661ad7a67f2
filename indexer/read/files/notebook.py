"""Jupyter notebooks to content: their text and code, and what the code printed."""

import json
import re
from typing import Any

from indexer.decoding import decode
from indexer.errors import ParseError
from indexer.read.extraction import Extraction
from indexer.read.html.main_content import extract
from indexer.read.markup.markdown import render

_LONGEST_OUTPUT = 2_000  # characters of what one cell printed
_TICKS = re.compile("`+")
_ESCAPES = re.compile("\x1b\\[[0-9;]*[A-Za-z]")  # colours of a terminal


def read(body: bytes, charset: str | None) -> Extraction:
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
    """Markdown of one cell."""
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
