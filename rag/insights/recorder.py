"""Hands searches to the store behind the queries: a bounded queue, and a thread that writes it."""

import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable

from rag.errors import InsightsError
from rag.insights.store import MOST_CHARACTERS, Feedback, InsightsStore, Searched, Via, What, new_id
from rag.query.request import SearchRequest
from rag.query.results import Answer
from rag.settings import Settings

WRITE_S = 0.5  # between two writes; what waits is lost if the process is killed
MOST_WAITING = 2_000  # searches, of at most some hundred hits each, and as much feedback
MOST_BYTES = 500_000_000  # of the store
_FEEDBACK_PATIENCE_S = 3.0  # until another worker has written the search
_CLEAN_S = 60.0  # between two deletions

log = logging.getLogger("pilotlight")


class Recorder:
    """Keeps what is asked. Safe to use from several threads; no call but `close` waits for the disk."""

    def __init__(self, settings: Settings) -> None:
        self.count: Callable[[str, int], None] = lambda *_: None  # takes "written" or "dropped", and of how many
        self._settings = settings
        self._searches: deque[Searched] = deque()
        self._feedback: deque[tuple[float, Feedback]] = deque()  # with the time of arrival
        self._store: InsightsStore | None = None
        self._is_failing = False
        self._cleaned = -_CLEAN_S
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pilotlight-insights", daemon=True)

    def start(self) -> None:
        """Begin to write. Returns at once."""
        self._thread.start()

    def close(self) -> None:
        """Write what waits, and stop."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()

    def record(self, request: SearchRequest, answer: Answer, via: Via, *, seen: bool = True) -> str | None:
        """Take a search that was answered; return its id, or None where too many wait.

        A search with `seen` False, which is made while somebody types, counts only once feedback comes.
        """
        if len(self._searches) >= MOST_WAITING:
            self.count("dropped", 1)
            return None
        one = Searched(
            new_id(time.time()),
            request.collection,
            via,
            " ".join(answer.query.split())[:MOST_CHARACTERS],
            [(hit.id, hit.document) for hit in answer.hits],
            max((cosine for hit in answer.hits if (cosine := hit.scores["dense"]) is not None), default=None),
            answer.close,
            answer.took_ms["total"],
            seen,
        )
        self._searches.append(one)
        return one.id

    def add_feedback(self, id: str, what: What, passage: str) -> None:
        """Take what became of a search; feedback on an unknown search is ignored."""
        if len(self._feedback) >= MOST_WAITING:
            self.count("dropped", 1)
            return
        self._feedback.append((time.monotonic(), Feedback(id, what, passage)))

    def _run(self) -> None:
        while not self._closed.wait(WRITE_S):
            self._write()
        self._write()
        if self._searches:
            self.count("dropped", len(self._searches))

    def _write(self) -> None:
        """Write what waits, and delete what is old; what cannot be written goes on waiting."""
        try:
            if self._store and not self._store.is_there:
                self._store.close()
                self._store = None
            if self._searches or self._feedback:
                self._store = self._store or InsightsStore(self._settings.insights_folder)
                self._write_to(self._store)
            if self._store and time.monotonic() >= self._cleaned + _CLEAN_S:
                self._cleaned = time.monotonic()
                self._store.retain(time.time(), self._settings.insights_days, MOST_BYTES)
            self._is_failing = False
        except (sqlite3.Error, OSError, InsightsError) as error:
            if not self._is_failing:
                log.warning("searches cannot be recorded: %s", error)
            self._is_failing = True
            if self._store:
                self._store.close()
                self._store = None

    def _write_to(self, store: InsightsStore) -> None:
        searches, feedback = list(self._searches), list(self._feedback)
        unknown = set(store.write(searches, [each for _, each in feedback]))
        self.count("written", len(searches))
        for _ in searches:
            self._searches.popleft()
        for _ in feedback:
            self._feedback.popleft()
        oldest = time.monotonic() - _FEEDBACK_PATIENCE_S
        self._feedback.extend((at, each) for at, each in feedback if each in unknown and at > oldest)
