"""The whole path on SciFact: words on all of it, vectors on a twelfth.

Nothing is trained on it. With the engine and precision of this machine; tests/embedder/engines/test_agreement.py holds
the others to the same vectors. All of it takes a processor without AVX-512 seven minutes to embed: `pilotlight eval`
does that, and docs/evaluation.md has the figures, which are lower, as there is more among which to be found.
"""

import numpy as np
import pytest

from embedder import Embeddings
from embedder.late_interaction import DocumentTokens
from rag.evaluation.evaluation import Dataset, evaluate, read_dataset

pytestmark = [pytest.mark.model, pytest.mark.longest, pytest.mark.thorough]


class Remembering:
    """Embeds a text once; a vector does not depend on the texts beside it."""

    def __init__(self, embedder):
        self._embedder = embedder
        self._queries, self._documents = {}, {}
        self.fingerprint, self.dimension, self.maxsim = embedder.fingerprint, embedder.dimension, embedder.maxsim
        self.has_word, self.count_broken = embedder.has_word, embedder.count_broken
        self.tokenize, self.encode_ids = embedder.tokenize, embedder.encode_ids
        self.is_multilingual = embedder.is_multilingual
        self.count_tokens, self.max_length = embedder.count_tokens, embedder.max_length

    def encode(self, texts, *, role="document"):
        if role == "query":
            return np.stack([made.vector for made in self.encode_query_tokens(texts)])
        return self.encode_document_tokens(texts).vectors

    def encode_query_tokens(self, texts):
        if new := [text for text in dict.fromkeys(texts) if text not in self._queries]:
            self._queries.update(zip(new, self._embedder.encode_query_tokens(new), strict=True))
        return [self._queries[text] for text in texts]

    def encode_document_tokens(self, texts, rows=None):
        if new := [text for text in dict.fromkeys(texts) if text not in self._documents]:
            made = self._embedder.encode_document_tokens(new)
            self._documents.update((text, made.take(np.array([i]))) for i, text in enumerate(new))
        return DocumentTokens.concatenate([self._documents[text] for text in texts])


@pytest.fixture(scope="module")
def dataset(scifact) -> Dataset:
    return read_dataset(scifact)


@pytest.fixture(scope="module")
def part(dataset) -> Dataset:
    """Every second question, the abstracts that answer one of these, and of the others every twentieth."""
    queries = dict(list(dataset.queries.items())[::2])
    judgements = {id: dataset.judgements[id] for id in queries}
    judged = {document for answers in judgements.values() for document in answers}
    corpus = {id: text for place, (id, text) in enumerate(dataset.corpus.items()) if id in judged or place % 20 == 0}
    return Dataset(corpus, queries, judgements)


@pytest.fixture(scope="module")
def embedder() -> Remembering:
    return Remembering(Embeddings())


def test_by_meaning(part, embedder):
    dense = evaluate(part, embedder, mode="dense", tokens=False)
    assert dense["queries"] == 150
    assert dense["ndcg@10"] == pytest.approx(0.857, abs=0.004)
    assert dense["recall@100"] > 0.98


def test_by_both(part, embedder):
    hybrid = evaluate(part, embedder, mode="hybrid", tokens=False)
    assert hybrid["ndcg@10"] == pytest.approx(0.895, abs=0.005)
    assert hybrid["recall@100"] > 0.98


def test_by_tokens(part, embedder):
    dense = evaluate(part, embedder, mode="dense")
    assert dense["tokens"]
    assert dense["ndcg@10"] >= 0.88
    hybrid = evaluate(part, embedder, mode="hybrid")
    assert hybrid["ndcg@10"] >= 0.89


def test_by_words(dataset, embedder):
    lexical = evaluate(dataset, embedder, mode="lexical")
    assert lexical["ndcg@10"] == pytest.approx(0.695, abs=0.002)
