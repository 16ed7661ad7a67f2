import pytest

from rag.answer.support import LONGEST, Statement, StatementReader

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
    return [*found, *reader.end()]


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_statements_in_whatever_pieces_they_come(step: int) -> None:
    assert [(TEXT[one.start : one.end], one.text, one.cited) for one in read(TEXT, step)] == SAID


def test_a_statement_without_end_is_cut() -> None:
    for text in ("word " * 1000, "x" * 5000):
        assert all(len(one.text) <= LONGEST for one in read(text, 7))
    assert len("".join(one.text for one in read("x" * 5000, 7))) == 5000


def test_full_stops_without_end_take_linear_time() -> None:
    """A model that is stuck writes them; these held up the whole process for a minute and a half."""
    assert "".join(one.text for one in read("." * 20_000, 4)) == "." * 20_000
    assert [one.text for one in read(f"Chapter one {'.' * 30_000} 3", 50_000)][-1].endswith(". 3")


@pytest.mark.parametrize(
    "text", ["", "\n\n", "---\n", "ok.", "[1]", "```\nnever closed. Not judged.", "# A heading only"]
)
def test_what_says_nothing(text: str) -> None:
    assert read(text, 2) == []
