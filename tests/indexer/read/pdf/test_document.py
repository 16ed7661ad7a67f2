"""The layout of PDF pages: columns, tables, headings, running heads, hyphens."""

import re
from collections import Counter

import pypdfium2
import pytest

from indexer.read.pdf.document import read
from indexer.read.pdf.layout import Hyphens
from indexer.records import SectionBlock
from indexer.text import reader_notes
from tests.indexer.read.pdf.drawn import drawn, lines, read_text, rule, text

LEFT = [f"left line {number} of the running text that fills it" for number in range(8)]
RIGHT = [f"right line {number} of the running text that fills it" for number in range(8)]
BODY = [f"Sentence {number} of the text is as long as the page is wide, or nearly so." for number in range(6)]


def words(content: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", content))


def test_columns_are_read_one_after_the_other_between_what_spans_them() -> None:
    both = [text(x, 700 - 12 * row, line) for row, pair in enumerate(zip(LEFT, RIGHT, strict=True))
            for x, line in zip((50, 310), pair, strict=True)]  # fmt: skip
    head = text(150, 760, "A title above both of the columns of it", size=10)
    foot = text(60, 500, "A long line below the two columns, which is as wide as both of them and the gap are")
    found = read_text("\n".join([head, *both, foot]))
    places = [found.index(line) for line in ("A title", *LEFT, *RIGHT, "A long line")]
    assert places == sorted(places)


def table(*rows: tuple[str, ...]) -> list[str]:
    return [text(x, 700 - 14 * row, cell) for row, line in enumerate(rows)
            for x, cell in zip((60, 200, 320), line, strict=True)]  # fmt: skip


def test_a_table_between_drawn_lines_is_rows_with_their_head() -> None:
    rows = [("Name", "Size", "Colour"), ("Tom", "30 cm", "black"), ("Ann", "28 cm", "white"), ("Kim", "31 cm", "grey")]
    drawings = [rule(50, y, 400, y) for y in (712, 696, 650)]
    [section] = read(drawn("\n".join([*table(*rows), *drawings, lines(50, 600, *BODY)])), None).sections
    expected = "\n".join(map(" | ".join, rows))
    assert section.text.startswith(f"{expected}\n\nSentence 0")
    assert section.blocks == (SectionBlock(0, len(expected), "Name | Size | Colour"),)


def test_drawn_cells_hold_several_lines() -> None:
    cells = [text(60, 690, "first"), lines(200, 696, "a cell of", "two lines"), text(60, 654, "second")]
    drawings = [rule(50, y, 400, y) for y in (710, 675, 640)] + [rule(x, 640, x, 710) for x in (50, 190, 400)]
    assert "first | a cell of two lines\nsecond" in read_text("\n".join([*cells, *drawings]))


def test_rows_without_drawn_lines_are_lines() -> None:
    rows = [("Mon", "9 h", "open"), ("Tue", "8 h", "closed"), ("Wed", "7 h", "open")]
    assert "\n".join(map(" ".join, rows)) in read_text("\n".join(table(*rows)))


def test_headings_by_type_lead_to_their_pages() -> None:
    first = [
        text(50, 700, "Cats", size=20),
        lines(50, 660, *BODY),
        text(50, 500, "Food", bold=True),
        lines(50, 480, *BODY),
    ]
    sections = read(drawn("\n".join(first), lines(50, 700, *BODY)), None).sections
    assert [(section.path, section.anchor) for section in sections] == [
        (("Cats",), "page=1"),
        (("Cats", "Food"), "page=1"),
    ]
    [(place, anchor)] = sections[1].marks
    assert anchor == "page=2"
    assert sections[1].text[place:].startswith("Sentence 0")


def test_the_only_heading_in_the_largest_type_names_a_file_without_a_title() -> None:
    first, second = (
        f"{text(50, 740, name, size=size)}\n{lines(50, 700, *BODY)}" for name, size in (("Paths", 20), ("Part", 14))
    )
    assert [read(drawn(*pages), None).title for pages in ((first, second), (second, first))] == ["Paths", None]


def test_headings_by_the_outline() -> None:
    pages = [f"{text(50, 700, title, size=14)}\n{lines(50, 660, *BODY)}" for title in ("1 Alpha", "2 Beta", "3 Gamma")]
    found = read(drawn(*pages, bookmarks=[("Alpha", 0), ("Beta", 1), ("Gamma", 2)]), None).sections
    assert [section.path for section in found] == [("1 Alpha",), ("2 Beta",), ("3 Gamma",)]
    assert [section.anchor for section in found] == ["page=1", "page=2", "page=3"]


def test_running_heads_and_page_numbers_are_left_out() -> None:
    pages = [
        f"{text(50, 770, f'Zoo guide {number}')}\n{lines(50, 700, *BODY)}\n{text(300, 30, str(number))}"
        for number in range(1, 5)
    ]
    found = [section.text for section in read(drawn(*pages), None).sections]
    assert len(found) == 4
    assert all(one.startswith("Sentence 0") and one.endswith("nearly so.") for one in found)
    assert "Zoo guide 1" in read(drawn(pages[0]), None).sections[0].text  # one page tells nothing


def test_last_lines_of_pages_that_end_at_the_same_height_stay() -> None:
    last = [text(50, 60, f"{name} has a line of its own below.") for name in ("Ann", "Bob", "Eve", "Tom", "Una")]
    pages = [f"{lines(50, 700, *BODY)}\n{line}" for line in last]
    found = read_text(*pages, f"{lines(50, 700, *BODY)}\n{lines(50, 84, *BODY[:3])}")
    assert found.count("has a line of its own") == 5


@pytest.mark.parametrize(
    ("first", "second", "elsewhere", "expected"),
    [
        ("a narrow side-", "track until", "", "narrow sidetrack until"),
        ("a narrow side-", "track until", "A side-track is meant.", "narrow side-track until"),
    ],
)
def test_hyphens_at_line_ends(first: str, second: str, elsewhere: str, expected: str) -> None:
    page = lines(
        50, 700, f"They followed him along, for that is how it was, {first}", f"{second} the day was nearly over."
    )
    assert expected in read_text(f"{page}\n{text(50, 600, elsewhere)}")


def test_a_sentence_goes_on_after_the_end_of_a_page() -> None:
    first = text(50, 740, "Paths", size=20) + lines(
        50, 700, *BODY, "They followed him along, for that is how it was, as far as the narrow side-"
    )
    pages = [first, lines(50, 700, "track until the day was nearly over.", *BODY)]
    assert "narrow side-track until" in read_text(*pages)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["along a narrow side‐ track until"], "along a narrow sidetrack until"),
        (["along a narrow side‐ track until", "a side‐track"], "along a narrow side-track until"),  # by the program
    ],
)
def test_hyphens_of_the_program_and_of_the_author(texts: list[str], expected: str) -> None:
    parted = [one.replace("- ", "-\u00ad").replace("‐ ", "‐\u00ad") for one in texts]
    assert Hyphens(parted).resolve(parted[0]) == expected


