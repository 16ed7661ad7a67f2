from collections.abc import Sequence

import pytest

from rag.answer.support import LONGEST, Evidence, Statement, StatementReader, Support, Vectors
from rag.errors import DeadlinePassed
from rag.query.results import Hit
from tests.dummy import DummyEmbedder
from tests.web.fakes import make_hit

SUPPORTED = 0.5
TEXT = """A partial index is small. [1][2] It covers a subset, e.g. orders [2]. Yes. It does.

## Steps
To do so:
1. Create the index `on t`. [1]
> - **Use it often.** [3]
```sh
CREATE INDEX here. Not this one.
```
| a | table with words |
See Fig. 3 for more. Would you like more?
索引は小さい。[1]それは速いですよ。最後の文です"""
SAID = [
    ("A partial index is small. [1][2]", "A partial index is small.", (1, 2)),
    ("It covers a subset, e.g. orders [2].", "It covers a subset, e.g. orders.", (2,)),
    ("Yes. It does.", "Yes. It does.", ()),
    ("Create the index `on t`. [1]", "Create the index on t.", (1,)),
    ("**Use it often.** [3]", "Use it often.", (3,)),
    ("See Fig. 3 for more.", "See Fig. 3 for more.", ()),
    ("索引は小さい。[1]", "索引は小さい。", (1,)),
    ("それは速いですよ。", "それは速いですよ。", ()),
    ("最後の文です", "最後の文です", ()),
]


def read(text: str, step: int) -> list[Statement]:
    reader = StatementReader()
    found = [each for start in range(0, len(text), step) for each in reader.feed(text[start : start + step])]
    return [*found, *reader.feed("", is_last=True)]


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_statements_in_whatever_pieces_they_come(step: int) -> None:
    assert [(TEXT[one.start : one.end], one.text, one.cited) for one in read(TEXT, step)] == SAID


def test_statements_without_end_are_cut_in_linear_time() -> None:
    """A model that is stuck writes them; these held up the whole process for a minute and a half."""
    assert [len(one.text) for one in read("x" * 5000, 7)] == [LONGEST] * 5
    assert read("```\nnever closed. Not judged.", 2) == read("# A heading only", 2) == []
    assert "".join(one.text for one in read("." * 20_000, 4)) == "." * 20_000
    assert [one.text for one in read(f"Chapter one {'.' * 30_000} 3", 50_000)][-1].endswith(". 3")


PUMP = make_hit(
    1,
    title="Pump",
    section="",
    text="The pump moves 1,200 litres in two hours. Error E4 is shown. Set max_flow to 0.5.",
)
LEAVE = make_hit(2, title="Leave", section="", text="Urlaub verfällt am 31. März 2026.", date="2026-01-02")
HITS = [PUMP, LEAVE]


def judged(text: str, hits: list[Hit] = HITS, cited: tuple[int, ...] = (), *, vectors: bool = True) -> Support | None:
    evidence = Evidence(hits, [hit.text for hit in hits], DummyEmbedder().encode if vectors else None, SUPPORTED)
    return evidence.judge(Statement(0, len(text), text, cited))


@pytest.mark.parametrize(
    ("text", "hit"),
    [
        ("The pump moves 1200 litres in 2 hours.", 1),
        ("The pump moves 1300 litres in two hours.", None),
        ("Error E4 is shown by the pump.", 1),
        ("Error E5 is shown by the pump.", None),
        ("Set max_flow to 0,5.", 1),
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


def test_a_model_that_is_too_busy_is_asked_once_and_words_alone_are_compared() -> None:
    asked: list[int] = []

    def embed(texts: Sequence[str]) -> Vectors:
        asked.append(len(texts))
        raise DeadlinePassed

    evidence = Evidence(HITS, [hit.text for hit in HITS], embed, SUPPORTED)
    for _ in range(3):
        found = evidence.judge(Statement(0, 9, "Error E4 is shown by the pump.", ()))
        assert found is not None
        assert found.hit == 1
    assert len(asked) == 1
