"""Let threads share models, which run for one thread at a time, and cache answers and the vectors of queries."""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from embedder.config import Role
from embedder.late_interaction import Floats, QueryTokens
from embedder.model.tokenizer import TokenizedText
from embedder.text_embedder import CrossEncoder, Embedder
from rag import deadline
from rag.errors import DeadlinePassed
from rag.query.weighting import measure_unrelated

WARM_QUERIES = "warm", "a longer query that fills a second shape of the model's input"
_MAX_RUN_TOKENS = 256  # a run of this size takes some tens of milliseconds
_RERANK_TIME_SHARE = 0.7  # share of the time until the deadline; fetching and sending hits needs the rest

ENTRY_OVERHEAD_BYTES = 1_000

Vector = npt.NDArray[np.float32]
caller_name: ContextVar[str] = ContextVar("caller_name", default="")


class FairLock:
    """A lock that threads acquire in the order in which they requested it. Urgent threads precede all other threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_taken = False
        self._urgent, self._background = deque[threading.Lock](), deque[threading.Lock]()

    @contextmanager
    def turn(self, end: float, *, urgent: bool = True) -> Iterator[None]:
        """Acquire the lock for the `with` block. Raises DeadlinePassed if the lock is not free at the time `end`."""
        if time.monotonic() >= end:
            raise DeadlinePassed
        with self._lock:
            wakeup = threading.Lock() if self._is_taken else None
            queue = self._urgent if urgent else self._background
            self._is_taken = True
            if wakeup:
                wakeup.acquire()
                queue.append(wakeup)
        if wakeup:
            self._wait(wakeup, queue, end)
        try:
            yield
        finally:
            self._pass_on()

    def _wait(self, wakeup: threading.Lock, queue: deque[threading.Lock], end: float) -> None:
        has_turn = False
        try:
            has_turn = wakeup.acquire(timeout=-1 if math.isinf(end) else max(0.0, end - time.monotonic()))
        finally:
            if not has_turn:
                with self._lock:
                    is_waiting = wakeup in queue
                    if is_waiting:
                        queue.remove(wakeup)
                if not is_waiting:  # another thread has just passed the lock to this one
                    self._pass_on()
        if not has_turn:
            raise DeadlinePassed

    def _pass_on(self) -> None:
        with self._lock:
            queue = self._urgent or self._background
            self._is_taken = bool(queue)
            if queue:
                queue.popleft().release()


class QueryCache:
    """A cache of values by kind and key, which evicts the least recently used value. Safe to share between threads.

    Each caller has separate values, because a fast response would reveal that another caller sent the same query. The
    context variable `caller_name` identifies the caller.
    """

    def __init__(self, max_bytes: int) -> None:
        """Create a cache of at most `max_bytes`. With 0, nothing is cached."""
        self.on_lookup: Callable[[str, bool], None] | None = None  # called with the kind, and True if a value exists
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._entries: dict[Hashable, tuple[Any, int]] = {}  # least recently used first
        self._bytes = 0

    def get(self, kind: str, *key: Hashable) -> Any:
        """Return the value that the current caller has stored, or None."""
        if not self._max_bytes:
            return None
        name = (caller_name.get(), kind, *key)
        with self._lock:
            entry = self._entries.pop(name, None)
            if entry is not None:
                self._entries[name] = entry
        if self.on_lookup:
            self.on_lookup(kind, entry is not None)
        return entry and entry[0]

    def put(self, value: Any, size: int, kind: str, *key: Hashable) -> None:
        """Store a value of `size` bytes for the current caller. If the cache is full, old values are evicted."""
        size += ENTRY_OVERHEAD_BYTES
        if size > self._max_bytes:
            return
        name = (caller_name.get(), kind, *key)
        with self._lock:
            self._bytes += size - self._entries.pop(name, (None, 0))[1]
            self._entries[name] = value, size
            while self._bytes > self._max_bytes:
                self._bytes -= self._entries.pop(next(iter(self._entries)))[1]


class QueryEncoder:
    """An embedder that threads share. It runs for one thread at a time."""

    def __init__(self, embedder: Embedder, cache: QueryCache | None = None) -> None:
        self.embedder = embedder
        self._cache = cache or QueryCache(0)
        self._lock = FairLock()

    @cached_property
    def unrelated(self) -> float:
        """The mean cosine of unrelated texts, computed once for all collections. See `measure_unrelated`."""
        return measure_unrelated(self.embedder)

    def encode(self, texts: Sequence[str], role: Role = "query") -> Vector:
        """Embed texts in small batches. Returns float32 (n, dim).

        Raises EmbedderError if the model fails, and DeadlinePassed after a timeout.
        """
        rows = self.embedder.tokenize(texts, role=role)
        vectors = [np.empty((0, self.embedder.dimension), np.float32)]
        vectors += [self._run(rows[run], role)[0] for run in split_runs([len(row) for row in rows])]
        return np.concatenate(vectors)

    def encode_tokens(self, queries: Sequence[TokenizedText]) -> list[QueryTokens]:
        """Embed queries and their tokens in small batches. Raises the errors of `encode`."""
        embedded: list[QueryTokens] = []
        for run in split_runs([len(query.ids) for query in queries]):
            vectors, tokens = self._run([query.ids for query in queries[run]], "query", with_tokens=True)
            broken = [query.broken for query in queries[run]]
            embedded += map(QueryTokens, vectors, tokens, broken)
        return embedded

    def embed_query(self, query: str, *, with_tokens: bool) -> QueryTokens:
        """Return the vector of a query, and those of its tokens if `with_tokens`. Raises the errors of `encode`."""
        result: QueryTokens | None = self._cache.get("vectors", query, with_tokens)
        if result is None:
            ids, broken = self.embedder.tokenize_query(query)
            vectors, tokens = self._run([ids], "query", with_tokens=with_tokens)
            result = QueryTokens(vectors[0], tokens[0] if with_tokens else np.empty((0, 0), np.float32), broken)
            self._cache.put(result, result.vector.nbytes + result.tokens.nbytes, "vectors", query, with_tokens)
        return result

    def _run(
        self, rows: Sequence[list[int]], role: Role, *, with_tokens: bool = False
    ) -> tuple[Floats, Sequence[Floats]]:
        with self._lock.turn(deadline.end()):
            return self.embedder.encode_ids(rows, role=role, tokens=with_tokens)


class RerankQueue:
    """A cross-encoder that threads share. Searches (`score_best`) precede other requests (`score`)."""

    def __init__(self, model: CrossEncoder) -> None:
        self.model = model
        self._lock = FairLock()

    def score_best(self, query: str, texts: Sequence[str]) -> Vector:
        """Score texts in order until the deadline is near. Returns the logits of the scored texts as float32."""
        end = time.monotonic() + _RERANK_TIME_SHARE * deadline.remaining()
        return self._score(self.model.pairs(query, texts), end, urgent=True)

    def score(self, rows: Sequence[list[int]]) -> Vector:
        """Return the logits of tokenized pairs, float32 (n,). Searches that wait for the model run first.

        Raises DeadlinePassed after a timeout.
        """
        logits = self._score(rows, deadline.end(), urgent=False)
        if len(logits) < len(rows):
            raise DeadlinePassed
        return logits

    def _score(self, rows: Sequence[list[int]], end: float, *, urgent: bool) -> Vector:
        logits = [np.empty(0, np.float32)]
        for run in split_runs([len(row) for row in rows]):
            try:
                with self._lock.turn(end, urgent=urgent):
                    logits.append(self.model.logits(rows[run]))
            except DeadlinePassed:
                break
        return np.concatenate(logits)


def split_runs(sizes: Sequence[int]) -> Iterator[slice]:
    """Yield slices of texts with few tokens each, so that other queries do not wait long. `sizes` are token counts."""
    start = tokens = 0
    for index, size in enumerate(sizes):
        if index > start and tokens + size > _MAX_RUN_TOKENS:
            yield slice(start, index)
            start, tokens = index, 0
        tokens += size
    if sizes:
        yield slice(start, len(sizes))
