"""Letters and digits that are typed in another way than they are written."""

import pytest

from indexer.generation.lexical.analysis import terms_in
from indexer.generation.lexical.letters import fold, fold_case


@pytest.mark.parametrize(
    ("written", "typed"),
    [
        ("Ørestad", "Orestad"),
        ("Ærø", "Aero"),
        ("œuvre", "oeuvre"),
        ("Łódź", "Lodz"),
        ("Đorđe", "Dorde"),
        ("Þingvellir", "Thingvellir"),
        ("Straße", "Strasse"),
        ("کتاب", "كتاب"),
        ("ایرانی", "ايراني"),
        ("備份", "备份"),
        ("٢٠٢٦", "2026"),
        ("۱۴۰۲", "1402"),
        ("२०२४", "2024"),
    ],
)
def test_both_spellings_are_one_word(written: str, typed: str) -> None:
    assert fold(written) == fold(typed)
    assert terms_in(written) == terms_in(typed)


def test_letters_that_differ_stay_apart() -> None:
    assert len({fold(letter) for letter in "оoqكقحه土士"}) == 9


def test_stemmers_see_marked_letters() -> None:
    assert fold_case("Fanø Œuvre") == "fanø œuvre"
    assert fold_case("سال ۱۴۰۲") == "سال 1402"
