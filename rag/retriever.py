"""The query path: text in, the k best passages out. Everything is loaded and warmed beforehand."""

import time
from pathlib import Path

from embedder.protocol import Embedder
from indexer.generation import Generation
from rag.batcher import QueryBatcher
from rag.errors import FingerprintMismatch, QueryError
from rag.highlight import highlights
from rag.results import Answer, Hit

MODES = ("dense",)


class Retriever:
    """One open generation and the embedder that made it. Safe to share between threads."""

    def __init__(
        self, generation: Generation, embedder: Embedder, *, max_k: int = 100, max_query_chars: int = 10_000
    ) -> None:
        check_fingerprint(generation, embedder.fingerprint)
        self.generation = generation
        self.embedder = embedder
        self.max_k = max_k
        self.max_query_chars = max_query_chars
        self._batcher = QueryBatcher(embedder)

    @classmethod
    def open(
        cls, index_dir: Path, embedder: Embedder, *, max_k: int = 100, max_query_chars: int = 10_000
    ) -> "Retriever":
        """Open the live generation of an index. Raises IndexMissing, IndexCorrupt or FingerprintMismatch."""
        generation = Generation.open(index_dir)
        try:
            return cls(generation, embedder, max_k=max_k, max_query_chars=max_query_chars)
        except FingerprintMismatch:
            generation.close()
            raise

    def warm(self) -> None:
        """Run the whole path once, so that the first user's query finds memory allocated and kernels chosen."""
        for query in ("warm", "a longer query that fills a second shape of the model's input"):
            self.search(query, k=min(10, self.max_k))

    def search(self, query: str, *, k: int = 10, mode: str = "dense") -> Answer:
        """Return the k passages nearest to the query. Raises QueryError where the query cannot be answered as asked."""
        self._check(query, k, mode)
        start = time.perf_counter()
        vector = self._batcher.encode(query)  # the wait for other queries is part of this stage
        embedded = time.perf_counter()
        scores, rows = self.generation.search(vector, k)
        searched = time.perf_counter()
        hits = [
            Hit(
                rank=rank,
                id=chunk.id,
                url=chunk.url,
                title=chunk.title,
                section=chunk.section,
                text=chunk.text,
                highlights=highlights(query, chunk.text),
                score=float(score),
                scores={"dense": float(score), "lexical": None},
            )
            for rank, (score, chunk) in enumerate(zip(scores, self.generation.chunks(rows), strict=True), start=1)
        ]
        end = time.perf_counter()
        took = {
            "embed": embedded - start,
            "dense": searched - embedded,
            "lexical": 0.0,
            "fuse": 0.0,
            "total": end - start,
        }
        return Answer(
            query=query,
            hits=hits,
            took_ms={stage: round(seconds * 1000, 3) for stage, seconds in took.items()},
            generation=self.generation.id,
        )

    def _check(self, query: object, k: object, mode: object) -> None:
        if not isinstance(query, str):
            raise QueryError(f"query must be text, not {type(query).__name__}")
        if not query.strip():
            raise QueryError("query is empty: give at least one word")
        try:
            query.encode()
        except UnicodeEncodeError:
            raise QueryError("query is not valid Unicode text: it holds half of a surrogate pair") from None
        if len(query) > self.max_query_chars:
            raise QueryError(f"query has {len(query)} characters: at most {self.max_query_chars} are allowed")
        if not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= self.max_k:
            raise QueryError(f"k must be a whole number from 1 to {self.max_k}, not {k!r}")
        if mode not in MODES:
            raise QueryError(f"mode must be one of {', '.join(MODES)}, not {mode!r}")


def check_fingerprint(generation: Generation, fingerprint: dict[str, object]) -> None:
    """Raise FingerprintMismatch naming every field in which an index differs from the embedder."""
    built = generation.manifest.fingerprint
    fields = [name for name in sorted(built.keys() | fingerprint.keys()) if built.get(name) != fingerprint.get(name)]
    if fields:
        details = "; ".join(
            f"{name}: index {_short(built.get(name))}, here {_short(fingerprint.get(name))}" for name in fields
        )
        raise FingerprintMismatch(
            f"index generation {generation.id} was built by another embedder ({details}): "
            "serve it with the settings it was built with, or rebuild it with these"
        )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 16 else f"{text[:13]}…"
