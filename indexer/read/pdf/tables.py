"""Tables of a page: rows of cells, found by the lines drawn around them, or by the space between them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise, zip_longest
from typing import TypeVar

from indexer.read.pdf.drawings import Rule, Upright
from indexer.read.pdf.lines import Line, Word, line_of, rows_of
from indexer.records import COLUMNS

_ALIKE = 4.0  # points between the ends of lines that belong to one table
LONG = 15.0  # points: drawn lines that are shorter are no side of a table
_TOUCH = 2.0  # points between parts of a drawn line
S = TypeVar("S", Rule, Upright)

ROW = 3  # lines of a cell beside which every other cell has as many


@dataclass(frozen=True, slots=True)
class Table:
    """A table on a page, in points."""

    rows: tuple[tuple[str, ...], ...]
    heads: int  # rows that name the columns
    left: float
    right: float
    top: float
    bottom: float
    size: float
    is_prose: bool = False
    is_bold: bool = False

    @property
    def base(self) -> float:
        """Return where it begins."""
        return self.top

    @property
    def text(self) -> str:
        """Return a line for each row."""
        return _lines_of(self.rows)

    @property
    def head(self) -> str:
        """Return the row that names the columns; empty where none does or it is long."""
        head = _lines_of(self.rows[: self.heads])
        return head if COLUMNS in head and len(head) <= 500 else ""


def _lines_of(rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(filter(None, (COLUMNS.join(cells).rstrip(" |") for cells in rows if any(cells))))


def ruled(lines: Sequence[Line], drawn: Sequence[Rule | Upright]) -> tuple[list[Table], list[Line]]:
    """Return the tables between drawn lines, and the lines of text that are in none."""
    tables: list[Table] = []
    left = sorted(lines, key=lambda line: -line.base)
    uprights = _merged_strokes([line for line in drawn if isinstance(line, Upright)])
    rules = _merged_strokes([line for line in drawn if isinstance(line, Rule) and line.right - line.left >= LONG])
    for stack in _stacks(sorted(rules, key=lambda rule: -rule.y)):
        west, east = stack[0].left - _ALIKE, stack[0].right + _ALIKE
        inner = [line for line in uprights if west + 2 * _ALIKE < line.x < east - 2 * _ALIKE]
        is_boxed = all(any(abs(line.x - x) <= 2 * _ALIKE for line in uprights) for x in (stack[0].left, stack[0].right))
        stack = list(_closed(stack, inner))
        inside = [line for line in left if west <= line.left and line.right <= east and _is_below(line, stack[0])]
        for table, used in _between(inside, stack, inner, is_boxed=is_boxed):
            tables.append(table)
            gone = set(map(id, used))
            left = [line for line in left if id(line) not in gone]
    return tables, left


def _closed(stack: Sequence[Rule], uprights: Sequence[Upright]) -> Iterator[Rule]:
    """Yield drawn lines of one width, and where vertical ones end between them: some tables are open below."""
    for upper, lower in zip_longest(stack, stack[1:]):
        yield upper
        ends = [line.bottom for line in uprights if line.bottom < upper.y - _ALIKE and line.top >= upper.y - _ALIKE]
        foot = min(ends, default=upper.y)
        if ends and (lower is None or foot > lower.y + _ALIKE):
            yield Rule(upper.left, upper.right, foot)


def _is_below(line: Line, rule: Rule) -> bool:
    return line.base + 0.3 * line.size <= rule.y


def _merged_strokes(strokes: Iterable[S]) -> list[S]:
    """Return drawn lines, with those joined that continue each other."""
    found: list[S] = []
    for stroke in sorted(strokes, key=lambda stroke: (round(stroke[2]), stroke[0])):
        start, end, at = found[-1] if found else stroke
        if found and abs(at - stroke[2]) <= 1.0 and start <= stroke[0] <= end + _TOUCH:
            found[-1] = type(stroke)(start, max(end, stroke[1]), at)
        else:
            found.append(stroke)
    return found


def _stacks(rules: Iterable[Rule]) -> list[list[Rule]]:
    """Return drawn lines of one width, from the top down, two at least; the most first."""
    stacks: dict[tuple[int, int], list[Rule]] = {}
    for rule in rules:
        left, right = round(rule.left / _ALIKE), round(rule.right / _ALIKE)
        near = ((left + a, right + b) for a in (0, -1, 1) for b in (0, -1, 1))
        stack = stacks.setdefault(next((key for key in near if key in stacks), (left, right)), [])
        if not stack or stack[-1].y - rule.y > _TOUCH:
            stack.append(rule)
    return sorted((stack for stack in stacks.values() if len(stack) > 1), key=len, reverse=True)[:40]


def _between(
    inside: Sequence[Line], stack: Sequence[Rule], uprights: Sequence[Upright], *, is_boxed: bool
) -> Iterator[tuple[Table, list[Line]]]:
    """Yield the tables between drawn lines of one width, with their lines; what is no row of cells parts them."""
    place = 0
    groups: list[tuple[tuple[float, ...], list[Line]]] = []  # between two drawn lines: walls, and lines of text
    for upper, lower in pairwise(stack):
        rows: list[Line] = []
        while place < len(inside) and not _is_below(inside[place], lower):
            rows.append(inside[place])
            place += 1
        if rows:
            groups.append((_walls(upper, lower, uprights), rows))
    sure = [line for walls, rows in groups if not walls and _are_cells(rows) for line in rows]
    borders = _borders(rows_of(sure), max(line.size for line in sure)) if sure else []
    parts: list[tuple[tuple[float, ...], list[list[Line]]]] = [((), [])]
    for walls, rows in groups:
        is_part = bool(walls) or _are_cells(rows) or _keep_within(rows, borders)
        if walls != parts[-1][0] or not is_part:
            parts.append((walls, []))
        if is_part:
            parts[-1][1].append(rows)
    for walls, part in parts:
        flat = [line for group in part for line in group]
        if not flat:
            continue
        # where the sides are open, there may be columns that no line parts
        more = [] if is_boxed or not walls else _borders(rows_of(flat), max(line.size for line in flat))
        table = _walled(flat, part, walls) if walls and len(more) <= len(walls) else _table(flat, part)
        if table:
            yield table, flat


def _walls(upper: Rule, lower: Rule, uprights: Sequence[Upright]) -> tuple[float, ...]:
    """Return the places of the vertical lines that reach from one drawn line to the next, from left to right."""
    found: list[float] = []
    for x in sorted(line.x for line in uprights if line.bottom <= lower.y + _ALIKE and line.top >= upper.y - _ALIKE):
        if not found or x - found[-1] > _ALIKE:
            found.append(float(round(x)))
    return tuple(found)


def _walled(lines: Sequence[Line], groups: Sequence[Sequence[Line]], walls: Sequence[float]) -> Table:
    """Return a table all of whose cells are drawn."""
    rows = []
    for group in groups:
        cells = [_cells(row, walls) for row in rows_of(group)]
        rows += cells if len(cells) > ROW and _is_full(cells) else [_merged(cells)]
    others = [line for group in groups[1:] for line in group]
    is_head = bool(others) and all(line.is_bold for line in groups[0]) and not all(line.is_bold for line in others)
    return table_of(rows, int(is_head), lines)


def _are_cells(lines: Sequence[Line]) -> bool:
    rows = rows_of(lines)
    return len(rows) == 1 or 2 * sum(len(row) > 1 for row in rows) >= len(rows)


def _keep_within(lines: Sequence[Line], borders: Sequence[float]) -> bool:
    """Return whether pieces of lines stand in several of the columns of other rows, and none reaches far across."""
    if any(min(x - line.left, line.right - x) > 0.25 * (line.right - line.left) for line in lines for x in borders):
        return False
    return len({sum(x < (line.left + line.right) / 2 for x in borders) for line in lines}) > 1


def _is_full(rows: Sequence[Sequence[str]]) -> bool:
    return all(all(cells) for cells in rows)


def _is_one_row(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether a first cell of one piece ends long before one other cell does."""
    filled = [place for place, cells in enumerate(rows) if cells[0]]
    is_short = 0 < 2 * len(filled) <= len(rows) and filled[-1] - filled[0] + 1 == len(filled)
    return is_short and sum(all(column) for column in zip(*rows, strict=True)) <= 1


