"""Turns for callers who have many texts embedded: in small runs, each caller in turn, behind every query that waits.

A turn is counted in tokens, so nobody gets more of the model by longer texts, or by more requests at a time.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from embedder.late_interaction import QueryTokens
from embedder.protocol import Role
from rag import deadline
from rag.errors import DeadlinePassed
from rag.query.batcher import QueryBatcher

TURN_TOKENS = 256  # a query that comes meanwhile waits for so many at most, some tens of milliseconds
_SMOOTHING = 0.1  # weight of the latest turn in the pace
T = TypeVar("T")

caller: ContextVar[str] = ContextVar("caller", default="")
"""Who asks, in this context; without one, all are one."""


class _Work:
    """The texts of one request that are still to be embedded."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens


class FairShare:
    """Embeds many texts for many callers through a batcher, one turn at a time. Safe to share between threads."""

    def __init__(self, batcher: QueryBatcher) -> None:
        self._batcher = batcher
        self._changed = threading.Condition()
        self._work: dict[str, deque[_Work]] = {}  # by caller; the first of the first has its turn
        self._pace = 0.0  # seconds a token, of late; 0 as long as nobody knows

    def encode(self, texts: Sequence[str], role: Role) -> npt.NDArray[np.float32]:
        """Embed texts as float32 (n, dim).

        Raises DeadlinePassed: at once if they cannot be done in time, or when it passes. And what the embedder raises.
        """
        vectors = np.empty((len(texts), self._batcher.embedder.dimension), np.float32)
        for done, made in self._in_turns(texts, lambda some: self._batcher.encode_many(some, role, later=True)):
            vectors[done : done + len(made)] = made
        return vectors

    def encode_queries(self, queries: Sequence[str]) -> list[QueryTokens]:
        """Embed queries with their tokens. Raises as `encode` does."""
        turns = self._in_turns(queries, lambda some: self._batcher.encode_many_tokens(some, later=True))
        return [query for _, made in turns for query in made]

    def _in_turns(
        self, texts: Sequence[str], encode: Callable[[Sequence[str]], list[T]]
    ) -> Iterator[tuple[int, list[T]]]:
        """Yield how many texts are done, and what the next turn made."""
        turns = list(self._turns(texts))
        with self._working(caller.get(), _Work(sum(tokens for _, tokens in turns))) as work:
            done = 0
            for count, tokens in turns:
                self._await_turn(work)
                began = time.monotonic()
                made = encode(texts[done : done + count])
                self._pass_turn(work, tokens, time.monotonic() - began)
                yield done, made
                done += count

    def _turns(self, texts: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Yield how many texts each turn takes, and their tokens at most."""
        count = tokens = 0
        for text in texts:
            bound = self._batcher.bound(text)
            if count and tokens + bound > TURN_TOKENS:
                yield count, tokens
                count = tokens = 0
            count, tokens = count + 1, tokens + bound
        if count:
            yield count, tokens

    @contextmanager
    def _working(self, name: str, work: _Work) -> Iterator[_Work]:
        with self._changed:
            own = work.tokens + sum(each.tokens for each in self._work.get(name, ()))
            others = (sum(each.tokens for each in queue) for who, queue in self._work.items() if who != name)
            if self._pace * (own + sum(min(own, tokens) for tokens in others)) > deadline.remaining():
                raise DeadlinePassed
            self._work.setdefault(name, deque()).append(work)
        try:
            yield work
        finally:
            with self._changed:
                self._work[name].remove(work)
                if not self._work[name]:
                    del self._work[name]
                self._changed.notify_all()

    def _await_turn(self, work: _Work) -> None:
        left = deadline.remaining()
        with self._changed:
            if not self._changed.wait_for(lambda: self._first() is work, None if left == float("inf") else left):
                raise DeadlinePassed

    def _first(self) -> _Work:
        return next(iter(self._work.values()))[0]

    def _pass_turn(self, work: _Work, tokens: int, seconds: float) -> None:
        """Let the next caller have a turn."""
        with self._changed:
            pace = seconds / tokens
            self._pace += (pace - self._pace) * _SMOOTHING if self._pace else pace
            work.tokens -= tokens
            name = next(iter(self._work))
            self._work[name] = self._work.pop(name)  # to the end
            self._changed.notify_all()
