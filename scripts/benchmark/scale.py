"""How search and the index grow: the whole query and its parts, recall, filters, memory and bytes a chunk.

The corpus is of any size: first real passages, then perturbed ones. A perturbed passage has two parents among the real
ones. Its text takes sentences of both, more of the first; its vector is the same mixture of theirs, with noise, at unit
length. Neighbours are thus neither copies nor strangers. Everything follows from fixed seeds, block by block, so that
no more than a block is ever in memory.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmark.corpus import read_chunks
from benchmark.measure import Row, interleave, summarise
from benchmark.serving import serving
from embedder import Embeddings
from embedder.text_embedder import Embedder
from indexer.filter import Filter
from indexer.generation.generation import Generation
from indexer.generation.manifest import Manifest
from indexer.generation.writer import GenerationWriter
from indexer.publish.publish import prepare, publish, start, writer_lock
from indexer.records import Chunk, Document
from indexer.stores.store import Searchable
from rag.query.request import Mode, SearchRequest
from rag.query.retriever import CANDIDATES, Retriever

QUERIES = 200
_MEASURED = 100  # of them, for time; recall takes all
SHARES = (0.5, 0.1, 0.01, 0.001)  # of the documents, which a filter by metadata keeps
REAL = 20_000  # passages embedded at most
TOP = 10  # true neighbours kept for each query
_PER_DOCUMENT = 10
_BLOCK = 20_000
_NOISE = 0.35  # length of the noise beside a vector of length 1: a cosine of 0.94
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_WORDS = (6, 18)  # of a sentence that serves as a query

Vectors = npt.NDArray[np.float32]
Real = tuple[list[str], Vectors]  # passages, and their vectors, float32 (n, dimension)


def search(source: Path, chunks: int, repeat: int, work: Path) -> list[Row]:
    """Embed a query, search by meaning, by words, and answer the whole query, with and without filters."""
    ours = Embeddings()
    built = built_at(source, chunks, ours, work)
    questions = queries(json.loads((work / "real.json").read_text(encoding="utf-8")), QUERIES)
    vectors = ours.encode(questions, role="query")
    truth = np.load(work / f"truth-{chunks}.npy")
    retriever = Retriever(Generation.open(built["index"]), ours)
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
        truth = Truth(embedder.encode(queries(real[0], QUERIES), role="query"))
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


def read_real(source: Path, count: int, embedder: Embedder, kept: Path) -> Real:
    """Read and embed up to `count` passages of a folder, or take those in `kept` from an earlier run."""
    texts_file, vectors_file = kept / "real.json", kept / "real.npy"
    if not vectors_file.exists():
        texts = read_chunks(source, min(count, REAL), embedder)
        texts_file.write_text(json.dumps(texts), encoding="utf-8")
        np.save(vectors_file, embedder.encode(texts))
    return json.loads(texts_file.read_text(encoding="utf-8")), np.load(vectors_file)


def blocks(real: Real, count: int) -> Iterator[tuple[list[str], Vectors]]:
    """Yield texts and their vectors, at most 20,000 at a time, until there are `count`."""
    real_texts, real_vectors = real
    sentences = [_SENTENCE.split(text) for text in real_texts]
    for first in range(0, min(count, len(real_texts)), _BLOCK):
        last = min(first + _BLOCK, count, len(real_texts))
        yield real_texts[first:last], real_vectors[first:last]
    for first in range(len(real_texts), count, _BLOCK):
        size = min(_BLOCK, count - first)
        rng = np.random.default_rng(first)
        one, other = rng.integers(len(sentences), size=(2, size))
        share = rng.uniform(0.5, 1, size).astype(np.float32)
        noise = rng.standard_normal((size, real_vectors.shape[1]), dtype=np.float32)
        mixed = share[:, None] * real_vectors[one] + (1 - share[:, None]) * real_vectors[other]
        mixed += noise * (_NOISE / np.sqrt(real_vectors.shape[1]))
        mixed /= np.linalg.norm(mixed, axis=1, keepdims=True)
        yield [_exchange(sentences[a], sentences[b], s) for a, b, s in zip(one, other, share, strict=True)], mixed


def _exchange(one: Sequence[str], other: Sequence[str], share: float) -> str:
    """Take the first sentences of one passage and the last of the other."""
    kept, taken = max(1, round(len(one) * share)), round(len(other) * (1 - share))
    return "\n".join([*one[:kept], *(other[-taken:] if taken else ())])


def queries(texts: Sequence[str], count: int) -> list[str]:
    """Choose short sentences of different passages."""
    found: list[str] = []
    for number in np.random.default_rng(1).permutation(len(texts)):
        fitting = [s for s in _SENTENCE.split(texts[number]) if _WORDS[0] <= len(s.split()) <= _WORDS[1]]
        if fitting:
            found.append(fitting[len(fitting) // 2].strip())
        if len(found) == count:
            break
    return found


class Truth:
    """The true neighbours of each query, in all and within each share; found block by block in float32."""

    def __init__(self, questions: Vectors, shares: int = len(SHARES)) -> None:
        self._questions = questions
        self._scores = np.full((shares + 1, len(questions), TOP), -np.inf, dtype=np.float32)
        self.rows = np.full(self._scores.shape, -1, dtype=np.int64)  # (all and shares, queries, TOP)

    def add(self, first: int, vectors: Vectors, shares: npt.NDArray[np.bool_]) -> None:
        """Take the next vectors, from row `first` on, and which of them each share keeps, bool (shares, n)."""
        scores = self._questions @ vectors.T
        for i, kept in enumerate([None, *shares]):
            allowed = np.arange(len(vectors)) if kept is None else np.flatnonzero(kept)
            both = np.concatenate([self._scores[i], scores[:, allowed]], axis=1)
            rows = np.broadcast_to(allowed + first, (len(both), len(allowed)))
            rows = np.concatenate([self.rows[i], rows], axis=1)
            best = np.argpartition(-both, TOP - 1, axis=1)[:, :TOP]
            self._scores[i] = np.take_along_axis(both, best, axis=1)
            self.rows[i] = np.take_along_axis(rows, best, axis=1)


def write_index(real: Real, count: int, index: Path, embedder: Embedder, truth: Truth | None = None) -> dict[str, Any]:
    """Write an index of `count` passages, as a build does but for reading, cutting and embedding.

    A part of the documents, chosen at random, has each share as metadata `share`.

    Returns seconds by stage, and bytes by file.
    """
    prepare(index)
    seconds = dict.fromkeys(("make", "store", "finish", "publish"), 0.0)
    rng = np.random.default_rng(7)
    with writer_lock(index):
        folder = start(index)
        writer = GenerationWriter(folder, embedder.dimension)
        try:
            row, clock = 0, time.perf_counter()
            for texts, vectors in blocks(real, count):
                chosen = rng.random((-(-len(texts) // _PER_DOCUMENT), 1)) < np.array(SHARES)
                if truth:
                    truth.add(row, vectors, np.repeat(chosen, _PER_DOCUMENT, axis=0)[: len(texts)].T)
                clock = _lap(seconds, "make", clock)
                for number, kept in enumerate(chosen):
                    part = texts[number * _PER_DOCUMENT : (number + 1) * _PER_DOCUMENT]
                    writer.add(*_document(row // _PER_DOCUMENT, row, part, kept))
                    row += len(part)
                writer.vectors.add(vectors)
                clock = _lap(seconds, "store", clock)
            files = writer.finish()
            clock = _lap(seconds, "finish", clock)
            created = datetime.now(UTC).isoformat(timespec="seconds")
            fingerprint, counts = dict(embedder.fingerprint), writer.counts
            manifest = Manifest(
                folder.name, created, fingerprint, counts, files, {}, ["benchmark"], {}, writer.languages
            )
        finally:
            writer.close()
        publish(index, folder, manifest)
        _lap(seconds, "publish", clock)
    return {"seconds": seconds, "bytes": {name: record.size for name, record in files.items()}}


def _document(number: int, row: int, texts: Sequence[str], kept: npt.NDArray[np.bool_]) -> tuple[Document, list[Chunk]]:
    url = f"https://corpus.test/{number % 97}/{number}-{row}"
    names = tuple(name_of(share) for share, is_kept in zip(SHARES, kept, strict=True) if is_kept)
    metadata = {"share": names} if names else {}
    title = " ".join(texts[0].split()[:6])
    document = Document(url, "benchmark", title, (), "", None, None, "2026-01-01T00:00:00", metadata=metadata)
    chunks = [
        Chunk(f"{row + i}", f"{url}#{i}", url, title, "", text, text, f"{row + i}", len(text.split()), i)
        for i, text in enumerate(texts)
    ]
    return document, chunks


def name_of(share: float) -> str:
    """Name a share as the metadata of a document does."""
    return f"{share:.1%}"


def _lap(seconds: dict[str, float], stage: str, since: float) -> float:
    now = time.perf_counter()
    seconds[stage] += now - since
    return now
