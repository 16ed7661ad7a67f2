"""The grid of a table, whatever its format: spread cells that span several places, find the rows that name the columns.

Of `begin, end = find_head(grid)`, `grid[:begin]` are titles, `column_names(grid[begin:end])` names, the others values.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from indexer.text import reader_notes

_MOST_REPEATS = 50_000  # places of one table that its spanning cells fill again
_LONGEST_REPEAT = 200  # characters of a cell that is written at each place it spans
_SAMPLE = 30  # rows looked at
_MOST_TITLES = 10  # rows above the head
_MOST_HEADS = 4  # rows that name the columns
_LONGEST_NAME = 80  # characters of a column's name
_WIDE = 4  # cells in most rows, or more:
_FEW = 2  # cells of a row above them that is a title or a remark
_SCALE = 3  # whole numbers at equal steps that name columns, as 1, 2, 3
_SCALE_DIGITS = 5
_SIGNS = frozenset("% ‰ $ € £ ¥ ° (%) [%] ($) (€) [€]".split())  # units without a letter
_MISSING = frozenset("n/a na nan null none nil tbd unknown".split())
_LETTER = re.compile(r"[^\W\d_]")
_VALUE = re.compile(r"[^\w]{0,4}\d")  # what a number, amount or date begins with
_TIME = re.compile(
    r"(?:1[5-9]|2[01])\d\ds?(?:[-/–]\d{1,4}){0,2}|\d{1,2}(?:[./]\d{1,2})?[./](?:1[5-9]|2[01])\d\d|\d\d?:\d\d"
)


class Cell(NamedTuple):
    """A cell of a table before its spans are spread."""

    text: str
    rowspan: int = 1
    colspan: int = 1


def spread(rows: Iterable[Sequence[Cell]]) -> list[list[str]]:
    """Return the grid of a table in which the text of a cell stands at every place that the cell spans.

    A row of one cell stays one text, and the last cell of a row makes no columns that no other row has. Long texts are
    not repeated; once a table has filled its most repeats, its cells span nothing more, and a note says so.
    """
    grid: list[list[str]] = []
    reaches: list[tuple[int, str]] = []  # of each row: column at which its last cell ends, and what that repeats
    above: dict[int, tuple[int, int, str]] = {}  # by column: rows to fill, column at which the cell ends, its text
    repeats = 0
    for cells in rows:
        repeats += len(above)
        spans = above if repeats <= _MOST_REPEATS else {}
        row = {column: (text, end, text) for column, (_, end, text) in spans.items()}
        above = {column: (count - 1, end, text) for column, (count, end, text) in spans.items() if count > 1}
        column = 0
        for place, (text, rowspan, colspan) in enumerate(cells, start=1):
            while column in row:
                column += 1
            repeated = text if len(text) <= _LONGEST_REPEAT else ""
            span, is_last = max(1, colspan), place == len(cells)
            repeats += 0 if is_last else span - 1
            width = 1 if is_last or repeats > _MOST_REPEATS else span
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
        reaches.append((end if len(texts) > 1 else 0, repeated))
    longest = max(map(len, grid), default=0)
    for texts, (end, repeated) in zip(grid, reaches, strict=True):
        missing = max(0, min(end, longest) - len(texts))
        repeats += missing
        if repeats <= _MOST_REPEATS:
            texts += [repeated] * missing
    if repeats > _MOST_REPEATS:
        reader_notes.add("a table with too many merged cells: only some were repeated")
    return grid


def find_head(rows: Sequence[Sequence[str]], *, by_numbers: bool = False) -> tuple[int, int]:
    """Return where the rows that name the columns begin and end, which are equal if there are none.

    `by_numbers` is for tables that need not have names: a single row of words above words is none then.
    """
    sample = rows[:_SAMPLE]
    counts = sorted(sum(map(bool, row)) for row in sample)
    usual = median(counts[len(counts) // 2 :]) if counts else 0
    for begin, row in enumerate(sample[:_MOST_TITLES] if usual > 1 else ()):
        if not any(row) or _is_title(row):
            continue
        end = _end_of_head(sample, begin, by_numbers)
        count = sum(map(bool, row))
        if end > begin + 1 or (count > 1 and (count > _FEW or usual < _WIDE)):
            return begin, end
    return 0, 0


def column_names(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a name for each column from the rows that `find_head` found: "Price 2023" below "Price"."""
    names = [""] * max(map(len, rows), default=0)
    for number, row in enumerate(rows):
        lower = rows[number + 1] if number + 1 < len(rows) else []
        before = ""
        for column, text in enumerate(row):
            goes_on = not text and column and _at(lower, column) and _at(lower, column - 1)
            before = before if goes_on else text
            if before and not names[column].endswith(before):
                names[column] = f"{names[column]} {before}".strip()
    return names


