"""A corpus of any size from real passages: first the passages themselves, then perturbed ones.

A perturbed passage has two parents among the real ones. Its text takes sentences of both, more of the first; its vector
is the same mixture of theirs, with noise, at unit length. Neighbours are thus neither copies nor strangers. Everything
follows from fixed seeds, block by block, so that no more than a block is ever in memory.
"""

import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmark.corpus import read_chunks
from embedder.protocol import Embedder
from indexer.generation.manifest import Manifest
from indexer.generation.writer import GenerationWriter
from indexer.publish.collections import writer_lock
from indexer.publish.publish import prepare, publish, start
from indexer.records import Chunk, Document

SHARES = (0.5, 0.1, 0.01, 0.001)  # of the documents, which a filter by metadata keeps
REAL = 20_000  # passages embedded at most
TOP = 10  # true neighbours kept for each query
_PER_DOCUMENT = 10
_BLOCK = 20_000
_NOISE = 0.35  # length of the noise beside a vector of length 1: a cosine of 0.94
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_WORDS = (6, 18)  # of a sentence that serves as a query

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Real:
    """Passages, and their vectors, float32 (n, dimension)."""

    texts: list[str]
    vectors: Vectors


def read_real(source: Path, count: int, embedder: Embedder, kept: Path) -> Real:
    """Read and embed up to `count` passages of a folder, or take those in `kept` from an earlier run."""
    texts_file, vectors_file = kept / "real.json", kept / "real.npy"
    if not vectors_file.exists():
        texts = read_chunks(source, min(count, REAL), embedder)
        texts_file.write_text(json.dumps(texts), encoding="utf-8")
        np.save(vectors_file, embedder.encode(texts))
    return Real(json.loads(texts_file.read_text(encoding="utf-8")), np.load(vectors_file))


def blocks(real: Real, count: int) -> Iterator[tuple[list[str], Vectors]]:
    """Yield texts and their vectors, at most 20,000 at a time, until there are `count`."""
    sentences = [_SENTENCE.split(text) for text in real.texts]
    for first in range(0, min(count, len(real.texts)), _BLOCK):
        last = min(first + _BLOCK, count, len(real.texts))
        yield real.texts[first:last], real.vectors[first:last]
    for first in range(len(real.texts), count, _BLOCK):
        size = min(_BLOCK, count - first)
        rng = np.random.default_rng(first)
        one, other = rng.integers(len(sentences), size=(2, size))
        share = rng.uniform(0.5, 1, size).astype(np.float32)
        noise = rng.standard_normal((size, real.vectors.shape[1]), dtype=np.float32)
        mixed = share[:, None] * real.vectors[one] + (1 - share[:, None]) * real.vectors[other]
        mixed += noise * (_NOISE / np.sqrt(real.vectors.shape[1]))
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
