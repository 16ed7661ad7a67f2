"""Read tables of HTML, with merged cells and column names, and grids that look like tables."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from indexer.read.html.html_tree import HEADINGS, Element, HtmlTree
from indexer.read.html.noise import classes, holds
from indexer.read.table_grid import Cell, column_names, find_head, spread_cells
from indexer.records import COLUMNS

_MAX_SPAN = 65_534  # rows, as browsers have it
_SAMPLE_ROWS = 30  # among which column names are looked for
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

    tag: Element
    anchor: str | None  # nearest id
    is_own: bool = False  # whether the id is within the row
    group: Element | None = None  # <thead> or <tbody>, which limits the spans of cells
    cells: list[_HtmlCell] = field(default_factory=list)
    length: int = 0  # characters
    linked: int = 0  # characters inside links

    def add(self, text: str, length: int, linked: int) -> None:
        """Add a block to the last cell."""
        if not self.cells:
            self.cells.append(_HtmlCell())
        self.cells[-1].blocks.append(text)
        self.length += length
        self.linked += linked

    def open_cell(self, tag: Element) -> None:
        """Add a cell."""
        spans = (_span(tag, "rowspan", _MAX_SPAN), _span(tag, "colspan", 1)) if tag.attributes else (1, 1)
        self.cells.append(_HtmlCell(tag, *spans))


def table_lines(rows: Sequence[Row]) -> Iterator[tuple[Row, str, str]]:
    """Yield the rows of a table with their text, and the row of column names above each, or an empty string.

    Blocks of a single cell are lines. Several rows of column names are joined into one.
    """
    grid = _grid(rows)
    if any("(" in texts for texts in grid):  # a signature in cells
        for row in rows[1:]:
            rows[0].length, rows[0].linked = rows[0].length + row.length, rows[0].linked + row.linked
        yield rows[0], " ".join(text for texts in grid for text in texts if text), ""
        return
    heads = _heads(rows, grid)
    head, place = "", 0
    while place < len(grid):
        row, texts = rows[place], grid[place]
        end = heads.get(place, place)
        if end == place:
            if row.length:
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
    """Return the texts of cells, repeated over their spans."""
    if all(cell.rowspan == cell.colspan == 1 for row in rows for cell in row.cells):
        return [[" ".join(cell.blocks) for cell in row.cells] for row in rows]
    cells: list[list[Cell]] = []
    group, remaining = None, 0
    for row in reversed(rows):
        group, remaining = row.group, remaining + 1 if row.group is group else 1
        cells.append([Cell(" ".join(cell.blocks), min(cell.rowspan, remaining), cell.colspan) for cell in row.cells])
    return spread_cells(reversed(cells))


def _heads(rows: Sequence[Row], grid: Sequence[Sequence[str]]) -> dict[int, int]:
    """Return the end of each run of rows with column names, by its first row."""
    heads_by_row: dict[int, int] = {}
    filled = [sum(map(bool, texts)) > 1 for texts in grid]
    are_heads = [full and _is_head(row) for full, row in zip(filled, rows, strict=True)]
    begin = 0
    for is_head, run in groupby(are_heads):
        end = begin + sum(1 for _ in run)
        if is_head and not heads_by_row:
            is_shown = end < len(grid) and end - begin <= 4
            first, last = find_head(grid[begin : begin + _SAMPLE_ROWS]) if is_shown else (0, 1)  # units may follow
            heads_by_row[begin] = begin + last if first == 0 and last > end - begin else end if is_shown else begin + 1
        begin = end
    if not heads_by_row and True in filled:
        begin, end = find_head(grid, by_numbers=True)
        heads_by_row[begin] = end
    return heads_by_row


def _is_head(row: Row) -> bool:
    """Return whether a row has only header cells, apart from empty ones."""
    if row.group is not None and row.group.name == "thead":
        return True
    filled = [cell.tag for cell in row.cells if cell.blocks]
    return bool(filled) and all(tag is not None and tag.name == "th" for tag in filled)


def _line(texts: Sequence[str]) -> str:
    return COLUMNS.join(texts).rstrip(" |")


def _span(tag: Element, name: str, of_zero: int) -> int:
    digits = _DIGITS.match(tag.attributes[name]) if name in tag.attributes else None
    return min(int(digits[1]) or of_zero, _MAX_SPAN) if digits else 1


_TAGS_BY_ROLE = {
    "table": "table", "grid": "table", "treegrid": "table", "row": "tr", "cell": "td", "gridcell": "td",
    "columnheader": "th", "rowheader": "th",
}  # fmt: skip

_NOT_IN_CELLS = HEADINGS | {"pre", "ul", "ol", "dl", "table"}
_MAX_GRID_COLUMNS = 6


def build_tables(tree: HtmlTree) -> None:
    """Turn elements with roles of tables, and grids whose classes repeat by column, into tables."""
    for element in tree.elements:
        if element.attributes and "role" in element.attributes:
            element.name = _TAGS_BY_ROLE.get(element.attributes["role"], element.name)
        if element.name == "div" and len(element.children) >= 4:
            _make_rows(element)


def _make_rows(grid: Element) -> None:
    cells = grid.tags
    if (
        len(cells) < 4
        or classes(cells[0]) == classes(cells[1])
        or not all(cell.name == "div" and "class" in cell.attributes for cell in cells)
    ):
        return
    names = [classes(cell) for cell in cells]
    width = next((place for place in range(2, _MAX_GRID_COLUMNS + 1) if _is_width(names, place)), 0)
    is_text = any(isinstance(node, str) and not node.isspace() for node in grid.children)
    if not width or is_text or any(holds(cell, _NOT_IN_CELLS) for cell in cells):
        return
    head_classes = frozenset.intersection(*names[:width]).difference(*names[width:])
    grid.name, grid.children = "table", []
    for place in range(0, len(cells), width):
        row = Element("tr", {}, grid)
        row.children = [*cells[place : place + width]]
        grid.children.append(row)
        for cell in cells[place : place + width]:
            cell.name = "th" if head_classes and not place else "td"


def _is_width(names: Sequence[frozenset[str]], width: int) -> bool:
    """Return whether the cells of each of `width` columns share a class that no other column has."""
    if len(names) % width or len(names) < 2 * width:
        return False
    for column in range(width):
        other_columns = (classes_of_cell for place, classes_of_cell in enumerate(names) if place % width != column)
        if not frozenset.intersection(*names[column::width]).difference(*other_columns):
            return False
    return True
