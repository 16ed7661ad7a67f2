"""Hands what is asked to the store, behind the queries: a bounded queue, and a thread that writes it."""

import logging
import random
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sized

from rag.errors import InsightsError
from rag.insights.events import Feedback, Searched, SearchId, Shown, Via, What
from rag.insights.past_questions import PastQuestions
from rag.insights.redaction import Redaction
from rag.insights.store import InsightsStore
from rag.query.request import SearchRequest
from rag.query.results import Answer
from rag.serving.scope import Scope
from rag.settings import Settings

WRITE_S = 0.5  # between two writes; what is told meanwhile is lost if the process is killed
MOST_WAITING = 10_000  # searches, and as much feedback
MOST_HITS = 200_000  # of these searches; each has less than a kilobyte
_PATIENCE_S = 3.0  # that feedback waits for its search, which another worker may not have written yet
_UNSEEN_S, _RETAIN_S = 60.0, 600.0  # between two looks at what is to go

log = logging.getLogger("pilotlight")

Counted = Callable[[str, int], None]  # told "written" or "dropped", and of how many


def _count_nothing(outcome: str, number: int) -> None:
    pass


class Recorder:
    """Keeps what is asked. Safe to use from several threads; no call but `close` waits for the disk."""

    def __init__(self, settings: Settings, counted: Counted = _count_nothing) -> None:
        """Raises SettingsError for patterns that cannot be used; the store is made with the first write."""
        self._settings = settings
        self.counted = counted
        self._redaction = Redaction.read(settings.insights_redact)
        self._share = settings.insights_sample
        self._searches: deque[Searched] = deque()
        self._taken: list[Searched] = []  # from the queue, to be written
        self._hits = 0  # of both
        self._counting = threading.Lock()
        self._feedback: deque[tuple[float, Feedback]] = deque()
        self._store: InsightsStore | None = None
        self._is_failing = False
        self._cleaned: dict[float, float] = {}
        self.questions = PastQuestions(settings)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="pilotlight-insights", daemon=True)

    def start(self) -> None:
        """Begin to write. Returns at once."""
        self._thread.start()

    def close(self) -> None:
        """Write what waits, and stop."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()

    def searched(
        self, request: SearchRequest, answer: Answer, *, via: Via, who: str, scope: Scope, seen: bool = True
    ) -> str | None:
        """Take a search that was answered; return its id, or None where it is not kept.

        Args:
            request: what was asked.
            answer: what it was told.
            via: by which way it came.
            who: who asked, such as "key NAME", which is never kept as it is; empty where nobody knows.
            scope: what they may see.
            seen: whether it counts at once, or only when feedback comes: one that is made while somebody types.
        """
        if self._share < 1 and random.random() >= self._share:  # noqa: S311
            return None
        size = _size(answer.query, answer.hits)
        with self._counting:
            if len(self._searches) + len(self._taken) >= MOST_WAITING or self._hits + size > MOST_HITS:
                self.counted("dropped", 1)
                return None
            self._hits += size
        id = SearchId.new(time.time())
        found = (answer.query, tuple(map(Shown.of, answer.hits)), answer.close, answer.took_ms["total"])
        self._searches.append(Searched(id, *found, request.collection, request.mode, via, who, scope, seen))
        return str(id)

    def told(self, id: str, what: What, passage: str, scope: Scope) -> None:
        """Take what became of a search. Whether there is one of this id is not told."""
        if (parsed := SearchId.parse(id)) is None:
            return
        if len(self._feedback) >= MOST_WAITING:
            self.counted("dropped", 1)
            return
        self._feedback.append((time.monotonic(), Feedback(parsed, what, passage, scope)))

    def _keep(self) -> None:
        while not self._closed.wait(WRITE_S):
            self._turn()
        self._turn()
        self._drop()

    def _turn(self) -> None:
        try:
            if self._searches or self._feedback or self._taken:
                self._write()
            self._clean()
        except (sqlite3.Error, OSError, ValueError, InsightsError) as error:
            if not self._is_failing:
                log.warning("what people ask cannot be written: %s", error)
            self._is_failing = True
            if isinstance(error, ValueError):  # it will be wrong the next time too
                self._drop()
            if self._store:
                self._store.close()
                self._store = None
        else:
            self._is_failing = False

    def _write(self) -> None:
        """Write what waits; where that fails it waits on, until there is too much of it."""
        while self._searches:
            self._taken.append(self._searches.popleft())
        feedback = [self._feedback.popleft() for _ in range(len(self._feedback))]
        try:
            later = set(self._opened().write(self._taken, [told for _, told in feedback]))
        except BaseException:
            self._feedback.extendleft(reversed(feedback))
            raise
        self.counted("written", len(self._taken))
        self._forget()
        oldest = time.monotonic() - _PATIENCE_S
        self._feedback.extend(each for each in feedback if each[1] in later and each[0] > oldest)

    def _drop(self) -> None:
        if lost := len(self._taken):
            self.counted("dropped", lost)
            self._forget()

    def _forget(self) -> None:
        with self._counting:
            self._hits -= sum(_size(each.query, each.shown) for each in self._taken)
        self._taken.clear()

    def _opened(self) -> InsightsStore:
        if self._store is not None and not self._store.is_there:
            self._store.close()
            self._store = None
        if self._store is None:
            settings = self._settings
            self._store = InsightsStore(
                settings.insights_folder, period=settings.insights_callers, redaction=self._redaction
            )
        return self._store

    def _clean(self) -> None:
        if self._store is None:  # nothing was asked yet
            return
        settings, now = self._settings, time.time()
        if self._is_due(_UNSEEN_S):
            self._store.forget_unseen(now)
            self.questions.read()
        if self._is_due(_RETAIN_S):
            self._store.retain(now, settings.insights_days, settings.insights_megabytes * 1_000_000)

    def _is_due(self, seconds: float) -> bool:
        now = time.monotonic()
        if now < self._cleaned.get(seconds, -seconds) + seconds:
            return False
        self._cleaned[seconds] = now
        return True


def _size(query: str, hits: Sized) -> int:
    """How much of memory a search takes while it waits, in hits."""
    return len(hits) + len(query) // 100
