"""Corpora of any size, and the true neighbours in them."""

import importlib
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from indexer.filter import Filter
from indexer.generation.generation import Generation
from tests.dummy import DummyEmbedder

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))


def module(name: str) -> ModuleType:
    return importlib.import_module(f"benchmark.{name}")


def real(count: int = 40, dimension: int = 8):
    vectors = np.random.default_rng(0).standard_normal((count, dimension)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    middle = "goes on for one sentence more"
    texts = [f"Passage {i} begins with words of its own. Number {i} {middle}. That ends {i}." for i in range(count)]
    return module("scale_corpus").Real(texts, vectors)


def test_a_corpus_starts_with_the_real_passages_and_goes_on_with_mixtures_of_two(monkeypatch):
    corpus = module("scale_corpus")
    monkeypatch.setattr(corpus, "_BLOCK", 32)
    blocks = list(corpus.blocks(real(), 100))
    assert [len(texts) for texts, _ in blocks] == [32, 8, 32, 28]
    texts = [text for part, _ in blocks for text in part]
    vectors = np.concatenate([part for _, part in blocks])
    assert texts[:40] == real().texts
    assert np.array_equal(vectors[:40], real().vectors)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert len(np.unique(vectors, axis=0)) == 100
    known = {sentence for text in real().texts for sentence in corpus._SENTENCE.split(text)}
    assert all(set(text.split("\n")) <= known for text in texts[40:])
    parents = [{re.search(r"\d+", line)[0] for line in text.split("\n")} for text in texts[40:]]
    assert {len(numbers) for numbers in parents} == {1, 2}
    again = list(corpus.blocks(real(), 100))
    assert all(a == b and np.array_equal(u, v) for (a, u), (b, v) in zip(blocks, again, strict=True))


def test_a_small_corpus_is_the_first_real_passages(monkeypatch):
    blocks = list(module("scale_corpus").blocks(real(), 25))
    assert [text for texts, _ in blocks for text in texts] == real().texts[:25]


def test_true_neighbours_are_those_of_one_exact_search():
    corpus = module("scale_corpus")
    vectors, questions = real(60).vectors, real(5).vectors[::-1].copy()
    shares = np.random.default_rng(3).random((len(corpus.SHARES), 60)) < 0.4
    shares[-1] = False
    truth = corpus.Truth(questions)
    for first in (0, 7, 45):
        last = {0: 7, 7: 45, 45: 60}[first]
        truth.add(first, vectors[first:last], shares[:, first:last])
    scores = questions @ vectors.T
    assert truth.rows.shape == (len(shares) + 1, 5, corpus.TOP)
    for i, kept in enumerate([np.ones(60, dtype=bool), *shares[:-1]]):
        for found, exact in zip(truth.rows[i], np.where(kept, scores, -np.inf), strict=True):
            assert set(found) == set(np.argsort(-exact)[: corpus.TOP])
    assert (truth.rows[-1] == -1).all()


def test_queries_are_sentences_of_different_passages():
    found = module("scale_corpus").queries(real().texts, 12)
    assert len(set(found)) == 12
    assert all(sentence in " ".join(real().texts) for sentence in found)


def test_an_index_at_scale_is_a_whole_generation_with_filters(tmp_path):
    corpus = module("scale_corpus")
    embedder = DummyEmbedder(8)
    truth = corpus.Truth(real(3).vectors)
    built = corpus.write_index(real(), 3_000, tmp_path / "index", embedder, truth)
    generation = Generation.open(tmp_path / "index")
    assert (generation.manifest.counts.chunks, generation.manifest.counts.documents) == (3_000, 300)
    assert {"vectors.faiss", "documents.sqlite", "rows.npy"} <= built["bytes"].keys()
    counts = [
        generation.select(Filter.parse({"metadata": {"share": corpus.name_of(share)}})).count for share in corpus.SHARES
    ]
    assert 1_000 < counts[0] < 2_000
    assert 100 < counts[1] < 600
    only = Filter.parse({"metadata": {"share": "10.0%"}})
    for vector, everything, kept in zip(real(3).vectors, truth.rows[0], truth.rows[2], strict=True):
        assert set(generation.search_vectors(vector, 50)[1][:10]) == set(everything)
        assert set(generation.search_vectors(vector, 50, only)[1][:10]) == set(kept)
    generation.close()
