"""Searches whose best candidates a cross-encoder reads again."""

from contextvars import Context
from functools import partial

import numpy as np
import pytest
from msgspec.structs import asdict, astuple

from rag import deadline
from rag.errors import NotConfigured
from rag.query.request import SearchRequest
from rag.query.retriever import Retriever
from rag.query.served_model import RerankQueue
from tests.dummy import DummyCrossEncoder, DummyEmbedder

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


def within(seconds, work, *arguments):
    context = Context()
    context.run(deadline.begin, seconds)
    return context.run(work, *arguments)


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
