import threading
from collections.abc import Sequence

import pytest

from rag.answer.support import LONGEST, Evidence, Judging, Statement, StatementReader, Support, Vectors
from rag.query.results import Hit
from tests.dummy import DummyEmbedder
from tests.web.fakes import make_hit

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


FOUND = [make_hit(1)]
SEEN = [hit.text for hit in FOUND]
TRUE, FALSE = "A partial index is built over a subset of a table. ", "Elephants are never grey. "


def test_text_is_read_while_the_model_that_embeds_is_busy() -> None:
    release, embedder = threading.Event(), DummyEmbedder()

    def embed(texts: Sequence[str]) -> Vectors:
        assert release.wait(20)
        return embedder.encode(texts)

    with Judging(FOUND, SEEN, embed, 0.5) as judging:
        judging.read(TRUE + FALSE)
        assert list(judging.ready()) == []
        waiting = judging.rest(0.01)
        assert next(waiting) is None  # a beat
        release.set()
        found = [one for one in waiting if one]
    assert [(one.start, one.supported) for one in found] == [(0, True), (len(TRUE), False)]


def test_what_nobody_waits_for_is_given_up() -> None:
    started, release, embedder = threading.Event(), threading.Event(), DummyEmbedder()
    asked: list[int] = []

    def embed(texts: Sequence[str]) -> Vectors:
        asked.append(len(texts))
        started.set()
        assert release.wait(20)
        return embedder.encode(texts)

    with Judging(FOUND, SEEN, embed, 0.5) as judging:
        judging.read(TRUE * 10)
        assert started.wait(10)
    release.set()
    for thread in threading.enumerate():
        if thread.name.startswith("judging"):
            thread.join(10)
    assert asked == [1]  # the passage, and no statement
