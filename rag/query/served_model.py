"""The models of a process, and the queues in which threads share them: one run at a time.

A batch costs less than its texts one by one. A query that finds the model free runs at once, in its own thread. Those
that arrive meanwhile wait; when the run ends, one of their threads takes along all that wait.
"""

import math
import shlex
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from embedder.config import EmbedderConfig, Role
from embedder.errors import EmbedderError
from embedder.late_interaction import QueryTokens
from embedder.text_embedder import CrossEncoder, Embedder
from indexer.generation.manifest import Manifest, differing_fields
from rag import deadline
from rag.errors import DeadlinePassed, FingerprintMismatch, NotThere, RagError

WARM_QUERIES = "warm", "a longer query that fills a second shape of the model's input"
MAX_TEXTS = 32  # of a run; more would let the first of a batch wait for the last
MAX_TOKENS = 2048  # of a run
_LATER_TOKENS = 256  # of a run that can wait: some tens of milliseconds, for which a query that comes meanwhile waits
_SPECIAL = 2  # tokens that a model adds to a text
_RERANK_SHARE = 0.7  # of the time left that a search may spend on reranking: the hits are still to be fetched and sent

_ENTRY_BYTES = 1_000  # of a key of the cache and the objects around its value

asker: ContextVar[str] = ContextVar("asker", default="")  # name of the caller; all who have none are one

Vector = npt.NDArray[np.float32]


@dataclass(slots=True, eq=False)
class _Ticket:
    """One text, and what became of it."""

    text: str
    role: Role
    end: float  # when its caller stops waiting
    with_tokens: bool
    result: Vector | QueryTokens | None = None
    error: Exception | None = None


class QueryCache:
    """What is remembered of queries, by kind and key: those used last, up to a number of bytes.

    Callers share nothing: the time that an answer takes would tell one what another has asked. Safe to share between
    threads.
    """

    def __init__(self, most: int) -> None:
        """Take the bytes of all values; of 0, nothing is kept."""
        self.on_lookup: Callable[[str, bool], None] | None = None  # called with the kind, and whether there was a value
        self._most = most
        self._lock = threading.Lock()
        self._kept: dict[Hashable, tuple[Any, int]] = {}  # with its bytes; the one used last at the end
        self._bytes = 0

    def get(self, kind: str, *key: Hashable) -> Any:
        """Return the value that was kept for this caller, or None."""
        if not self._most:
            return None
        name = (asker.get(), kind, *key)
        with self._lock:
            found = self._kept.pop(name, None)
            if found is not None:
                self._kept[name] = found
        if self.on_lookup:
            self.on_lookup(kind, found is not None)
        return found and found[0]

    def put(self, value: Any, size: int, kind: str, *key: Hashable) -> None:
        """Keep a value of so many bytes for this caller, and forget those that were not used for longest."""
        size += _ENTRY_BYTES
        if size > self._most:
            return
        name = (asker.get(), kind, *key)
        with self._lock:
            self._bytes += size - self._kept.pop(name, (None, 0))[1]
            self._kept[name] = value, size
            while self._bytes > self._most:
                self._bytes -= self._kept.pop(next(iter(self._kept)))[1]


