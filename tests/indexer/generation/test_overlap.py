"""Passages that overlap, read once."""

import pytest

from indexer.config import ChunkConfig
from indexer.cut.chunking import Chunker
from indexer.generation.likeness import joined, once, shared
from indexer.records import Document, Section
from tests.dummy import DummyEmbedder

OVERLAP = {"chunk": {"overlap": 7}}


@pytest.mark.parametrize(
    ("before", "text", "common"),
    [
        ("one two three", "two three four", "two three"),
        ("one two three", "three", ""),  # nothing of its own
        ("the cat", "at the door", ""),  # the end of a word
        ("a cat", "cats sleep", ""),
        ("if x:\n    y = 1", "    y = 1\n    z = 2", "    y = 1"),
        ("一つ目です。二つ目です。", "二つ目です。三つ目です。", "二つ目です。"),
        ("one", "two", ""),
        ("", "two", ""),
        ("one", "", ""),
        ("aa aa aa", "aa aa b", "aa aa"),
    ],
)
def test_what_two_share(before: str, text: str, common: str) -> None:
    assert shared(before, text) == len(common)
    assert text.startswith(common)


def test_the_passage_that_is_meant_stays_whole() -> None:
    texts = ["one two", "two three four", "four five"]
    assert once(texts, OVERLAP) == ["one two", "three four", "five"]
    assert once(texts, OVERLAP, 1) == ["one", "two three four", "five"]
    assert once(texts, OVERLAP, 2) == ["one two", "three", "four five"]
    assert once(["two", "two three"], OVERLAP, 1) == ["", "two three"]
    assert once([], OVERLAP) == []
    assert once(texts, {}) == texts


@pytest.mark.parametrize(
    ("before", "text", "shown"),
    [
        ("Ages:\n\nname | age\nTom | 3", "name | age\nAnn | 4", "Ann | 4"),
        ("name | age\nin | years\nTom | 3", "name | age\nin | years\nAnn | 4", "Ann | 4"),
        ("name | age\nTom | 3", "Tom | 3\nAnn | 4", "Tom | 3\nAnn | 4"),  # a row that stands there twice
        ("name | age\nTom | 3\n\nEnd.", "name | age\nAnn | 4", "name | age\nAnn | 4"),  # another table
        ("name | age\nTom | 3", "name | age", "name | age"),
    ],
)
def test_names_of_columns_are_read_once(before: str, text: str, shown: str) -> None:
    assert once([before, text], {}) == [before, shown]
    assert once([before, text], {}, 1) == [before, text]


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"    line{i} = {i}" for i in range(60)),
        " ".join(f"Sentence number {i} is here." for i in range(60)),
        " ".join(f"word{i}" for i in range(300)),
        "\n\n".join(f"Paragraph {i} says this.\n    code{i}()" for i in range(40)),
    ],
    ids=["code", "sentences", "words", "paragraphs"],
)
def test_a_text_that_was_cut_is_put_together(text: str) -> None:
    document = Document("http://t.test/d", "s", "T", (Section((), None, text),), "", None, None, "")
    texts = [chunk.text for chunk in Chunker(DummyEmbedder(), ChunkConfig(30, 7)).split(document)]
    assert len(texts) > 3
    together = joined(texts, OVERLAP)
    assert together.split() == text.split()
    assert all(line.startswith("    ") == ("(" in line or " = " in line) for line in together.split("\n") if line)
    assert joined(texts, {}) == "\n".join(texts)