def test_items_are_lines() -> None:
    page = lines(50, 700, "They need:", "- water, and that every day of the year, winter", "- food", "- sleep")
    assert "- water, and that every day of the year, winter\n- food\n- sleep" in read_text(page)


TURNED = "\n".join(f"BT /F1 10 Tf 0 1 -1 0 {100 + 12 * n} 100 Tm ({line}) Tj ET" for n, line in enumerate(LEFT))


@pytest.mark.parametrize(
    ("page", "turned"),
    [
        (TURNED, 0),  # the same, on a page that is shown upright
        (f"{lines(50, 700, *BODY)}\n{TURNED.splitlines()[0]}", 0),  # above a scan
        ("\n".join(text(40 * n, 10 + 97 * n % 700, f"label{n}", size=6 + n) for n in range(14)), 0),  # a picture
        (text(50, 700, "Deck", size=40) + lines(80, 600, "one point", "another point", step=40), 0),
    ],
)
def test_no_word_is_lost(page: str, turned: int) -> None:
    body = drawn(page, turned=turned)
    plain = pypdfium2.PdfDocument(body)[0].get_textpage().get_text_bounded()
    found = "\n".join("\n".join((*section.path, section.text)) for section in read(body, None).sections)
    # as letters: PDFium itself runs words together where lines are turned
    assert Counter("".join(words(plain).elements())) <= Counter("".join(words(found).elements()))


