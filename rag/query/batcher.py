"""Queries that wait for the model share its next run: a batch costs less than its texts one by one.

Leader and followers, without a timer. A query that finds the model free runs at once, in its own thread. Those that
arrive meanwhile queue up; when the run ends, the first of them becomes the leader and takes along what else waits.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from embedder.errors import EmbedderError
from embedder.late_interaction import QueryTokens
from embedder.protocol import Embedder, Role
from rag import deadline
from rag.errors import DeadlinePassed

MAX_TEXTS = 32  # a run; more would let the first of a batch wait for the last
MAX_TOKENS = 2048
_SPECIAL = 2  # tokens that a model adds to a text

Vector = npt.NDArray[np.float32]
Embedded = Vector | QueryTokens


class _Ticket:
    """One text, and what became of it."""

    __slots__ = ("end", "error", "queue", "role", "text", "tokens", "turn", "vector")

    def __init__(self, text: str, role: Role, end: float, queue: "deque[_Ticket]", tokens: bool) -> None:
        self.queue = queue  # where it waits
        self.text = text
        self.role = role
        self.tokens = tokens  # whether they are wanted beside the vector
        self.end = end  # when its caller stops waiting
        self.vector: Embedded | None = None
        self.error: Exception | None = None
        self.turn = threading.Lock()  # held until there is an outcome, or it is this caller's turn to lead
        self.turn.acquire()

    @property
    def settled(self) -> bool:
        return self.vector is not None or self.error is not None

    def outcome(self) -> Embedded:
        if self.error is not None:
            raise self.error
        assert self.vector is not None  # noqa: S101 - for the type checker
        return self.vector

    def wait(self) -> None:
        left = self.end - time.monotonic()
        if not self.turn.acquire(timeout=-1 if math.isinf(left) else max(0.0, left)):
            raise DeadlinePassed


class QueryBatcher:
    """Embeds texts for many threads, first come first served; one run of the model at a time.

    What can wait is run while nothing else waits.
    """

    def __init__(
        self,
        embedder: Embedder,
        *,
        max_texts: int = MAX_TEXTS,
        max_tokens: int = MAX_TOKENS,
        on_batch: Callable[[int, int], None] | None = None,
    ) -> None:
        """`on_batch` is told of each run how many texts it had, and how many waited when it ended."""
        self.embedder = embedder
        self._on_batch = on_batch
        self._max_texts = max_texts
        self._max_tokens = max_tokens
        self._lock = threading.Lock()  # guards those below; never held during a run
        self._busy = False
        self._waiting: deque[_Ticket] = deque()
        self._later: deque[_Ticket] = deque()

    @property
    def waiting(self) -> int:
        """Queries that wait for the model now."""
        return len(self._waiting)

    def encode(self, query: str) -> Vector:
        """Embed one query as float32 (dim,).

        Raises DeadlinePassed if its turn has not come by the deadline, and what the embedder raises for this query.
        """
        return cast("Vector", self._run([query], "query")[0])

    def encode_tokens(self, query: str) -> QueryTokens:
        """Embed one query with its tokens, in the same run. Raises as `encode` does."""
        return cast("QueryTokens", self._run([query], "query", tokens=True)[0])

    def encode_many_tokens(self, queries: Sequence[str], *, later: bool = False) -> list[QueryTokens]:
        """Embed queries with their tokens; they queue up together. Takes and raises what `encode_many` does."""
        return cast("list[QueryTokens]", self._run(queries, "query", later=later, tokens=True))

    def encode_many(self, texts: Sequence[str], role: Role = "query", *, later: bool = False) -> list[Vector]:
        """Embed texts, each as float32 (dim,); they queue up together. Raises as `encode` does.

        With `later` they wait until nothing else does.
        """
        return cast("list[Vector]", self._run(texts, role, later=later))

    def _run(self, texts: Sequence[str], role: Role, *, later: bool = False, tokens: bool = False) -> list[Embedded]:
        end = deadline.end()
        queue = self._later if later else self._waiting
        tickets = [_Ticket(text, role, end, queue, tokens) for text in texts]
        with self._lock:
            if tickets and not self._busy:  # nothing waits then
                self._busy = True
                tickets[0].turn.release()
            queue.extend(tickets)
        try:
            for ticket in tickets:
                ticket.wait()
                if not ticket.settled:
                    self._lead(ticket)
        except BaseException:  # too late, or a signal in the main thread: who leaves may not block those behind
            self._abandon(tickets)
            raise
        return [ticket.outcome() for ticket in tickets]

    def _abandon(self, tickets: Sequence[_Ticket]) -> None:
        with self._lock:
            queues = [queue for queue in (self._waiting, self._later) if queue]
            led = any(queue[0] in tickets and not queue[0].turn.locked() for queue in queues)
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
            self._settle(batch)
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
        """Take the texts that wait, oldest first, as far as the budget and their role go; the first of them always.

        Those whose deadline has passed come along too, without using any of it.
        """
        batch: list[_Ticket] = []
        texts = tokens = 0
        role: Role | None = None
        now = time.monotonic()
        with self._lock:
            while queue and texts < self._max_texts:
                ticket = queue[0]
                if ticket.end <= now:
                    ticket.error = DeadlinePassed()
                else:
                    tokens += self.bound(ticket.text)
                    if texts and (tokens > self._max_tokens or ticket.role != role):
                        break
                    role = ticket.role
                    texts += 1
                batch.append(queue.popleft())
        return batch

    def bound(self, text: str) -> int:
        """Most tokens that a text can have: a token is a character or more. Counting them would tokenise twice."""
        return min(len(text) + _SPECIAL, self.embedder.max_length)

    def _embed(self, batch: Sequence[_Ticket]) -> Sequence[Embedded]:
        texts = [ticket.text for ticket in batch]
        if True not in [ticket.tokens for ticket in batch]:
            return list(self.embedder.encode(texts, role=batch[0].role))
        made = self.embedder.encode_query_tokens(texts)
        return [both if ticket.tokens else both.vector for ticket, both in zip(batch, made, strict=True)]

    def _settle(self, batch: Sequence[_Ticket]) -> None:
        """Give every ticket that is not settled its vector or its error."""
        batch = [ticket for ticket in batch if not ticket.settled]
        if not batch:
            return
        try:
            vectors = self._embed(batch)
            if len(vectors) != len(batch):
                raise EmbedderError(f"the embedder gave {len(vectors)} vectors for {len(batch)} texts: check the model")
            for ticket, vector in zip(batch, vectors, strict=True):
                ticket.vector = vector
        except Exception as error:  # noqa: BLE001 - it is raised again by the caller whose query it is
            if len(batch) == 1:
                batch[0].error = error
                return
            for ticket in batch:
                self._settle([ticket])  # alone, so that one query's error does not become its neighbours'
        if self._on_batch:
            self._on_batch(len(batch), self.waiting)
