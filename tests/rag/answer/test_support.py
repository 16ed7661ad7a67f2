import pytest

from rag.answer.support import Evidence, Statement, Support
from rag.query.results import Hit
from tests.dummy import DummyEmbedder
from tests.web.fakes import make_hit

PUMP = make_hit(
    1,
    title="Pump",
    section="",
    text="The pump moves 1,200 litres in two hours. Error E4 is shown. Set max_flow to 0.5.",
)
LEAVE = make_hit(2, title="Leave", section="", text="Urlaub verfällt am 31. März 2026.", date="2026-01-02")
HITS = [PUMP, LEAVE]


def judged(text: str, hits: list[Hit] = HITS, cited: tuple[int, ...] = (), *, vectors: bool = True) -> Support | None:
    evidence = Evidence(hits, [hit.text for hit in hits])
    statement = Statement(0, len(text), text, cited)
    if not vectors:
        return evidence.judge(statement, None, None)
    embedder = DummyEmbedder()
    return evidence.judge(statement, embedder.encode([text])[0], embedder.encode(evidence.sentences()))


@pytest.mark.parametrize(
    ("text", "hit"),
    [
        ("The pump moves 1200 litres in 2 hours.", 1),
        ("The pump moves 1'200 litres.", 1),
        ("The pump moves 1300 litres in two hours.", None),
        ("Error E4 is shown by the pump.", 1),
        ("Error E5 is shown by the pump.", None),
        ("Set max_flow to 0.5.", 1),
        ("Set max_flow to 0,5.", 1),
        ("Set min_flow to 0.5.", None),
        ("Set --max-flow to 0.5.", None),
        ("Urlaub verfällt am 31. März.", 2),
        ("Elephants sleep while standing.", None),
    ],
)
@pytest.mark.parametrize("vectors", [True, False])
def test_words_numbers_and_names(text: str, hit: int | None, vectors: bool) -> None:
    found = judged(text, vectors=vectors)
    assert found is not None
    assert (found.hit, found.supported) == (hit, hit is not None)
    assert found.score <= 1


def test_passages_support_together_what_cites_both() -> None:
    first, second = make_hit(1, text="Alpha weighs 11 kg.", title=""), make_hit(2, text="Beta weighs 22 kg.", title="")
    text = "Alpha weighs 11 kg and Beta 22 kg."
    alone, together = judged(text, [first, second]), judged(text, [first, second], cited=(1, 2, 9))
    assert alone is not None
    assert together is not None
    assert (alone.supported, together.supported) == (False, True)
    assert together.hit in (1, 2)


def test_an_answer_in_another_language_than_all_passages_is_not_judged() -> None:
    english = [make_hit(1, language="en"), make_hit(2, language="en")]
    text = "Das ist ein Verzeichnis, das nur über einen Teil der Zeilen einer Tabelle geht und daher kleiner ist."
    assert judged(text, english) is None
    assert judged(text, [*english, make_hit(3, language="de")]) is not None
    assert judged(text, [make_hit(1)]) is not None  # whose language is not known
    assert judged("It is an index over a part of the rows of a table, so that it is smaller.", english) is not None
