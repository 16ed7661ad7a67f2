"""The queues in which threads share the models: one run at a time, and a query that waits shares the next one.

A batch costs less than its texts one by one. Leader and followers, without a timer: a query that finds the model free
runs at once, in its own thread. Those that arrive meanwhile queue up; when the run ends, the first of them becomes the
leader and takes along what else waits.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import numpy as np
import numpy.typing as npt

from embedder.errors import EmbedderError
from embedder.late_interaction import QueryTokens
from embedder.protocol import CrossEncoder, Embedder, Role
from rag import deadline
from rag.errors import DeadlinePassed

MAX_TEXTS = 32  # of a run; more would let the first of a batch wait for the last
MAX_TOKENS = 2048  # of a run
_SPECIAL = 2  # tokens that a model adds to a text
_RERANK_SHARE = 0.7  # of the time left that a search may spend on reranking: the hits are still to be fetched and sent
_SMOOTHING = 0.3  # weight of the latest run in the pace
_RECOVERY = 0.8  # a pace that left no time for anything is believed so much less the next time

Vector = npt.NDArray[np.float32]
Embedded = Vector | QueryTokens


class _Ticket:
    """One text, and what became of it."""

    __slots__ = ("end", "error", "queue", "result", "role", "text", "turn", "with_tokens")

    def __init__(self, text: str, role: Role, end: float, queue: "deque[_Ticket]", with_tokens: bool) -> None:
        self.text, self.role, self.queue, self.with_tokens = text, role, queue, with_tokens
        self.end = end  # when its caller stops waiting
        self.result: Embedded | None = None
        self.error: Exception | None = None
        self.turn = threading.Lock()  # held until there is an outcome, or it is this caller's turn to lead
        self.turn.acquire()

    @property
    def settled(self) -> bool:
        return self.result is not None or self.error is not None


class QueryBatcher:
    """Embeds texts for many threads, first come first served; what can wait is run while nothing else waits."""

    def __init__(self, embedder: Embedder, on_batch: Callable[[int, int], None] | None = None) -> None:
        """`on_batch` gets, after each run, how many texts it had and how many wait."""
        self.embedder = embedder
        self._on_batch = on_batch
        self._lock = threading.Lock()  # guards those below; never held during a run
        self._busy = False
        self._waiting: deque[_Ticket] = deque()
        self._later: deque[_Ticket] = deque()

    @property
    def waiting(self) -> int:
        """Queries that wait for the model now."""
        return len(self._waiting)

    def encode(self, texts: Sequence[str], role: Role = "query", *, later: bool = False) -> list[Vector]:
        """Embed texts, each as float32 (dim,); they queue up together, with `later` until nothing else waits.

        Raises DeadlinePassed if their turn has not come by the deadline, and what the embedder raises for one of them.
        """
        return cast("list[Vector]", self._run(texts, role, later=later, with_tokens=False))

    def encode_tokens(self, queries: Sequence[str], *, later: bool = False) -> list[QueryTokens]:
        """Embed queries with their tokens, in the same run. Raises as `encode` does."""
        return cast("list[QueryTokens]", self._run(queries, "query", later=later, with_tokens=True))

    def bound(self, text: str) -> int:
        """Return the most tokens a text can have, each of a character or more: counting would tokenise twice."""
        return min(len(text) + _SPECIAL, self.embedder.max_length)

    def _run(self, texts: Sequence[str], role: Role, *, later: bool, with_tokens: bool) -> list[Embedded]:
        end, queue = deadline.end(), self._later if later else self._waiting
        tickets = [_Ticket(text, role, end, queue, with_tokens) for text in texts]
        with self._lock:
            if tickets and not self._busy:  # nothing waits then
                self._busy = True
                tickets[0].turn.release()
            queue.extend(tickets)
        try:
            for ticket in tickets:
                if not ticket.turn.acquire(timeout=-1 if math.isinf(end) else max(0.0, end - time.monotonic())):
                    raise DeadlinePassed
                if not ticket.settled:
                    self._lead(ticket)
        except BaseException:  # too late, or a signal in the main thread: who leaves may not block those behind
            self._abandon(tickets)
            raise
        for ticket in tickets:
            if ticket.error is not None:
                raise ticket.error
        return [ticket.result for ticket in tickets if ticket.result is not None]

    def _abandon(self, tickets: Sequence[_Ticket]) -> None:
        with self._lock:
            heads = [queue[0] for queue in (self._waiting, self._later) if queue]
            led = any(head in tickets and not head.turn.locked() for head in heads)
            for ticket in tickets:
                if ticket in ticket.queue:
                    ticket.queue.remove(ticket)
            if led:
                self._hand_over()

    def _lead(self, own: _Ticket) -> None:
        """Run what waits, the caller's own first; then wake the next leader before the followers."""
        batch: list[_Ticket] = []
        try:
            batch = self._take(own.queue)
            self._settle([ticket for ticket in batch if not ticket.settled])
        finally:
            with self._lock:
                # A leader that was interrupted, which no Exception does, leaves its followers to the next one.
                for ticket in reversed(batch):
                    if ticket is not own and not ticket.settled:
                        own.queue.appendleft(ticket)
                self._hand_over()
            for ticket in batch:
                if ticket is not own and ticket.settled:
                    ticket.turn.release()

    def _hand_over(self) -> None:
        """Let the first that waits lead; called with the lock held, by whoever led or was to lead."""
        queue = self._waiting or self._later  # the more urgent one first
        self._busy = bool(queue)
        if queue:
            queue[0].turn.release()

    def _take(self, queue: "deque[_Ticket]") -> list[_Ticket]:
        """Take the texts that wait, oldest first, as far as the limits and their role go; the first of them always.

        Those whose deadline has passed come along too, without counting.
        """
        batch: list[_Ticket] = []
        texts = tokens = 0
        role: Role | None = None
        now = time.monotonic()
        with self._lock:
            while queue and texts < MAX_TEXTS:
                ticket = queue[0]
                if ticket.end <= now:
                    ticket.error = DeadlinePassed()
                else:
                    tokens += self.bound(ticket.text)
                    if texts and (tokens > MAX_TOKENS or ticket.role != role):
                        break
                    role = ticket.role
                    texts += 1
                batch.append(queue.popleft())
        return batch

    def _settle(self, batch: Sequence[_Ticket]) -> None:
        """Give every ticket its vector or its error."""
        if not batch:
            return
        texts = [ticket.text for ticket in batch]
        try:
            results: Sequence[Embedded]
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
    """Runs a cross-encoder for many threads: searches before what can wait, and never past a deadline.

    A run takes tens of milliseconds, so the scores of a search are worth having only as far as there is time for them.
    """

    def __init__(self, model: CrossEncoder) -> None:
        self.model = model
        self._changed = threading.Condition()
        self._busy = False
        self._urgent = 0  # searches that wait
        self._pace = 0.0  # seconds a token, of late; 0 as long as nobody knows

    def warm(self) -> None:
        """Run the model once, so that its pace is known and its memory allocated before the first search."""
        if not self._pace:
            self.score(self.model.pairs("warm", ["a passage that has about as many words as a short one does"] * 4))

    def score_best(self, query: str, texts: Sequence[str]) -> Vector:
        """Return the logits of as many texts as there is time for, from the first one on, float32 (m,)."""
        end = time.monotonic() + _RERANK_SHARE * deadline.remaining()
        rows = self.model.pairs(query, texts)
        with self._turn(end, urgent=True) as ours:
            if not ours:
                return np.empty(0, np.float32)
            spent = np.cumsum([len(row) for row in rows]) * self._pace
            count = int(np.searchsorted(spent, end - time.monotonic(), side="right"))
            if rows and not count:
                self._pace *= _RECOVERY
            return self._run(rows[:count])

    def score(self, rows: Sequence[list[int]]) -> Vector:
        """Return the logits of pairs, float32 (n,), behind all searches. Raises DeadlinePassed if its turn is late."""
        with self._turn(deadline.end(), urgent=False) as ours:
            if not ours:
                raise DeadlinePassed
            return self._run(rows)

    @contextmanager
    def _turn(self, end: float, *, urgent: bool) -> Iterator[bool]:
        """Have the model to oneself; gives whether it came to that before `end`."""
        with self._changed:
            self._urgent += urgent
            left = None if math.isinf(end) else max(0.0, end - time.monotonic())
            ours = self._changed.wait_for(lambda: not self._busy and (urgent or not self._urgent), left)
            self._urgent -= urgent
            self._busy |= ours
            self._changed.notify_all()  # that one less is waiting
        try:
            yield ours
        finally:
            with self._changed:
                self._busy &= not ours
                self._changed.notify_all()

    def _run(self, rows: Sequence[list[int]]) -> Vector:
        if not rows:
            return np.empty(0, np.float32)
        began = time.monotonic()
        logits = self.model.logits(rows)
        pace = (time.monotonic() - began) / sum(map(len, rows))
        self._pace += (pace - self._pace) * _SMOOTHING if self._pace else pace
        return logits