def test_pages_that_are_turned_have_columns_too() -> None:
    found = read(drawn(TURNED, turned=90), None).sections[0].text
    places = [found.index(line) for line in LEFT]
    assert places == sorted(places)


def test_what_is_off_the_page_is_left_out() -> None:
    assert "HIDDEN" not in read_text(text(50, 900, "HIDDEN") + text(50, 700, "shown"))


def test_terms_in_bold_are_read_with_their_texts_in_columns_too() -> None:
    """Two columns of a card, whose lines are as those of running text would be, but for the type."""
    cards = [[(f"{side} command number {row} <value>", f"What {side} number {row} of them does") for row in range(9)]
             for side in ("left", "right")]  # fmt: skip
    drawings = [
        text(x + offset, 700 - 12 * row - 12 * (row > 4), line, size=8, bold=not offset)
        for x, card in zip((30, 320), cards, strict=True)
        for row, pair in enumerate(card)
        for offset, line in zip((0, 130), pair, strict=True)
    ]
    found = in_order(read_text("\n".join(drawings)))
    assert found == in_order(" ".join(f"{term} {what}" for card in cards for term, what in card))


def in_order(content: str) -> str:
    return " ".join(re.findall(r"\w+", content))


def test_a_page_of_very_many_pieces_costs_itself() -> None:
    reader_notes.take()
    backwards = "\n".join(text(190_000 - 9 * place, 700, "w") for place in range(10_001))  # for PDFium quadratic work
    assert read_text(backwards, text(50, 700, "the next page")) == "Page 2\nthe next page"
    assert reader_notes.take() == ("a PDF page with more than 10,000 pieces of text was not read",)


def test_ligatures_and_quotation_marks_of_tex_without_a_map_are_letters() -> None:
    assert read_text(text(50, 700, "the \x10e\x1bect\x11 of o\x1ece \x1f")) == "the “effect” of office"


@pytest.mark.parametrize("font", [b"Courier", b"Typed /FirstChar 32 /LastChar 126 /Widths [%s]" % (b"525 " * 95)])
def test_code_keeps_its_lines_and_indentation(font: bytes) -> None:
    prose = lines(50, 700, "The loop below goes over all that was found,", "and uses it.")
    code = lines(60, 660, "for item in found:", "    if item:", "", "        use(item)", fixed=True)
    page = drawn(f"{prose}\n{code}").replace(b"/Courier >>", b"/%s >>" % font)
    assert "\n\nfor item in found:\n    if item:\n\n        use(item)" in read(page, None).sections[0].text


def test_rows_without_lines_between_them_stay_rows_and_wrapped_cells_are_one() -> None:
    rules = [rule(50, y, 350, y) for y in (700, 680, 610, 590)] + [rule(200, 590, 200, 700)]
    ends = [text(55, 685, "Name"), text(205, 685, "Use"), text(55, 595, "bee"), text(205, 595, "honey")]
    rows = [lines(55, 665, "cat", "dog", "cow", "hen"), lines(205, 665, "mouse", "guard", "milk", "eggs")]
    read = read_text("\n".join([*rules, *ends, *rows]))
    assert "cat | mouse\ndog | guard\ncow | milk\nhen | eggs\nbee | honey" in read
    wrapped = [text(55, 665, "cat"), lines(205, 665, "it eats mice", "and sleeps", "all day", "and night")]
    read = read_text("\n".join([*rules, *ends, *wrapped]))
    assert "cat | it eats mice and sleeps all day and night\nbee | honey" in read


