import pytest

from rag.errors import SettingsError
from rag.evaluation.side import read_side
from rag.settings import load

SETTINGS = load({}, {})
ID = "20261124T120000-0a1b2c"


def test_a_generation_and_what_it_is_searched_with():
    assert read_side("live", SETTINGS, "A").generation == "live"
    side = read_side(f"{ID},mode=dense,boost=source=a,b*2;age=30*2,rerank_depth=5", SETTINGS, "B")
    assert (side.generation, side.mode) == (ID, "dense")
    assert (side.settings.boost, side.settings.rerank_depth) == ("source=a,b*2;age=30*2", 5)


def test_settings_search_the_dataset():
    side = read_side("model=/models/e5,query_prompt=query: ,fusion=rrf,tokens=yes", SETTINGS, "A")
    assert (side.generation, side.fusion) == ("", "rrf")
    assert (side.settings.model, side.settings.query_prompt, side.settings.tokens) == ("/models/e5", "query: ", "yes")
    assert SETTINGS.model != "/models/e5"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "A is live, the id of a generation, or NAME=VALUE,…; not ''"),
        ("lively", "not 'lively'"),
        ("live,precision=int8", "a generation is searched with the model that built it"),
        ("boost=age=30*2", "it concerns an index; write live,boost=…"),
        ("precison=int8", "cannot have 'precison', did you mean precision?"),
        ("precision=int9", "precision in A must be one of"),
        ("mode=dense,fusion=x", "fusion in A must be one of weighted, rrf"),
        ("rerank=perhaps", "rerank in A must be a yes-or-no"),
        ("live,rerank=yes", "set --rerank-model"),
        ("live,cache_dir=/x", "cannot have 'cache_dir'"),
    ],
)
def test_what_cannot_be_read_is_told(text, told):
    with pytest.raises(SettingsError) as caught:
        read_side(text, SETTINGS, "A")
    assert told in str(caught.value)
