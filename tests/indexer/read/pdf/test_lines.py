"""Lines of words by their places: which words stand on one line, which are joined, what parts two lines."""

import pytest

from indexer.read.pdf.lines import (
    LINE_END_MARK,
    PdfLine,
    Word,
    find_lines,
    group_rows,
    join_spaced_words,
    make_line,
    merge_segments,
    separator,
)


def word(text: str, left: float, base: float = 700, size: float = 10, *, width: float = 0, bold: bool = False) -> Word:
    """A word half as wide as high for each letter, or of another width."""
    return Word(text, left, left + (width or 0.5 * size * len(text)), base, size, bold)


def texts(words: list[Word]) -> list[str]:
    return [line.text for line in find_lines(words)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([word("Two", 50), word("words", 68)], ["Two words"]),
        ([word("words", 68), word("Two", 50)], ["Two words"]),  # in the order of a file
        ([word("Upper", 50, 700), word("lower", 50, 688)], ["Upper", "lower"]),
        ([word("first", 50), word("cell", 120)], ["first", "cell"]),  # further apart than a letter is high
        ([word("x", 50), word("2", 55, 704, 7), word("holds", 62)], ["x 2 holds"]),  # raised and smaller
        ([word("x", 50), word("2", 55, 704, 10), word("y", 58)], ["2", "x y"]),  # raised and as large
        ([word("Sale", 50, 700), word("Sale", 51, 699.4)], ["Sale"]),  # a shadow
    ],
)
def test_words_of_one_line_are_together(words: list[Word], expected: list[str]) -> None:
    assert texts(words) == expected


def test_a_line_has_the_size_and_the_weight_of_most_of_it() -> None:
    bold = make_line([word("heading", 50, bold=True), word("a", 90, size=7)], 700, 10)
    assert (bold.size, bold.is_bold) == (10, True)
    mixed = make_line([word("term", 50, bold=True), word("explained", 75)], 700, 10)
    assert not mixed.is_bold
    assert (mixed.x0, mixed.x1) == (50, 120)


@pytest.mark.parametrize(
    ("words", "is_prose"),
    [
        ([word("three", 50), word("words", 80), word("wide", 110)], True),
        ([word("a", 50), word("b", 60), word("c", 70)], False),  # narrow
        ([word("incomprehensibilities", 50), word("two", 160)], False),
    ],
)
def test_prose_is_three_words_and_wide(words: list[Word], is_prose: bool) -> None:
    assert make_line(words, 700, 10).is_prose is is_prose


def piece(text: str, left: float, base: float = 700, size: float = 10) -> PdfLine:
    return make_line([word(text, left, base, size)], base, size)


def test_rows_are_from_the_top_down_and_from_left_to_right() -> None:
    pieces = [piece("d", 90, 688), piece("c", 50, 690), piece("b", 90), piece("a", 50, 699)]
    assert [[line.text for line in row] for row in group_rows(pieces)] == [["a", "b"], ["c", "d"]]


@pytest.mark.parametrize(("left", "has_wide_gaps"), [(80, False), (100, True)])
def test_pieces_that_are_merged_are_a_row_where_they_are_far_apart(left: float, has_wide_gaps: bool) -> None:
    line = merge_segments([piece("label", 50), piece("value", left, 700, 8)])
    assert (line.text, line.has_wide_gaps, line.base) == ("label value", has_wide_gaps, 700)


@pytest.mark.parametrize(
    ("letters", "gaps", "expected"),
    [
        ("HARBOUR", [4] * 6, ["HARBOUR"]),
        ("HARBOURHOUSE", [4] * 6 + [12] + [4] * 4, ["HARBOUR", "HOUSE"]),
        ("Dock", [4] * 3, ["Dock"]),
        ("NESW", [4] * 3, ["N", "E", "S", "W"]),  # a list
        ("ABCDEFG", [4] * 6, list("ABCDEFG")),
        ("HARBOUR", [25] * 6, list("HARBOUR")),  # columns
    ],
)
def test_letters_set_apart_are_words(letters: str, gaps: list[float], expected: list[str]) -> None:
    left, words = 50.0, []
    for letter, gap in zip(letters, [*gaps, 0], strict=True):
        words.append(word(letter, left))
        left = words[-1].x1 + gap
    assert [one.text for one in join_spaced_words(words)] == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("the har-", "bour", LINE_END_MARK), ("deck A-", "7", ""), ("the", "harbour", " "), ("a -", "b", " "),
        ("の港", "は", ""), ("港", "harbour", " "),
    ],
)  # fmt: skip
def test_what_stands_between_two_lines(before: str, after: str, expected: str) -> None:
    assert separator(before, after) == expected
