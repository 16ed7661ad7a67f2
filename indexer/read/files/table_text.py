"""Rows of a table as text that can be found: each says the names of its columns, wherever it may be cut off."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from indexer import notes
from indexer.errors import ParseError
from indexer.read.tables import column_names, find_head
from indexer.records import COLUMNS

_LONGEST = 20_000_000  # characters of one table
_LONGEST_CELL = 10_000
_MOST_COLUMNS = 16_384  # as a workbook may have
_SAMPLE = 30  # rows among which the names of the columns are looked for


def rows_to_text(rows: Iterable[Sequence[str]]) -> str:
    """Return a line for each row that is not empty, as `name: value | name: value` below rows that name the columns.

    Titles and remarks above these are lines of their own.

    Raises:
        ParseError: the table is too long or too wide.
    """
    cleaned = _clean(rows)
    sample = list(islice(cleaned, _SAMPLE))
    begin, end = find_head(sample)
    names = column_names(sample[begin:end])
    lines: list[str] = []
    length = 0
    titles = (COLUMNS.join(dict.fromkeys(filter(None, cells))) for cells in sample[:begin])
    body = (_line(cells, names) for cells in chain(sample[end:], cleaned))
    for line in chain(titles, body):
        length += len(line)
        if length > _LONGEST:
            raise ParseError(f"more than {_LONGEST:,} characters in a table")
        lines.append(line)
    if len(lines) == begin:  # there is nothing below the names
        lines.append(COLUMNS.join(filter(None, names)))
    return "\n".join(lines)


def _clean(rows: Iterable[Sequence[str]]) -> Iterator[list[str]]:
    """Yield the rows that are not empty, each cell on one line."""
    for row in rows:
        if len(row) > _MOST_COLUMNS:
            raise ParseError(f"more than {_MOST_COLUMNS:,} columns in a table")
        cells = [" ".join(cell.split()) for cell in row]
        if max(map(len, cells), default=0) > _LONGEST_CELL:
            notes.add("a long cell of a table was cut off")
            cells = [cell[:_LONGEST_CELL] for cell in cells]
        if any(cells):
            yield cells


def _line(cells: Sequence[str], names: Sequence[str]) -> str:
    named = zip(cells, chain(names, [""] * len(cells)), strict=False)
    return COLUMNS.join(f"{name}: {cell}" if name else cell for cell, name in named if cell)
