"""Words of PDF pages from their letters, form fields and notes."""

from collections.abc import Callable

import pytest

from indexer.read.pdf.document import read
from indexer.text import reader_notes
from tests.indexer.read.pdf.drawn import drawn, from_the_right, lines, read_text, script, text, unmapped

HEBREW = "הנמל נפתח בתשע בבוקר, והכניסה לנמל עולה שקלים"
ARABIC = "يفتح المكتب في الساعة التاسعة كل يوم"
BODY = "The words around it are set as they are in most texts."


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
    reader_notes.take()
    read(drawn("BT /F1 10 Tf 0.7 0.7 -0.7 0.7 100 100 Tm (all of it) Tj ET"), None)
    assert reader_notes.take() == ("a PDF page of vertical or slanted text: its layout was not followed",)


def test_a_font_without_a_map_to_letters_is_noted() -> None:
    reader_notes.take()
    read(drawn(text(50, 700, BODY)), None)
    assert reader_notes.take() == ()
    read(drawn(unmapped(50, 700, "002b0048000300460003004c0051004a")), None)
    assert reader_notes.take() == ("a PDF font that does not identify its letters: its text may be unreadable",)


def field(kind: str, rect: str, more: str) -> str:
    return f"/Subtype /Widget /FT /{kind} /Rect [{rect}] /F 4 {more}"


def note(kind: str, rect: str, contents: str, more: str = "") -> str:
    return f"/Subtype /{kind} /Rect [{rect}] /Contents ({contents}) {more}"


def annotated(page: str, *annotations: str) -> str:
    return read_text(page, annotations=annotations)


LABELS = lines(50, 700, "Name:", "Town:", "Cabin:", step=30)
STATES = "/AP << /N << /On << >> /Off << >> >> >>"


def test_values_stand_behind_their_labels() -> None:
    found = annotated(
        LABELS,
        field("Tx", "150 694 350 712", "/T (name) /V (Ann Smith)"),
        field("Tx", "150 664 350 682", "/T (town) /V (Kiel am Hafen)"),
        field("Ch", "150 634 350 652", "/T (cabin) /Ff 131072 /V (u) /Opt [[(u) (Upper deck)] [(l) (Lower deck)]]"),
    )
    places = [found.index(words) for words in ("Name:", "Ann Smith", "Town:", "Kiel am Hafen", "Cabin:", "Upper deck")]
    assert places == sorted(places)
    assert "Lower" not in found


@pytest.mark.parametrize(("state", "expected"), [("On", "☒ Newsletter"), ("Off", "☐ Newsletter")])
def test_boxes_are_ticked_or_not(state: str, expected: str) -> None:
    box = field("Btn", "50 697 62 709", f"/T (news) /V /{state} /AS /{state} {STATES}")
    assert expected in annotated(text(70, 700, "Newsletter"), box)


def test_a_text_of_several_lines_stays_in_its_box() -> None:
    remarks = "We come by boat in the evening, and we bring two dogs which sleep on board."
    box = field("Tx", "150 640 350 712", f"/T (r) /Ff 4096 /V ({remarks})")
    found = annotated(f"{text(50, 700, 'Remarks:')}\n{text(50, 600, 'The next line.')}", box)
    assert remarks in " ".join(found.split())
    assert found.index("board") < found.index("The next line.")


def test_fields_of_a_page_without_text_and_of_a_turned_one() -> None:
    name = field("Tx", "150 694 350 712", "/T (name) /V <feff05d0> ")
    assert annotated("", name) == "א"
    assert "א" in read(drawn(text(50, 700, "Name:"), annotations=[name], turned=90), None).sections[0].text


def test_notes_are_read_after_the_page_and_texts_at_their_place() -> None:
    found = annotated(
        f"{text(50, 700, 'Plan of the harbour')}\n{text(50, 600, 'The quay is long.')}",
        note("Text", "300 700 320 720", "How deep is it?"),
        note("Highlight", "50 598 100 610", "Measure it again."),
        note("FreeText", "50 640 250 656", "Closed in winter"),
    )
    places = [found.index(one) for one in ("Plan", "Closed in winter", "The quay", "How deep", "Measure")]
    assert places == sorted(places)


def test_what_nobody_sees_is_left_out() -> None:
    found = annotated(
        LABELS,
        field("Tx", "150 694 350 712", "/T (a) /Ff 8192 /V (secret99)"),  # a password
        "/Subtype /Widget /FT /Tx /Rect [150 664 350 682] /F 2 /T (b) /V (hidden99)",
        note("Text", "300 700 320 720", "unseen99", "/F 2"),
        note("Link", "50 690 80 710", "tip99"),
        field("Btn", "50 500 90 520", "/T (c) /Ff 65536 /MK << /CA (Submit99) >>"),
    )
    assert "99" not in found


def spaced(x: float, y: float, words: str, gap: float, *, size: float = 12) -> str:
    """A text in Helvetica each letter of which is drawn by itself, with a gap between that is the same everywhere."""
    widths = dict(
        zip("NorthPieHusDck ", (722, 556, 333, 278, 556, 667, 222, 556, 722, 556, 500, 722, 500, 500, 278), strict=True)
    )
    pieces = []
    for letter in words:
        pieces.append(text(x, y, letter, size=size) if letter != " " else "")
        x += widths[letter] * size / 1_000 + gap
    return "\n".join(pieces)


@pytest.mark.parametrize("gap", [1, 1.5, 1.75, 2, 2.5, 3, 4])
@pytest.mark.parametrize("words", ["North Pier Hours", "Dock"])
def test_a_gap_between_letters_that_are_evenly_apart_is_no_space(words: str, gap: float) -> None:
    assert words in read_text(f"{spaced(50, 700, words, gap)}\n{text(50, 600, BODY)}").split("\n")


def test_a_narrow_gap_between_words_is_a_space() -> None:
    page = f"{text(50, 700, 'On', size=12)}\n{text(68.2, 700, 'deck', size=12)}\n{text(50, 600, BODY)}"
    assert read_text(page).startswith("On deck")


@pytest.mark.parametrize("dx", [0.3, 1.0, 1.5])
def test_letters_drawn_twice_line_by_line_are_one(dx: float) -> None:
    rows = ["Boats stop here", "Call the harbour"]
    page = "\n".join(
        text(50 + 6 * place + shift, 700 - 40 * number, letter, fixed=True)
        for number, row in enumerate(rows) for shift in (0, dx) for place, letter in enumerate(row) if letter != " "
    )  # fmt: skip
    assert read_text(page).split() == " ".join(rows).split()


def test_words_with_double_letters_are_not_taken_for_printed_twice() -> None:
    words = "Aaron keeps 1010 llamas, cocoa and eels; all agree."
    assert read_text(text(50, 700, words)) == words
