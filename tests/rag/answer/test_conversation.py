import pytest

from rag.answer.prompt import Exchange, search_text, stands_alone

TOPIC = "how do I make a partial index on a table?"


@pytest.mark.parametrize(
    ("question", "alone"),
    [
        ("and how many are kept?", False),
        ("why?", False),
        ("und unter Windows?", False),
        ("which embedding models of the hub can be used?", True),
        ("partial index unique constraint example", True),
        ("それは?", False),
        ("部分インデックスはどう作りますか", True),
    ],
)
def test_what_is_understood_by_itself(question: str, alone: bool) -> None:
    assert stands_alone(question) is alone
    searched = search_text(question, [Exchange(TOPIC, "So."), Exchange("why?", "Because.")], 100)
    assert searched == (question if alone else f"{TOPIC} {question}")


def test_bounds() -> None:
    assert search_text("why?", [], 100) == "why?"
    assert search_text("why?", [Exchange(TOPIC, "")], 4) == "why?"
    assert search_text("why?", [Exchange(TOPIC, "")], 10) == "how d why?"
    assert search_text("why?", [Exchange("that?", ""), Exchange("so?", "")], 99) == "that? why?"