def unruled(column: Sequence[Line | Table]) -> list[Line | Table]:
    """Return a column with the rows that are cells side by side as tables, and the pieces of other rows joined."""
    found: list[Line | Table] = []
    run: list[list[Line]] = []

    def close() -> None:
        end = max((place for place, row in enumerate(run, 1) if len(row) > 1), default=0)
        table = _table([line for row in run[:end] for line in row], None) if end >= 3 else None
        found.extend([table] if table else map(_joined, run[:end]))
        found.extend(map(_joined, run[end:]))
        run.clear()

    for is_table, units in groupby(column, key=lambda unit: isinstance(unit, Table)):
        if is_table:
            close()
            found.extend(units)
            continue
        for row in rows_of(unit for unit in units if isinstance(unit, Line)):
            is_several = len(row) > 1 and not _is_item(row)
            is_far = bool(run) and run[-1][0].base - row[0].base > 2.6 * row[0].size
            if is_far if is_several else not (run and _is_cell_below(row[0], run[-1])):
                close()
            if is_several or run:
                run.append(row)
            else:
                found.append(_joined(row))
    close()
    return found


def _is_item(row: Sequence[Line]) -> bool:
    is_mark = len(row) == 2 and len(row[0].words) == 1 and len(row[0].text) <= 5
    return is_mark and row[1].left - row[0].right < 2.5 * row[1].size


