from collections.abc import Callable, Sequence

import pytest

from rag.answer.support import LONGEST, CitationFilter, Evidence, Statement, StatementReader, Support, Vectors
from rag.errors import DeadlinePassed
from rag.events import Event, EventDecoder
from rag.query.results import Hit
from tests.dummy import DummyEmbedder
from tests.linear import check_linear, repeated
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


def test_statements_without_end_are_cut() -> None:
    assert [len(one.text) for one in read("x" * 5000, 7)] == [LONGEST] * 5
    assert read("```\nnever closed. Not judged.", 2) == read("# A heading only", 2) == []
    assert "".join(one.text for one in read("." * 20_000, 4)) == "." * 20_000
    assert [one.text for one in read(f"Chapter one {'.' * 30_000} 3", 50_000)][-1].endswith(". 3")


def cite(text: str, step: int) -> str:
    filtered = CitationFilter(9)
    shown = [filtered.feed(text[start : start + step]) for start in range(0, len(text), step)]
    return "".join([*shown, filtered.feed("", is_last=True)])


def decode(text: str, step: int) -> list[Event]:
    decoder, text = EventDecoder(), f"data: {text}\n\n"
    return [each for start in range(0, len(text), step) for each in decoder.feed(text[start : start + step])]


UNITS = [*" \t\n.[`*_a1。", ". ", "a. ", "[1", "[1]", "[1] ", "1,", "> "]


@pytest.mark.parametrize("step", [3, 1 << 20])
@pytest.mark.parametrize("work", [read, cite, decode])
def test_what_a_model_repeats_is_read_in_linear_time(work: Callable[[str, int], object], step: int) -> None:
    """60,000 blanks held up a worker for a minute."""

    for unit in UNITS:
        check_linear(lambda text: work(text, step), repeated(unit), 32_000)


CASES = [
    ("A partial index [1].", "A partial index [1].", [1]),
    ("It is small [2][1] and [2] fast.", "It is small [2][1] and [2] fast.", [2, 1]),
    ("Nothing says so [4].", "Nothing says so.", []),
    ("Zero [0] and -1 [-1] and many [99999999999999999].", "Zero and -1 [1] and many.", [1]),
    ("Both [1, 3] and [2; 7].", "Both [1][3] and [2].", [1, 3, 2]),
    ("A range [1-3] and [2–9].", "A range [1][2][3] and [2][3].", [1, 2, 3]),
    ("A footnote [^2].", "A footnote [2].", [2]),
    ("[9]", "", []),
    ("Open at the end [1", "Open at the end [1", []),
    ("A box [ ] and [x] and [link](url).", "A box [ ] and [x] and [link](url).", []),
    (
        "In code `a[0]` and\n```\nb[7] = c[1]\n```\nthen [7] [2].",
        "In code `a[0]` and\n```\nb[7] = c[1]\n```\nthen [2].",
        [2],
    ),
    ("An odd ` is forgotten\non the next line [7].", "An odd ` is forgotten\non the next line.", []),
    ("Trailing spaces   ", "Trailing spaces   ", []),
]


@pytest.mark.parametrize(("text", "shown", "cited"), CASES)
def test_citations_whole_and_letter_by_letter(text: str, shown: str, cited: list[int]) -> None:
    for pieces in ([text], list(text), [text[:5], text[5:]]):
        filtered = CitationFilter(3)
        assert "".join(map(filtered.feed, pieces)) + filtered.feed("", is_last=True) == shown
        assert filtered.cited == cited


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
