"""Callers who embed much take turns, and queries go before all of them."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context

import numpy as np
import pytest

from embedder.errors import EmbedderError
from rag import deadline
from rag.errors import DeadlinePassed
from rag.query import fair_share
from rag.query.batcher import QueryBatcher
from rag.query.fair_share import TURN_TOKENS, FairShare
from tests.dummy import DummyEmbedder
from tests.rag.query.test_batcher import DEADLINE_S, Gated, vector_of, wait_for


class Any(Gated):
    """Takes documents too."""

    def encode(self, texts, *, role="document"):
        return super().encode(texts, role="query")


def as_caller(name, work, *arguments):
    context = Context()
    context.run(fair_share.caller.set, name)
    return context.run(work, *arguments)


@pytest.fixture
def embedder():
    return Any()


@pytest.fixture
def batcher(embedder):
    return QueryBatcher(embedder)


@pytest.fixture
def pool(embedder):
    with ThreadPoolExecutor(16) as made:
        yield made
        embedder.open()


def texts(name, count):
    """As long as one turn each."""
    return [f"{name}{number} ".ljust(TURN_TOKENS, "x") for number in range(count)]


def test_texts_come_back_in_their_order():
    share = FairShare(QueryBatcher(DummyEmbedder()))
    many = [f"text {number}" * (number % 40) for number in range(1, 300)]
    vectors = share.encode(many, "document")
    assert np.array_equal(vectors, DummyEmbedder().encode(many))
    assert share.encode([], "document").shape == (0, DummyEmbedder().dimension)


def test_turns_are_bounded_in_tokens(embedder, batcher):
    embedder.open()
    FairShare(batcher).encode(["short"] * 100, "document")
    assert all(sum(map(batcher.bound, run)) <= TURN_TOKENS for run in embedder.runs)
    assert len(embedder.runs) < 10


def test_a_query_waits_for_one_turn_at_most(embedder, batcher, pool):
    share = FairShare(batcher)
    bulk = pool.submit(share.encode, texts("bulk", 50), "document")
    embedder.started.get(timeout=DEADLINE_S)
    for number in range(5):
        query = pool.submit(batcher.encode, f"query{number}")
        wait_for(lambda: batcher.waiting == 1)
        embedder.gate.release()
        assert embedder.started.get(timeout=DEADLINE_S) == [f"query{number}"]
        embedder.gate.release()
        assert np.array_equal(query.result(DEADLINE_S), vector_of(f"query{number}"))
        assert embedder.started.get(timeout=DEADLINE_S)[0].startswith("bulk")
    embedder.open()
    assert len(bulk.result(DEADLINE_S)) == 50


def test_callers_take_turns_however_much_each_asks_for(embedder, batcher, pool):
    share = FairShare(batcher)
    greedy = [pool.submit(as_caller, "greedy", share.encode, texts("greedy", 20), "document")]
    embedder.started.get(timeout=DEADLINE_S)
    greedy += [pool.submit(as_caller, "greedy", share.encode, texts("greedy", 20), "document") for _ in range(5)]
    modest = pool.submit(as_caller, "modest", share.encode, texts("modest", 3), "document")
    wait_for(lambda: len(share._work) == 2 and len(share._work["greedy"]) == 6)
    embedder.open()
    assert len(modest.result(DEADLINE_S)) == 3
    assert all(len(each.result(DEADLINE_S)) == 20 for each in greedy)
    turns = [run[0][:6] for run in embedder.runs]
    last = max(number for number, turn in enumerate(turns) if turn == "modest")
    assert last <= 7


def test_what_cannot_be_done_in_time_is_refused_at_once(embedder, batcher, pool):
    share = FairShare(batcher)
    embedder.open()
    share.encode(texts("first", 3), "document")
    share._pace = 0.01  # of a slow machine: 2.56 s a turn

    def ask(count):
        deadline.begin(10)
        return share.encode(texts("late", count), "document")

    runs = len(embedder.runs)
    with pytest.raises(DeadlinePassed):
        as_caller("a", ask, 5)
    assert len(embedder.runs) == runs
    assert len(as_caller("a", ask, 3)) == 3


def test_one_that_waits_too_long_leaves_its_turn_to_others(embedder, batcher, pool):
    share = FairShare(batcher)
    first = pool.submit(as_caller, "a", share.encode, texts("a", 2), "document")
    embedder.started.get(timeout=DEADLINE_S)

    def ask():
        deadline.begin(0.05)
        return share.encode(texts("b", 1), "document")

    with pytest.raises(DeadlinePassed):
        as_caller("b", ask)
    embedder.open()
    assert len(first.result(DEADLINE_S)) == 2
    assert share._work == {}


def test_one_that_fails_leaves_its_turn_to_others(embedder, batcher):
    embedder.bad = {"bad"}
    embedder.open()
    share = FairShare(batcher)
    with pytest.raises(EmbedderError, match="cannot embed bad"):
        share.encode(["bad"], "document")
    assert len(share.encode(["good"], "document")) == 1


def test_many_at_once():
    share = FairShare(QueryBatcher(DummyEmbedder()))
    together = threading.Barrier(8)

    def ask(name):
        together.wait(DEADLINE_S)
        for turn in range(10):
            mine = [f"{name} {turn} {number}" for number in range(30)]
            assert np.array_equal(as_caller(name, share.encode, mine, "document"), DummyEmbedder().encode(mine))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, "aabbccdd", timeout=DEADLINE_S * 4)) == [None] * 8
