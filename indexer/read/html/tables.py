"""Rows of a table on a page, as lines of text; which of them name the columns."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from indexer.read.html.html_tree import Element
from indexer.read.html.parts import Link
from indexer.read.tables import Cell, column_names, find_head, spread
from indexer.records import COLUMNS

_LONGEST_SPAN = 65_534  # rows, as in browsers
_SAMPLE = 30  # rows looked at, to see whether one among others names columns
_BOLD = frozenset({"b", "strong"})
_DIGITS = re.compile(r"[\s+]*(\d{1,6})")


@dataclass(slots=True)
class _HtmlCell:
    """A cell while it is being filled."""

    tag: Element | None = None
    rowspan: int = 1
    colspan: int = 1
    blocks: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Row:
    """A table row while it is being filled."""

    anchor: str | None  # the nearest id before it, or the first in it
    is_own: bool = False  # whether that is in it
    group: Element | None = None  # the part of the table around it, beyond which no cell spans
    cells: list[_HtmlCell] = field(default_factory=list)
    length: int = 0  # characters
    linked: int = 0  # of these, characters inside links
    tails: tuple[Link, ...] = ()  # the links that end it

    def add(self, text: str, length: int, linked: int) -> None:
        """Take a block of the last cell."""
        if not self.cells:
            self.cells.append(_HtmlCell())
        self.cells[-1].blocks.append(text)
        self.length += length
        self.linked += linked

    def open_cell(self, tag: Element) -> None:
        """Begin a cell."""
        spans = (_span(tag, "rowspan", _LONGEST_SPAN), _span(tag, "colspan", 1)) if tag.attributes else (1, 1)
        self.cells.append(_HtmlCell(tag, *spans))


def lines(rows: Sequence[Row]) -> Iterator[tuple[Row, str, str]]:
    """Yield the rows of a table as text, each with the line above it that names the columns, or nothing.

    The blocks of an only cell are lines. Rows that name the columns together are one line.
    """
    grid = _grid(rows)
    heads = _heads(rows, grid)
    head, place = "", 0
    while place < len(grid):
        row, texts = rows[place], grid[place]
        end = heads.get(place, place)
        if end == place:
            if row.length:  # what spans an empty row was said in the row above
                filled = [cell for cell in row.cells if cell.blocks]
                is_wide = len(filled) == 1 and filled[0].colspan > 1 and len(set(texts) - {""}) == 1
                is_alone = is_wide or len(filled) == len(texts) == 1
                yield row, "\n".join(filled[0].blocks) if is_alone else _line(texts), head
            place += 1
            continue
        for other in rows[place + 1 : end]:
            row.length, row.linked = row.length + other.length, row.linked + other.linked
        head = _line(column_names(grid[place:end]) if end > place + 1 else texts)
        yield row, head, ""
        head, place = head if COLUMNS in head and len(head) <= 500 else "", end


def _grid(rows: Sequence[Row]) -> list[list[str]]:
    """Return the texts of cells, those that span several places at each of them."""
    if all(cell.rowspan == cell.colspan == 1 for row in rows for cell in row.cells):
        return [[" ".join(cell.blocks) for cell in row.cells] for row in rows]
    cells: list[list[Cell]] = []
    group, left = None, 0
    for row in reversed(rows):
        group, left = row.group, left + 1 if row.group is group else 1
        cells.append([Cell(" ".join(cell.blocks), min(cell.rowspan, left), cell.colspan) for cell in row.cells])
    return spread(reversed(cells))


def _heads(rows: Sequence[Row], grid: Sequence[Sequence[str]]) -> dict[int, int]:
    """Return the ends of the runs of rows that name the columns, by where they begin."""
    found: dict[int, int] = {}
    filled = [sum(map(bool, texts)) > 1 for texts in grid]
    heads = [full and _is_head(row, lambda tag: tag.name == "th") for full, row in zip(filled, rows, strict=True)]
    begin = 0
    for is_head, run in groupby(heads):
        end = begin + sum(1 for _ in run)
        if is_head and not found:
            is_shown = end < len(grid) and end - begin <= 4
            first, last = find_head(grid[begin : begin + _SAMPLE]) if is_shown else (0, 1)  # units may follow
            found[begin] = begin + last if first == 0 and last > end - begin else end if is_shown else begin + 1
        elif is_head and find_head(grid[begin : begin + _SAMPLE]) == (0, end - begin):
            found[begin] = end
        begin = end
    if not found and True in filled:
        begin = filled.index(True)
        begin, end = (begin, begin + 1) if _is_head(rows[begin], _is_bold) else find_head(grid, by_numbers=True)
        found[begin] = end
    return found


def _is_head(row: Row, is_head: Callable[[Element], bool]) -> bool:
    """Return whether a row has nothing but heads of this kind; an empty corner does not count."""
    if row.group is not None and row.group.name == "thead":
        return True
    filled = [cell.tag for cell in row.cells if cell.blocks]
    return bool(filled) and all(tag is not None and is_head(tag) for tag in filled)


def _line(texts: Sequence[str]) -> str:
    return COLUMNS.join(texts).rstrip(" |")


def _span(tag: Element, name: str, of_zero: int) -> int:
    digits = _DIGITS.match(tag.attributes[name]) if name in tag.attributes else None
    return min(int(digits[1]) or of_zero, _LONGEST_SPAN) if digits else 1


def _is_bold(tag: Element) -> bool:
    """Return whether all of a cell is bold, as names of columns are where no element says so."""
    while True:
        nodes = [node for node in tag.children if isinstance(node, Element) or not node.isspace()]
        if len(nodes) != 1 or not isinstance(nodes[0], Element) or nodes[0].name in _BOLD:
            return bool(nodes) and all(isinstance(node, Element) and node.name in _BOLD for node in nodes)
        tag = nodes[0]
