"""Measure the times of a search and its steps, recall, and bytes per passage in a large index (`bench.py search`).

The corpus consists of real passages and any number of perturbed passages. A perturbed passage combines two real ones.
Its text has sentences of both, but more of the first. Its vector mixes their vectors in the same ratio, with noise,
and is normalised. So neighbours are similar but not copies. Passages are generated from fixed seeds, one block after
another, so that only one block is in memory.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmark.corpus import read_chunks
from benchmark.measure import OURS, Row, interleave, summarise
from embedder import Embeddings
from embedder.text_embedder import Embedder
from indexer.filter import Filter
from indexer.generation.generation import Generation
from indexer.generation.manifest import Manifest
from indexer.generation.writer import GenerationWriter
from indexer.publish.publish import prepare, publish, start, writer_lock
from indexer.records import Chunk, Document
from indexer.stores import Searchable
from rag.query.request import Mode, SearchRequest
from rag.query.retriever import CANDIDATES, Retriever

QUERIES = 200
TIMED_QUERIES = 100
SHARES = (0.5, 0.1, 0.01, 0.001)  # fractions of the documents that the filters of the benchmark select
MAX_REAL_PASSAGES = 20_000
TRUE_NEIGHBOURS = 10
_PASSAGES_PER_DOCUMENT = 10
_BLOCK_PASSAGES = 20_000
_NOISE = 0.35  # norm of the noise that is added to unit vectors; the cosine with the original is then 0.94
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_MIN_QUERY_WORDS, _MAX_QUERY_WORDS = 6, 18

Vectors = npt.NDArray[np.float32]
Passages = tuple[list[str], Vectors]  # texts and their vectors, float32 (n, dimension)


def search(source: Path, chunks: int, repeat: int, work: Path) -> list[Row]:
    """Measure query embedding, dense search, lexical search and whole searches, with and without filters."""
    ours = Embeddings()
    index, sizes = prepare_index(source, chunks, ours, work)
    questions = choose_queries(json.loads((work / "real.json").read_text(encoding="utf-8")), QUERIES)
    vectors = ours.encode(questions, role="query")
    truth = np.load(work / f"truth-{chunks}.npy")
    retriever = Retriever(Generation.open(index), ours)
    retriever.warm()
    generation = retriever.generation
    filters = {share: Filter.parse({"metadata": {"share": name_of(share)}}) for share in SHARES}
    filters = {name: each for name, each in filters.items() if generation.search_vectors(vectors[0], 1, each)[1].size}
    rows = _time_searches(retriever, questions, vectors, filters, repeat)
    by_name = {row["name"]: row for row in rows}
    for share, true_rows in zip([None, *SHARES], truth, strict=True):
        if share is None or share in filters:
            filter = None if share is None else filters[share]
            by_name["dense" + _label(share)]["recall"] = recall(generation, vectors, filter, true_rows)
    count = generation.manifest.counts.chunks
    rows.append({"name": "the index", "bytes_per_chunk": round(sum(sizes.values()) / count)})
    return [row | {"name": f"{row['name']}, {count:,} passages", "contestant": OURS} for row in rows]


def prepare_index(source: Path, chunks: int, embedder: Embeddings, work: Path) -> tuple[Path, dict[str, int]]:
    """Write the index and the true neighbours of queries if they are missing. Returns the folder and its file sizes."""
    folder, note = work / f"index-{chunks}", work / f"index-{chunks}.json"
    if not note.exists():
        passages = read_real(source, min(chunks, MAX_REAL_PASSAGES), embedder, work)
        truth = Truth(embedder.encode(choose_queries(passages[0], QUERIES), role="query"))
        sizes = write_index(passages, chunks, folder, embedder, truth)
        np.save(work / f"truth-{chunks}.npy", truth.rows)
        note.write_text(json.dumps(sizes), encoding="utf-8")
    return folder, json.loads(note.read_text(encoding="utf-8"))


def _time_searches(
    retriever: Retriever, questions: Sequence[str], vectors: Vectors, filters: Mapping[float, Filter], repeat: int
) -> list[Row]:
    generation, ours = retriever.generation, retriever.embedder

    def dense(filter: Filter | None = None) -> Callable[[int], object]:
        return lambda i: generation.search_vectors(vectors[i], CANDIDATES, filter)

    def answer(mode: Mode = "hybrid", filter: Filter | None = None) -> Callable[[int], object]:
        return lambda i: retriever.answer_query(SearchRequest(questions[i], k=10, mode=mode, filter=filter))

    contestants: dict[str, Callable[[int], object]] = {
        "embed": lambda i: ours.encode([questions[i]], role="query"),
        "dense": dense(),
        "lexical": lambda i: generation.search_terms(generation.read_query(questions[i]), CANDIDATES),
        "whole, hybrid": answer(),
        "whole, dense": answer("dense"),
    }
    for share, each in filters.items():
        contestants |= {"dense" + _label(share): dense(each), "whole, hybrid" + _label(share): answer("hybrid", each)}
    seconds = interleave(contestants, range(min(TIMED_QUERIES, len(questions))), repeat)
    return [{"name": name, **summarise(values)} for name, values in seconds.items()]


def _label(share: float | None) -> str:
    return "" if share is None else f", filter keeps {name_of(share)}"


def recall(generation: Searchable, vectors: Vectors, filter: Filter | None, truth: np.ndarray[Any, Any]) -> float:
    """Return the share of the true neighbours that are among the first ten hits of dense search with a filter."""
    hits = total = 0
    for vector, true_rows in zip(vectors, truth, strict=True):
        rows = generation.search_vectors(vector, CANDIDATES, filter)[1][:TRUE_NEIGHBOURS]
        hits += len(set(rows.tolist()) & set(true_rows[true_rows >= 0].tolist()))
        total += int((true_rows >= 0).sum())
    return round(hits / max(1, total), 4)


def read_real(source: Path, count: int, embedder: Embedder, work: Path) -> Passages:
    """Read and embed up to `count` passages of a folder, or load the passages that an earlier run saved."""
    texts_file, vectors_file = work / "real.json", work / "real.npy"
    if not vectors_file.exists():
        texts = read_chunks(source, min(count, MAX_REAL_PASSAGES), embedder)
        texts_file.write_text(json.dumps(texts), encoding="utf-8")
        np.save(vectors_file, embedder.encode(texts))
    return json.loads(texts_file.read_text(encoding="utf-8")), np.load(vectors_file)


def make_blocks(real: Passages, count: int) -> Iterator[Passages]:
    """Yield `count` real and perturbed passages in blocks of up to 20,000."""
    real_texts, real_vectors = real
    sentences = [_SENTENCE.split(text) for text in real_texts]
    for first in range(0, min(count, len(real_texts)), _BLOCK_PASSAGES):
        last = min(first + _BLOCK_PASSAGES, count, len(real_texts))
        yield real_texts[first:last], real_vectors[first:last]
    for first in range(len(real_texts), count, _BLOCK_PASSAGES):
        size = min(_BLOCK_PASSAGES, count - first)
        rng = np.random.default_rng(first)
        one, other = rng.integers(len(sentences), size=(2, size))
        share = rng.uniform(0.5, 1, size).astype(np.float32)
        noise = rng.standard_normal((size, real_vectors.shape[1]), dtype=np.float32)
        mixed = share[:, None] * real_vectors[one] + (1 - share[:, None]) * real_vectors[other]
        mixed += noise * (_NOISE / np.sqrt(real_vectors.shape[1]))
        mixed /= np.linalg.norm(mixed, axis=1, keepdims=True)
        yield [_splice(sentences[a], sentences[b], s) for a, b, s in zip(one, other, share, strict=True)], mixed


def _splice(first: Sequence[str], second: Sequence[str], share: float) -> str:
    """Join sentences from the start of one passage and the end of another, in the ratio `share` to 1 - `share`."""
    first_count, second_count = max(1, round(len(first) * share)), round(len(second) * (1 - share))
    return "\n".join([*first[:first_count], *(second[-second_count:] if second_count else ())])


def choose_queries(texts: Sequence[str], count: int) -> list[str]:
    """Choose short sentences of different passages as queries."""
    queries: list[str] = []
    for number in np.random.default_rng(1).permutation(len(texts)):
        sentences = _SENTENCE.split(texts[number])
        fitting = [s for s in sentences if _MIN_QUERY_WORDS <= len(s.split()) <= _MAX_QUERY_WORDS]
        if fitting:
            queries.append(fitting[len(fitting) // 2].strip())
        if len(queries) == count:
            break
    return queries


class Truth:
    """Finds the ten nearest passages to each query by exact search, without a filter and with each filter."""

    def __init__(self, questions: Vectors, shares: int = len(SHARES)) -> None:
        self._questions = questions
        self._scores = np.full((shares + 1, len(questions), TRUE_NEIGHBOURS), -np.inf, dtype=np.float32)
        self.rows = np.full(self._scores.shape, -1, dtype=np.int64)  # (1 + filters, queries, neighbours)

    def add(self, first: int, vectors: Vectors, shares: npt.NDArray[np.bool_]) -> None:
        """Search the n vectors at the rows from `first` on. Filter i allows the vectors where `shares[i]` is true."""
        scores = self._questions @ vectors.T
        for i, is_selected in enumerate([None, *shares]):
            allowed = np.arange(len(vectors)) if is_selected is None else np.flatnonzero(is_selected)
            both = np.concatenate([self._scores[i], scores[:, allowed]], axis=1)
            rows = np.broadcast_to(allowed + first, (len(both), len(allowed)))
            rows = np.concatenate([self.rows[i], rows], axis=1)
            best = np.argpartition(-both, TRUE_NEIGHBOURS - 1, axis=1)[:, :TRUE_NEIGHBOURS]
            self._scores[i] = np.take_along_axis(both, best, axis=1)
            self.rows[i] = np.take_along_axis(rows, best, axis=1)


def write_index(
    real: Passages, count: int, index: Path, embedder: Embedder, truth: Truth | None = None
) -> dict[str, int]:
    """Write an index of `count` real and perturbed passages. Returns the bytes of each file.

    Some random documents, for example 1 % of all, have the value "1.0%" in their metadata, for which a filter can ask.
    """
    prepare(index)
    rng = np.random.default_rng(7)
    with writer_lock(index):
        folder = start(index, 2)
        writer = GenerationWriter(folder, embedder.dimension)
        try:
            row = 0
            for texts, vectors in make_blocks(real, count):
                documents = -(-len(texts) // _PASSAGES_PER_DOCUMENT)
                shares = rng.random((documents, 1)) < np.array(SHARES)
                if truth:
                    truth.add(row, vectors, np.repeat(shares, _PASSAGES_PER_DOCUMENT, axis=0)[: len(texts)].T)
                for number, document_shares in enumerate(shares):
                    first = number * _PASSAGES_PER_DOCUMENT
                    document, chunks = _document(row, texts[first : first + _PASSAGES_PER_DOCUMENT], document_shares)
                    writer.add(document, chunks)
                    row += len(chunks)
                writer.vectors.add(vectors)
            files = writer.finish()
            created, fingerprint = datetime.now(UTC).isoformat(timespec="seconds"), dict(embedder.fingerprint)
            manifest = Manifest(
                folder.name, created, fingerprint, writer.counts, files, {}, ["benchmark"], {}, writer.lexical.languages
            )
        finally:
            writer.close()
        publish(index, folder, manifest)
    return {name: record.size for name, record in files.items()}


def _document(row: int, texts: Sequence[str], shares: npt.NDArray[np.bool_]) -> tuple[Document, list[Chunk]]:
    url = f"https://corpus.test/{row % 97}/{row}"
    names = tuple(name_of(share) for share, is_selected in zip(SHARES, shares, strict=True) if is_selected)
    metadata = {"share": names} if names else {}
    title = " ".join(texts[0].split()[:6])
    document = Document(url, "benchmark", title, (), "", None, None, "2026-01-01T00:00:00", metadata=metadata)
    chunks = [
        Chunk(f"{row + i}", f"{url}#{i}", url, title, "", text, text, f"{row + i}", len(text.split()), i)
        for i, text in enumerate(texts)
    ]
    return document, chunks


def name_of(share: float) -> str:
    """Format a share of the documents as the metadata value that selects them, for example 0.001 as "0.1%"."""
    return f"{share:.1%}"
