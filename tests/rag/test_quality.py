"""Retrieval quality on SciFact, as published for the model."""

import pytest

from embedder import EmbedderConfig, Embeddings
from rag.evaluation import evaluate, read_dataset

pytestmark = pytest.mark.model


# The other engines are held to the same vectors by tests/embedder/test_engines.py.
@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_scifact(scifact, precision):
    scores = evaluate(read_dataset(scifact), Embeddings(EmbedderConfig(engine="aot", precision=precision)))
    assert scores["queries"] == 300
    assert scores["ndcg@10"] == pytest.approx(0.645, abs=0.002)
    assert scores["recall@100"] > 0.9
