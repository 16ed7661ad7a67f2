"""Words of PDF pages from their letters: scripts from right to left, letters set apart, letters printed twice."""

from collections.abc import Callable

import pytest

from indexer import notes
from indexer.read.pdf.document import read
from tests.indexer.read.pdf.drawn import drawn, from_the_right, lines, script, text, unmapped

HEBREW = "הנמל נפתח בתשע בבוקר, והכניסה לנמל עולה שקלים"
ARABIC = "يفتح المكتب في الساعة التاسعة كل يوم"
BODY = "The words around it are set as they are in most texts."


def read_text(*pages: str) -> str:
    sections = read(drawn(*pages), None).sections
    return "\n".join("\n".join((*section.path, section.text)) for section in sections).removeprefix("Page 1\n")


def seen(x: float, y: float, words: str) -> str:
    """A text from right to left that the file has as it is seen, from left to right."""
    return script(x, y, words[::-1])


@pytest.mark.parametrize("words", [HEBREW, ARABIC])
@pytest.mark.parametrize("draw", [seen, from_the_right])
def test_scripts_from_the_right_are_in_reading_order(draw: Callable[[float, float, str], str], words: str) -> None:
    assert read_text(draw(200 if draw is seen else 500, 700, words)) == words


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ((script(200, 700, "25"), from_the_right(190, 700, "שקל"), from_the_right(275, 700, "העולה מן")),
         "העולה מן 25 שקל"),
        ((text(200, 700, "Haifa"), seen(223, 700, "ב-"), seen(240, 700, "הנמל")), "הנמל ב-Haifa"),
        ((text(200, 700, "New York"), seen(250, 700, "הנמל של"), seen(170, 700, "גדול")), "הנמל של New York גדול"),
        ((script(200, 700, "03-5551234"), seen(268, 700, "טלפון:")), "טלפון: 03-5551234"),
        ((script(200, 700, "9:30"), seen(230, 700, "השעות")), "השעות 9:30"),
        ((seen(200, 700, "(נמל) של"),), "(נמל) של"),
        ((script(200, 700, "(למנ) לש"),), "של (נמל)"),  # brackets as they look
        ((script(200, 700, ")למנ( לש"),), "של (נמל)"),  # brackets as they are written
        ((script(200, 700, "ﻢﻠﺳ ﻻ"),), "لا سلم"),  # letters as they look at the end of a word, and joined
        ((text(50, 700, "The word"), seen(100, 700, "שלום לכם"), text(160, 700, "is Hebrew, and so on.")),
         "The word שלום לכם is Hebrew, and so on."),
    ],
)  # fmt: skip
def test_numbers_and_words_of_other_scripts_keep_their_place(pieces: tuple[str, ...], expected: str) -> None:
    assert read_text("\n".join(pieces)) == expected


def test_columns_from_the_right() -> None:
    left = [seen(60, 700 - 12 * row, f"טור שני של הדף שורה {row}") for row in range(8)]
    right = [seen(340, 700 - 12 * row, f"טור ראשון של הדף שורה {row}") for row in range(8)]
    found = read_text("\n".join([*left, *right]))
    assert found.index("ראשון של הדף שורה 7") < found.index("שני של הדף שורה 0")


def apart(x: float, y: float, words: str, step: float, *, size: float = 10) -> str:
    """A text each letter of which is drawn by itself, further from the last than the letters of a word are."""
    places = enumerate(words)
    return "\n".join(text(x + step * place, y, one, size=size, fixed=True) for place, one in places if one != " ")


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (apart(50, 700, "HARBOUR RULES", 10), "HARBOUR RULES"),
        (apart(50, 700, "THE QUIET OF A LAKE", 12), "THE QUIET OF A LAKE"),
        (apart(50, 700, "Night Hours", 9.5), "Night Hours"),
        (text(50, 700, "C O N T E N T S", fixed=True), "CONTENTS"),
        (text(50, 700, "P A R T   T W O", fixed=True), "PART TWO"),
        (apart(50, 700, "ENTER", 11), "ENTER"),
        (f"{text(50, 700, 'Das ist')}\n{apart(90, 700, 'wichtig', 8)}\n{text(150, 700, 'und gut')}",
         "Das ist wichtig und gut"),
        (text(50, 700, "A B C D E F G", fixed=True), "A B C D E F G"),
        (text(50, 700, "See items A B C D E of the list", fixed=True), "See items A B C D E of the list"),
        (text(50, 700, "J. R. R. Tolkien and A. A. Milne"), "J. R. R. Tolkien and A. A. Milne"),
        (text(50, 700, "N E S W", fixed=True), "N E S W"),
        (text(50, 700, "T F F T T F T", fixed=True), "T F F T T F T"),
        (text(50, 700, "y = a x + b u + c e", fixed=True), "y = a x + b u + c e"),
        (text(50, 700, "1 2 3 4 5 6", fixed=True), "1 2 3 4 5 6"),
        (text(50, 700, "A to Z", size=24), "A to Z"),
    ],
)  # fmt: skip
def test_letters_set_apart_are_words(page: str, expected: str) -> None:
    assert read_text(page).split("\n")[0] == expected


@pytest.mark.parametrize(
    "page",
    [
        "\n".join(text(50 + dx, 700 - dx, "Summer sale") for dx in (3, 0)),
        "\n".join(text(50 + 6 * place + dx, 700, one, fixed=True)
                  for dx in (0.5, 0) for place, one in enumerate("Summer sale") if one != " "),
        "\n".join(text(50 + 6 * place + dx, 700, one, fixed=True)
                  for place, one in enumerate("Summer sale") for dx in (0.6, 0) if one != " "),
        "\n".join((text(50, 700, "S", fixed=True), text(50.4, 700, "Summer sale", fixed=True))),
        "\n".join((text(50, 700, "Summer sale"), text(50, 600, BODY), text(50.8, 700.8, "Summer sale"))),
    ],
)  # fmt: skip
def test_letters_printed_twice_are_one(page: str) -> None:
    assert read_text(f"{page}\n{text(50, 600, BODY)}").replace("\n", " ").split() == ["Summer", "sale", *BODY.split()]


def test_words_that_run_upwards_are_laid_out_by_themselves() -> None:
    upwards = "\n".join(
        f"BT /F1 10 Tf 0 1 -1 0 {400 + 12 * n} 100 Tm ({line}) Tj ET" for n, line in enumerate(("a b", "c d"))
    )
    found = read_text(f"{upwards}\n{lines(50, 700, 'End', 'of all of it')}")
    assert " ".join(found.split()) == "End of all of it a b c d"


def test_a_page_of_slanted_text_is_noted() -> None:
    notes.take()
    read(drawn("BT /F1 10 Tf 0.7 0.7 -0.7 0.7 100 100 Tm (all of it) Tj ET"), None)
    assert notes.take() == ("a PDF page of vertical or slanted text: its layout was not followed",)


def test_a_font_without_a_map_to_letters_is_noted() -> None:
    notes.take()
    read(drawn(text(50, 700, BODY)), None)
    assert notes.take() == ()
    read(drawn(unmapped(50, 700, "002b0048000300460003004c0051004a")), None)
    assert notes.take() == ("a PDF font that does not say what its letters are: its text may be unreadable",)
