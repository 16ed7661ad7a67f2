"""The cross-encoder that searches share: who is first, and how many pairs there is time for."""

import threading
from contextvars import Context

import numpy as np
import pytest

from rag import deadline
from rag.errors import DeadlinePassed
from rag.query.batcher import RerankQueue
from tests.dummy import DummyCrossEncoder
from tests.rag.conftest import wait_for

TEXTS = ["vacuum the table", "an index", "the vacuum"]


class Clock:
    """A clock that moves only while the model runs, by so many seconds a token."""

    def __init__(self, monkeypatch, pace):
        self.now, self.pace = 100.0, pace
        monkeypatch.setattr("rag.query.batcher.time.monotonic", lambda: self.now)

    def queue(self):
        model, logits = DummyCrossEncoder(), DummyCrossEncoder.logits

        def timed(rows):
            self.now += self.pace * sum(map(len, rows))
            return logits(model, rows)

        model.logits = timed
        return RerankQueue(model)


def within(seconds, work, *arguments):
    context = Context()
    context.run(deadline.begin, seconds)
    return context.run(work, *arguments)


def test_without_a_deadline_all_are_scored_in_one_run():
    queue = RerankQueue(DummyCrossEncoder())
    assert np.allclose(queue.score_best("vacuum", TEXTS), [0.96, -0.03, 0.97])
    assert queue.model.runs == [3]
    assert queue.score_best("vacuum", []).shape == (0,)


def test_a_search_scores_as_many_as_there_is_time_for(monkeypatch):
    queue = Clock(monkeypatch, pace=0.01).queue()
    queue.warm()
    queue.warm()  # which it is
    assert queue.model.runs == [4]
    texts = ["one two three four five six seven eight nine"] * 50  # 10 tokens, 0.1 seconds
    for seconds, count in ((1000, 50), (1.5, 10), (0.5, 3), (0.16, 1), (0.1, 0)):
        assert len(within(seconds, queue.score_best, "one", texts)) == count
        assert queue.model.runs[-1] == (count or 1)  # nothing is run for none


def test_a_pace_that_left_no_time_is_forgotten(monkeypatch):
    clock = Clock(monkeypatch, pace=10.0)
    queue = clock.queue()
    queue.warm()
    clock.pace = 0.001
    counts = [len(within(1.0, queue.score_best, "one", ["one two three"])) for _ in range(60)]
    assert counts[0] == 0
    assert counts[-1] == 1


def test_searches_go_before_those_who_can_wait(monkeypatch):
    model, order = DummyCrossEncoder(), []
    gate, inside = threading.Event(), threading.Event()

    def gated(rows):
        inside.set()
        assert gate.wait(30)
        order.append(len(rows))
        return np.zeros(len(rows), np.float32)

    model.logits = gated
    queue = RerankQueue(model)
    threads = [threading.Thread(target=queue.score, args=(model.pairs("a", ["b"] * 1),))]
    threads[0].start()
    assert inside.wait(30)
    threads += [threading.Thread(target=queue.score, args=(model.pairs("a", ["b"] * 2),))]
    threads += [threading.Thread(target=queue.score_best, args=("a", ["b"] * 3))]
    threads[1].start()
    threads[2].start()
    wait_for(lambda: queue._urgent)
    gate.set()
    for thread in threads:
        thread.join(30)
    assert order == [1, 3, 2]


def test_who_is_too_late_for_a_turn_is_told_and_a_search_goes_without():
    queue = RerankQueue(DummyCrossEncoder())
    queue._busy = True
    with pytest.raises(DeadlinePassed):
        within(0.01, queue.score, [[1]])
    assert len(within(0.01, queue.score_best, "vacuum", TEXTS)) == 0
    assert queue._busy  # it was not theirs
    queue._busy = False
    assert len(queue.score_best("vacuum", TEXTS)) == 3


def test_a_run_that_fails_frees_the_model():
    queue = RerankQueue(DummyCrossEncoder())
    with pytest.raises(TypeError):
        queue.score([None])
    assert len(queue.score_best("vacuum", TEXTS)) == 3
