"""The queues of the models: callers take turns, a cross-encoder reads as much as there is time for; and the cache."""

import math
import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from msgspec.structs import asdict, astuple, replace

from embedder.errors import EmbedderError
from indexer.generation.generation import Generation
from rag import deadline
from rag.errors import DeadlinePassed, NotConfigured
from rag.query.model_queue import (
    ENTRY_OVERHEAD_BYTES,
    FairLock,
    QueryCache,
    QueryEncoder,
    RerankQueue,
    caller_name,
    split_runs,
)
from rag.query.request import SearchRequest
from rag.query.retriever import Retriever
from rag.serving.follower import Follower, ServedModel
from rag.serving.live import LiveRetriever
from rag.settings import load
from tests.dummy import DummyCrossEncoder, DummyEmbedder
from tests.rag.conftest import start
from tests.waiting import wait_for

DEADLINE_S = 300


class Gated(DummyEmbedder):
    """An embedder each of whose runs waits to be let through; it records the runs."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[str] = []
        self.started: queue.Queue[str] = queue.Queue()
        self.gate = threading.Semaphore(0)

    def encode_ids(self, rows, **options):
        assert options == {"role": "query", "tokens": False}
        text = text_of(rows)
        self.runs.append(text)
        self.started.put(text)
        assert self.gate.acquire(timeout=DEADLINE_S)
        if text.startswith("bad"):
            raise EmbedderError(f"cannot embed {text}")
        if text == "interrupted":
            raise SystemExit
        return super().encode_ids(rows, **options)


def text_of(rows):
    return " ".join(rows[0][1:-1])


def vector_of(text):
    return DummyEmbedder().encode([text])[0]


class Callers:
    """Threads that each embed one query; `add` returns once the query waits behind those before it."""

    def __init__(self, embedder: Gated) -> None:
        self.encoder = QueryEncoder(embedder)
        self.pool = ThreadPoolExecutor(64)
        self.results = {}

    def waiting(self):
        return waiting(self.encoder._lock)

    def add(self, text: str, seconds: float = DEADLINE_S) -> None:
        expected = self.waiting() + 1
        self.results[text] = self.pool.submit(within, seconds, self.encoder.encode, [text])
        wait_for(lambda: self.waiting() == expected)

    def lead(self, text: str, embedder: Gated) -> None:
        self.results[text] = self.pool.submit(self.encoder.encode, [text])
        assert embedder.started.get(timeout=DEADLINE_S) == text

    def vector(self, text: str):
        return self.results[text].result(timeout=DEADLINE_S)[0]


def waiting(lock: FairLock) -> int:
    return len(lock._urgent) + len(lock._background)


def within(seconds, work, *arguments):
    context = Context()
    context.run(deadline.begin, seconds)
    return context.run(work, *arguments)


@pytest.fixture
def embedder():
    return Gated()


@pytest.fixture
def callers(embedder):
    callers = Callers(embedder)
    yield callers
    embedder.gate.release(1000)
    callers.pool.shutdown()


def test_queries_run_in_the_order_in_which_they_came_and_each_fails_alone(callers, embedder):
    texts = ["first", "a", "bad", "interrupted", "b"]
    callers.lead(texts[0], embedder)
    for text in texts[1:]:
        callers.add(text)
    embedder.gate.release(1000)
    for text in ("first", "a", "b"):
        assert np.array_equal(callers.vector(text), vector_of(text))
    for text, error in (("bad", EmbedderError), ("interrupted", SystemExit)):
        with pytest.raises(error):
            callers.vector(text)
    assert embedder.runs == texts


def test_every_one_of_many_callers_gets_its_own_vector():
    class Busy(DummyEmbedder):
        """Fails on some texts, and notices two runs at a time."""

        running = threading.Lock()

        def encode_ids(self, rows, **options):
            assert self.running.acquire(blocking=False)
            try:
                threading.Event().wait(0.0005)  # lets the interpreter go, as a real model does
                if text_of(rows).endswith("7"):
                    raise EmbedderError(text_of(rows))
                return super().encode_ids(rows, **options)
            finally:
                self.running.release()

    encoder = QueryEncoder(Busy())
    together = threading.Barrier(32)

    def ask(caller):
        together.wait(DEADLINE_S)
        for turn in range(25):
            text = f"caller{caller} turn{turn}"
            if text.endswith("7"):
                with pytest.raises(EmbedderError, match=text):
                    encoder.encode([text])
            else:
                assert np.array_equal(encoder.encode([text])[0], vector_of(text))
        return caller

    with ThreadPoolExecutor(32) as pool:
        assert list(pool.map(ask, range(32), timeout=DEADLINE_S)) == list(range(32))
    assert not waiting(encoder._lock)
    assert not encoder._lock._is_taken


def test_a_query_that_waits_past_its_deadline_leaves_the_queue(callers, embedder):
    callers.lead("alpha", embedder)
    callers.add("beta")
    gone = callers.pool.submit(within, 0.05, callers.encoder.encode, ["gamma"])
    with pytest.raises(DeadlinePassed):
        gone.result(DEADLINE_S)
    callers.add("delta")
    embedder.gate.release(1000)
    for text in ("alpha", "beta", "delta"):
        assert np.array_equal(callers.vector(text), vector_of(text))
    with pytest.raises(DeadlinePassed):
        within(0, callers.encoder.encode, ["never run"])
    assert embedder.runs == ["alpha", "beta", "delta"]


@pytest.mark.parametrize(("end", "now", "seconds"), [(math.inf, 4.5, -1), (5.0, 4.5, 0.5), (5.0, 6.0, 0.0)])
def test_a_turn_that_comes_just_after_the_deadline_goes_to_the_next(monkeypatch, end, now, seconds):
    """The lock is handed over between the end of the wait and the caller's leave."""
    lock, seen, real_lock = FairLock(), [], threading.Lock

    class Late:
        def __init__(self):
            self.lock = real_lock()

        def acquire(self, timeout=None):
            if timeout is None:
                return self.lock.acquire()
            assert (timeout, len(lock._urgent)) == (seconds, 1)
            lock._pass_on()
            return False

        def release(self):
            seen.append(self)

    with lock.turn(math.inf):
        monkeypatch.setattr("rag.query.model_queue.threading.Lock", Late)
        times = iter([4.0, now])
        monkeypatch.setattr("rag.query.model_queue.time", SimpleNamespace(monotonic=lambda: next(times)))
        with pytest.raises(DeadlinePassed), lock.turn(end):
            pass
        assert not lock._is_taken
    assert len(seen) == 1
    monkeypatch.setattr("rag.query.model_queue.time", SimpleNamespace(monotonic=lambda: 4.0))
    with pytest.raises(DeadlinePassed), lock.turn(4.0):
        pass


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
        assert np.array_equal(model.encoder.encode(["query"])[0], vector_of("query"))
        assert not batch.done()
        gate.set()
        assert np.array_equal(batch.result(DEADLINE_S).vectors[399], vector_of("another"))