def _is_title(row: Sequence[str]) -> bool:
    """Return whether a row says one thing, from its first column on; two cells that say the same may be anything."""
    filled = [text for text in row if text]
    return bool(row[0]) and len(set(filled)) == 1 and len(filled) != 2 and all(row[: len(filled)])


def _end_of_head(rows: Sequence[Sequence[str]], begin: int, by_numbers: bool) -> int:
    end = begin
    while end < min(begin + _MOST_HEADS, len(rows)):
        row, below = rows[end], rows[end + 1 :]
        if any(len(text) > _LONGEST_NAME for text in row) or not _numbers_name(row, below):
            break
        if end > begin and (
            _is_title(row) or not (_divides(rows[end - 1], row) or _contrasts(row, below, rows[end - 1]))
        ):
            break
        end += 1
    names = [name for name in column_names(rows[begin:end]) if name]
    is_certain = not by_numbers or end > begin + 1 or any(map(_is_value, names))
    is_head = (is_certain and len(set(names)) == len(names)) or _contrasts(rows[end - 1], rows[end:])
    return end if len(names) > 1 and is_head else begin


def _divides(upper: Sequence[str], lower: Sequence[str]) -> bool:
    """Return whether a row names the columns below the groups of the row above, and nothing below the others."""
    divides = False
    for column, text in enumerate(lower if len(set(upper)) > 1 else ()):
        above = _at(upper, column)
        before, after = _at(upper, column - 1) if column else None, _at(upper, column + 1)
        is_group = column < len(upper) and (above in (before, after) or (after == "" and column + 1 < len(upper)))
        if text and text != above and above and not is_group:
            return False
        divides = divides or bool(text and text != above and (is_group or not above) and any(upper[: column + 1]))
    return divides


def _contrasts(row: Sequence[str], below: Sequence[Sequence[str]], above: Sequence[str] | None = None) -> bool:
    """Return whether a row has words above numbers, as names and units stand; and nothing new beside them."""
    words, is_new = 0, False
    for column, text in enumerate(row):
        if not text:
            continue
        texts = [found for other in below if (found := _at(other, column))]
        if 2 * sum(map(_is_value, texts)) <= len(texts):
            is_new = is_new or (above is not None and bool(_LETTER.search(text)) and text != _at(above, column))
            continue
        is_word = _LETTER.search(text) is not None and text.casefold() not in _MISSING
        if not (_TIME.fullmatch(text) or (not _is_value(text) and (is_word or text in _SIGNS))):
            return False
        words += 1
    return words > is_new


def _numbers_name(row: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Return whether all numbers in a row may name columns: years, days, times, a scale, or numbers above words."""
    columns = [column for column, text in enumerate(row) if _is_value(text)]
    if not columns:
        return True
    others = [[_at(other, column) for column in columns] for other in below if any(other)]
    texts = [text for other in others for text in other if text]
    if not texts or not any(map(_is_value, texts)):
        return bool(texts)
    if all(_TIME.fullmatch(row[column]) for column in columns):
        return 2 * sum(_TIME.fullmatch(text) is not None for text in texts) < len(texts)
    return _is_scale([row[column] for column in columns]) and 2 * sum(map(_is_scale, others)) < len(others)


def _is_scale(texts: Sequence[str]) -> bool:
    if len(texts) < _SCALE or not all(text.isdecimal() and len(text) < _SCALE_DIGITS for text in texts):
        return False
    steps = {int(after) - int(before) for before, after in pairwise(texts)}
    return len(steps) == 1 and 0 not in steps


def _is_value(text: str) -> bool:
    """Return whether a text is a number, amount or date: it begins with a digit, with no more letters than digits."""
    return _VALUE.match(text) is not None and len(_LETTER.findall(text)) <= sum(map(str.isdigit, text))


def _at(row: Sequence[str], column: int) -> str:
    return row[column] if column < len(row) else ""
