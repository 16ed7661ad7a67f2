"""The whole path on SciFact: dense as published for the model, hybrid as documented. Nothing is trained on it."""

import pytest

from embedder import Embeddings
from rag.evaluation import evaluate, read_dataset

pytestmark = pytest.mark.model


# With the engine and precision of this machine; tests/embedder/test_engines.py holds the others to the same vectors.
def test_scifact(scifact):
    dataset = read_dataset(scifact)
    embedder = Once(Embeddings())
    dense = evaluate(dataset, embedder, mode="dense")
    assert dense["queries"] == 300
    assert dense["ndcg@10"] == pytest.approx(0.645, abs=0.002)
    assert dense["recall@100"] > 0.9
    hybrid = evaluate(dataset, embedder, mode="hybrid")
    assert hybrid["ndcg@10"] == pytest.approx(0.739, abs=0.003)
    assert hybrid["recall@100"] > 0.95


def test_scifact_by_words(scifact):
    lexical = evaluate(read_dataset(scifact), Once(None), mode="lexical")
    assert lexical["ndcg@10"] == pytest.approx(0.688, abs=0.002)


class Once:
    """Embeds 5,183 abstracts once for both modes."""

    def __init__(self, embedder):
        self._embedder = embedder
        self._vectors = {}

    def encode(self, texts, *, role="document"):
        if role not in self._vectors:
            self._vectors[role] = self._embedder.encode(texts, role=role)
        return self._vectors[role]
