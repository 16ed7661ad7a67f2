"""The store of what people ask: one SQLite file in a private folder, which any number of processes may use at once.

INSIGHTS/searches.sqlite   what was asked, what was shown, and what became of it
INSIGHTS/salts.json        what callers are hashed with, see `callers`
INSIGHTS/lock              held while either is made or the salts change

What is deleted is overwritten in the file (`secure_delete`), and the write-ahead log, which may still have it, emptied.
"""

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rag.errors import InsightsError
from rag.insights.callers import DAY_S, LOCK, Callers, all_hashes, forget_salts
from rag.insights.events import VERDICTS, Feedback, Searched, first_number, parts_of, time_of
from rag.insights.redaction import Redaction
from rag.serving.scope import Scope

DATABASE = "searches.sqlite"
MOST_CHARACTERS = 500  # of a query that are kept
UNSEEN_S = 600.0  # after which a search that was never told to have been looked at goes
PATIENCE_S = 5.0  # that a change waits for others
_VERSION = 1
_SCHEMA = """
CREATE TABLE searches (
    id INTEGER PRIMARY KEY,
    secret INTEGER NOT NULL,
    collection TEXT NOT NULL,
    via TEXT NOT NULL,
    mode TEXT NOT NULL,
    query TEXT NOT NULL,
    redacted INTEGER NOT NULL,
    hits INTEGER NOT NULL,
    cosine REAL,
    close INTEGER NOT NULL,
    ms REAL NOT NULL,
    scope INTEGER NOT NULL,
    caller INTEGER,
    seen INTEGER NOT NULL,
    shown TEXT NOT NULL
) STRICT;
CREATE INDEX searches_unseen ON searches (id) WHERE seen = 0;
CREATE TABLE feedback (
    search INTEGER NOT NULL,
    passage TEXT NOT NULL,
    opened INTEGER NOT NULL,
    verdict INTEGER NOT NULL,
    PRIMARY KEY (search, passage)
) STRICT, WITHOUT ROWID;
CREATE TABLE passages (
    id TEXT PRIMARY KEY,
    document TEXT NOT NULL,
    url TEXT NOT NULL,
    title TEXT NOT NULL,
    shown TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE scopes (id INTEGER PRIMARY KEY, scope TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE purges (count INTEGER NOT NULL) STRICT;
INSERT INTO purges VALUES (0);
PRAGMA user_version = 1;
"""
_ADD = "INSERT OR IGNORE INTO searches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_NO_SCOPES = "DELETE FROM scopes WHERE id NOT IN (SELECT scope FROM searches)"
_ADD_PASSAGE = (
    "INSERT INTO passages VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET url = excluded.url, "
    "title = excluded.title, shown = excluded.shown"
)


