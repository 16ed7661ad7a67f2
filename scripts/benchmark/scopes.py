"""Search within a part of an index, by chance and of one subject, as a key with such a scope gets it."""

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmark.report import Row
from benchmark.scale import QUERIES, recall
from benchmark.scale_corpus import (
    BY_CHANCE,
    BY_SUBJECT,
    REAL,
    SHARES,
    TOP,
    Real,
    Truth,
    Vectors,
    name_of,
    queries,
    read_real,
    write_index,
)
from benchmark.timing import interleave, summarise
from embedder import Embeddings
from indexer.filter import Filter
from rag.query.request import SearchRequest
from rag.query.retriever import CANDIDATES, Retriever

_MEASURED = 100  # queries, for time; recall takes all
_WORDS = 24  # of a passage: vectors are of the whole, and what is written of it would only take time
ALL = "all"


def scopes(source: Path, chunks: int, repeat: int, work: Path) -> list[Row]:
    """Search all passages, and those of each scope: by meaning, by words, and the whole query; recall of the first.

    Times are processor time: those of the slowest calls would else be those of other processes.
    """
    ours = Embeddings()
    folder = _built(source, chunks, ours, work)
    questions = queries(json.loads((work / "real.json").read_text(encoding="utf-8")), QUERIES)
    vectors = ours.encode(questions, role="query")
    retriever = Retriever.open(folder, ours)
    retriever.warm()
    generation = retriever.generation
    parts: dict[str, Filter | None] = {ALL: None}
    for field in (BY_CHANCE, BY_SUBJECT):
        parts |= {
            f"{name_of(share)} by {field}": Filter.parse({"metadata": {field: name_of(share)}}) for share in SHARES
        }
    truth = dict(zip(parts, np.load(work / f"scopes-truth-{chunks}.npy"), strict=True))
    tasks: dict[str, Callable[[int], object]] = {}
    for name, only in parts.items():
        if only is not None and not generation.select(only).count:
            continue
        tasks[f"dense: {name}"] = partial(_dense, retriever, vectors, only)
        for mode in ("lexical", "hybrid"):
            tasks[f"{mode}: {name}"] = partial(_answer, retriever, questions, mode, only)
    seconds = interleave(tasks, range(min(_MEASURED, len(questions))), repeat, clock=time.process_time)
    rows: list[Row] = []
    for name, values in seconds.items():
        kind, _, part = name.partition(": ")
        row: Row = {"name": f"{kind}, {chunks:,} chunks", "contestant": part, **summarise(values)}
        row["vs_all"] = round(row["p95_ms"] / summarise(seconds[f"{kind}: {ALL}"])["p95_ms"], 2)
        if kind == "dense":
            only = parts[part]
            row["recall"] = recall(generation, vectors, generation.select(only) if only else None, truth[part])
        rows.append(row)
    return rows


def _built(source: Path, chunks: int, embedder: Embeddings, work: Path) -> Path:
    """Write the index and the true neighbours, unless they are in the folder from an earlier run."""
    folder, note = work / f"scopes-{chunks}", work / f"scopes-truth-{chunks}.npy"
    if not note.exists():
        real = read_real(source, min(chunks, REAL), embedder, work)
        truth = Truth(embedder.encode(queries(real.texts, QUERIES), role="query"), 2 * len(SHARES))
        short = Real([" ".join(text.split()[:_WORDS]) for text in real.texts], real.vectors)
        write_index(short, chunks, folder, embedder, truth, by_subject=True)
        np.save(note, truth.rows)
    return folder


def _dense(retriever: Retriever, vectors: Vectors, only: Filter | None, i: int) -> object:
    generation: Any = retriever.generation
    return generation.search(vectors[i], CANDIDATES, only and generation.select(only))


def _answer(retriever: Retriever, questions: list[str], mode: str, only: Filter | None, i: int) -> object:
    return retriever.search(SearchRequest(questions[i], k=TOP, mode=mode), seen=only)
