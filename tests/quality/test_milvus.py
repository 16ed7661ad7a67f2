"""The REST answers of both stores agree: the bars of docs/milvus.md, on SciFact."""

import pytest

from embedder import EmbedderConfig, Embeddings
from rag.evaluation import read_dataset
from tests.quality.milvus import compare

pytestmark = pytest.mark.model


def test_milvus_answers_as_the_embedded_store_does(scifact, tmp_path):
    place = f"milvus+lite://{tmp_path}/milvus.db/scifact"
    for row in compare(tmp_path / "index", place, read_dataset(scifact), Embeddings(EmbedderConfig())).values():
        assert row["overlap@10"] >= 0.95
        assert row["milvus ndcg@10"] == pytest.approx(row["embedded ndcg@10"], abs=0.01)
