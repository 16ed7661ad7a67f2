"""SciFact from the embedded store and from Milvus: the answers beside each other, and how well each one ranks.

`python -m tests.quality.milvus BEIR_DIR` prints the table; Milvus is Milvus Lite, or with --to another store.
"""

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
from ir_measures import nDCG

from embedder.protocol import Embedder
from indexer.cut.chunking import hash_text
from indexer.generation.manifest import Counts, Manifest
from indexer.generation.signature import signature
from indexer.records import Chunk, Document
from indexer.stores.folder_store import FolderStore
from indexer.stores.milvus.milvus_store import MilvusStore
from indexer.stores.store import ScannedDocument, Searchable
from rag.evaluation.dataset import Dataset, read_dataset
from rag.query.options import MODES
from rag.query.request import SearchRequest
from rag.query.retriever import Retriever

GENERATION = "20260101T000000-000000"
K = 10
_AT_ONCE = 256


def entries(dataset: Dataset, embedder: Embedder) -> Iterator[ScannedDocument]:
    """Every abstract as a document of one passage."""
    texts = list(dataset.corpus.items())
    for start in range(0, len(texts), _AT_ONCE):
        some = texts[start : start + _AT_ONCE]
        vectors = embedder.encode([text for _, text in some], role="document").astype(np.float16).astype(np.float32)
        for (id, text), vector in zip(some, vectors, strict=True):
            url = f"https://scifact.test/{id}"
            chunk = Chunk(id, url, url, "", "", text, "", hash_text(text), 0, 0)
            document = Document(url, "scifact", "", (), hash_text(text), None, None, "2026-01-01T00:00:00+00:00")
            yield ScannedDocument(document, [chunk], [signature(text)], vector[np.newaxis])


def compare(folder: Path, place: str, dataset: Dataset, embedder: Embedder) -> dict[str, dict[str, Any]]:
    """For each mode: the share of the first ten that both stores give, and nDCG@10 of either.

    Args:
        folder: for the embedded store.
        place: address of a collection in Milvus.
        dataset: documents, queries and judgements.
        embedder: of both.
    """
    embedded, milvus = FolderStore(folder), MilvusStore.at(place)
    counts = Counts(len(dataset.corpus), len(dataset.corpus), embedder.dimension)
    manifest = Manifest(GENERATION, "2026-01-01T00:00:00+00:00", embedder.fingerprint, counts, {}, {}, ["scifact"], {})
    embedded.write(manifest, entries(dataset, embedder))
    with closing(embedded.read(GENERATION)) as reading:
        milvus.write(reading.manifest, reading.entries())
    vectors = embedder.encode(list(dataset.queries.values()), role="query")
    opened = embedded.open(GENERATION), milvus.open(GENERATION)
    found = {mode: [_runs(one, embedder, dataset, vectors, mode) for one in opened] for mode in MODES}
    return {
        mode: {
            "overlap@10": round(float(np.mean([len({*ours[q]} & {*theirs[q]}) / len(ours[q]) for q in ours])), 4),
            "embedded ndcg@10": round(ir_measures.calc_aggregate([nDCG @ K], dataset.judgements, ours)[nDCG @ K], 4),
            "milvus ndcg@10": round(ir_measures.calc_aggregate([nDCG @ K], dataset.judgements, theirs)[nDCG @ K], 4),
        }
        for mode, (ours, theirs) in found.items()
    }


def _runs(
    generation: Searchable, embedder: Embedder, dataset: Dataset, vectors: np.ndarray, mode: str
) -> dict[str, dict[str, float]]:
    retriever = Retriever(generation, embedder)
    return {
        id: {
            hit.id: hit.score
            for hit in retriever.search(
                SearchRequest(query, k=K, mode=mode), None if mode == "lexical" else vector
            ).hits
        }
        for (id, query), vector in zip(dataset.queries.items(), vectors, strict=True)
    }


def main() -> None:
    """Print the table in Markdown."""
    from embedder import EmbedderConfig, Embeddings

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", type=Path, help="folder in BEIR's layout")
    parser.add_argument("--to", help="address of a collection in Milvus")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = args.to or f"milvus+lite://{folder}/milvus.db/scifact"
        table = compare(Path(folder) / "index", place, read_dataset(args.dataset), Embeddings(EmbedderConfig()))
    print("| mode | overlap@10 | nDCG@10 embedded | nDCG@10 Milvus |\n|---|---|---|---|")
    for mode, row in table.items():
        print(f"| {mode} | {' | '.join(map(str, row.values()))} |")


if __name__ == "__main__":
    main()