def _is_cell_below(line: Line, row: Sequence[Line]) -> bool:
    is_near = row[0].base - line.base <= 1.6 * line.size
    return is_near and any(abs(line.left - cell.left) <= 0.5 * line.size for cell in row[1:])


def _joined(row: Sequence[Line]) -> Line:
    if len(row) == 1:
        return row[0]
    big = max(row, key=lambda line: len(line.text))
    return line_of([word for line in row for word in line.words], big.base, big.size)


def _table(lines: Sequence[Line], groups: Sequence[Sequence[Line]] | None) -> Table | None:
    """Return lines as a table; None where no white space runs through them. Groups are parted by drawn lines."""
    size = max(line.size for line in lines)
    rows = rows_of(lines)
    borders = _borders(rows, size)
    if not borders or len(rows) < 2:
        return None
    ruled_rows = [rows_of(group) for group in groups or ()]
    split = [[_cells(row, borders) for row in group] for group in ruled_rows]
    several = [group for group in split if len(group) > 1]
    ones = sum(map(_is_one_row, several))
    is_sure = sum(map(_is_full, several)) <= ones > 0
    is_grid = len(split) >= 3 and (is_sure or sorted(map(len, split))[len(split) // 2] <= ROW)
    cells: list[list[str]] = []
    if is_grid and (is_sure or max(map(len, split)) <= 8):
        for group in split:
            cells += group if len(group) > ROW and _is_full(group) else [_merged(group)]
    else:
        for row in rows:
            own = _cells(row, borders)
            if cells and not own[0] and cells[-1][0] and _is_cell_below(row[0], [row[0], *row]):
                cells[-1] = _merged([cells[-1], own])
            else:
                cells.append(own)
    heads = 0
    if len(ruled_rows) > 1:
        heads = 1 if is_grid else len(ruled_rows[0]) if len(ruled_rows[0]) <= 3 else 0
    elif rows[0] and all(line.is_bold for line in rows[0]) and not all(line.is_bold for line in lines):
        heads = 1
    return table_of(cells, min(heads, len(cells)), lines)


def table_of(cells: Sequence[Sequence[str]], heads: int, lines: Sequence[Line]) -> Table:
    """Return rows of cells, of which the first `heads` name the columns, as a table that stands where its lines do."""
    return Table(
        tuple(map(tuple, cells)),
        heads,
        min(line.left for line in lines),
        max(line.right for line in lines),
        max(line.top for line in lines),
        min(line.bottom for line in lines),
        max(line.size for line in lines),
    )


def _merged(rows: Sequence[Sequence[str]]) -> list[str]:
    return [" ".join(filter(None, parts)) for parts in zip(*rows, strict=True)]


def _borders(rows: Sequence[Sequence[Line]], size: float) -> list[float]:
    """Return the places between columns: the middles of strips that hardly any row of several cells reaches into."""
    several = [row for row in rows if len(row) > 1]
    allowed = int(0.1 * len(several))
    least = max(0.4 * size, 1.3 * _space(several))
    spans = [span for row in several for span in _spans(row, least)]
    borders: list[float] = []
    depth, free_from = 0, None
    for x, step in sorted([*((start, 1) for start, _ in spans), *((end, -1) for _, end in spans)]):
        if depth <= allowed < depth + step and free_from is not None:
            if x - free_from >= least:
                borders.append((free_from + x) / 2)
            free_from = None
        depth += step
        if depth <= allowed and step < 0:
            free_from = x
    return borders


def _space(rows: Iterable[Sequence[Line]]) -> float:
    gaps = sorted(b.left - a.right for row in rows for line in row for a, b in pairwise(line.words))
    return gaps[len(gaps) // 2] if gaps else 0.0


def _spans(row: Sequence[Line], gap: float) -> list[tuple[float, float]]:
    """Return the strips in which a row has words."""
    found: list[tuple[float, float]] = []
    for word in (word for line in row for word in line.words):
        if found and word.left - found[-1][1] <= gap:
            found[-1] = found[-1][0], max(found[-1][1], word.right)
        else:
            found.append((word.left, word.right))
    return found


def _cells(row: Sequence[Line], borders: Sequence[float]) -> list[str]:
    cells: list[list[Word]] = [[] for _ in range(len(borders) + 1)]
    place = 0
    for word in (word for line in row for word in line.words):
        while place < len(borders) and (word.left + word.right) / 2 > borders[place]:
            place += 1
        cells[place].append(word)
    return [" ".join(word.text for word in cell) for cell in cells]
