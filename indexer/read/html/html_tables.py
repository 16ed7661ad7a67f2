"""Convert HTML tables, including merged cells, to lines of text. Grids of <div> elements are treated as tables."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from indexer.read.html.html_tree import HEADINGS, Element, HtmlTree
from indexer.read.table_grid import Cell, column_names, find_head, spread_cells
from indexer.records import COLUMNS

_MAX_SPAN = 65_534  # limit of `rowspan` in the HTML standard
_SAMPLE_ROWS = 30
_DIGITS = re.compile(r"[\s+]*(\d{1,6})")


@dataclass(slots=True)
class _HtmlCell:
    """A cell of a table that is being read. `blocks` are its paragraphs."""

    tag: Element | None = None
    rowspan: int = 1
    colspan: int = 1
    blocks: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Row:
    """A row of a table that is being read. `anchor` is the last id before the text of the row, or None."""

    tag: Element
    anchor: str | None
    has_inner_anchor: bool = False
    group: Element | None = None  # <thead> or <tbody>; no merged cell extends into another group
    cells: list[_HtmlCell] = field(default_factory=list)
    length: int = 0
    link_length: int = 0

    def add(self, text: str, length: int, link_length: int) -> None:
        """Append a paragraph of `length` characters, of which `link_length` are in links, to the last cell."""
        if not self.cells:
            self.cells.append(_HtmlCell())
        self.cells[-1].blocks.append(text)
        self.length += length
        self.link_length += link_length

    def open_cell(self, tag: Element) -> None:
        """Append an empty cell for a <td> or <th>."""
        spans = (_span(tag, "rowspan", _MAX_SPAN), _span(tag, "colspan", 1)) if tag.attributes else (1, 1)
        self.cells.append(_HtmlCell(tag, *spans))


def table_lines(rows: Sequence[Row]) -> Iterator[tuple[Row, str, str]]:
    """Yield `(row, text, head)` for each row of a table. `head` is the line of column names, or "" if there is none.

    If a row has only one cell, each paragraph of the cell is a line. Consecutive header rows become one line.
    """
    grid = _grid(rows)
    if any("(" in texts for texts in grid):  # the cells are parts of a function signature
        for row in rows[1:]:
            rows[0].length, rows[0].link_length = rows[0].length + row.length, rows[0].link_length + row.link_length
        yield rows[0], " ".join(text for texts in grid for text in texts if text), ""
        return
    heads = _heads(rows, grid)
    head, index = "", 0
    while index < len(grid):
        row, texts = rows[index], grid[index]
        end = heads.get(index, index)
        if end == index:
            if row.length:
                filled = [cell for cell in row.cells if cell.blocks]
                is_wide = len(filled) == 1 and filled[0].colspan > 1 and len(set(texts) - {""}) == 1
                is_alone = is_wide or len(filled) == len(texts) == 1
                yield row, "\n".join(filled[0].blocks) if is_alone else _line(texts), head
            index += 1
            continue
        for other in rows[index + 1 : end]:
            row.length, row.link_length = row.length + other.length, row.link_length + other.link_length
        head = _line(column_names(grid[index:end]))
        yield row, head, ""
        head, index = head if COLUMNS in head and len(head) <= 500 else "", end


def _grid(rows: Sequence[Row]) -> list[list[str]]:
    """Return the texts of the cells by row. Repeat the text of a merged cell in every row and column that it spans."""
    if all(cell.rowspan == cell.colspan == 1 for row in rows for cell in row.cells):
        return [[" ".join(cell.blocks) for cell in row.cells] for row in rows]
    cells: list[list[Cell]] = []
    group, remaining = None, 0
    for row in reversed(rows):
        group, remaining = row.group, remaining + 1 if row.group is group else 1
        cells.append([Cell(" ".join(cell.blocks), min(cell.rowspan, remaining), cell.colspan) for cell in row.cells])
    return spread_cells(reversed(cells))


def _heads(rows: Sequence[Row], grid: Sequence[Sequence[str]]) -> dict[int, int]:
    """Find consecutive header rows. Map the index of the first one to the index after the last one."""
    heads_by_row: dict[int, int] = {}
    filled = [sum(map(bool, texts)) > 1 for texts in grid]
    are_heads = [full and _is_head(row) for full, row in zip(filled, rows, strict=True)]
    begin = 0
    for is_head, run in groupby(are_heads):
        end = begin + sum(1 for _ in run)
        if is_head and not heads_by_row:
            is_shown = end < len(grid) and end - begin <= 4
            first, last = find_head(grid[begin : begin + _SAMPLE_ROWS]) if is_shown else (0, 1)
            has_units_below = first == 0 and last > end - begin
            heads_by_row[begin] = begin + last if has_units_below else end if is_shown else begin + 1
        begin = end
    if not heads_by_row and True in filled:
        begin, end = find_head(grid, by_numbers=True)
        heads_by_row[begin] = end
    return heads_by_row


def _is_head(row: Row) -> bool:
    """Return whether a row is in <thead>, or all its cells with text are <th>."""
    if row.group is not None and row.group.name == "thead":
        return True
    filled = [cell.tag for cell in row.cells if cell.blocks]
    return bool(filled) and all(tag is not None and tag.name == "th" for tag in filled)


def _line(texts: Sequence[str]) -> str:
    return COLUMNS.join(texts).rstrip(" |")


def _span(tag: Element, name: str, span_if_zero: int) -> int:
    digits = _DIGITS.match(tag.get(name))
    return min(int(digits[1]) or span_if_zero, _MAX_SPAN) if digits else 1


_TAGS_BY_ROLE = {
    "table": "table", "grid": "table", "treegrid": "table", "row": "tr", "cell": "td", "gridcell": "td",
    "columnheader": "th", "rowheader": "th",
}  # fmt: skip

_NOT_IN_CELLS = HEADINGS | {"pre", "ul", "ol", "dl", "table"}
_MAX_GRID_COLUMNS = 6


def build_tables(tree: HtmlTree) -> None:
    """Rename elements with ARIA table roles, and <div> grids with one class per column, to HTML table elements."""
    for element in tree.elements:
        if element.attributes and "role" in element.attributes:
            element.name = _TAGS_BY_ROLE.get(element.attributes["role"], element.name)
        if element.name == "div" and len(element.children) >= 4:
            _make_rows(element)


def _make_rows(grid: Element) -> None:
    cells = grid.tags
    if len(cells) < 4 or cells[0].classes == cells[1].classes or any(cell.name != "div" for cell in cells):
        return
    names = [cell.classes for cell in cells]
    width = next((count for count in range(2, _MAX_GRID_COLUMNS + 1) if _is_width(names, count)), 0)
    is_text = any(isinstance(node, str) and not node.isspace() for node in grid.children)
    if not width or is_text or any("role" in cell.attributes or cell.contains(_NOT_IN_CELLS) for cell in cells):
        return
    head_classes = frozenset.intersection(*names[:width]).difference(*names[width:])
    grid.name, rows = "table", list[Element]()
    for begin in range(0, len(cells), width):
        rows.append(Element("tr", {}, grid))
        rows[-1].fill(cells[begin : begin + width])
        for cell in cells[begin : begin + width]:
            cell.name = "th" if head_classes and not begin else "td"
    grid.fill(rows)


def _is_width(names: Sequence[frozenset[str]], width: int) -> bool:
    """Return whether cells form `width` columns: all cells of a column share a class that is in no other column."""
    if len(names) % width or len(names) < 2 * width:
        return False
    for column in range(width):
        other_columns = (cell_names for index, cell_names in enumerate(names) if index % width != column)
        if not frozenset.intersection(*names[column::width]).difference(*other_columns):
            return False
    return True
