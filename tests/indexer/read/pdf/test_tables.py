"""Tables of a page by their drawn lines: which are found, their cells, and what stays text."""

import pytest

from indexer.read.pdf.lines import PdfLine, Word, make_line
from indexer.read.pdf.page import Rule, VerticalRule
from indexer.read.pdf.tables import find_boxed_tables, find_ruled_tables


def line(text: str, left: float, base: float) -> PdfLine:
    words, at = [], left
    for word in text.split():
        words.append(Word(word, at, at + 5 * len(word), base, 10))
        at += 5 * len(word) + 3
    return make_line(words, base, 10)


def grid(xs: list[float], ys: list[float]) -> list[Rule | VerticalRule]:
    return [*(Rule(xs[0], xs[-1], y) for y in ys), *(VerticalRule(ys[-1], ys[0], x) for x in xs)]


CELLS = [("Zone", 55, 705), ("Fare", 155, 705), ("Port", 55, 685), ("2.50", 155, 685)]
TEXT = line("A line below it all", 50, 600)


def test_cells_that_are_drawn_are_a_table_and_the_rest_is_text() -> None:
    lines = [line(*cell) for cell in CELLS]
    tables, free, rules = find_boxed_tables(
        [*lines, TEXT], [*grid([50, 150, 250], [720, 700, 680]), Rule(50, 250, 590)]
    )
    assert [(table.text, table.head) for table in tables] == [("Zone | Fare\nPort | 2.50", "Zone | Fare")]
    assert free == [TEXT]
    assert rules == [Rule(50, 250, 590)]
    assert (tables[0].x0, tables[0].x1) == (55, 175)


@pytest.mark.parametrize(("left", "expected"), [(130, "Harbour | b"), (136, " | Harbour b")])
def test_a_word_across_a_side_belongs_to_the_cell_of_its_middle(left: float, expected: str) -> None:
    lines = [line("Harbour", left, 705), line("b", 200, 705), line("c", 55, 685), line("d", 155, 685)]
    [table], _, _ = find_boxed_tables(lines, grid([50, 150, 250], [720, 700, 680]))
    assert table.text == f"{expected}\nc | d"


def test_a_cell_without_the_side_between_spans_both_columns() -> None:
    sides = [Rule(50, 250, y) for y in (720, 700, 680, 660)] + [VerticalRule(660, 720, x) for x in (50, 250)]
    lines = [line("Fares", 55, 705), line("Day", 55, 685), line("Week", 155, 685), line("2", 55, 665)]
    [table], _, _ = find_boxed_tables([*lines, line("9", 155, 665)], [*sides, VerticalRule(660, 700, 150)])
    assert table.text == "Fares\nDay | Week\n2 | 9"


@pytest.mark.parametrize(
    ("xs", "ys"),
    [([50, 250], [720, 700, 680]), ([50, 60, 70, 80, 90, 250], [720, 710, 700, 690, 680, 670])],
    ids=("one column", "mostly empty"),
)
def test_boxes_are_no_table(xs: list[float], ys: list[float]) -> None:
    lines = [line(*cell) for cell in CELLS]
    tables, free, _ = find_boxed_tables(lines, grid(xs, ys))
    assert tables == []
    assert free == lines


def rows(*texts: tuple[str, ...], top: float = 700) -> list[PdfLine]:
    return [line(cell, left, top - 14 * number) for number, row in enumerate(texts)
            for left, cell in zip((55, 155, 255), row, strict=False) if cell]  # fmt: skip


def test_rows_between_lines_of_one_width_are_a_table() -> None:
    lines = rows(("Name", "Size"), ("Tom", "30"), ("Ann", "28"))
    tables, free = find_ruled_tables([*lines, TEXT], [Rule(50, 300, y) for y in (712, 696, 660)])
    assert [(table.text, table.head) for table in tables] == [("Name | Size\nTom | 30\nAnn | 28", "Name | Size")]
    assert free == [TEXT]


@pytest.mark.parametrize(
    "rules",
    [
        [Rule(50, 300, 712)],  # a single one
        [Rule(50, 300, 712), Rule(50, 200, 696)],  # of two widths
        [Rule(50, 60, y) for y in (712, 696, 660)],  # too short
        [Rule(50, 300, y) for y in (640, 630, 620)],  # below it
    ],
)
def test_lines_that_part_no_rows_leave_the_text(rules: list[Rule]) -> None:
    lines = rows(("Name", "Size"), ("Tom", "30"))
    assert find_ruled_tables(lines, rules) == ([], sorted(lines, key=lambda line: -line.base))


def test_prose_between_lines_is_no_table() -> None:
    prose = [line("words of a text that runs on and on", 55, 700 - 12 * number) for number in range(4)]
    assert find_ruled_tables(prose, [Rule(50, 300, 712), Rule(50, 300, 650)])[0] == []
