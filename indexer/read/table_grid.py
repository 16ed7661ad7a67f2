"""Interpret tables of any file format: repeat the text of merged cells, and find the rows with column names.

After `begin, end = find_head(grid)`, titles are in `grid[:begin]`, column names in `grid[begin:end]`, and values below.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from indexer.text import reader_notes

_MAX_REPEATS = 50_000
_MAX_REPEAT_LENGTH = 200
_SAMPLE_ROWS = 30
_MAX_TITLE_ROWS = 10
_MAX_HEAD_ROWS = 4
_MAX_NAME_LENGTH = 80
_WIDE_ROW_CELLS = 4
_MAX_REMARK_CELLS = 2
_MIN_SCALE_NUMBERS = 3  # column names may be numbers with equal steps, such as 1, 2, 3
_MAX_DIGITS = 4
_UNIT_SIGNS = frozenset("% ‰ $ € £ ¥ ° (%) [%] ($) (€) [€]".split())
_MISSING = frozenset("n/a na nan null none nil tbd unknown".split())
_LETTER = re.compile(r"[^\W\d_]")
_VALUE_START = re.compile(r"[^\w]{0,4}\d")
_TIME = re.compile(
    r"(?:1[5-9]|2[01])\d\ds?(?:[-/–]\d{1,4}){0,2}|\d{1,2}(?:[./]\d{1,2})?[./](?:1[5-9]|2[01])\d\d|\d\d?:\d\d"
)


class Cell(NamedTuple):
    """The text of a table cell, and the number of rows and columns that the cell spans."""

    text: str
    rowspan: int = 1
    colspan: int = 1


def spread_cells(rows: Iterable[Sequence[Cell]]) -> list[list[str]]:
    """Return the grid of a table, with the text of a cell in every row and column that the cell spans.

    Long texts are not repeated, nor is the only cell of a row repeated across columns. The last cell of a row adds no
    columns to the grid. After `_MAX_REPEATS` repetitions, no text is repeated, and a reader note is added.
    """
    grid: list[list[str]] = []
    last_cells: list[tuple[int, str]] = []  # last cell of each row: (column after the cell, text to repeat)
    above: dict[int, tuple[int, int, str]] = {}  # column → (remaining rows, column after the cell, text)
    repeats = 0
    for cells in rows:
        repeats += len(above)
        spans = above if repeats <= _MAX_REPEATS else {}
        row = {column: (text, end, text) for column, (_, end, text) in spans.items()}
        above = {column: (count - 1, end, text) for column, (count, end, text) in spans.items() if count > 1}
        column = 0
        for place, (text, rowspan, colspan) in enumerate(cells, start=1):
            while column in row:
                column += 1
            repeated = text if len(text) <= _MAX_REPEAT_LENGTH else ""
            span, is_last = max(1, colspan), place == len(cells)
            repeats += 0 if is_last else span - 1
            width = 1 if is_last or repeats > _MAX_REPEATS else span
            end = column + (span if is_last else width)
            for at in range(column, column + width):
                row[at] = (text if at == column else repeated), end, repeated
                if rowspan > 1:
                    above[at] = rowspan - 1, end, repeated
            column += width
        texts: list[str] = []
        end, repeated = 0, ""
        for column in range(max(row, default=-1) + 1):
            text, end, repeated = row.get(column) or (repeated if column < end else "", end, repeated)
            texts.append(text)
        repeats += len(texts) - len(row)
        grid.append(texts)
        last_cells.append((end if len(texts) > 1 else 0, repeated))
    longest = max(map(len, grid), default=0)
    for texts, (end, repeated) in zip(grid, last_cells, strict=True):
        missing = max(0, min(end, longest) - len(texts))
        repeats += missing
        if repeats <= _MAX_REPEATS:
            texts += [repeated] * missing
    if repeats > _MAX_REPEATS:
        reader_notes.add("a table with too many merged cells: the text of only some was repeated")
    return grid


def find_head(rows: Sequence[Sequence[str]], *, by_numbers: bool = False) -> tuple[int, int]:
    """Return the range `[begin, end)` of rows with column names, or `(0, 0)` if there are none.

    Use `by_numbers` for tables that may lack column names: then a row counts as column names only if numbers are below
    its words.
    """
    sample = rows[:_SAMPLE_ROWS]
    counts = sorted(sum(map(bool, row)) for row in sample)
    usual = median(counts[len(counts) // 2 :]) if counts else 0
    for begin, row in enumerate(sample[:_MAX_TITLE_ROWS] if usual > 1 else ()):
        if not any(row) or _is_title(row):
            continue
        end = _end_of_head(sample, begin, by_numbers)
        count = sum(map(bool, row))
        if end > begin + 1 or (count > 1 and (count > _MAX_REMARK_CELLS or usual < _WIDE_ROW_CELLS)):
            return begin, end
    return 0, 0


def column_names(rows: Sequence[Sequence[str]]) -> list[str]:
    """Join the names in several rows to one name per column, such as "Price 2023" for "2023" below "Price"."""
    names = [""] * max(map(len, rows), default=0)
    for number, row in enumerate(rows):
        lower = rows[number + 1] if number + 1 < len(rows) else []
        before = ""
        for column, text in enumerate(row):
            goes_on = not text and column and _cell_at(lower, column) and _cell_at(lower, column - 1)
            before = before if goes_on else text
            if before and not names[column].endswith(before):
                names[column] = f"{names[column]} {before}".strip()
    return names


def _is_title(row: Sequence[str]) -> bool:
    """Return whether a row has only one text: in the first cell, or repeated in at least the first three cells."""
    filled = [text for text in row if text]
    return len(set(filled)) == 1 and len(filled) != 2 and all(row[: len(filled)])


def _end_of_head(rows: Sequence[Sequence[str]], begin: int, by_numbers: bool) -> int:
    end = begin
    while end < min(begin + _MAX_HEAD_ROWS, len(rows)):
        row, below = rows[end], rows[end + 1 :]
        if any(len(text) > _MAX_NAME_LENGTH for text in row) or not _numbers_name(row, below):
            break
        if end > begin and (
            _is_title(row) or not (_divides_groups(rows[end - 1], row) or _contrasts(row, below, rows[end - 1]))
        ):
            break
        end += 1
    names = [name for name in column_names(rows[begin:end]) if name]
    is_certain = not by_numbers or end > begin + 1 or any(map(_is_value, names))
    is_head = (is_certain and len(set(names)) == len(names)) or _contrasts(rows[end - 1], rows[end:])
    return end if len(names) > 1 and is_head else begin


def _divides_groups(upper: Sequence[str], lower: Sequence[str]) -> bool:
    """Return whether the upper row names groups of columns, such as "Price" above "2023" and "2024"."""
    divides = False
    for column, text in enumerate(lower if len(set(upper)) > 1 else ()):
        above = _cell_at(upper, column)
        before, after = _cell_at(upper, column - 1) if column else None, _cell_at(upper, column + 1)
        is_group = column < len(upper) and (above in (before, after) or (after == "" and column + 1 < len(upper)))
        if text and text != above and above and not is_group:
            return False
        divides = divides or bool(text and text != above and (is_group or not above) and any(upper[: column + 1]))
    return divides


def _contrasts(row: Sequence[str], below: Sequence[Sequence[str]], above: Sequence[str] | None = None) -> bool:
    """Return whether a row looks like column names, because it has a word above a column of numbers.

    Two such words are required if the row has another new word, which differs from the text in the row `above`.
    """
    words, is_new = 0, False
    for column, text in enumerate(row):
        if not text:
            continue
        texts = list(filter(None, (_cell_at(lower, column) for lower in below)))
        if 2 * sum(map(_is_value, texts)) <= len(texts):
            is_new = is_new or (above is not None and bool(_LETTER.search(text)) and text != _cell_at(above, column))
            continue
        is_word = _LETTER.search(text) is not None and text.casefold() not in _MISSING
        if not (_TIME.fullmatch(text) or (not _is_value(text) and (is_word or text in _UNIT_SIGNS))):
            return False
        words += 1
    return words > is_new


def _numbers_name(row: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Return whether the numbers in a row can be column names: they are times, have equal steps, or are above words."""
    columns = [column for column, text in enumerate(row) if _is_value(text)]
    if not columns:
        return True
    rows_below = [[_cell_at(other, column) for column in columns] for other in below if any(other)]
    texts = [text for other in rows_below for text in other if text]
    if not texts or not any(map(_is_value, texts)):
        return bool(texts)
    if all(_TIME.fullmatch(row[column]) for column in columns):
        return 2 * sum(_TIME.fullmatch(text) is not None for text in texts) < len(texts)
    return _is_scale([row[column] for column in columns]) and 2 * sum(map(_is_scale, rows_below)) < len(rows_below)


def _is_scale(texts: Sequence[str]) -> bool:
    """Return whether texts are at least three numbers with equal steps, such as 1, 2, 3."""
    if len(texts) < _MIN_SCALE_NUMBERS or not all(text.isdecimal() and len(text) <= _MAX_DIGITS for text in texts):
        return False
    steps = {int(after) - int(before) for before, after in pairwise(texts)}
    return len(steps) == 1 and 0 not in steps


def _is_value(text: str) -> bool:
    """Return whether a text begins with a digit and has few letters, as a number, a date or an amount ("50 kg") has."""
    return _VALUE_START.match(text) is not None and len(_LETTER.findall(text)) <= sum(map(str.isdigit, text))


def _cell_at(row: Sequence[str], column: int) -> str:
    return row[column] if column < len(row) else ""
