"""Tables of a page: rows of cells, found by the lines drawn around them, or by the space between them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from indexer.read.pdf.drawings import Rule, Upright
from indexer.read.pdf.lines import Line, Word, line_of, rows_of
from indexer.records import COLUMNS

_ALIKE = 4.0  # points between the ends of lines that belong to one table
_MOST_STACKS = 40  # sets of drawn lines on a page that are looked at
LONG = 15.0  # points: drawn lines that are shorter are no side of a table
_TOUCH = 2.0  # points between parts of a drawn line
_LEAST_ROWS = 3  # of a table without drawn lines
_STRIP = 0.4  # of the size: least white space between columns
_NEXT = 2.6  # of the size: rows of a table without drawn lines are no further from each other
_ACROSS = 0.25  # share of a piece of a line that may reach into the next column
_CROSSED = 0.1  # share of rows that may reach across
ROW = 3  # lines of a cell beside which every other cell has as many
_LONGEST_ROW = 8  # lines of a cell, where nothing shows that rows are ones
_LONGEST_HEAD = 500  # characters of the row that names the columns


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
        """Where it begins."""
        return self.top

    @property
    def text(self) -> str:
        """A line for each row."""
        return "\n".join(filter(None, map(_row_text, self.rows)))

    @property
    def head(self) -> str:
        """The row that names the columns, as it is in the text; empty where none does or it is long."""
        head = "\n".join(filter(None, map(_row_text, self.rows[: self.heads])))
        return head if COLUMNS in head and len(head) <= _LONGEST_HEAD else ""


def _row_text(cells: Sequence[str]) -> str:
    return COLUMNS.join(cells).rstrip(" |") if any(cells) else ""


def ruled(lines: Sequence[Line], drawn: Sequence[Rule | Upright]) -> tuple[list[Table], list[Line]]:
    """Return the tables between drawn lines, and the lines of text that are in none."""
    tables: list[Table] = []
    left = sorted(lines, key=lambda line: -line.base)
    uprights = _tall([line for line in drawn if isinstance(line, Upright)])
    for stack in _stacks(_whole([line for line in drawn if isinstance(line, Rule) and line.right - line.left >= LONG])):
        west, east = stack[0].left - _ALIKE, stack[0].right + _ALIKE
        own = [line for line in uprights if west + 2 * _ALIKE < line.x < east - 2 * _ALIKE]
        sides = [[line for line in uprights if abs(line.x - x) <= 2 * _ALIKE] for x in (stack[0].left, stack[0].right)]
        stack = list(_closed(stack, own))
        inside = [line for line in left if west <= line.left and line.right <= east and _is_below(line, stack[0])]
        for table, used in _between(inside, stack, own, is_boxed=all(sides)):
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


def _whole(rules: Sequence[Rule]) -> list[Rule]:
    """Drawn lines, those that go on in another piece as one, from the top down."""
    found: list[Rule] = []
    for rule in sorted(rules, key=lambda rule: (-round(rule.y), rule.left)):
        last = found[-1] if found else None
        if last and abs(last.y - rule.y) <= 1.0 and last.left <= rule.left <= last.right + _TOUCH:
            found[-1] = Rule(last.left, max(last.right, rule.right), last.y)
        else:
            found.append(rule)
    return found


def _tall(uprights: Sequence[Upright]) -> list[Upright]:
    """Vertical lines, those that go on in another piece as one."""
    found: list[Upright] = []
    for line in sorted(uprights, key=lambda line: (round(line.x), line.bottom)):
        last = found[-1] if found else None
        if last and abs(last.x - line.x) <= 1.0 and line.bottom <= last.top + _TOUCH:
            found[-1] = Upright(last.x, last.bottom, max(last.top, line.top))
        else:
            found.append(line)
    return found


def _stacks(rules: Sequence[Rule]) -> list[list[Rule]]:
    """Lines of one width, from the top down, two at least; the most first."""
    stacks: dict[tuple[int, int], list[Rule]] = {}
    for rule in rules:
        key = round(rule.left / _ALIKE), round(rule.right / _ALIKE)
        near = ((key[0] + a, key[1] + b) for a in (0, -1, 1) for b in (0, -1, 1))
        home = next((one for one in near if one in stacks), key)
        stack = stacks.setdefault(home, [])
        if not stack or stack[-1].y - rule.y > _TOUCH:
            stack.append(rule)
    found = sorted((stack for stack in stacks.values() if len(stack) > 1), key=len, reverse=True)
    return found[:_MOST_STACKS]


def _between(
    inside: Sequence[Line], stack: Sequence[Rule], uprights: Sequence[Upright], *, is_boxed: bool
) -> Iterator[tuple[Table, list[Line]]]:
    """Tables between drawn lines of one width; what is no row of cells parts them."""
    parts: list[tuple[tuple[float, ...], list[list[Line]]]] = [((), [])]
    place = 0
    found: list[tuple[tuple[float, ...], list[Line]]] = []
    for upper, lower in pairwise(stack):
        rows: list[Line] = []
        while place < len(inside) and not _is_below(inside[place], lower):
            rows.append(inside[place])
            place += 1
        if rows:
            found.append((_walls(upper, lower, uprights), rows))
    sure = [line for walls, rows in found if not walls and _are_cells(rows) for line in rows]
    borders = _borders(rows_of(sure), max(line.size for line in sure)) if sure else []
    for walls, rows in found:
        if walls != parts[-1][0]:
            parts.append((walls, []))
        if walls or _are_cells(rows) or _keep_within(rows, borders):
            parts[-1][1].append(rows)
        else:
            parts.append((walls, []))
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
    """Places of the vertical lines that reach from one drawn line to the next, from left to right."""
    reaching = sorted(line.x for line in uprights if line.bottom <= lower.y + _ALIKE and line.top >= upper.y - _ALIKE)
    found: list[float] = []
    for x in reaching:
        if not found or x - found[-1] > _ALIKE:
            found.append(float(round(x)))
    return tuple(found)


def _walled(lines: Sequence[Line], groups: Sequence[Sequence[Line]], walls: Sequence[float]) -> Table:
    """Return a table all of whose cells are drawn."""
    rows = []
    for group in groups:
        cells = [_cells(row, walls) for row in rows_of(group)]
        rows += cells if len(cells) > ROW and _is_full(cells) else [_merged(cells)]
    first = [line for line in groups[0] if line.words]
    others = [line for group in groups[1:] for line in group]
    is_head = bool(others) and all(line.is_bold for line in first) and not all(line.is_bold for line in others)
    return table_of(rows, 1 if is_head else 0, lines)


def _are_cells(lines: Sequence[Line]) -> bool:
    rows = rows_of(lines)
    split = sum(len(row) > 1 for row in rows)
    return 2 * split >= len(rows) or len(rows) == 1


def _keep_within(lines: Sequence[Line], borders: Sequence[float]) -> bool:
    """Whether pieces of lines stand in several of the columns of other rows, and none reaches far across."""
    if any(min(x - line.left, line.right - x) > _ACROSS * (line.right - line.left) for line in lines for x in borders):
        return False
    return len({sum(x < (line.left + line.right) / 2 for x in borders) for line in lines}) > 1


def _is_full(rows: Sequence[Sequence[str]]) -> bool:
    return all(all(cells) for cells in rows)


def _is_one_row(rows: Sequence[Sequence[str]]) -> bool:
    """Whether a first cell of one piece ends long before one other cell does."""
    filled = [place for place, cells in enumerate(rows) if cells[0]]
    is_short = 0 < 2 * len(filled) <= len(rows) and filled[-1] - filled[0] + 1 == len(filled)
    return is_short and sum(all(column) for column in zip(*rows, strict=True)) <= 1


def unruled(column: Sequence[Line | Table]) -> list[Line | Table]:
    """Return a column with the rows that are cells side by side as tables, and the pieces of other rows joined."""
    found: list[Line | Table] = []
    run: list[list[Line]] = []
    waiting: list[Line] = []

    def close() -> None:
        while run and len(run[-1]) == 1:
            waiting[:0] = run.pop()
        table = _table([line for row in run for line in row], None) if len(run) >= _LEAST_ROWS else None
        found.extend([table] if table else (_joined(row) for row in run))
        found.extend(waiting)
        run.clear()
        waiting.clear()

    for group in _groups(column):
        if isinstance(group, Table):
            close()
            found.append(group)
        elif len(group) > 1 and not _is_item(group):
            if run and run[-1][0].base - group[0].base > _NEXT * group[0].size:
                close()
            run.append(group)
        elif run and _is_cell_below(group[0], run[-1]):
            run.append(group)
        else:
            close()
            found.append(_joined(group))
    close()
    return found


def _groups(column: Sequence[Line | Table]) -> Iterator[list[Line] | Table]:
    """Rows of lines, and the tables between them."""
    lines: list[Line] = []
    for unit in column:
        if isinstance(unit, Table):
            yield from rows_of(lines)
            lines = []
            yield unit
        else:
            lines.append(unit)
    yield from rows_of(lines)


def _is_item(row: Sequence[Line]) -> bool:
    """Whether it is one line after the mark of an item or the number of a heading."""
    return (
        len(row) == 2
        and len(row[0].words) == 1
        and len(row[0].text) <= 5
        and row[1].left - row[0].right < 2.5 * row[1].size
    )


def _is_cell_below(line: Line, row: Sequence[Line]) -> bool:
    """Whether a line stands under a cell of a row but the first one, so that it goes on there."""
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
    if is_grid and (is_sure or max(map(len, split)) <= _LONGEST_ROW):
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
    """Places between columns: the middles of strips that hardly any row of several cells reaches into."""
    several = [row for row in rows if len(row) > 1]
    allowed = int(_CROSSED * len(several))
    least = max(_STRIP * size, 1.3 * _space(several))
    steps: list[tuple[float, int]] = []
    for row in several:
        for start, end in _spans(row, least):
            steps += [(start, 1), (end, -1)]
    steps.sort()
    borders: list[float] = []
    depth, free_from = 0, None
    for x, step in steps:
        if depth <= allowed and step > 0 and depth + step > allowed and free_from is not None:
            if x - free_from >= least:
                borders.append((free_from + x) / 2)
            free_from = None
        depth += step
        if depth <= allowed and step < 0:
            free_from = x
    return borders


def _space(rows: Iterable[Sequence[Line]]) -> float:
    """Return how far words in a piece of a line mostly are from each other, in points; 0 where all are alone."""
    gaps = sorted(b.left - a.right for row in rows for line in row for a, b in pairwise(line.words))
    return gaps[len(gaps) // 2] if gaps else 0.0


def _spans(row: Sequence[Line], gap: float) -> Iterator[tuple[float, float]]:
    """From where to where a row has words."""
    start = end = None
    for word in (word for line in row for word in line.words):
        if start is None or end is None or word.left - end > gap:
            if start is not None and end is not None:
                yield start, end
            start, end = word.left, word.right
        else:
            end = max(end, word.right)
    if start is not None and end is not None:
        yield start, end


def _cells(row: Sequence[Line], borders: Sequence[float]) -> list[str]:
    cells: list[list[Word]] = [[] for _ in range(len(borders) + 1)]
    place = 0
    for word in (word for line in row for word in line.words):
        while place < len(borders) and (word.left + word.right) / 2 > borders[place]:
            place += 1
        cells[place].append(word)
    return [" ".join(word.text for word in cell) for cell in cells]
