"""Drawn tables with cells that span several rows or columns, found from the pieces of line that are missing there."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

from indexer import notes
from indexer.read.pdf.drawings import Rule, Upright
from indexer.read.pdf.lines import Line, Word, joined, line_of, rows_of
from indexer.read.pdf.tables import LONG, ROW, Table, table_of
from indexer.read.tables import Cell, column_names, find_head, spread

_ALIKE = 4.0  # points between lines that are one side of a cell, or that touch

Place = tuple[int, int]  # row and column of a grid, from 0
L = TypeVar("L", Rule, Upright)


@dataclass(slots=True)
class _Box:
    """A cell: from its upper left place to the one below its lower right place."""

    top: int
    left: int
    bottom: int
    right: int
    lines: list[Line] = field(default_factory=list)

    @property
    def text(self) -> str:
        rows = [" ".join(line.text for line in row) for row in rows_of(self.lines)]
        text = rows[0] if rows else ""
        for row in rows[1:]:
            text = joined(text, row, is_wrapped=True)
        return text


def with_spans(
    lines: Sequence[Line], drawn: Sequence[Rule | Upright]
) -> tuple[list[Table], list[Line], list[Rule | Upright]]:
    """Return the drawn tables that have spanning cells, and the text and the drawn lines that are in none of them."""
    tables: list[Table] = []
    for rules, uprights in _groups(drawn):
        ys = _places([*(line.y for line in rules), *(y for line in uprights for y in (line.bottom, line.top))])[::-1]
        xs = _places([*(line.x for line in uprights), *(x for line in rules for x in (line.left, line.right))])
        places = (len(ys) - 1) * (len(xs) - 1)
        if min(len(xs), len(ys)) < 3 or places > 10_000:
            continue
        boxes = _boxes(rules, uprights, xs, ys)
        is_plain = len(boxes) == places and all(line.right - line.left >= LONG for line in rules)
        if not boxes or is_plain:  # plain ones are read as other drawn tables are
            continue
        inside = _fill(boxes, lines, xs, ys)
        texts = [box.text for box in boxes]
        if sum(map(bool, texts)) < 0.4 * len(boxes) or max(map(len, texts)) > 2_000:
            continue
        tables.append(_table(boxes, len(ys) - 1, inside))
        gone = set(map(id, (*inside, *rules, *uprights)))
        lines = [line for line in lines if id(line) not in gone]
        drawn = [line for line in drawn if id(line) not in gone]
    return tables, list(lines), list(drawn)


def _groups(drawn: Sequence[Rule | Upright]) -> Iterator[tuple[list[Rule], list[Upright]]]:
    """Yield the horizontal and vertical lines that hang together by touching each other."""
    rules = [line for line in drawn if isinstance(line, Rule)]
    uprights = sorted((line for line in drawn if isinstance(line, Upright)), key=lambda line: line.x)
    if not rules or not uprights or len(drawn) > 5_000:
        return
    homes = list(range(len(rules) + len(uprights)))

    def home(place: int) -> int:
        while homes[place] != place:
            homes[place] = homes[homes[place]]
            place = homes[place]
        return place

    xs = [line.x for line in uprights]
    crossings = 0
    for number, rule in enumerate(rules):
        first, end = bisect_left(xs, rule.left - _ALIKE), bisect_right(xs, rule.right + _ALIKE)
        crossings += end - first
        if crossings > 200_000:
            notes.add("a PDF page with too many drawn lines: merged cells of its tables were not looked for")
            return
        for place in range(first, end):
            if uprights[place].bottom - _ALIKE <= rule.y <= uprights[place].top + _ALIKE:
                homes[home(number)] = home(len(rules) + place)
    found: dict[int, tuple[list[Rule], list[Upright]]] = {}
    for number, rule in enumerate(rules):
        found.setdefault(home(number), ([], []))[0].append(rule)
    for number, upright in enumerate(uprights, start=len(rules)):
        found.setdefault(home(number), ([], []))[1].append(upright)
    yield from found.values()


def _places(values: Sequence[float]) -> list[float]:
    """Return values without those that are nearly the same as the one before, in order."""
    found: list[list[float]] = []
    for value in sorted(values):
        if found and value - found[-1][-1] <= _ALIKE:
            found[-1].append(value)
        else:
            found.append([value])
    return [(values[0] + values[-1]) / 2 for values in found]


def _boxes(rules: Sequence[Rule], uprights: Sequence[Upright], xs: Sequence[float], ys: Sequence[float]) -> list[_Box]:
    """Return the cells of a grid, row by row; none, and a note, where one is no rectangle."""
    downwards = [-y for y in ys]
    floors = _sides([(-line.y, line.left, line.right) for line in rules], downwards, xs)
    walls = _sides([(line.x, -line.top, -line.bottom) for line in uprights], xs, downwards)
    boxes: list[_Box] = []
    taken: set[Place] = set()
    odd = 0
    for place in ((row, column) for row in range(len(ys) - 1) for column in range(len(xs) - 1)):
        if place in taken:
            continue
        cell, todo = {place}, [place]
        while todo:
            row, column = todo.pop()
            near = (
                ((row, column + 1), (column + 1, row) not in walls and column + 2 < len(xs)),
                ((row, column - 1), (column, row) not in walls and column > 0),
                ((row + 1, column), (row + 1, column) not in floors and row + 2 < len(ys)),
                ((row - 1, column), (row, column) not in floors and row > 0),
            )
            for other, is_open in near:
                if is_open and other not in cell:
                    cell.add(other)
                    todo.append(other)
        taken |= cell
        rows, columns = {row for row, _ in cell}, {column for _, column in cell}
        if len(rows) * len(columns) == len(cell):
            boxes.append(_Box(min(rows), min(columns), max(rows) + 1, max(columns) + 1))
        else:
            odd += 1
    if odd:
        if len(boxes) >= 5 * odd:  # a drawing has more of them
            notes.add("a table in a PDF with cells that are no rectangles: its merged cells were not read as such")
        return []
    return boxes


def _sides(lines: Sequence[tuple[float, float, float]], across: Sequence[float], along: Sequence[float]) -> set[Place]:
    """Return which side, counted across the lines, is drawn at which place along them."""
    middles = [(a + b) / 2 for a, b in pairwise(along)]
    drawn: set[Place] = set()
    for at, start, end in lines:
        side = min(range(max(0, (near := bisect_left(across, at)) - 1), min(len(across), near + 1)),
                   key=lambda place: abs(across[place] - at))  # fmt: skip
        drawn.update((side, place) for place in range(bisect_left(middles, start), bisect_right(middles, end)))
    return drawn


def _fill(boxes: Sequence[_Box], lines: Sequence[Line], xs: Sequence[float], ys: Sequence[float]) -> list[Line]:
    """Put the text inside a grid into its cells, and return its lines."""
    home = {(row, column): box for box in boxes
            for row in range(box.top, box.bottom) for column in range(box.left, box.right)}  # fmt: skip
    downwards = [-y for y in ys]
    inside: list[Line] = []
    for line in lines:
        row = bisect_right(downwards, -(line.base + 0.25 * line.size)) - 1
        if not 0 <= row < len(ys) - 1 or line.left < xs[0] - _ALIKE or line.right > xs[-1] + _ALIKE:
            continue
        inside.append(line)
        parts: list[tuple[_Box, list[Word]]] = []
        for word in line.words:
            column = min(max(0, bisect_right(xs, (word.left + word.right) / 2) - 1), len(xs) - 2)
            box = home[row, column]
            if not parts or parts[-1][0] is not box:
                parts.append((box, []))
            parts[-1][1].append(word)
        for box, words in parts:
            box.lines.append(line_of(words, line.base, line.size))
    return inside


def _table(boxes: Sequence[_Box], height: int, lines: Sequence[Line]) -> Table:
    by_row: list[list[_Box]] = [[] for _ in range(height)]
    for box in boxes:
        by_row[box.top].append(box)
    spanned = {row for box in boxes if box.bottom - box.top > 1 for row in range(box.top, box.bottom)}
    rows: list[list[Cell]] = []
    bold: list[bool] = []
    for number, row in enumerate(by_row):
        for texts in [[box.text for box in row]] if number in spanned else _texts(row):
            spans = ((box.bottom - box.top, box.right - box.left) for box in row)
            rows.append([Cell(text, *span) for text, span in zip(texts, spans, strict=True)])
            bold.append(all(line.is_bold for box in row for line in box.lines))
    grid = spread(rows)
    end = bold.index(False) if False in bold else 0
    begin = next((place for place in range(end) if len(grid[place]) > 1), end)
    if begin == end:
        begin, end = find_head(grid, by_numbers=True)
    if end - begin > 1:
        grid[begin:end] = [column_names(grid[begin:end])]
        end = begin + 1
    return table_of(grid, end, lines)


def _texts(row: Sequence[_Box]) -> list[list[str]]:
    """Return the texts of a row of cells: of several rows, where all cells have as many lines, more than a text has."""
    cells = [rows_of(box.lines) for box in row]
    if len(cells[0]) <= ROW or any(len(lines) != len(cells[0]) for lines in cells):
        return [[box.text for box in row]]
    return [[" ".join(line.text for line in lines) for lines in row] for row in zip(*cells, strict=True)]
