"""The record of searches: the database searches.sqlite in a private folder. Any number of processes may open it.

It contains questions, hits, feedback and times, but no identities. Deleted rows are overwritten (`secure_delete`), and
the write-ahead log is truncated. A server passes searches to a `Recorder`, whose thread writes them from a queue.
"""

import fcntl
import logging
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, NamedTuple

from indexer.generation.lexical.letters import fold
from rag.errors import InsightsError
from rag.query.request import ALL
from rag.query.results import Answer

Via = Literal["page", "api", "batch", "answer", "mcp", "box"]
FeedbackKind = Literal["seen", "opened", "good", "bad", "none"]
DATABASE = "searches.sqlite"
MAX_RECORDED_CHARS = 500
WRITE_INTERVAL_S = 0.5  # a killed process loses the searches of the last interval
MAX_WAITING_BYTES = 16_000_000  # a full queue drops new searches
MAX_BYTES = 500_000_000
_FEEDBACK_SIZE = 1_000
_CLEAN_INTERVAL_S = 60.0
_VERDICTS = {"good": 1, "bad": -1, "none": 0}
_LOCK = "lock"
_UNSEEN_LIFETIME_S = 600.0  # lifetime of searches whose hits were not displayed
_BUSY_TIMEOUT_S = 5.0
_NOISE_BITS = 21  # random bits that follow the milliseconds in an id
_VERSION = 2
_SCHEMA = Path(__file__).with_name("schema.sql").read_text("utf-8")
_INDEX = "CREATE INDEX IF NOT EXISTS told ON hits (search) WHERE opened OR verdict"
_ADD = "INSERT OR IGNORE INTO searches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_ADD_HIT = "INSERT OR IGNORE INTO hits (search, rank, passage, document) VALUES (?, ?, ?, ?)"


log = logging.getLogger("pilotlight")


def new_id(at: float) -> str:
    """Return an id for a search: 32 hexadecimal digits, of which the first encode the Unix time `at`."""
    noise = int.from_bytes(os.urandom(11), "little")
    return f"{int(at * 1000) << _NOISE_BITS | noise >> 67:016x}{noise & ((1 << 63) - 1):016x}"


def first_id(at: float) -> str:
    """Return the lowest id that a search at the Unix time `at` can have. Later searches have greater ids."""
    return f"{int(at * 1000) << _NOISE_BITS:016x}"


class RecordedSearch(NamedTuple):
    """A search to record, with its hits."""

    id: str
    collection: str
    via: Via
    query: str
    hits: Sequence[tuple[str, str]]  # ids of passage and document, best first
    cosine: float | None
    close: bool
    ms: float
    seen: bool  # False if the user was still typing; reports ignore the search until it has feedback


class Feedback(NamedTuple):
    """Feedback on a search: a hit was opened or judged, or the hits were displayed."""

    id: str
    event: FeedbackKind
    passage: str  # id of the hit; empty if the event is "seen"


