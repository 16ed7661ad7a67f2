import re
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from embedder.model.tokenizer import TextTokens
from indexer.cut import cuts
from indexer.records import SectionBlock
from tests.dummy import DummyEmbedder


def count(texts: Sequence[str]) -> list[int]:
    return [tokens - 2 for tokens in DummyEmbedder().count_tokens(texts)]


def tokenize(text: str) -> TextTokens:
    return DummyEmbedder.tokenizer.spans([text])[0]


def cut(text: str, size: int, wholes: Sequence[SectionBlock] = ()) -> list[str]:
    """Only the texts of the pieces."""
    pieces = cuts.cut(text, size, tokenize, wholes)
    return [f"{head}\n{text[start:end]}" if head else text[start:end] for start, end, head in pieces]


def around(before: str, kept: str, after: str, head: str | None = None) -> tuple[str, list[SectionBlock]]:
    """A text, and where the part of it is that is to stay whole."""
    return f"{before}\n\n{kept}\n\n{after}", [SectionBlock(len(before) + 2, len(before) + 2 + len(kept), head)]


def words(number: int, end: str = ".") -> str:
    return " ".join(f"w{i}" for i in range(number - 1)) + end  # the end is a token too


GAPS = st.sampled_from([" ", " ", " ", ". ", ", ", "\n", "\n", "\n- ", "\n\n", ":\n", " | ", "\n\n    ", ".\n"])


@given(st.lists(GAPS, max_size=120), st.integers(5, 60))
def test_nothing_is_lost_and_nothing_doubled(gaps: list[str], size: int) -> None:
    text = "".join(f"w{number}{gap}" for number, gap in enumerate([*gaps, "."]))
    pieces = cut(text, size)
    assert all(piece in text for piece in pieces)
    assert max(count(pieces)) <= size
    runs = [[int(word) for word in re.findall(r"w(\d+)", piece)] for piece in pieces]
    assert all(run == list(range(run[0], run[-1] + 1)) for run in runs)
    assert runs[0][0] == 0
    assert runs[-1][-1] == len(gaps)
    for before, after in pairwise(runs):
        assert after[0] == before[-1] + 1


@given(st.text(max_size=400), st.integers(2, 40))
@example("\n", 2)
def test_any_text_can_be_cut(text: str, size: int) -> None:
    pieces = cut(text, size)
    assert re.sub(r"\s", "", "".join(pieces)) == re.sub(r"\s", "", text)


@pytest.mark.parametrize(
    ("text", "size", "pieces"),
    [
        ("a b c d\n\ne f\n\ng h", 6, ["a b c d", "e f\n\ng h"]),  # no short end
        ("- a b c\n  d e\n- f g h\n  i j", 7, ["- a b c\n  d e", "- f g h\n  i j"]),  # between items
        ("x | y\na | b\nc | d\ne | f", 6, ["x | y\na | b", "c | d\ne | f"]),  # between rows
        ("if a:\n    b()\nif c:\n    d()", 8, ["if a:\n    b()", "if c:\n    d()"]),  # not above indented lines
        ("def f():\n    a = 1\n\n    b = 2\n\nx = f() + 1", 14, ["def f():\n    a = 1\n\n    b = 2", "x = f() + 1"]),
        ("a b c d.\n\nSuch as:\n\ne f g h", 9, ["a b c d.", "Such as:\n\ne f g h"]),  # a lead stays with its list
        ("a b c d e f\n\nTerm\ng h i\n\nTerm\nj k l", 8, ["a b c d e f", "Term\ng h i\n\nTerm\nj k l"]),
        ("Aa bb cc. Dd ee ff. Gg hh ii. Jj kk ll.", 8, ["Aa bb cc. Dd ee ff.", "Gg hh ii. Jj kk ll."]),
        ("Aa bb e.g. cc day. Ee ff gg hh ii jj.", 10, ["Aa bb e.g. cc day.", "Ee ff gg hh ii jj."]),
        ("a b c d, e f g h, i j k l", 9, ["a b c d,", "e f g h, i j k l"]),  # a sentence that is too long
        ("a b c d e f", 3, ["a b c", "d e f"]),  # words
        ("    a\n    b\n    c\n    d", 2, ["    a\n    b", "    c\n    d"]),  # indentation stays
    ],
)
def test_structure_stays_whole(text: str, size: int, pieces: list[str]) -> None:
    assert cut(text, size) == pieces


@pytest.mark.parametrize(
    ("code", "begin"),
    [
        ("".join(f"def f{i}(x):\n    a = x\n\n    return a\n\n" for i in range(6)), "def f"),
        ("".join(f"f{i}(\n    a,\n    b,\n)\n" for i in range(8)), "f"),
        ("".join(f">>> f({i})\n{i}\n{i}\n{i}\n{i}\n" for i in range(8)), ">>> f"),
    ],
    ids=["blocks", "brackets", "session"],
)
def test_longer_code_is_cut_before_statements(code: str, begin: str) -> None:
    pieces = cut(code, 40, [SectionBlock(0, len(code))])
    assert len(pieces) > 1
    assert all(piece.startswith(begin) for piece in pieces)


def test_a_table_names_its_columns_wherever_it_goes_on() -> None:
    head = "name | age"
    rows = [f"n{i} | {i}. Really {i}" for i in range(30)]
    text, wholes = around(words(10), "\n".join([head, *rows]), words(10), head)
    pieces = cut(text, 40, wholes)
    assert max(count(pieces)) <= 40
    assert [piece.count(head) for piece in pieces] == [1] * len(pieces)
    shown = [line for piece in pieces for line in piece.split("\n") if line.startswith("n") and line != head]
    assert shown == rows
    long = " | ".join(f"c{i}" for i in range(20))
    text, wholes = around(words(10), "\n".join([long, *rows]), words(10), long)
    assert sum(long in piece for piece in cut(text, 40, wholes)) == 1, "it would leave no room for rows"


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("See e.g. Smith and i.e. Jones. Then go on.", 2),
        ("Das gilt z. B. Für alle, d. h. Hier. Ende gut.", 2),
        ("As Fig. 3 and No. 5 show. Dr. Smith agrees.", 2),
        ("The U.S. Army and J. R. R. Tolkien met. They spoke.", 2),
        ("Voir p. 3 chez M. Dupont, art. Premier. Puis Mme. Durand.", 2),
        ("Prof. Weiß, approx. Twelve, bzw. Zwölf, usw. Immer. Das Ende.", 2),
        ("Am 3. Oktober kam Ludwig XIV. König war er. Ende gut.", 2),
        ("It was built in 1990. The town grew. 5 people came.", 2),
        ("Он жил на ул. Ленина, см. рис. 5 там. Потом уехал.", 2),
        ("Was ist das? Ja, sicher! Nun gut… Aber (siehe unten.) Dann also. «Fin.» Après.", 6),
        ("Das ist so. über alles. Ähnlich hier.", 2),
        ("これは文章です。次の文です。", 2),
        ("Die Haupt-Str. Nord und die Firma Müller & Co. KG schließen. Schade.", 2),
        ("Hello world. i think so. 3 of them.", 1),
        ("Zob. np. Warszawa, tzn. Stolica. Koniec.", 2),
    ],
)
def test_sentences_do_not_end_at_abbreviations_or_before_numbers(text: str, sentences: int) -> None:
    found = cuts._split(cuts._SENTENCE_END, text)
    assert "".join(found) == text
    assert len(found) == sentences, found
