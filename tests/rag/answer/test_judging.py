import threading
from collections.abc import Sequence

import numpy as np

from rag.answer.support import MOST, Judging, Vectors
from tests.dummy import DummyEmbedder
from tests.web.fakes import make_hit

HITS = [make_hit(1)]
TEXTS = [hit.text for hit in HITS]
TRUE, FALSE = "A partial index is built over a subset of a table. ", "Elephants are never grey. "


def test_text_is_read_while_the_model_that_embeds_is_busy() -> None:
    release, embedder = threading.Event(), DummyEmbedder()

    def embed(texts: Sequence[str]) -> Vectors:
        assert release.wait(20)
        return embedder.encode(texts)

    with Judging(HITS, TEXTS, embed, 0.5) as judging:
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

    with Judging(HITS, TEXTS, embed, 0.5) as judging:
        judging.read(TRUE * 10)
        assert started.wait(10)
    release.set()
    for thread in threading.enumerate():
        if thread.name.startswith("judging"):
            thread.join(10)
    assert asked == [1]  # the passage, and no statement


def test_so_many_statements_are_judged() -> None:
    with Judging(HITS, TEXTS, None, 0.5) as judging:
        judging.read(TRUE * (MOST + 10))
        assert sum(one is not None for one in judging.rest(1)) == MOST


def test_nothing_is_embedded_where_nothing_is_judged() -> None:
    for hits, threshold in ((HITS, 0.0), ([], 0.5)):
        with Judging(
            hits, [hit.text for hit in hits], lambda texts: np.empty((0, 0), np.float32), threshold
        ) as judging:
            judging.read(TRUE)
            assert list(judging.rest(1)) == []
