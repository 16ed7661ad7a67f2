import numpy as np
import pytest

from rag.query.sentences import MOST, nearest_sentences, split_sentences
from tests.dummy import DummyEmbedder

EMBEDDER = DummyEmbedder(256)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (
            "It burns gas. The flame is small! Is it lit now?",
            ["It burns gas.", "The flame is small!", "Is it lit now?"],
        ),
        ("“It is always lit.” So he said, again.", ["“It is always lit.”", "So he said, again."]),
        ("Version 17.2 of the manual. Ok.", ["Version 17.2 of the manual."]),
        ("A heading line\n\n  an item of it\n", ["A heading line", "an item of it"]),
        (
            "小さな火はいつも燃えています。水をかけてはいけません！",
            ["小さな火はいつも燃えています。", "水をかけてはいけません！"],
        ),
        ("no end of a sentence", ["no end of a sentence"]),
        ("...", []),
        ("", []),
    ],
)
def test_sentences_and_lines_are_told_apart(text: str, sentences: list[str]) -> None:
    assert [text[start:end] for start, end in split_sentences(text)] == sentences


def nearest(query: str, texts: list[str]) -> list[str | None]:
    vector = EMBEDDER.encode([query], role="query")[0]
    spans = nearest_sentences(vector, texts, EMBEDDER.encode)
    return [text[slice(*span)] if span else None for text, span in zip(texts, spans, strict=True)]


def test_the_sentence_nearest_to_the_query_is_found_in_every_text_by_one_call() -> None:
    calls: list[list[str]] = []

    def encode(texts: list[str]) -> np.ndarray:
        calls.append(texts)
        return EMBEDDER.encode(texts)

    texts = [
        "Copper is a metal. Rain falls on hills.",
        "Nothing to choose.",
        "Hills are high and green. Copper wire conducts.",
    ]
    spans = nearest_sentences(EMBEDDER.encode(["rain hills"])[0], texts, encode)
    assert spans == [(19, 39), None, (0, 25)]
    assert len(calls) == 1
    assert nearest("copper metal", texts[:1]) == ["Copper is a metal."]


def test_only_the_first_sentences_of_a_passage_are_looked_at() -> None:
    text = "Filler about nothing. " * MOST + "The needle in a haystack."
    assert nearest("needle haystack", [text]) == ["Filler about nothing."]


def test_without_a_choice_the_model_is_not_asked() -> None:
    def refuse(texts: list[str]) -> np.ndarray:
        raise AssertionError(texts)

    assert nearest_sentences(np.zeros(4, np.float32), ["One sentence here.", ""], refuse) == [None, None]
    assert nearest_sentences(np.zeros(4, np.float32), [], refuse) == []