class QueryBatcher:
    """Embeds texts for many threads, first come first served."""

    def __init__(
        self, embedder: Embedder, on_batch: Callable[[int, int], None] | None = None, cache: QueryCache | None = None
    ) -> None:
        """`on_batch` gets, after each run, how many texts it had and how many wait."""
        self.embedder = embedder
        self._cache = cache or QueryCache(0)
        self._on_batch = on_batch
        self._changed = threading.Condition(threading.Lock())  # guards those below; never held during a run
        self._busy = False
        self._waiting: deque[_Ticket] = deque()

    @property
    def waiting(self) -> int:
        """Queries that wait for the model now."""
        return len(self._waiting)

    def encode(self, texts: Sequence[str], role: Role = "query") -> list[Vector]:
        """Embed texts, each as float32 (dim,); they queue up together.

        Raises DeadlinePassed if their turn has not come by the deadline, and what the embedder raises for one of them.
        """
        return cast("list[Vector]", self._run(texts, role, with_tokens=False))

    def encode_tokens(self, queries: Sequence[str]) -> list[QueryTokens]:
        """Embed queries with their tokens, in the same run. Raises as `encode` does."""
        return cast("list[QueryTokens]", self._run(queries, "query", with_tokens=True))

    def embed_query(self, query: str, *, with_tokens: bool) -> tuple[Vector, Vector | None]:
        """Embed a query, unless its caller's last queries had it: float32 (dim,) and, if wanted, (tokens, width)."""
        known: tuple[Vector, Vector | None] | None = self._cache.get("vectors", query, with_tokens)
        if known is None:
            known = self.encode_tokens([query])[0] if with_tokens else (self.encode([query])[0], None)
            self._cache.put(
                known, sum(part.nbytes for part in known if part is not None), "vectors", query, with_tokens
            )
        return known

    def runs(self, texts: Sequence[str]) -> Iterator[slice]:
        """Yield slices of texts that can wait, for `encode`; see `runs`."""
        return runs([self._bound(text) for text in texts])

    def _bound(self, text: str) -> int:
        """Return the most tokens a text can have, each of a character or more: counting would tokenise twice."""
        return min(len(text) + _SPECIAL, self.embedder.max_length)

    def _run(self, texts: Sequence[str], role: Role, *, with_tokens: bool) -> list[Vector | QueryTokens]:
        end = deadline.end()
        tickets = [_Ticket(text, role, end, with_tokens) for text in texts]
        with self._changed:
            self._waiting.extend(tickets)
            try:
                for ticket in tickets:
                    while ticket.result is None and ticket.error is None:
                        if time.monotonic() >= end:
                            raise DeadlinePassed
                        if not self._busy:
                            self._lead()
                        else:
                            self._changed.wait(None if math.isinf(end) else max(0.0, end - time.monotonic()))
                    if ticket.error is not None:
                        raise ticket.error
            finally:  # too late, failed or interrupted: nobody waits for the others
                for ticket in tickets:
                    if ticket.result is None and ticket in self._waiting:
                        self._waiting.remove(ticket)
        return [ticket.result for ticket in tickets if ticket.result is not None]

    def _lead(self) -> None:
        """Run what waits longest, whoever waits for it. Called, and left, with the lock held."""
        batch = self._take()
        self._busy = True
        self._changed.release()
        try:
            self._settle(batch)
        finally:
            self._changed.acquire()
            self._busy = False
            # an interrupted run, which no Exception is, leaves the others to the next thread
            self._waiting.extendleft(
                ticket for ticket in reversed(batch) if ticket.result is None and ticket.error is None
            )
            self._changed.notify_all()

    def _take(self) -> list[_Ticket]:
        """Take the texts that wait, oldest first, as far as the limits and their role go; the first of them always."""
        batch: list[_Ticket] = []
        tokens, now, queue = 0, time.monotonic(), self._waiting
        while queue and len(batch) < MAX_TEXTS:
            ticket = queue[0]
            if ticket.end > now:  # its thread has not gone yet
                tokens += self._bound(ticket.text)
                if batch and (tokens > MAX_TOKENS or ticket.role != batch[0].role):
                    break
                batch.append(ticket)
            queue.popleft()
        return batch

    def _settle(self, batch: Sequence[_Ticket]) -> None:
        """Give every ticket its vector or its error."""
        if not batch:
            return
        texts = [ticket.text for ticket in batch]
        try:
            results: Sequence[Vector | QueryTokens]
            if True in [ticket.with_tokens for ticket in batch]:
                both = self.embedder.encode_query_tokens(texts)
                results = [one if t.with_tokens else one.vector for t, one in zip(batch, both, strict=True)]
            else:
                results = list(self.embedder.encode(texts, role=batch[0].role))
            if len(results) != len(batch):
                raise EmbedderError(f"the embedder gave {len(results)} vectors for {len(batch)} texts: check the model")
            for ticket, result in zip(batch, results, strict=True):
                ticket.result = result
        except Exception as error:  # noqa: BLE001 - it is raised again by the caller whose query it is
            if len(batch) == 1:
                batch[0].error = error
                return
            for ticket in batch:
                self._settle([ticket])  # alone, so that one query's error does not become its neighbours'
        if self._on_batch:
            self._on_batch(len(batch), self.waiting)


