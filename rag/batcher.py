"""Queries that wait for the model share its next run: a batch costs less than its texts one by one.

Leader and followers, without a timer. A query that finds the model free runs at once, in its own thread. Those that
arrive meanwhile queue up; when the run ends, the first of them becomes the leader and takes along what else waits.
"""

import threading
from collections import deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from embedder.errors import EmbedderError
from embedder.protocol import Embedder

MAX_TEXTS = 32  # a run; more would let the first of a batch wait for the last
MAX_TOKENS = 2048
_SPECIAL = 2  # tokens that a model adds to a text

Vector = npt.NDArray[np.float32]


class _Ticket:
    """One caller's text, and what became of it."""

    __slots__ = ("error", "text", "turn", "vector")

    def __init__(self, text: str) -> None:
        self.text = text
        self.vector: Vector | None = None
        self.error: Exception | None = None
        self.turn = threading.Lock()  # held until there is an outcome, or it is this caller's turn to lead
        self.turn.acquire()

    @property
    def settled(self) -> bool:
        return self.vector is not None or self.error is not None

    def outcome(self) -> Vector:
        if self.error is not None:
            raise self.error
        assert self.vector is not None  # noqa: S101 - for the type checker
        return self.vector


class QueryBatcher:
    """Embeds queries for many threads, first come first served; one run of the model at a time."""

    def __init__(self, embedder: Embedder, *, max_texts: int = MAX_TEXTS, max_tokens: int = MAX_TOKENS) -> None:
        self.embedder = embedder
        self._max_texts = max_texts
        self._max_tokens = max_tokens
        self._lock = threading.Lock()  # guards the two below; never held during a run
        self._busy = False
        self._waiting: deque[_Ticket] = deque()

    @property
    def waiting(self) -> int:
        """Queries that wait for the model now."""
        return len(self._waiting)

    def encode(self, query: str) -> Vector:
        """Embed one query as float32 (dim,). Raises what the embedder raises for this query, and for it alone."""
        ticket = _Ticket(query)
        with self._lock:
            leads = not self._busy
            if leads:
                self._busy = True
            else:
                self._waiting.append(ticket)
        if leads:
            self._lead([ticket])
        else:
            self._wait(ticket)
            if not ticket.settled:
                self._lead(self._take())
        return ticket.outcome()

    def _wait(self, ticket: _Ticket) -> None:
        try:
            ticket.turn.acquire()
        except BaseException:  # a signal, in the main thread: the caller leaves, and may not block those behind it
            with self._lock:
                if ticket in self._waiting:
                    self._waiting.remove(ticket)
                    if not ticket.turn.locked():
                        self._hand_over()
            raise

    def _lead(self, batch: list[_Ticket]) -> None:
        """Run a batch, whose first is the caller's own; then wake the next leader before the followers."""
        try:
            self._settle(batch)
        finally:
            with self._lock:
                # A leader that was interrupted, which no Exception does, leaves its followers to the next one.
                self._waiting.extendleft(ticket for ticket in reversed(batch[1:]) if not ticket.settled)
                self._hand_over()
            for ticket in batch[1:]:
                if ticket.settled:
                    ticket.turn.release()

    def _hand_over(self) -> None:
        """Let the first that waits lead; called with the lock held, by whoever led or was to lead."""
        self._busy = bool(self._waiting)
        if self._waiting:
            self._waiting[0].turn.release()

    def _take(self) -> list[_Ticket]:
        """Take the queries that wait, oldest first, as far as the budget goes; the first of them always."""
        batch: list[_Ticket] = []
        tokens = 0
        with self._lock:
            while self._waiting and len(batch) < self._max_texts:
                tokens += self._bound(self._waiting[0].text)
                if batch and tokens > self._max_tokens:
                    break
                batch.append(self._waiting.popleft())
        return batch

    def _bound(self, text: str) -> int:
        """Most tokens that a text can have: a token is a character or more. Counting them would tokenise twice."""
        return min(len(text) + _SPECIAL, self.embedder.max_length)

    def _settle(self, batch: Sequence[_Ticket]) -> None:
        """Give every ticket its vector or its error."""
        try:
            vectors = self.embedder.encode([ticket.text for ticket in batch], role="query")
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
