"""Searches whose best candidates a cross-encoder reads again, and the queue that they share."""

import threading
from contextvars import Context
from functools import partial

import numpy as np
import pytest
from msgspec.structs import asdict, astuple

from rag import deadline
from rag.errors import DeadlinePassed, RerankOff
from rag.query.batcher import RerankQueue
from rag.query.request import SearchRequest
from rag.query.results import headed
from rag.query.retriever import Retriever
from tests.dummy import DummyCrossEncoder, DummyEmbedder
from tests.rag.conftest import wait_for

QUERY = "the storage that fsync and vacuum and rows have"


def floats(*values):
    return np.array(values, np.float32)


@pytest.fixture
def model():
    return DummyCrossEncoder()


@pytest.fixture
def retriever(site, model):
    """Of three short pages, and a long one of twelve passages."""
    others = [" ".join(f"word{part}x{place}" for place in range(15)) for part in range(12)]  # none repeats another
    lines = [f"## Part {n}\n\nTuples of storage {'vacuum ' * (n % 5)}{words}." for n, words in enumerate(others)]
    (site.source / "long.md").write_text("# Long\n\n" + "\n\n".join(lines))
    site.build()
    return opened(site, model)


def opened(site, model):
    found = Retriever.open(site.index, DummyEmbedder())
    return Retriever(found.generation, found.embedder, reranker=RerankQueue(model))


def asked(retriever, **options):
    return retriever.answer_query(SearchRequest(QUERY, rerank=True, **options))


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_the_order_is_by_both(retriever, mode):
    plain = retriever.answer_query(SearchRequest(QUERY, mode=mode))
    answer = asked(retriever, mode=mode)
    assert answer.reranked.scored == answer.reranked.candidates > 3
    scores = [hit.score for hit in answer.hits]
    assert scores == sorted(scores, reverse=True)
    assert max(scores) <= max(hit.score for hit in plain.hits) + 1e-6  # the range is that of the search
    assert {hit.id for hit in answer.hits} >= {hit.id for hit in plain.hits[:3]}
    assert plain.reranked is None
    assert plain.took_ms["rerank"] == 0 < answer.took_ms["rerank"]
    assert all(hit.scores["rerank"] is None for hit in plain.hits)


def test_the_model_reads_headings_too_and_its_own_score_is_shown(retriever, model):
    answer = asked(retriever, per_document=0)
    best = answer.hits[0]
    assert headed(best.title, best.section, best.text) in model.texts
    logits = model.logits(model.pairs(QUERY, [headed(hit.title, hit.section, hit.text) for hit in answer.hits]))
    assert [hit.scores["rerank"] for hit in answer.hits] == pytest.approx(model.activated(logits).tolist())


def test_no_more_than_the_depth_is_read_and_the_rest_follows(retriever, monkeypatch):
    monkeypatch.setattr("rag.query.retriever.RERANKED", 3)
    plain = retriever.answer_query(SearchRequest(QUERY, per_document=0, k=20))
    answer = asked(retriever, per_document=0, k=20)
    assert astuple(answer.reranked) == (3, 3)
    ids, before = [hit.id for hit in answer.hits], [hit.id for hit in plain.hits]
    assert set(ids[:3]) == set(before[:3])
    assert ids[3:] == before[3:]
    assert [hit.scores["rerank"] is None for hit in answer.hits] == [False] * 3 + [True] * (len(ids) - 3)
    scores = [hit.score for hit in answer.hits]
    assert scores == sorted(scores, reverse=True)


def test_pages_are_of_one_ranking(retriever):
    whole = asked(retriever, per_document=0, k=12)
    pages = [asked(retriever, per_document=0, k=4, offset=offset) for offset in (0, 4, 8)]
    assert [hit.id for page in pages for hit in page.hits] == [hit.id for hit in whole.hits]


def test_short_of_time_fewer_are_read_and_that_is_said(site, retriever, model):
    asked(retriever, per_document=0)
    tokens = sum(map(len, model.pairs(QUERY, list(model.texts))))
    retriever._reranker._pace = 60 / tokens  # seconds a token: a minute for all
    answer = within(60, partial(asked, retriever, per_document=0))
    assert 0 < answer.reranked.scored < answer.reranked.candidates
    assert sum(hit.scores["rerank"] is not None for hit in answer.hits) == answer.reranked.scored
    assert answer.as_dict()["reranked"] == asdict(answer.reranked)
    retriever._reranker._pace = 1e6
    answer = within(60, asked, retriever)
    assert answer.reranked.scored == 0
    assert [hit.id for hit in answer.hits] == [hit.id for hit in retriever.answer_query(SearchRequest(QUERY)).hits]


def test_without_a_cross_encoder_it_is_refused(site, retriever):
    with pytest.raises(RerankOff, match="set rerank_model"):
        asked(Retriever(retriever.generation, retriever.embedder))


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


def test_a_search_scores_as_many_as_there_is_time_for(monkeypatch):
    queue = Clock(monkeypatch, pace=0.01).queue()
    queue.warm()
    queue.warm()  # which it is
    assert queue.model.runs == [4]
    texts = ["one two three four five six seven eight nine"] * 50  # 10 tokens, 0.1 seconds
    for seconds, count in ((1000, 50), (1.5, 10), (0.5, 3), (0.16, 1), (0.1, 0)):
        assert len(within(seconds, queue.score_best, "one", texts)) == count
        assert queue.model.runs[-1] == (count or 1)  # nothing is run for none


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
