"""Find tables by the drawn lines around cells, or by horizontal lines and the white space between columns."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise, product
from typing import TypeVar

from indexer.read.pdf.lines import PdfLine, Word, group_rows, make_line, separator
from indexer.read.pdf.page import Rule, VerticalRule
from indexer.read.table_grid import Cell, column_names, find_head, spread_cells
from indexer.records import COLUMNS
from indexer.text import reader_notes

_TOLERANCE_POINTS = 4.0
_MIN_RULE_POINTS = 15.0
_MAX_STROKE_GAP_POINTS = 2.0
_MAX_CELL_LINES = 3  # lines; if every cell of a row has n lines, and n is larger, the row becomes n rows

Place = tuple[int, int]
S = TypeVar("S", Rule, VerticalRule)


@dataclass(frozen=True, slots=True)
class Table:
    """A table, with positions in points. `head` has the column names, or is empty if they are missing or too long."""

    text: str
    head: str
    x0: float
    x1: float
    base: float
    size: float
    is_prose: bool = False
    is_bold: bool = False


def _make_table(cells: Sequence[Sequence[str]], heads: int, lines: Sequence[PdfLine]) -> Table:
    """Build a table from the texts of its cells and its `lines`. The first `heads` rows have the column names."""
    rows = [COLUMNS.join(row).rstrip(" |") if any(row) else "" for row in cells]
    head = "\n".join(filter(None, rows[:heads]))
    return Table(
        "\n".join(filter(None, rows)),
        head if COLUMNS in head and len(head) <= 500 else "",
        min(line.x0 for line in lines),
        max(line.x1 for line in lines),
        max(line.base + 0.75 * line.size for line in lines),
        max(line.size for line in lines),
    )


@dataclass(slots=True)
class _BoxedCell:
    top: int
    left: int
    bottom: int
    right: int
    lines: list[PdfLine] = field(default_factory=list)

    @property
    def text(self) -> str:
        rows = [" ".join(line.text for line in row) for row in group_rows(self.lines)]
        return "".join(rows[:1] + [piece for a, b in pairwise(rows) for piece in (separator(a, b), b)])


def find_boxed_tables(
    lines: Sequence[PdfLine], drawn: Sequence[Rule | VerticalRule]
) -> tuple[list[Table], list[PdfLine], list[Rule]]:
    """Return the tables whose cells have drawn borders, and the lines of text and horizontal rules outside them."""
    tables: list[Table] = []
    free = _join_strokes([line for line in drawn if isinstance(line, Rule)])
    ordered = sorted(lines, key=lambda line: -_middle(line))
    middles = [-_middle(line) for line in ordered]
    used: set[int] = set()
    vertical_rules = _join_strokes([line for line in drawn if isinstance(line, VerticalRule)])
    for rules, verticals in _connected_rules(free, vertical_rules):
        ys = _cluster_positions(
            [*(line.y for line in rules), *(y for line in verticals for y in (line.bottom, line.top))]
        )[::-1]
        xs = _cluster_positions([*(line.x for line in verticals), *(x for line in rules for x in (line.x0, line.x1))])
        if len(ys) < 2 or len(xs) < 3 or (len(ys) - 1) * (len(xs) - 1) > 10_000:
            continue
        if len(ys) == 2 and len(verticals) < len(xs):  # a single row needs a rule on both sides of each cell
            continue
        boxes = _find_cells(rules, verticals, xs, ys)
        near = ordered[bisect_left(middles, -ys[0]) : bisect_right(middles, -ys[-1])]
        inside = _fill_cells(boxes, [line for line in near if id(line) not in used], xs, ys) if boxes else []
        texts = [box.text for box in boxes]
        if not inside or sum(map(bool, texts)) < 0.4 * len(boxes):
            continue
        used.update(map(id, [*rules, *inside]))
        tables.append(_grid_table(boxes, len(ys) - 1, inside))
    return tables, [line for line in lines if id(line) not in used], [rule for rule in free if id(rule) not in used]


def _middle(line: PdfLine) -> float:
    return line.base + 0.25 * line.size


def _join_strokes(strokes: Iterable[S]) -> list[S]:
    joined: list[S] = []
    for stroke in sorted(strokes, key=lambda stroke: (round(stroke[2]), stroke[0])):
        start, end, at = joined[-1] if joined else stroke
        if joined and abs(at - stroke[2]) <= 1.0 and start <= stroke[0] <= end + _MAX_STROKE_GAP_POINTS:
            joined[-1] = type(stroke)(start, max(end, stroke[1]), at)
        else:
            joined.append(stroke)
    return joined


def _connected_rules(
    rules: Sequence[Rule], verticals: Sequence[VerticalRule]
) -> Iterator[tuple[list[Rule], list[VerticalRule]]]:
    """Yield groups of horizontal and vertical rules that touch each other."""
    verticals = sorted(verticals, key=lambda line: line.x)
    if not rules or not verticals or len(rules) + len(verticals) > 5_000:
        return
    parents = list(range(len(rules) + len(verticals)))

    def root_of(place: int) -> int:
        while parents[place] != place:
            parents[place] = parents[parents[place]]
            place = parents[place]
        return place

    xs = [line.x for line in verticals]
    crossings = 0
    for number, rule in enumerate(rules):
        first, end = bisect_left(xs, rule.x0 - _TOLERANCE_POINTS), bisect_right(xs, rule.x1 + _TOLERANCE_POINTS)
        crossings += end - first
        if crossings > 200_000:
            reader_notes.add("a PDF page with too many drawn lines: the cells of its tables were not detected")
            return
        for place in range(first, end):
            if verticals[place].bottom - _TOLERANCE_POINTS <= rule.y <= verticals[place].top + _TOLERANCE_POINTS:
                parents[root_of(number)] = root_of(len(rules) + place)
    groups: dict[int, tuple[list[Rule], list[VerticalRule]]] = {}
    for number, rule in enumerate(rules):
        groups.setdefault(root_of(number), ([], []))[0].append(rule)
    for number, upright in enumerate(verticals, start=len(rules)):
        groups.setdefault(root_of(number), ([], []))[1].append(upright)
    yield from groups.values()


def _cluster_positions(values: Sequence[float]) -> list[float]:
    clusters: list[list[float]] = []
    for value in sorted(values):
        if not clusters or value - clusters[-1][-1] > _TOLERANCE_POINTS:
            clusters.append([])
        clusters[-1].append(value)
    return [(values[0] + values[-1]) / 2 for values in clusters]


def _find_cells(
    rules: Sequence[Rule], verticals: Sequence[VerticalRule], xs: Sequence[float], ys: Sequence[float]
) -> list[_BoxedCell]:
    downwards = [-y for y in ys]
    horizontal_sides = _drawn_sides([(-line.y, line.x0, line.x1) for line in rules], downwards, xs)
    vertical_sides = _drawn_sides([(line.x, -line.top, -line.bottom) for line in verticals], xs, downwards)
    height, width = len(ys) - 1, len(xs) - 1
    boxes: list[_BoxedCell] = []
    covered: set[Place] = set()
    for top, left in product(range(height), range(width)):
        if (top, left) in covered:
            continue
        right = next((column for column in range(left + 1, width) if (column, top) in vertical_sides), width)
        bottom = next((row for row in range(top + 1, height) if (row, left) in horizontal_sides), height)
        cell = set(product(range(top, bottom), range(left, right)))
        drawn = sum((row, column) in horizontal_sides and row > top for row, column in cell)
        drawn += sum((column, row) in vertical_sides and column > left for row, column in cell)
        missing = sum((bottom, column) not in horizontal_sides for column in range(left, right) if bottom < height)
        missing += sum((right, row) not in vertical_sides for row in range(top, bottom) if right < width)
        if drawn or missing or cell & covered:
            if len(boxes) >= 5:  # fewer cells are probably a drawing
                reader_notes.add("a table in a PDF with cells that are not rectangles: its cells were not detected")
            return []
        covered |= cell
        boxes.append(_BoxedCell(top, left, bottom, right))
    return boxes


def _drawn_sides(
    lines: Sequence[tuple[float, float, float]], positions: Sequence[float], crossings: Sequence[float]
) -> set[Place]:
    """Return `(i, j)` for each drawn side of a cell: at `positions[i]`, from `crossings[j]` to `crossings[j + 1]`."""
    middles = [(a + b) / 2 for a, b in pairwise(crossings)]
    drawn: set[Place] = set()
    for at, start, end in lines:
        near = bisect_left(positions, at)
        sides = range(max(0, near - 1), min(len(positions), near + 1))
        side = min(sides, key=lambda place: abs(positions[place] - at))
        drawn.update((side, place) for place in range(bisect_left(middles, start), bisect_right(middles, end)))
    return drawn


def _fill_cells(
    boxes: Sequence[_BoxedCell], lines: Sequence[PdfLine], xs: Sequence[float], ys: Sequence[float]
) -> list[PdfLine]:
    """Add the words of lines to the table cells at their positions. Return the lines that are inside the table."""
    box_at = {(row, column): box for box in boxes
              for row in range(box.top, box.bottom) for column in range(box.left, box.right)}  # fmt: skip
    downwards = [-y for y in ys]
    inside: list[PdfLine] = []
    for line in lines:
        row = bisect_right(downwards, -_middle(line)) - 1
        if not 0 <= row < len(ys) - 1 or line.x0 < xs[0] - _TOLERANCE_POINTS or line.x1 > xs[-1] + _TOLERANCE_POINTS:
            continue
        inside.append(line)
        columns = {w: min(max(0, bisect_right(xs, (w.x0 + w.x1) / 2) - 1), len(xs) - 2) for w in line.words}
        for box, words in groupby(line.words, key=lambda word: box_at[row, columns[word]]):
            box.lines.append(make_line(list(words), line.base, line.size))
    return inside


def _grid_table(boxes: Sequence[_BoxedCell], height: int, lines: Sequence[PdfLine]) -> Table:
    by_row: list[list[_BoxedCell]] = [[] for _ in range(height)]
    for box in boxes:
        by_row[box.top].append(box)
    spanned = {row for box in boxes if box.bottom - box.top > 1 for row in range(box.top, box.bottom)}
    rows: list[list[Cell]] = []
    for number, row in enumerate(by_row):
        texts = [[box.text for box in row]]
        cells = [group_rows(box.lines) for box in row]
        lengths = set(map(len, cells))
        if number not in spanned and len(lengths) == 1 and max(lengths) > _MAX_CELL_LINES:  # make each line a row
            texts = [[" ".join(line.text for line in cell) for cell in level] for level in zip(*cells, strict=True)]
        spans = [(box.bottom - box.top, box.right - box.left) for box in row]
        rows += ([Cell(text, *span) for text, span in zip(one, spans, strict=True)] for one in texts)
    grid = spread_cells(rows)
    begin, end = find_head(grid, by_numbers=True)
    if end - begin > 1:
        grid[begin:end] = [column_names(grid[begin:end])]
        end = begin + 1
    return _make_table(grid, end, lines)


def find_ruled_tables(lines: Sequence[PdfLine], rules: Sequence[Rule]) -> tuple[list[Table], list[PdfLine]]:
    """Return the tables between horizontal rules of the same width, and the lines of text outside these tables."""
    tables: list[Table] = []
    remaining = sorted(lines, key=lambda line: -line.base)
    for stack in _rule_stacks(rules):
        west, east = stack[0].x0 - _TOLERANCE_POINTS, stack[0].x1 + _TOLERANCE_POINTS
        inside = [line for line in remaining if west <= line.x0 and line.x1 <= east and _is_below(line, stack[0])]
        groups: list[list[PdfLine]] = []
        begin = end = 0
        for rule in stack[1:]:
            while end < len(inside) and not _is_below(inside[end], rule):
                end += 1
            if begin < end:
                groups.append(inside[begin:end])
            begin = end
        cell_lines = [line for group in groups if _are_cells(group) for line in group]
        borders = _column_borders(group_rows(cell_lines), max(line.size for line in cell_lines)) if cell_lines else []
        bands: list[list[list[PdfLine]]] = [[]]
        for group in groups:
            if _are_cells(group) or _fit_columns(group, borders):
                bands[-1].append(group)
            else:
                bands.append([])
        for band in filter(None, bands):
            used = [line for group in band for line in group]
            if table := _spaced_table(used, band):
                tables.append(table)
                used_ids = set(map(id, used))
                remaining = [line for line in remaining if id(line) not in used_ids]
    return tables, remaining


def _is_below(line: PdfLine, rule: Rule) -> bool:
    return line.base + 0.3 * line.size <= rule.y


def _rule_stacks(rules: Iterable[Rule]) -> list[list[Rule]]:
    """Group rules of the same width, from top to bottom. Return the groups of two or more, the largest group first."""
    stacks: dict[tuple[int, int], list[Rule]] = {}
    for rule in sorted((rule for rule in rules if rule.x1 - rule.x0 >= _MIN_RULE_POINTS), key=lambda rule: -rule.y):
        west, east = round(rule.x0 / _TOLERANCE_POINTS), round(rule.x1 / _TOLERANCE_POINTS)
        near = ((west + a, east + b) for a in (0, -1, 1) for b in (0, -1, 1))
        stacks.setdefault(next((key for key in near if key in stacks), (west, east)), []).append(rule)
    return sorted((stack for stack in stacks.values() if len(stack) > 1), key=len, reverse=True)[:40]


def _are_cells(lines: Sequence[PdfLine]) -> bool:
    rows = group_rows(lines)
    return len(rows) == 1 or 2 * sum(len(row) > 1 for row in rows) >= len(rows)


def _fit_columns(lines: Sequence[PdfLine], borders: Sequence[float]) -> bool:
    """Return whether the lines are in two or more columns, and no line extends far across a column border."""
    if any(min(x - line.x0, line.x1 - x) > 0.25 * (line.x1 - line.x0) for line in lines for x in borders):
        return False
    return len({sum(x < (line.x0 + line.x1) / 2 for x in borders) for line in lines}) > 1


def _spaced_table(lines: Sequence[PdfLine], groups: Sequence[Sequence[PdfLine]]) -> Table | None:
    """Return the lines as a table, or None if they form only one row or column. Drawn lines separate the `groups`."""
    rows = group_rows(lines)
    borders = _column_borders(rows, max(line.size for line in lines))
    if not borders or len(rows) < 2:
        return None
    split = [[_split_row(row, borders) for row in group_rows(group)] for group in groups]
    several = [group for group in split if len(group) > 1]
    ones = sum(map(_is_one_row, several))
    is_sure = sum(all(map(all, group)) for group in several) <= ones > 0
    is_grid = len(split) >= 3 and (is_sure or sorted(map(len, split))[len(split) // 2] <= _MAX_CELL_LINES)
    cells: list[list[str]] = []
    if is_grid and (is_sure or max(map(len, split)) <= 8):
        cells += map(_merge_rows, split)
    else:
        for row in rows:
            cells_of_row = _split_row(row, borders)
            if cells and not cells_of_row[0] and cells[-1][0]:
                cells[-1] = _merge_rows([cells[-1], cells_of_row])
            else:
                cells.append(cells_of_row)
    heads = 1 if is_grid else len(split[0]) if len(split) > 1 and len(split[0]) <= 3 else 0
    return _make_table(cells, heads, lines)


def _is_one_row(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether lines are one row of wrapped cells: the first is short, and at most one cell fills all lines."""
    filled = [place for place, cells in enumerate(rows) if cells[0]]
    is_short = 0 < 2 * len(filled) <= len(rows) and filled[-1] - filled[0] + 1 == len(filled)
    return is_short and sum(all(column) for column in zip(*rows, strict=True)) <= 1


