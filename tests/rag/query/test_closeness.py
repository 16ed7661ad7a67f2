"""When an answer says that it is close, by cosines and words that a test chooses."""

import pytest
from msgspec.structs import asdict

from indexer.generation.lexical.lexical_query import read_query
from rag.query.closeness import is_close, overlap
from rag.query.results import Hit, as_text
from tests.web.fakes import make_hit


def hit(cosine: float | None, text: str = "Bread rises.", query: str = "") -> Hit:
    words = [(text.index(word), text.index(word) + len(word)) for word in query.split() if word in text]
    return make_hit(text=text, title="", section="", highlights=words, scores={"dense": cosine, "lexical": None})


@pytest.mark.parametrize(
    ("cosine", "text", "close"),
    [
        (0.41, "Nothing in common.", True),
        (0.39, "Nothing in common.", False),
        (0.33, "partial index", True),
        (0.31, "partial index", False),
        (0.33, "partial things", False),
        (None, "partial things", True),
        (None, "Nothing in common.", False),
    ],
)
def test_by_cosine_and_words(cosine: float | None, text: str, close: bool) -> None:
    query = "what is a partial index"
    assert (
        is_close(read_query(query).asked, [hit(0.1), hit(cosine, text, query)] if cosine else [hit(None, text, query)])
        is close
    )


def test_the_threshold_can_be_set() -> None:
    assert not is_close(read_query("bread").asked, [hit(0.6)], 0.7)
    assert is_close(read_query("bread").asked, [hit(0.01)], 0.0)
    assert not is_close(read_query("bread").asked, [])


def test_words_of_title_and_headings_count() -> None:
    assert overlap(read_query("partial index size").asked, make_hit(text="x", highlights=[])) == pytest.approx(2 / 3)
    assert overlap(read_query("?!").asked, make_hit()) == 0


def test_the_terminal_says_it() -> None:
    answer = {"hits": [asdict(make_hit())], "close": False, "took_ms": {"total": 1.0, "embed": 0.5}}
    assert as_text(answer).startswith("nothing close; nearest:")
    assert not as_text(answer | {"close": True}).startswith("nothing")
