"""Passages that overlap, read once."""

import pytest

from indexer.config import ChunkConfig
from indexer.cut.chunking import Chunker
from indexer.generation.overlap import joined, once, shared
from indexer.records import Document, Section
from tests.dummy import DummyEmbedder


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
    assert once(texts) == ["one two", "three four", "five"]
    assert once(texts, 1) == ["one", "two three four", "five"]
    assert once(texts, 2) == ["one two", "three", "four five"]
    assert once(["two", "two three"], 1) == ["", "two three"]
    assert once([]) == []


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
    settings = {"chunk": {"overlap": 7}}
    document = Document("http://t.test/d", "s", "T", (Section((), None, text),), "", None, None, "")
    texts = [chunk.text for chunk in Chunker(DummyEmbedder(), ChunkConfig(30, 7)).split(document)]
    assert len(texts) > 3
    together = joined(texts, settings)
    assert together.split() == text.split()
    assert all(line.startswith("    ") == ("(" in line or " = " in line) for line in together.split("\n") if line)
    assert joined(texts, {}) == "\n".join(texts)
