"""Values of form fields and notes on PDF pages."""

import pytest

from indexer.read.pdf.document import read
from tests.indexer.read.pdf.drawn import drawn, lines, text


def field(kind: str, rect: str, more: str) -> str:
    return f"/Subtype /Widget /FT /{kind} /Rect [{rect}] /F 4 {more}"


def note(kind: str, rect: str, contents: str, more: str = "") -> str:
    return f"/Subtype /{kind} /Rect [{rect}] /Contents ({contents}) {more}"


def read_text(page: str, *annotations: str) -> str:
    sections = read(drawn(page, annotations=annotations), None).sections
    return "\n".join(section.text for section in sections)


LABELS = lines(50, 700, "Name:", "Town:", "Cabin:", step=30)
STATES = "/AP << /N << /On << >> /Off << >> >> >>"


def test_values_stand_behind_their_labels() -> None:
    found = read_text(
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
    assert expected in read_text(text(70, 700, "Newsletter"), box)


def test_a_text_of_several_lines_stays_in_its_box() -> None:
    remarks = "We come by boat in the evening, and we bring two dogs which sleep on board."
    box = field("Tx", "150 640 350 712", f"/T (r) /Ff 4096 /V ({remarks})")
    found = read_text(f"{text(50, 700, 'Remarks:')}\n{text(50, 600, 'The next line.')}", box)
    assert remarks in " ".join(found.split())
    assert found.index("board") < found.index("The next line.")


def test_fields_of_a_page_without_text_and_of_a_turned_one() -> None:
    name = field("Tx", "150 694 350 712", "/T (name) /V <feff05d0> ")
    assert read_text("", name) == "א"
    assert "א" in read(drawn(text(50, 700, "Name:"), annotations=[name], turned=90), None).sections[0].text


def test_notes_are_read_after_the_page_and_texts_at_their_place() -> None:
    found = read_text(
        f"{text(50, 700, 'Plan of the harbour')}\n{text(50, 600, 'The quay is long.')}",
        note("Text", "300 700 320 720", "How deep is it?"),
        note("Highlight", "50 598 100 610", "Measure it again."),
        note("FreeText", "50 640 250 656", "Closed in winter"),
    )
    places = [found.index(one) for one in ("Plan", "Closed in winter", "The quay", "How deep", "Measure")]
    assert places == sorted(places)


def test_what_nobody_sees_is_left_out() -> None:
    found = read_text(
        LABELS,
        field("Tx", "150 694 350 712", "/T (a) /Ff 8192 /V (secret99)"),  # a password
        "/Subtype /Widget /FT /Tx /Rect [150 664 350 682] /F 2 /T (b) /V (hidden99)",
        note("Text", "300 700 320 720", "unseen99", "/F 2"),
        note("Link", "50 690 80 710", "tip99"),
        field("Btn", "50 500 90 520", "/T (c) /Ff 65536 /MK << /CA (Submit99) >>"),
    )
    assert "99" not in found
