"""Rows of a table as text that can be found: each says the names of its columns, wherever it may be cut off."""

from collections.abc import Iterable, Sequence

from indexer.errors import ParseError

_LONGEST = 20_000_000  # characters of one table
_LONGEST_CELL = 10_000
_MOST_COLUMNS = 16_384  # as a workbook may have
_LONGEST_NAME = 80  # characters of a column's name


def rows_to_text(rows: Iterable[Sequence[str]]) -> str:
    """Return a line for each row that is not empty, as `name: value | name: value` if the first row names the columns.

    Raises:
        ParseError: the table is too long or too wide.
    """
    names: Sequence[str] | None = None
    lines: list[str] = []
    length = 0
    for row in rows:
        if len(row) > _MOST_COLUMNS:
            raise ParseError(f"more than {_MOST_COLUMNS:,} columns in a table")
        cells = [" ".join(cell[:_LONGEST_CELL].split()) for cell in row]
        if not any(cells):
            continue
        if names is None:
            names = cells if _are_names(cells) else ()
            if names:
                continue
        named = zip(cells, [*names, *[""] * len(cells)], strict=False)
        line = " | ".join(f"{name}: {cell}" if name else cell for cell, name in named if cell)
        length += len(line)
        if length > _LONGEST:
            raise ParseError(f"more than {_LONGEST:,} characters in a table")
        lines.append(line)
    return "\n".join(lines or [" | ".join(names or ())])


def _are_names(cells: Sequence[str]) -> bool:
    """Whether a first row names its columns: several short texts, none of them twice, none of them a number."""
    filled = [cell for cell in cells if cell]
    return (
        len(filled) > 1
        and len(set(filled)) == len(filled)
        and all(len(cell) <= _LONGEST_NAME and not cell.lstrip("+-").replace(".", "").isdecimal() for cell in filled)
    )