def letter(name: str, number: int, total: str) -> str:
    """A page of a letter, with a letterhead above and the address of a bank below."""
    head = [text(50, 770, "Harbour Boats Ltd"), text(50, 740, f"Invoice no. {number}"), text(50, 710, f"To {name}")]
    rows = [text(50, 640 - 20 * place, f"Item {place} of this order") for place in range(9)]
    return "\n".join([*head, *rows, text(50, 60, f"Total {total}"), text(50, 30, "Bank of the harbour, account 17")])


@pytest.mark.parametrize("number_of_pages", [2, 3, 6])
def test_pages_like_each_other_lose_nothing(number_of_pages: int) -> None:
    names = ["Ann", "Bob", "Cleo", "Dan", "Eve", "Flo"][:number_of_pages]
    pages = [letter(name, 1017 + place, f"{place}.50 EUR") for place, name in enumerate(names)]
    for place, section in enumerate(read(drawn(*pages), None).sections):
        for expected in ("Harbour Boats Ltd", f"no. {1017 + place}", f"To {names[place]}", f"{place}.50", "account 17"):
            assert expected in section.text


def test_a_copy_loses_nothing_but_page_numbers() -> None:
    pages = [f"{letter('Ann', 17, '5 EUR')}\n{text(300, 12, f'Page {number} of 2')}" for number in (1, 2)]
    one, two = (section.text for section in read(drawn(*pages), None).sections)
    assert one == two
    assert "Harbour Boats" in one
    assert "Page" not in one


def test_a_letterhead_is_read_once() -> None:
    body = [[text(50, 700 - 12 * row, f"Text {place * 7 + row} says {word}") for row in range(20)]
            for place, word in enumerate("one two three four five six".split())]  # fmt: skip
    pages = ["\n".join([text(50, 770, "Harbour Boats Ltd"), *rows, text(50, 30, f"{place}")])
             for place, rows in enumerate(body, start=1)]  # fmt: skip
    found = [section.text for section in read(drawn(*pages), None).sections]
    assert ["Harbour" in one for one in found] == [True] + 5 * [False]


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
    assert section.blocks[0].head == "Zone | Ticket | Fare"


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
    reader_notes.take()
    assert set("abcd") <= set(read_text("\n".join([*above, *sides, *words])).split())
    assert any("not rectangles" in note for note in reader_notes.take())


def test_boxes_around_text_are_no_table() -> None:
    sides = [rule(60, y, 400, y) for y in (720, 500)] + [rule(x, 500, x, 720) for x in (60, 400)]
    words = [text(70, 700 - 12 * row, f"Line {row} of a text that stands in a box") for row in range(6)]
    assert "|" not in read_text("\n".join([*sides, *words]))


def test_many_lines_take_time_in_proportion() -> None:
    crossing = [rule(10, y / 4, 590, y / 4) for y in range(2_400)] + [rule(x / 4, 1, x / 4, 790) for x in range(2_300)]
    assert "word" in read_text("\n".join([*crossing, text(100, 100, "word")]))


LABELS = [("Room 1", "Kitchen"), ("Room 2", "Sauna"), ("Room 3", "Store"), ("Room 4", "Bath"), ("Room 5", "Hall")]
CARDS = [("Port", "left"), ("Bow", "front"), ("Stern", "back"), ("Mast", "pole"), ("Keel", "bottom")]


@pytest.mark.parametrize("pages", [LABELS, CARDS])
def test_short_pages_keep_their_first_row(pages: list[tuple[str, str]]) -> None:
    found = read(drawn(*(f"{text(50, 770, first)}\n{text(50, 400, second)}" for first, second in pages)), None)
    assert [section.text.split() for section in found.sections] == [" ".join(page).split() for page in pages]


def test_short_pages_lose_what_is_alike_and_numbers() -> None:
    pages = [f"{text(50, 770, 'Harbour Days')}\n{text(50, 400, word)}\n{text(300, 20, str(number))}"
             for number, word in enumerate(("Boats", "Music", "Food", "Tents", "End"), start=1)]  # fmt: skip
    found = [section.text for section in read(drawn(*pages), None).sections]
    assert [one.split()[-1] for one in found] == ["Boats", "Music", "Food", "Tents", "End"]
    assert [("Harbour" in one) for one in found] == [True, False, False, False, False]