class InsightsStore:
    """The database of searches. Not safe to share between threads. Methods raise sqlite3.Error or OSError."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._connection = folder, _open(folder)

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def write(self, searches: Sequence[RecordedSearch], feedback: Sequence[Feedback]) -> None:
        """Write searches and feedback in one transaction. Feedback on unknown searches or hits is ignored."""
        with self._connection as connection:
            connection.execute("BEGIN IMMEDIATE")
            for one in searches:
                connection.execute(_ADD, (*one[:4], len(one.hits), *one[5:]))
                connection.executemany(_ADD_HIT, [(one.id, rank, *hit) for rank, hit in enumerate(one.hits)])
            for id, event, passage in feedback:
                if event != "seen":
                    column, value = ("opened", 1) if event == "opened" else ("verdict", _VERDICTS[event])
                    change = f"UPDATE hits SET {column} = ? WHERE search = ? AND passage = ?"  # noqa: S608
                    if not connection.execute(change, (value, id, passage)).rowcount:
                        continue
                connection.execute("UPDATE searches SET seen = 1 WHERE id = ? AND seen = 0", (id,))

    def delete_old(self, now: float, days: int, max_bytes: int) -> None:
        """Delete searches after `days`. Delete a search after ten minutes if its hits were not displayed.

        While the file exceeds `max_bytes`, delete the oldest tenth of the searches. `now` is a Unix time.
        """
        oldest = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0) - timedelta(days=days - 1)
        execute = self._connection.execute
        execute("DELETE FROM searches WHERE seen = 0 AND id < ?", (first_id(now - _UNSEEN_LIFETIME_S),))
        execute("DELETE FROM searches WHERE id < ?", (first_id(oldest.timestamp()),))
        while True:
            names = ("page_count", "freelist_count", "page_size")
            pages, free, size = (int(execute(f"PRAGMA {name}").fetchone()[0]) for name in names)
            count = execute("SELECT count(*) FROM searches").fetchone()[0]
            if not count or (pages - free) * size <= max_bytes:
                break
            tenth = execute("SELECT id FROM searches ORDER BY id LIMIT 1 OFFSET ?", (count // 10,)).fetchone()
            execute("DELETE FROM searches WHERE id <= ?", tenth)
        # Only `executescript` runs this statement to its end. `execute` would free one or two pages.
        self._connection.executescript("PRAGMA incremental_vacuum")
        execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def open_to_read(folder: Path) -> sqlite3.Connection:
    """Open the database read-only. Raises InsightsError if it is missing, and the errors of `InsightsStore`."""
    if not (folder / DATABASE).is_file():
        raise InsightsError(f"{folder} has no record of searches: serve with --insights to keep one")
    connection = _open(folder)
    connection.execute("PRAGMA query_only = ON")
    # The SQL function question_key returns the same text for all spellings of a question.
    connection.create_function("question_key", 1, lambda query: fold(query).strip(" ?!."), deterministic=True)
    return connection


def _open(folder: Path) -> sqlite3.Connection:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / _LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = folder / DATABASE
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        for pragma in ("secure_delete = ON", "foreign_keys = ON", "synchronous = NORMAL"):
            connection.execute(f"PRAGMA {pragma}")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, _VERSION):
            raise InsightsError(f"{path} has version {version}, not {_VERSION}: delete the file to start again")
        if version == 0:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_VERSION}; COMMIT;")
        connection.execute(_INDEX)
    return connection


def _size(one: RecordedSearch) -> int:
    """Estimate the memory in bytes that a search in the queue uses."""
    return 1_000 + 4 * len(one.query) + sum(250 + len(passage) + len(document) for passage, document in one.hits)


class Recorder:
    """Records searches in a background thread. Safe to share between threads. Only `close` waits for writes."""

    def __init__(self, folder: Path, days: int) -> None:
        self.count: Callable[[str, int], None] = lambda *_: None  # arguments: "written" or "dropped", and a number
        self._folder, self._days = folder, days
        self._searches: deque[RecordedSearch] = deque()
        self._feedback: deque[Feedback] = deque()
        self._lock = threading.Lock()
        self._free_bytes = MAX_WAITING_BYTES
        self._is_failing = False
        self._cleaned = -_CLEAN_INTERVAL_S
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pilotlight-insights", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Write all waiting searches and stop the thread."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()

    def record(self, answer: Answer, via: Via, *, seen: bool = True) -> str | None:
        """Queue a search. Returns the id of the search, or None if the queue is full.

        Args:
            answer: the answer to the search.
            via: interface through which the search was requested.
            seen: whether the hits were displayed. If not, reports ignore the search until it has feedback.
        """
        one = RecordedSearch(
            new_id(time.time()),
            answer.collections[0] if len(answer.collections) == 1 else ALL,
            via,
            " ".join(answer.query.split())[:MAX_RECORDED_CHARS],
            [(hit.id, hit.document) for hit in answer.hits],
            max((cosine for hit in answer.hits if (cosine := hit.scores["dense"]) is not None), default=None),
            answer.close,
            answer.took_ms["total"],
            seen,
        )
        if not self._reserve(_size(one)):
            return None
        self._searches.append(one)
        return one.id

    def add_feedback(self, id: str, event: FeedbackKind, passage: str) -> None:
        """Queue feedback on a search. Feedback on an unknown search or hit is ignored."""
        if self._reserve(_FEEDBACK_SIZE):
            self._feedback.append(Feedback(id, event, passage))

    def _reserve(self, size: int) -> bool:
        with self._lock:
            fits = size <= self._free_bytes
            self._free_bytes -= size if fits else 0
        if not fits:
            self.count("dropped", 1)
        return fits

    def _run(self) -> None:
        while not self._closed.wait(WRITE_INTERVAL_S):
            self._write()
        self._write()
        if self._searches:
            self.count("dropped", len(self._searches))

    def _write(self) -> None:
        """Write the queue to the database, and delete old searches. If this fails, the queue stays unchanged."""
        is_due = time.monotonic() >= self._cleaned + _CLEAN_INTERVAL_S and (self._folder / DATABASE).exists()
        if not (self._searches or self._feedback or is_due):
            return
        try:
            with closing(InsightsStore(self._folder)) as store:
                searches, feedback = list(self._searches), list(self._feedback)
                store.write(searches, feedback)
                for _ in searches:
                    self._searches.popleft()
                for _ in feedback:
                    self._feedback.popleft()
                self.count("written", len(searches))
                with self._lock:
                    self._free_bytes += sum(map(_size, searches)) + _FEEDBACK_SIZE * len(feedback)
                if is_due:
                    self._cleaned = time.monotonic()
                    store.delete_old(time.time(), self._days, MAX_BYTES)
            self._is_failing = False
        except (sqlite3.Error, OSError, InsightsError) as error:
            if not self._is_failing:
                log.warning("searches cannot be recorded: %s", error)
            self._is_failing = True
