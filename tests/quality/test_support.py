"""The labelled statements: that they are whole, and that the marks are as good as the documentation says."""

import pytest

from embedder import EmbedderConfig, Embeddings
from rag.answer.conversation import stands_alone
from tests.quality.follow_ups import SHORT, read_pairs
from tests.quality.support import KINDS, halves, judged, read_topics


def test_the_labelled_set_is_whole() -> None:
    topics = read_topics()
    counts = {kind: sum(len(topic.statements[kind]) for topic in topics) for kind in KINDS}
    assert counts == {"supported": 71, "number": 32, "name": 28, "negated": 28, "invented": 47}
    texts = [text for topic in topics for texts in topic.statements.values() for text in texts]
    assert len(set(texts)) == len(texts)


def test_which_further_questions_stand_alone() -> None:
    alone = [stands_alone(pair["follow_up"]) for pair in read_pairs()]
    assert not any(alone[:SHORT])
    assert sum(alone[SHORT:]) == 7


@pytest.mark.parametrize("by_words", [pytest.param(False, marks=pytest.mark.model), True])
def test_marks_are_as_good_as_is_said(by_words: bool) -> None:
    found = halves(judged(None if by_words else Embeddings(EmbedderConfig())))
    for half in found.values():
        assert half["precision"] >= 0.9
        assert half["recall"] >= 0.55
        assert half["supported"] <= 0.1  # false alarms
        assert half["negated"] <= 0.1  # the documentation says that these are not noticed