class RerankQueue:
    """Runs a cross-encoder for many threads: searches before what can wait, and never past a deadline."""

    def __init__(self, model: CrossEncoder) -> None:
        self.model = model
        self._changed = threading.Condition()
        self._busy = False
        self._urgent = 0  # searches that wait

    def score_best(self, query: str, texts: Sequence[str]) -> Vector:
        """Return the logits of as many texts as there is time for, from the first one on, float32 (m,)."""
        end = time.monotonic() + _RERANK_SHARE * deadline.remaining()
        return self._score(self.model.pairs(query, texts), end, urgent=True)

    def score(self, rows: Sequence[list[int]]) -> Vector:
        """Return the logits of pairs, float32 (n,), behind all searches. Raises DeadlinePassed if its turn is late."""
        logits = self._score(rows, deadline.end(), urgent=False)
        if len(logits) < len(rows):
            raise DeadlinePassed
        return logits

    def _score(self, rows: Sequence[list[int]], end: float, *, urgent: bool) -> Vector:
        """Return the logits of the first pairs, as many as there is time for; each run of them waits for its turn."""
        parts = [np.empty(0, np.float32)]
        with self._changed:
            self._urgent += urgent
        try:
            for run in runs([len(row) for row in rows]):
                with self._changed:
                    left = None if math.isinf(end) else max(0.0, end - time.monotonic())
                    is_free = self._changed.wait_for(lambda: not self._busy and (urgent or not self._urgent), left)
                    if not is_free or left == 0:
                        break
                    self._busy = True
                try:
                    parts.append(self.model.logits(rows[run]))
                finally:
                    with self._changed:
                        self._busy = False
                        self._changed.notify_all()
        finally:
            with self._changed:
                self._urgent -= urgent
                self._changed.notify_all()
        return np.concatenate(parts)


class Embedding(NamedTuple):
    """Texts and their vectors."""

    vectors: Vector  # (n, dim)
    tokens: int  # of all texts, including those beyond the model's length
    model: str  # name of the model


class ServedModel:
    """The embedder in memory, warm, and its queue. Safe to share between threads."""

    def __init__(
        self,
        name: str,
        load: Callable[[], Embedder],
        on_run: Callable[[int, int], None] | None = None,
        cache: QueryCache | None = None,
    ) -> None:
        """Load the model and run it in each way that queries do. Raises RagError, or as `load` does."""
        self.name = name
        try:
            self.embedder = load()
            self.batcher = QueryBatcher(self.embedder, on_run, cache)
            # Texts that can wait have threads and a queue of their own: a long one takes as long as ten queries.
            self._background = QueryBatcher(self.embedder.twin())
            for query in WARM_QUERIES:
                self.embedder.encode([query], role="query")
            self.embedder.encode(WARM_QUERIES, role="query")
        except MemoryError as error:
            raise RagError(f"there is no memory for model {self.name}: allow more") from error
        except OSError as error:
            raise RagError(f"model {self.name} cannot be loaded: {error.strerror or error}") from error

    def embed(self, texts: Sequence[str], role: Role, model: str = "") -> Embedding:
        """Embed texts, in runs beside those of queries. Raises NotThere for another model's name, or DeadlinePassed."""
        if model not in ("", self.name):
            raise NotThere(f"there is no model {model[:80]!r} here; there are: {self.name}", "model")
        made = [one for run in self._background.runs(texts) for one in self._background.encode(texts[run], role)]
        vectors = np.array(made, np.float32).reshape(-1, self.embedder.dimension)
        return Embedding(vectors, sum(self.embedder.count_tokens(texts, role=role)), self.name)

    def embed_queries(self, queries: Sequence[str]) -> list[QueryTokens]:
        """Embed queries, with their tokens. Raises DeadlinePassed."""
        slices = self._background.runs(queries)
        return [one for run in slices for one in self._background.encode_tokens(queries[run])]


def runs(sizes: Sequence[int]) -> Iterator[slice]:
    """Yield slices of texts of so many tokens each, short enough for a query that comes meanwhile to wait for.

    Callers with many texts have their turn after each slice, as the queue is first come, first served.
    """
    start = tokens = 0
    for place, size in enumerate(sizes):
        if place > start and tokens + size > _LATER_TOKENS:
            yield slice(start, place)
            start, tokens = place, 0
        tokens += size
    if sizes:
        yield slice(start, len(sizes))


def check_fingerprint(manifest: Manifest, fingerprint: Mapping[str, object]) -> None:
    """Raise FingerprintMismatch naming every field in which an index differs from the embedder."""
    built = manifest.fingerprint
    fields = differing_fields(built, fingerprint)
    if not fields:
        return
    details = "; ".join(f"{name}: index {built.get(name)!r:.16}, here {fingerprint.get(name)!r:.16}" for name in fields)
    flags = ""  # of the model that made the generation, as far as its manifest has them
    if isinstance(made := manifest.settings.get("model"), dict):
        made = made | {"precision": built.get("precision", "")}
        names = [name for name in EmbedderConfig.__dataclass_fields__ if made.get(name)]
        words = [word for name in names for word in (f"--{name.replace('_', '-')}", str(made[name]))]
        flags = f" ({shlex.join(words)})"
    raise FingerprintMismatch(
        f"index generation {manifest.id} was built by another embedder ({details}): use the settings it was built "
        f"with{flags}, or build an index with these settings in another folder (--index) and serve that"
    )