@pytest.mark.parametrize(
    ("sizes", "ends"),
    [
        ([], []), ([300], [1]), ([100, 156], [2]), ([100, 157], [1, 2]), ([1, 255, 1, 255], [2, 4]),
        ([0, 300, 0], [1, 2, 3]),
    ],
)  # fmt: skip
def test_a_run_has_at_most_256_tokens(sizes, ends):
    assert [*split_runs(sizes)] == [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]


def test_queries_are_embedded_with_their_tokens_in_runs():
    texts, embedder = ["two words", "x " * 254, "τρεις", "a fourth"], DummyEmbedder()
    embedded = QueryEncoder(embedder).encode_tokens([embedder.tokenize_query(text) for text in texts])
    for query, expected in zip(embedded, embedder.encode_query_tokens(texts), strict=True):
        assert np.array_equal(query.vector, expected.vector)
        assert np.array_equal(query.tokens, expected.tokens)
        assert query.broken == expected.broken


def test_pairs_are_scored_to_the_end_or_not_at_all(model, monkeypatch):
    queue, texts = RerankQueue(model), ["vacuum " * 200, "a table " * 60, "the vacuum " * 100]
    rows = model.pairs("vacuum", texts)
    expected = DummyCrossEncoder().logits(rows)
    assert np.array_equal(queue.score(rows), expected)
    assert np.array_equal(queue.score_best("vacuum", texts), expected)
    assert model.runs == [1] * 6
    assert queue.score([]).shape == (0,)
    monkeypatch.setattr("rag.query.model_queue.time.monotonic", lambda: 50.0 * len(model.runs))
    with pytest.raises(DeadlinePassed):  # after the second run
        within(60, queue.score, rows)
    assert len(model.runs) == 8


