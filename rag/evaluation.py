"""Retrieval quality on a dataset in BEIR's layout, scored by ir-measures (the trec_eval implementation)."""

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
from ir_measures import RR, R, nDCG

from embedder.protocol import Embedder
from rag.errors import DatasetError, QueryError
from rag.retriever import MODES

CANDIDATES = 100


@dataclass(frozen=True, slots=True)
class Dataset:
    """A BEIR test split."""

    corpus: dict[str, str]  # document id: title + " " + text
    queries: dict[str, str]  # only those that are judged
    judgements: dict[str, dict[str, int]]  # query id: document id: relevance


def read_dataset(folder: Path) -> Dataset:
    """Read corpus.jsonl, queries.jsonl and qrels/test.tsv. Raises DatasetError naming the file and line."""
    corpus = {
        row["_id"]: f"{row.get('title', '')} {row['text']}".strip() for row in _json_lines(folder / "corpus.jsonl")
    }
    judgements: dict[str, dict[str, int]] = {}
    path = folder / "qrels" / "test.tsv"
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                judgements.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise DatasetError(
            f"{path} cannot be read ({error}): it needs query-id, corpus-id and score columns"
        ) from error
    queries = {row["_id"]: row["text"] for row in _json_lines(folder / "queries.jsonl") if row["_id"] in judgements}
    if not corpus or not queries:
        raise DatasetError(f"{folder} has no documents or no judged queries: is it in BEIR's layout?")
    return Dataset(corpus, queries, judgements)


def evaluate(dataset: Dataset, embedder: Embedder, *, mode: str = "dense") -> dict[str, Any]:
    """Return nDCG@10, MRR@10 and recall@100 over the judged queries. Raises QueryError for an unknown mode."""
    if mode not in MODES:
        raise QueryError(f"mode must be one of {', '.join(MODES)}, not {mode!r}")
    documents = list(dataset.corpus)
    vectors = embedder.encode(list(dataset.corpus.values()), role="document")
    queries = embedder.encode(list(dataset.queries.values()), role="query")
    run: dict[str, dict[str, float]] = {}
    for query_id, vector in zip(dataset.queries, queries, strict=True):
        scores = vectors @ vector  # exact: the quality of the vectors, not of an index type
        best = np.argsort(-scores)[:CANDIDATES]
        run[query_id] = {documents[row]: float(scores[row]) for row in best}
    measured = ir_measures.calc_aggregate([nDCG @ 10, RR @ 10, R @ 100], dataset.judgements, run)
    return {
        "ndcg@10": round(measured[nDCG @ 10], 4),
        "mrr@10": round(measured[RR @ 10], 4),
        "recall@100": round(measured[R @ 100], 4),
        "queries": len(dataset.queries),
        "mode": mode,
    }


def _json_lines(path: Path) -> list[dict[str, Any]]:
    rows = []
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                row = json.loads(line)
                if not isinstance(row, dict) or "_id" not in row or "text" not in row:
                    raise DatasetError(f"{path} line {number} has no _id and text: is it in BEIR's layout?")
                rows.append(row)
    except (OSError, ValueError) as error:
        raise DatasetError(f"{path} cannot be read ({error}): is it in BEIR's layout?") from error
    return rows
