"""Rows laid out in columns, for a terminal."""

from collections.abc import Sequence


def number(value: int | None) -> str:
    """Return a count with its commas; - where it is not known."""
    return "-" if value is None else f"{value:,}"


def table(rows: Sequence[tuple[str, ...]]) -> str:
    """Lay rows out in columns; numbers, which are all below a heading of a count, stand to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    right = {"documents", "chunks", "MB"}
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if heading in right else cell.ljust(width)
            for cell, width, heading in zip(row, widths, rows[0], strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
