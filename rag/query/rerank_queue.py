"""The cross-encoder that searches share: one run at a time, searches before what can wait, and never past a deadline.

A run takes tens of milliseconds, so the scores of a search are worth having only as far as there is time for them.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from embedder.protocol import CrossEncoder
from rag import deadline
from rag.errors import DeadlinePassed

_SHARE = 0.7  # of the time left that a search may spend on it: the hits are still to be fetched and sent
_SMOOTHING = 0.3  # weight of the latest run in the pace
_RECOVERY = 0.8  # a pace that left no time for anything is believed so much less the next time

Logits = npt.NDArray[np.float32]


class RerankQueue:
    """Runs a cross-encoder for many threads."""

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

    def score_best(self, query: str, texts: Sequence[str]) -> Logits:
        """Return the logits of as many texts as there is time for, from the first one on, float32 (m,)."""
        end = time.monotonic() + _SHARE * deadline.remaining()
        rows = self.model.pairs(query, texts)
        with self._turn(end, urgent=True) as ours:
            return self._run(rows[: self._affordable(rows, end - time.monotonic())] if ours else [])

    def score(self, rows: Sequence[list[int]]) -> Logits:
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
            left = max(0.0, end - time.monotonic())
            ours = self._changed.wait_for(
                lambda: not self._busy and (urgent or not self._urgent), None if left == float("inf") else left
            )
            self._urgent -= urgent
            self._busy |= ours
            self._changed.notify_all()  # that one less is waiting
        try:
            yield ours
        finally:
            with self._changed:
                self._busy &= not ours
                self._changed.notify_all()

    def _affordable(self, rows: Sequence[list[int]], seconds: float) -> int:
        """How many of the pairs, from the first one on, can be scored in so many seconds."""
        spent = np.cumsum([len(row) for row in rows]) * self._pace
        count = int(np.searchsorted(spent, seconds, side="right"))
        if rows and not count:
            self._pace *= _RECOVERY
        return count

    def _run(self, rows: Sequence[list[int]]) -> Logits:
        if not rows:
            return np.empty(0, np.float32)
        began = time.monotonic()
        logits = self.model.logits(rows)
        pace = (time.monotonic() - began) / sum(map(len, rows))
        self._pace += (pace - self._pace) * _SMOOTHING if self._pace else pace
        return logits
