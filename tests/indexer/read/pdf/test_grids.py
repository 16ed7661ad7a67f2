"""Drawn tables of PDF pages whose cells span several rows or columns."""

import pytest

from indexer import notes
from indexer.read.pdf.document import read
from tests.indexer.read.pdf.drawn import drawn, rule, text

Cell = tuple[int, int, int, int, str]  # row and column, how many of them it spans, text


def boxed(*cells: Cell, gap: float = 0.0, bold: int = 0) -> str:
    """A table each cell of which is a box of its own, with a gap between them; the first rows are bold."""
    parts = []
    for row, column, rows, columns, words in cells:
        left, top = 60 + 90 * column + gap, 700 - 20 * row - gap
        right, bottom = 60 + 90 * (column + columns), 700 - 20 * (row + rows)
        sides = ((left, top, right, top), (left, bottom, right, bottom),
                 (left, bottom, left, top), (right, bottom, right, top))  # fmt: skip
        parts += [rule(*side) for side in sides]
        parts.append(text(left + 5, (top + bottom) / 2 - 4, words, bold=row < bold))
    return "\n".join(parts)


def outlined(*cells: Cell) -> str:
    """The same, each box as one outlined rectangle."""
    boxes = (f"{60 + 90 * column} {700 - 20 * (row + rows)} {90 * columns} {20 * rows} re S"
             for row, column, rows, columns, _ in cells)  # fmt: skip
    return "\n".join((*boxes, *boxed(*cells).splitlines()[4::5]))


def read_text(page: str) -> str:
    return "\n".join(section.text for section in read(drawn(page), None).sections)


ROWS: tuple[Cell, ...] = (
    (0, 0, 1, 1, "Zone"), (0, 1, 1, 1, "Ticket"), (0, 2, 1, 1, "Fare"),
    (1, 0, 2, 1, "Zone 1"), (1, 1, 1, 1, "Day"), (1, 2, 1, 1, "2.50"), (2, 1, 1, 1, "Week"), (2, 2, 1, 1, "9.00"),
    (3, 0, 1, 1, "Zone 2"), (3, 1, 1, 2, "on request"),
)  # fmt: skip
EXPECTED = "Zone | Ticket | Fare\nZone 1 | Day | 2.50\nZone 1 | Week | 9.00\nZone 2 | on request | on request"


@pytest.mark.parametrize("page", [boxed(*ROWS), boxed(*ROWS, gap=2.5), outlined(*ROWS)], ids=("joined", "gap", "box"))
def test_a_cell_is_in_every_row_and_column_that_it_spans(page: str) -> None:
    [section] = read(drawn(page), None).sections
    assert section.text == EXPECTED
    assert section.wholes[0].head == "Zone | Ticket | Fare"


@pytest.mark.parametrize("bold", [0, 2])
def test_several_rows_of_names_are_one(bold: int) -> None:
    cells: tuple[Cell, ...] = (
        (0, 0, 2, 1, "Room"), (0, 1, 1, 2, "Price"), (1, 1, 1, 1, "Summer"), (1, 2, 1, 1, "Winter"),
        (2, 0, 1, 1, "Attic"), (2, 1, 1, 1, "80"), (2, 2, 1, 1, "60"), (3, 0, 1, 1, "Tower"), (3, 1, 1, 2, "70"),
    )  # fmt: skip
    assert read_text(boxed(*cells, bold=bold)) == "Room | Price Summer | Price Winter\nAttic | 80 | 60\nTower | 70 | 70"


def test_a_cell_that_is_no_rectangle_is_noted_and_no_word_is_lost() -> None:
    above = [rule(60, 700 + 20 * row, 240, 700 + 20 * row) for row in range(1, 4)]
    sides = [rule(60, 700, 240, 700), rule(60, 640, 240, 640), rule(60, 640, 60, 760), rule(240, 640, 240, 760),
             rule(150, 660, 150, 760), rule(60, 680, 150, 680), rule(150, 660, 240, 660)]  # fmt: skip
    words = [text(x, y, word) for x, y, word in ((65, 685, "a"), (155, 685, "b"), (65, 665, "c"), (155, 645, "d"))]
    notes.take()
    assert set("abcd") <= set(read_text("\n".join([*above, *sides, *words])).split())
    assert any("no rectangles" in note for note in notes.take())


def test_boxes_around_text_are_no_table() -> None:
    sides = [rule(60, y, 400, y) for y in (720, 500)] + [rule(x, 500, x, 720) for x in (60, 400)]
    words = [text(70, 700 - 12 * row, f"Line {row} of a text that stands in a box") for row in range(6)]
    assert "|" not in read_text("\n".join([*sides, *words]))


def test_many_lines_take_time_in_proportion() -> None:
    crossing = [rule(10, y / 4, 590, y / 4) for y in range(2_400)] + [rule(x / 4, 1, x / 4, 790) for x in range(2_300)]
    assert "word" in read_text("\n".join([*crossing, text(100, 100, "word")]))