def test_searches_go_before_those_who_can_wait(monkeypatch):
    model, order = DummyCrossEncoder(), []
    gate, inside = threading.Event(), threading.Event()

    def gated(rows):
        inside.set()
        assert gate.wait(300)
        order.append(len(rows))
        return np.zeros(len(rows), np.float32)

    model.logits = gated
    queue = RerankQueue(model)
    threads = [threading.Thread(target=queue.score, args=(model.pairs("a", ["b"] * 1),))]
    threads[0].start()
    assert inside.wait(300)
    threads += [threading.Thread(target=queue.score, args=(model.pairs("a", ["b"] * 2),))]
    threads += [threading.Thread(target=queue.score_best, args=("a", ["b"] * 3))]
    threads[1].start()
    threads[2].start()
    wait_for(lambda: waiting(queue._lock) == 2)
    gate.set()
    for thread in threads:
        thread.join(300)
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
    assert plain.took_ms["rerank"] == 0 < answer.took_ms["rerank"] < answer.took_ms["total"]
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
    monkeypatch.setattr("rag.query.model_queue.time.monotonic", lambda: 100.0 + 50 * len(begun))
    answer = within(60, partial(asked, retriever, per_document=0))
    assert len(begun) == 1, "the second run would begin after seven tenths of the time"
    assert 0 < answer.reranked.scored < answer.reranked.candidates
    assert sum(hit.scores["rerank"] is not None for hit in answer.hits) == answer.reranked.scored
    assert answer.as_dict()["reranked"] == asdict(answer.reranked)


def test_without_a_cross_encoder_it_is_refused(site, retriever):
    with pytest.raises(NotConfigured, match="set rerank_model"):
        asked(Retriever(retriever.generation, retriever.embedder))


@pytest.fixture
def caller():
    """Leave the name of the caller as it was."""
    token = caller_name.set("")
    yield caller_name.set
    caller_name.reset(token)


def test_the_values_used_last_are_kept_up_to_a_number_of_bytes(caller):
    cache = QueryCache(3 * (ENTRY_OVERHEAD_BYTES + 10))
    for name in "abc":
        cache.put(name, 10, "letters", name)
    assert cache.get("letters", "a") == "a"
    cache.put("d", 10, "letters", "d")
    assert [cache.get("letters", name) for name in "abcd"] == ["a", None, "c", "d"]
    cache.put("larger than all", 4 * ENTRY_OVERHEAD_BYTES, "letters", "e")
    cache.put("again", 10, "letters", "a")
    assert [cache.get("letters", name) for name in "acde"] == ["again", "c", "d", None]
    assert cache.get("digits", "a") is None
    for number in range(2_000):
        cache.put(number, 10, "numbers", number)
    assert [number for number in range(2_000) if cache.get("numbers", number) is not None] == [1_997, 1_998, 1_999]


@pytest.mark.parametrize(("megabytes", "runs"), [(16, [1, 1, 1, 2]), (0, [1, 2, 3, 4])])
def test_a_repeated_query_is_worked_out_once_for_each_caller(site, caller, megabytes, runs):
    site.build()
    embedder, lookups = DummyEmbedder(), []
    settings = load({"index": str(site.index), "query_cache": str(megabytes)}, {})
    live = LiveRetriever(Follower(settings, lambda settings: embedder))
    live.follower.cache.on_lookup = lambda kind, found: lookups.append((kind, found))
    start(live)
    lookups.clear()
    before, request = embedder.encoded, SearchRequest("dead tuples", k=2)
    first = live.search(request)
    counts, again = [embedder.encoded - before], []
    # the same, another page of it, and another caller
    for name, asked in [("", request), ("", SearchRequest("dead tuples", k=2, offset=1)), ("key", request)]:
        caller(name)
        again.append(live.search(asked))
        counts.append(embedder.encoded - before)
    live.close()
    assert counts == runs
    assert replace(again[0], took_ms={}) == replace(again[2], took_ms={}) == replace(first, took_ms={})
    assert again[1].hits[0].id == first.hits[1].id
    missed = [("answers", False), ("vectors", False)]
    expected = [*missed, ("answers", True), ("answers", False), ("vectors", True), *missed]
    assert lookups == (expected if megabytes else [])


def test_an_entry_takes_the_bytes_of_its_vector_and_its_tokens():
    vector, tokens, _ = QueryEncoder(DummyEmbedder()).embed_query("two words", with_tokens=True)
    size = ENTRY_OVERHEAD_BYTES + vector.nbytes + tokens.nbytes
    for room, runs in ((size, 1), (size - 1, 2)):
        encoder = QueryEncoder(DummyEmbedder(), QueryCache(room))
        for _ in range(2):
            encoder.embed_query("two words", with_tokens=True)
        assert encoder.embedder.encoded == runs


def test_an_answer_ends_with_its_generation(site, live):
    site.build()
    start(live)
    assert live.search(SearchRequest("vacuum", k=1)).hits[0].title == "Vacuum"
    (site.source / "vacuum.md").write_text("# Cleaning\n\nVacuum reclaims the storage that dead tuples occupy.\n")
    generation = site.build()
    wait_for(lambda: live.search(SearchRequest("vacuum", k=1)).generation == generation)
    assert live.search(SearchRequest("vacuum", k=1)).hits[0].title == "Cleaning"
