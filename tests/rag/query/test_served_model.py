"""The queues of the models: queries that wait share a run, and a cross-encoder reads as much as there is time for."""

import queue
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from functools import partial

import numpy as np
import pytest
from msgspec.structs import asdict, astuple

from embedder.errors import EmbedderError
from indexer.generation.generation import Generation
from rag import deadline
from rag.errors import DeadlinePassed, NotConfigured
from rag.query import served_model
from rag.query.request import SearchRequest
from rag.query.retriever import Retriever
from rag.query.served_model import QueryBatcher, RerankQueue, ServedModel
from tests.dummy import DummyCrossEncoder, DummyEmbedder
from tests.rag.conftest import wait_for

DEADLINE_S = 30


class Gated(DummyEmbedder):
    """An embedder each of whose runs waits to be let through; it records the runs and refuses the texts in `bad`."""

    def __init__(self, bad: Sequence[str] = ()) -> None:
        super().__init__()
        self.runs: list[list[str]] = []
        self.started: queue.Queue[list[str]] = queue.Queue()
        self.gate = threading.Semaphore(0)
        self.bad = set(bad)

    def encode_ids(self, rows, **options):
        texts = texts_of(rows)
        self.runs.append(texts)
        self.started.put(texts)
        assert self.gate.acquire(timeout=DEADLINE_S)
        for text in texts:
            if text in self.bad:
                raise EmbedderError(f"cannot embed {text}")
        return super().encode_ids(rows, **options)

    def open(self) -> None:
        for _ in range(1000):
            self.gate.release()


def texts_of(rows):
    return [" ".join(row[1:-1]) for row in rows]


def vector_of(text):
    return DummyEmbedder().encode([text])[0]


class Callers:
    """Threads that each embed one query; `add` returns once the query waits behind those before it."""

    def __init__(self, batcher: QueryBatcher) -> None:
        self.batcher = batcher
        self.pool = ThreadPoolExecutor(64)
        self.results = {}

    def encode(self, text: str):
        return self.batcher.encode([text])[0]

    def add(self, text: str) -> None:
        expected = len(self.batcher._waiting) + 1
        self.results[text] = self.pool.submit(self.encode, text)
        wait_for(lambda: len(self.batcher._waiting) == expected)

    def lead(self, text: str, embedder: Gated) -> None:
        self.results[text] = self.pool.submit(self.encode, text)
        assert embedder.started.get(timeout=DEADLINE_S) == [text]

    def vector(self, text: str):
        return self.results[text].result(timeout=DEADLINE_S)


def within(seconds, work, *arguments):
    context = Context()
    context.run(deadline.begin, seconds)
    return context.run(work, *arguments)


@pytest.fixture
def embedder():
    return Gated()


@pytest.fixture
def callers(embedder, monkeypatch):
    monkeypatch.setattr(served_model, "MAX_TEXTS", 4)
    monkeypatch.setattr(served_model, "MAX_TOKENS", 60)
    made = Callers(QueryBatcher(embedder))
    yield made
    embedder.open()
    made.pool.shutdown()


def test_a_run_is_bounded_in_texts_and_tokens(callers, embedder):
    long, too_long = " ".join(["word"] * 52), " ".join(["x"] * 100)  # 54 and 102 tokens
    callers.lead("first", embedder)
    waiting = ["a", "b", "c", "d", "e", long, "f", too_long, "g"]
    for text in waiting:
        callers.add(text)
    embedder.open()
    for text in waiting:
        assert np.array_equal(callers.vector(text), vector_of(text))
    # an over-long text still runs, alone
    assert embedder.runs == [["first"], ["a", "b", "c", "d"], ["e", long, "f"], [too_long], ["g"]]


def test_no_thread_wakes_but_the_next_to_lead_and_those_that_are_answered(callers, embedder, monkeypatch):
    class Counted:
        """A lock that counts the threads that it has kept waiting."""

        waits, wakes = [], []

        def __init__(self):
            self.lock = threading.Lock()

        def acquire(self, **timeout):
            if not timeout:
                return self.lock.acquire()
            self.waits.append(self)
            got = self.lock.acquire(**timeout)
            self.wakes.append(self)
            return got

        def release(self):
            self.lock.release()

    ticket = served_model._Ticket
    monkeypatch.setattr(served_model, "_Ticket", lambda *fields: ticket(*fields[:-1], Counted()))
    callers.lead("first", embedder)
    embedder.gate.release()
    callers.vector("first")
    assert not Counted.waits  # a lone query
    callers.lead("second", embedder)
    texts = "abcdefghij"
    for text in texts:
        callers.add(text)
    # each run: the thread that leads it, then the others of the run, of four texts, and the next one to lead
    for awake, batch in [(1, "abcd"), (5, "efgh"), (9, "ij")]:
        embedder.gate.release()
        assert embedder.started.get(timeout=DEADLINE_S) == list(batch)
        wait_for(lambda awake=awake: len(Counted.wakes) == awake)
    embedder.gate.release()
    for text in texts:
        assert np.array_equal(callers.vector(text), vector_of(text))
    assert len(Counted.wakes) == len(set(Counted.wakes)) == len(Counted.waits) == len(texts)


def test_a_bad_query_fails_alone(callers, embedder):
    embedder.bad = {"bad", "worse"}
    callers.lead("first", embedder)
    for text in ("good", "bad", "fine", "worse"):
        callers.add(text)
    embedder.open()
    for text in ("good", "fine"):
        assert np.array_equal(callers.vector(text), vector_of(text))
    for text in ("bad", "worse"):
        with pytest.raises(EmbedderError, match=f"cannot embed {text}$"):
            callers.vector(text)
    assert embedder.runs[1:] == [["good", "bad", "fine", "worse"], ["good"], ["bad"], ["fine"], ["worse"]]