class InsightsStore:
    """Writes searches and feedback, and deletes them. For one thread at a time; raises sqlite3.Error or OSError."""

    def __init__(self, folder: Path, *, period: str = "none", redaction: Redaction | None = None) -> None:
        """Make the folder and the file where they are not there."""
        self.folder = folder
        self._redaction = redaction or Redaction()
        self._callers = Callers(folder, period)
        self._known: set[str] = set()  # passages that were noted to have been shown today
        self._day = -1  # since 1970
        self._purges = 0
        self._scopes: dict[Scope, int] = {}
        self._connection = _open(folder)
        self._inode = _inode(folder)

    @property
    def is_there(self) -> bool:
        """Whether the file is still that which was opened: somebody may have taken it away."""
        return _inode(self.folder) == self._inode

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def write(self, searches: Sequence[Searched], feedback: Sequence[Feedback]) -> list[Feedback]:
        """Write both, all or nothing; return what is said of searches that are not there, which may yet come."""
        with self._transaction():
            self._look_for_purges()
            rows = [self._row(each) for each in searches]
            self._connection.executemany(_ADD, rows)
            return [each for each in feedback if not self._note(each)]

    def forget_unseen(self, now: float) -> None:
        """Delete the searches that nobody looked at: those that were made while somebody typed on."""
        with self._transaction():
            before = first_number(now - UNSEEN_S)
            self._connection.execute("DELETE FROM searches WHERE seen = 0 AND id < ?", (before,))

    def retain(self, now: float, days: int, most_bytes: int) -> None:
        """Delete what is older than some days, and the oldest where the file is larger than it may be."""
        oldest = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0) - timedelta(days=days - 1)
        first = self._connection.execute("SELECT min(id) FROM searches").fetchone()[0]
        if first is not None and first < first_number(oldest.timestamp()):
            self._delete("id < ?", (first_number(oldest.timestamp()),))
            with self._transaction():
                self._connection.execute("DELETE FROM passages WHERE shown < ?", (f"{oldest:%Y-%m-%d}",))
                self._connection.execute(_NO_SCOPES)
        while self._bytes() > most_bytes:
            count = self._connection.execute("SELECT count(*) FROM searches").fetchone()[0]
            if not count:
                break
            tenth = self._connection.execute("SELECT id FROM searches ORDER BY id LIMIT 1 OFFSET ?", (count // 10,))
            self._delete("id <= ?", tenth.fetchone())
        self._shrink()
        forget_salts(self.folder, oldest)

    def delete_day(self, day: str) -> int:
        """Delete the searches of a day, YYYY-MM-DD in UTC; return how many. Raises InsightsError for what is none."""
        try:
            begins = datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC)
        except ValueError:
            raise InsightsError(f"{day[:40]!r} is not a day such as 2026-01-31") from None
        bounds = [first_number((begins + timedelta(days=more)).timestamp()) for more in (0, 1)]
        return self._delete_for_good("id >= ? AND id < ?", bounds)

    def delete_caller(self, name: str) -> int:
        """Delete the searches of a key, a user or an address, as far as the salts are kept; return how many."""
        hashes = all_hashes(self.folder, name)
        return self._delete_for_good(f"caller IN ({', '.join('?' * len(hashes))})", hashes)

    def _delete_for_good(self, which: str, values: Sequence[int]) -> int:
        deleted = self._delete(which, values)
        with self._transaction():  # what nothing refers to any more, of all searches that are left
            used = {id for (shown,) in self._connection.execute("SELECT shown FROM searches") for id in shown.split()}
            gone = [(id,) for (id,) in self._connection.execute("SELECT id FROM passages") if id not in used]
            self._connection.executemany("DELETE FROM passages WHERE id = ?", gone)
            self._connection.execute(_NO_SCOPES)
            self._connection.execute("UPDATE purges SET count = count + 1")
        self._connection.execute("VACUUM")
        if not self._shrink():
            raise InsightsError("it is deleted, but a reader keeps the log of changes: run it again to empty that too")
        return deleted

    def _delete(self, which: str, values: Sequence[int]) -> int:
        with self._transaction():
            self._connection.execute(
                f"DELETE FROM feedback WHERE search IN (SELECT id FROM searches WHERE {which})",  # noqa: S608
                values,
            )
            return self._connection.execute(f"DELETE FROM searches WHERE {which}", values).rowcount  # noqa: S608

    def _shrink(self) -> bool:
        """Give free pages back, and empty the log; return whether it is empty: somebody may still read it."""
        self._connection.executescript("PRAGMA incremental_vacuum")  # `execute` would do a page or two
        busy: int = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        return not busy

    def _bytes(self) -> int:
        names = ("page_count", "freelist_count", "page_size")
        pages, free, size = (int(self._connection.execute(f"PRAGMA {name}").fetchone()[0]) for name in names)
        return (pages - free) * size

    def _look_for_purges(self) -> None:
        """Forget what was noted, where another process has deleted."""
        purges = self._connection.execute("SELECT count FROM purges").fetchone()[0]
        if purges != self._purges:
            self._purges = purges
            self._known.clear()
            self._scopes.clear()

    def _row(self, each: Searched) -> tuple[object, ...]:
        at = time_of(each.id.number)
        query = " ".join(self._redaction.redact(each.query).split())
        is_whole = query == " ".join(each.query.split()) and len(query) <= MOST_CHARACTERS
        cosines = [hit.cosine for hit in each.shown if hit.cosine is not None]
        self._note_passages(each, at)
        return (
            *each.id,
            each.collection,
            each.via,
            each.mode,
            query[:MOST_CHARACTERS],
            not is_whole,
            len(each.shown),
            max(cosines, default=None),
            each.close,
            each.ms,
            self._scope(each.scope, at),
            self._callers.hashed(each.who, at),
            each.seen,
            " ".join([hit.id for hit in each.shown]),
        )

    def _note_passages(self, each: Searched, at: float) -> None:
        if (day := int(at // DAY_S)) != self._day:
            self._day = day
            self._known.clear()
            self._scopes.clear()
        fresh = [hit for hit in each.shown if hit.id not in self._known]
        if fresh:
            today = f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"
            rows = [(hit.id, hit.document, hit.url, hit.title, today) for hit in fresh]
            self._connection.executemany(_ADD_PASSAGE, rows)
            self._known.update(hit.id for hit in fresh)

    def _scope_text(self, scope: Scope, at: float) -> str:
        """A scope as it is kept: names of readers are those of a person, so they are hashed as callers are."""
        readers: list[int | None] | None = None
        if scope.readers is not None:
            readers = [self._callers.hashed(f"readers {sorted(scope.readers)}", at)] if scope.readers else []
        return json.dumps({"parts": parts_of(scope), "readers": readers})

    def _scope(self, scope: Scope, at: float) -> int:
        if scope not in self._scopes:
            text = self._scope_text(scope, at)
            self._connection.execute("INSERT OR IGNORE INTO scopes (scope) VALUES (?)", (text,))
            found = self._connection.execute("SELECT id FROM scopes WHERE scope = ?", (text,))
            self._scopes[scope] = found.fetchone()[0]
        return self._scopes[scope]

    def _note(self, told: Feedback) -> bool:
        """Note what became of a search; return whether it is there."""
        found = self._connection.execute(
            "SELECT s.secret, s.shown, c.scope FROM searches s JOIN scopes c ON c.id = s.scope WHERE s.id = ?",
            (told.id.number,),
        ).fetchone()
        if found is None:
            return False
        secret, shown, scope = found
        # of a search that the caller could have made, and a hit that it was shown
        if secret != told.id.secret or scope != self._scope_text(told.scope, time_of(told.id.number)):
            return True
        if told.what != "seen" and told.passage not in shown.split():
            return True
        self._connection.execute("UPDATE searches SET seen = 1 WHERE id = ? AND seen = 0", (told.id.number,))
        if told.what == "opened":
            change, value = "opened = 1", (1, 0)
        elif told.what in VERDICTS:
            change, value = "verdict = excluded.verdict", (0, VERDICTS[told.what])
        else:
            return True
        self._connection.execute(
            f"INSERT INTO feedback VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET {change}",  # noqa: S608
            (told.id.number, told.passage, *value),
        )
        return True

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._known.clear()  # they may not have been written
            self._scopes.clear()
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")


def open_to_read(folder: Path) -> sqlite3.Connection:
    """Open the store to read. Raises InsightsError where there is none, or it is of another version."""
    if not (folder / DATABASE).is_file():
        raise InsightsError(f"{folder} has no record of what was asked: serve with --insights to keep one")
    connection = _connect(folder)
    connection.execute("PRAGMA query_only = ON")
    _check(connection, folder)
    return connection


def _open(folder: Path) -> sqlite3.Connection:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / LOCK).open("a") as held:  # two that make it at once would see each other's beginnings
        fcntl.flock(held, fcntl.LOCK_EX)
        os.close(os.open(folder / DATABASE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = _connect(folder)
        if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.executescript(f"PRAGMA journal_mode = WAL; BEGIN; {_SCHEMA} COMMIT;")
        _check(connection, folder)
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("PRAGMA synchronous = NORMAL")  # what is written outlives the process, if not the machine
    return connection


def _connect(folder: Path) -> sqlite3.Connection:
    return sqlite3.connect(folder / DATABASE, timeout=PATIENCE_S, isolation_level=None, check_same_thread=False)


def _check(connection: sqlite3.Connection, folder: Path) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != _VERSION:
        raise InsightsError(f"{folder / DATABASE} is of version {version}, and this reads {_VERSION}")


def _inode(folder: Path) -> int | None:
    try:
        return (folder / DATABASE).stat().st_ino
    except FileNotFoundError:
        return None
