"""How search and the index grow: the whole query and its parts, recall, filters, memory and bytes a chunk."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmark.measure import interleave, summarise
from benchmark.report import Row
from benchmark.scale_corpus import REAL, SHARES, TOP, Truth, Vectors, name_of, queries, read_real, write_index
from benchmark.serving import serving
from embedder import Embeddings
from indexer.filter import Filter
from indexer.stores.store import Searchable
from rag.query.request import Mode, SearchRequest
from rag.query.retriever import CANDIDATES, Retriever

QUERIES = 200
_MEASURED = 100  # of them, for time; recall takes all


def search(source: Path, chunks: int, repeat: int, work: Path) -> list[Row]:
    """Embed a query, search by meaning, by words, and answer the whole query, with and without filters."""
    ours = Embeddings()
    built = built_at(source, chunks, ours, work)
    questions = queries(json.loads((work / "real.json").read_text(encoding="utf-8")), QUERIES)
    vectors = ours.encode(questions, role="query")
    truth = np.load(work / f"truth-{chunks}.npy")
    retriever = Retriever.open(built["index"], ours)
    retriever.warm()
    generation = retriever.generation
    kept = {share: Filter.parse({"metadata": {"share": name_of(share)}}) for share in SHARES}
    kept = {share: only for share, only in kept.items() if generation.search_vectors(vectors[0], 1, only)[1].size}
    rows = _times(retriever, questions, vectors, kept, repeat)
    by_name = {row["name"]: row for row in rows}
    for share, true in zip([None, *SHARES], truth, strict=True):
        if share is None or share in kept:
            only = None if share is None else kept[share]
            by_name["dense" + _label(share)]["recall"] = recall(generation, vectors, only, true)
    for row in rows:
        row["name"] += f", {generation.manifest.counts.chunks:,} chunks"
    rows.append(_sizes(built, generation.manifest.counts.chunks))
    rows.append(_memory(built["index"], questions, generation.manifest.counts.chunks))
    return rows


def built_at(source: Path, chunks: int, embedder: Embeddings, work: Path) -> dict[str, Any]:
    """Write the index and the true neighbours, unless they are in the folder from an earlier run."""
    folder, note = work / f"index-{chunks}", work / f"index-{chunks}.json"
    if not note.exists():
        real = read_real(source, min(chunks, REAL), embedder, work)
        truth = Truth(embedder.encode(queries(real.texts, QUERIES), role="query"))
        built = write_index(real, chunks, folder, embedder, truth)
        np.save(work / f"truth-{chunks}.npy", truth.rows)
        note.write_text(json.dumps(built), encoding="utf-8")
    return {"index": folder, **json.loads(note.read_text(encoding="utf-8"))}


def _times(
    retriever: Retriever, questions: Sequence[str], vectors: Vectors, filters: Mapping[float, Filter], repeat: int
) -> list[Row]:
    generation, ours = retriever.generation, retriever.embedder

    def dense(only: Filter | None = None) -> Callable[[int], object]:
        return lambda i: generation.search_vectors(vectors[i], CANDIDATES, only)

    def whole(mode: Mode = "hybrid", only: Filter | None = None) -> Callable[[int], object]:
        return lambda i: retriever.answer_query(SearchRequest(questions[i], k=10, mode=mode, filter=only))

    contestants: dict[str, Callable[[int], object]] = {
        "embed": lambda i: ours.encode([questions[i]], role="query"),
        "dense": dense(),
        "lexical": lambda i: generation.search_terms(generation.read_query(questions[i]), CANDIDATES),
        "whole, hybrid": whole(),
        "whole, dense": whole("dense"),
    }
    for share, only in filters.items():
        contestants |= {"dense" + _label(share): dense(only), "whole, hybrid" + _label(share): whole("hybrid", only)}
    seconds = interleave(contestants, range(min(_MEASURED, len(questions))), repeat)
    embedding = np.median(seconds["embed"])
    rows = []
    for name, values in seconds.items():
        row = {"name": name, "contestant": "Pilotlight", **summarise(values)}
        row["p99_ms"] = round(float(np.percentile(values, 99)) * 1000, 3)
        if name.startswith("whole"):
            row["vs_embedding"] = round(float(np.median(values) / embedding), 2)
        rows.append(row)
    return rows


def _label(share: float | None) -> str:
    return "" if share is None else f", filter keeps {name_of(share)}"


def recall(generation: Searchable, vectors: Vectors, only: Filter | None, truth: np.ndarray[Any, Any]) -> float:
    """Return the share of the true neighbours among the first that are found, each of which a filter allows."""
    hits = wanted = 0
    for vector, true in zip(vectors, truth, strict=True):
        found = generation.search_vectors(vector, CANDIDATES, only)[1][:TOP]
        hits += len(set(found.tolist()) & set(true[true >= 0].tolist()))
        wanted += int((true >= 0).sum())
    return round(hits / max(1, wanted), 4)


def _sizes(built: dict[str, Any], chunks: int) -> Row:
    total, parts = sum(built["bytes"].values()), {"lexical": 0}
    for name, size in built["bytes"].items():
        part = name.split("/")[0]
        parts[part] = parts.get(part, 0) + size
    seconds = {stage: round(value, 1) for stage, value in built["seconds"].items()}
    return {
        "name": f"the index, {chunks:,} chunks",
        "contestant": "Pilotlight",
        "bytes_per_chunk": round(total / chunks),
        "note": "; ".join(f"{name} {size / chunks:.0f} bytes" for name, size in parts.items())
        + f"; written in {', '.join(f'{stage} {value} s' for stage, value in seconds.items())}",
    }


def _memory(folder: Path, questions: Sequence[str], chunks: int) -> Row:
    with serving(folder) as server:
        server.first_answer(questions[0])
        for question in questions:
            server.ask(question)
        rss, pss = (round(max(sizes)) for sizes in zip(*server.workers_memory(), strict=True))
    name = f"memory of a serving worker, {chunks:,} chunks"
    return {"name": name, "contestant": "Pilotlight serve", "rss_mb": rss, "pss_mb": pss}
