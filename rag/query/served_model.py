"""The models of a process, and the queues in which threads share them: one run at a time.

A batch costs less than its texts one by one. Every thread tokenizes its texts before it queues. A query that finds the
model free runs at once, in its own thread. Those that arrive meanwhile wait; when the run ends, the thread that waits
longest takes along all that wait.
"""

import math
import shlex
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from embedder.config import EmbedderConfig, Role
from embedder.late_interaction import QueryTokens
from embedder.model.tokenizer import TokenizedText
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
_NOTHING: Vector = np.empty((0, 0), np.float32)


class _Ticket(Struct, eq=False):
    """The texts of one call, and what became of them. A struct is made without a call in Python."""

    rows: Sequence[list[int]]  # token ids of each text
    role: Role
    with_tokens: bool
    end: float  # when its thread stops waiting
    wakeup: "threading.Lock"  # held while its thread waits: until it is settled, or is to lead a run
    leads: bool = False
    is_settled: bool = False
    vectors: Vector = _NOTHING  # (n, dim)
    tokens: Sequence[Vector] = ()
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
        """`on_batch` gets, after each run, how many calls were in it and how many wait."""
        self.embedder = embedder
        self._cache = cache or QueryCache(0)
        self._on_batch = on_batch
        self._lock = threading.Lock()  # guards those below; never held during a run
        self._is_busy = False
        self._waiting: deque[_Ticket] = deque()  # empty unless a run is under way

    def encode(self, texts: Sequence[str], role: Role = "query") -> Vector:
        """Embed texts in one run, float32 (n, dim).

        Raises DeadlinePassed if their turn has not come by the deadline, and what the embedder raises for one of them.
        """
        return self._run(self.embedder.tokenize(texts, role=role), role, False).vectors

    def encode_tokens(self, queries: Sequence[TokenizedText]) -> list[QueryTokens]:
        """Embed queries with their tokens, in one run. Raises as `encode` does."""
        ticket = self._run([query.ids for query in queries], "query", True)
        made = zip(ticket.vectors, ticket.tokens, queries, strict=True)
        return [QueryTokens(vector, tokens, query.broken) for vector, tokens, query in made]

    def embed_query(self, query: str, *, with_tokens: bool) -> QueryTokens:
        """Embed a query, with its tokens if wanted, unless its caller's last queries had it."""
        known: QueryTokens | None = self._cache.get("vectors", query, with_tokens)
        if known is None:
            ids, broken = self.embedder.tokenize_query(query)
            ticket = self._run([ids], "query", with_tokens)
            # a copy, as it would hold the vectors of the whole run in memory
            known = QueryTokens(ticket.vectors[0].copy(), ticket.tokens[0] if with_tokens else _NOTHING, broken)
            self._cache.put(known, known.vector.nbytes + known.tokens.nbytes, "vectors", query, with_tokens)
        return known

    def _run(self, rows: Sequence[list[int]], role: Role, with_tokens: bool) -> _Ticket:
        """Embed texts by their token ids, alone or with others; return them settled."""
        ticket = _Ticket(rows, role, with_tokens, deadline.end(), threading.Lock())
        if time.monotonic() >= ticket.end:
            raise DeadlinePassed
        with self._lock:
            is_free, self._is_busy = not self._is_busy, True
            if not is_free:
                ticket.wakeup.acquire()
                self._waiting.append(ticket)
        if batch := [ticket] if is_free else self._wait(ticket):
            try:
                self._settle(batch)
            finally:
                self._end_run(batch)
            if self._on_batch:
                self._on_batch(len(batch), len(self._waiting))
        if ticket.error is not None:
            raise ticket.error
        return ticket

    def _wait(self, ticket: _Ticket) -> list[_Ticket]:
        """Wait until a ticket is settled, or return what its thread is to run. Raises DeadlinePassed."""
        left, is_late = ticket.end - time.monotonic(), True
        try:
            is_late = not ticket.wakeup.acquire(timeout=-1 if math.isinf(left) else max(0.0, left))
        finally:  # where it is interrupted, its thread goes as well
            now = time.monotonic()
            with self._lock:
                is_late = (is_late or now >= ticket.end) and not ticket.is_settled
                if is_late:
                    ticket.end = -math.inf  # a wait may end a moment before its time
                    if ticket in self._waiting:
                        self._waiting.remove(ticket)
                batch = self._take(now) if ticket.leads and not is_late else []
            if is_late and ticket.leads:
                self._end_run([])
        if is_late:
            raise DeadlinePassed
        return batch

    def _take(self, now: float) -> list[_Ticket]:
        """Take the calls that wait, oldest first, as far as limits and role go; the first always. The lock is held."""
        batch: list[_Ticket] = []
        texts = tokens = 0
        while self._waiting:
            ticket = self._waiting[0]
            if ticket.end > now:  # its thread has not gone yet
                texts += len(ticket.rows)
                tokens += sum(map(len, ticket.rows))
                if batch and (texts > MAX_TEXTS or tokens > MAX_TOKENS or ticket.role != batch[0].role):
                    break
                batch.append(ticket)
            self._waiting.popleft()
        return batch

    def _settle(self, batch: Sequence[_Ticket]) -> None:
        """Give every ticket its vectors or its error."""
        first, *others = batch
        rows, with_tokens = first.rows, first.with_tokens
        for ticket in others:
            rows, with_tokens = [*rows, *ticket.rows], with_tokens or ticket.with_tokens
        try:
            vectors, tokens = self.embedder.encode_ids(rows, role=first.role, tokens=with_tokens)
        except Exception as error:  # noqa: BLE001 - it is raised again by the caller whose text it is
            if others:
                for ticket in batch:
                    self._settle([ticket])  # alone, so that one call's error does not become its neighbours'
            else:
                first.error, first.is_settled = error, True
            return
        start = 0
        for ticket in batch:
            stop = start + len(ticket.rows)
            ticket.vectors, ticket.tokens, ticket.is_settled = vectors[start:stop], tokens[start:stop], True
            start = stop

    def _end_run(self, batch: list[_Ticket]) -> None:
        """Wake the thread that waits longest, which leads the next run, and then those whose texts were in this one.

        No other thread wakes.
        """
        with self._lock:
            while len(batch) > 1 and not batch[-1].is_settled:  # a run that was interrupted, which no Exception is
                self._waiting.appendleft(batch.pop())
            now = time.monotonic()
            while self._waiting and self._waiting[0].end <= now:  # its thread goes without being woken
                self._waiting.popleft()
            self._is_busy = bool(self._waiting)
            if self._waiting:
                self._waiting[0].leads = True
                self._waiting[0].wakeup.release()
        for ticket in batch[1:]:
            ticket.wakeup.release()


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


class QueryEmbedding(NamedTuple):
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

    def embed(self, texts: Sequence[str], role: Role, model: str = "") -> QueryEmbedding:
        """Embed texts, in runs beside those of queries. Raises NotThere for another model's name, or DeadlinePassed."""
        if model not in ("", self.name):
            raise NotThere(f"there is no model {model[:80]!r} here; there are: {self.name}", "model")
        most = self.embedder.max_length
        slices = runs([min(len(text) + _SPECIAL, most) for text in texts])  # a token is a character or more
        made = [np.empty((0, self.embedder.dimension), np.float32)]
        made += [self._background.encode(texts[run], role) for run in slices]
        return QueryEmbedding(np.concatenate(made), sum(self.embedder.count_tokens(texts, role=role)), self.name)

    def embed_queries(self, queries: Sequence[str]) -> list[QueryTokens]:
        """Embed queries, with their tokens. Raises DeadlinePassed."""
        made = [self.embedder.tokenize_query(query) for query in queries]
        slices = runs([len(query.ids) for query in made])
        return [one for run in slices for one in self._background.encode_tokens(made[run])]


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