def _merge_rows(rows: Sequence[Sequence[str]]) -> list[str]:
    return [" ".join(filter(None, texts)) for texts in zip(*rows, strict=True)]


def _column_borders(rows: Sequence[Sequence[PdfLine]], size: float) -> list[float]:
    """Return the x positions of column borders: the middles of white strips that at most 10 % of the rows cross."""
    several = [[word for line in row for word in line.words] for row in rows if len(row) > 1]
    gaps = sorted(b.x0 - a.x1 for row in rows if len(row) > 1 for line in row for a, b in pairwise(line.words))
    least = max(0.4 * size, 1.3 * gaps[len(gaps) // 2] if gaps else 0.0)
    steps: list[tuple[float, int]] = []
    for words in several:
        start, end = words[0].x0, words[0].x1
        for word in words[1:]:
            if word.x0 - end > least:
                steps += [(start, 1), (end, -1)]
                start, end = word.x0, word.x1
            end = max(end, word.x1)
        steps += [(start, 1), (end, -1)]
    allowed = int(0.1 * len(several))
    borders: list[float] = []
    depth, free_from = 0, None
    for x, step in sorted(steps):
        if depth <= allowed < depth + step and free_from is not None:
            if x - free_from >= least:
                borders.append((free_from + x) / 2)
            free_from = None
        depth += step
        if depth <= allowed and step < 0:
            free_from = x
    return borders


def _split_row(row: Sequence[PdfLine], borders: Sequence[float]) -> list[str]:
    cells: list[list[Word]] = [[] for _ in range(len(borders) + 1)]
    place = 0
    for word in (word for line in row for word in line.words):
        while place < len(borders) and (word.x0 + word.x1) / 2 > borders[place]:
            place += 1
        cells[place].append(word)
    return [" ".join(word.text for word in cell) for cell in cells]