def test_a_thread_that_is_interrupted_leaves_the_others_to_the_next(callers, embedder):
    encode, texts = embedder.encode_ids, ("beta", "gamma", "delta")

    def interrupted(rows, **options):
        result = encode(rows, **options)
        if texts_of(rows) == list(texts):
            raise SystemExit
        return result

    embedder.encode_ids = interrupted
    callers.lead("alpha", embedder)
    for text in texts:
        callers.add(text)
    embedder.open()
    ended = [callers.results[text].exception(DEADLINE_S) for text in texts]
    assert [type(error) for error in ended if error] == [SystemExit]
    for text, error in zip(texts, ended, strict=True):
        assert error or np.array_equal(callers.vector(text), vector_of(text))


def test_every_one_of_many_callers_gets_its_own_vector():
    class Busy(DummyEmbedder):
        """Fails on some texts, and notices two runs at a time."""

        running = threading.Lock()

        def encode_ids(self, rows, **options):
            assert self.running.acquire(blocking=False)
            try:
                threading.Event().wait(0.0005)  # lets the interpreter go, as a real model does
                for text in texts_of(rows):
                    if text.endswith("7"):
                        raise EmbedderError(text)
                return super().encode_ids(rows, **options)
            finally:
                self.running.release()

    batcher = QueryBatcher(Busy())
    together = threading.Barrier(32)

    def ask(caller):
        together.wait(DEADLINE_S)
        for turn in range(25):
            text = f"caller{caller} turn{turn}"
            if text.endswith("7"):
                with pytest.raises(EmbedderError, match=text):
                    batcher.encode([text])[0]
            else:
                assert np.array_equal(batcher.encode([text])[0], vector_of(text))
        return caller

    with ThreadPoolExecutor(32) as pool:
        assert list(pool.map(ask, range(32), timeout=DEADLINE_S * 4)) == list(range(32))
    assert not batcher._waiting


def test_a_query_that_waits_past_its_deadline_leaves_the_queue(callers, embedder):
    callers.lead("alpha", embedder)
    callers.add("beta")
    gone = callers.pool.submit(within, 0.05, callers.batcher.encode, ["gamma", "delta"])
    callers.results["epsilon"] = callers.pool.submit(callers.encode, "epsilon")
    with pytest.raises(DeadlinePassed):
        gone.result(DEADLINE_S)
    wait_for(lambda: len(callers.batcher._waiting) == 2)
    embedder.open()
    for text in ("alpha", "beta", "epsilon"):
        assert np.array_equal(callers.vector(text), vector_of(text))
    with pytest.raises(DeadlinePassed):
        within(0, callers.batcher.encode, ["never run"])
    assert embedder.runs == [["alpha"], ["beta", "epsilon"]]


def test_a_wait_that_ends_a_moment_early_is_over(callers, embedder, monkeypatch):
    class Early:
        def acquire(self, timeout=None):
            return timeout is None

        release = acquire

    ticket = served_model._Ticket
    callers.lead("alpha", embedder)
    monkeypatch.setattr(served_model, "_Ticket", lambda *fields: ticket(*fields[:-1], Early()))
    with pytest.raises(DeadlinePassed):
        within(DEADLINE_S, callers.batcher.encode, ["beta"])
    assert not callers.batcher._waiting


def test_a_large_batch_keeps_no_query_waiting():
    gate, inside = threading.Event(), threading.Event()

    class Background(DummyEmbedder):
        def encode_ids(self, rows, **options):
            inside.set()
            assert gate.wait(DEADLINE_S)
            return super().encode_ids(rows, **options)

    embedder = DummyEmbedder()
    embedder.twin = Background
    model = ServedModel("dummy", lambda: embedder)
    with ThreadPoolExecutor(1) as pool:
        batch = pool.submit(model.embed, ["a text", "another"] * 200, "document")
        assert inside.wait(DEADLINE_S)
        assert np.array_equal(model.batcher.encode(["query"])[0], vector_of("query"))
        assert not batch.done()
        gate.set()
        assert np.array_equal(batch.result(DEADLINE_S).vectors[399], vector_of("another"))


TEXTS = ["vacuum the table", "an index", "the vacuum"]


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


QUERY = "the storage that fsync and vacuum and rows have"


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
    return Retriever(Generation.open(site.index), DummyEmbedder(), reranker=RerankQueue(model))


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


def test_short_of_time_fewer_are_read_and_that_is_said(retriever, model, monkeypatch):
    begun, logits = [], model.logits
    monkeypatch.setattr(model, "logits", lambda rows: begun.append(rows) or logits(rows))
    monkeypatch.setattr("rag.query.served_model.time.monotonic", lambda: 100.0 + 50 * len(begun))
    answer = within(60, partial(asked, retriever, per_document=0))
    assert 0 < answer.reranked.scored < answer.reranked.candidates
    assert sum(hit.scores["rerank"] is not None for hit in answer.hits) == answer.reranked.scored
    assert answer.as_dict()["reranked"] == asdict(answer.reranked)


def test_without_a_cross_encoder_it_is_refused(site, retriever):
    with pytest.raises(NotConfigured, match="set rerank_model"):
        asked(Retriever(retriever.generation, retriever.embedder))
