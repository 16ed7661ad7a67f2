"""The journal of a crawl: answers that the next build need not fetch again if this one is interrupted.

One SQLite file next to the drafts, made with the first page and removed when the build succeeds.
"""

import hashlib
import json
import sqlite3
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import httpx

from indexer.crawl.answers import Answer
from indexer.credentials import Credential
from indexer.generation.manifest import Manifest

FRESH = 6 * 3600  # seconds for which a page need not be fetched again
_SCHEMA = """
CREATE TABLE IF NOT EXISTS crawl (base TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS answers (
    requested TEXT PRIMARY KEY,
    at REAL NOT NULL,
    url TEXT NOT NULL,
    body BLOB NOT NULL,
    content_type TEXT NOT NULL,
    charset TEXT,
    headers TEXT NOT NULL,
    fetched_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
"""
_SELECT = "SELECT url, body, content_type, charset, headers, fetched_at FROM answers WHERE requested = ? AND at > ?"


def base_of(live: Manifest | None, credentials: Sequence[Credential]) -> str:
    """Return the base of a journal: its answers hold until a build ends, or credentials change."""
    digest = f"/{hashlib.sha256(repr(sorted(map(repr, credentials))).encode()).hexdigest()}" if credentials else ""
    return f"{live.id if live else ''}{digest}"


class Journal:
    """Answers of sites by requested address; methods raise sqlite3.Error. Safe to share between fetcher threads."""

    def __init__(self, path: Path, base: str) -> None:
        """Open the journal of an interrupted crawl; answers over another base, see `base_of`, are dropped."""
        self._path, self._base = path, base
        self._lock = threading.Lock()
        self._database: sqlite3.Connection | None = None
        if path.exists():
            found = None
            with suppress(sqlite3.Error):  # cut off by a power failure: only time is lost
                found = self._connect().execute("SELECT base FROM crawl").fetchall()
            if found != [(base,)]:
                self.drop()

    def get(self, url: str) -> Answer | None:
        """Return the answer of an address, unless it is too old."""
        with self._lock:
            if self._database is None:
                return None
            row = self._database.execute(_SELECT, (url, time.time() - FRESH)).fetchone()
        if row is None:
            return None
        final, body, content_type, charset, headers, fetched_at = row
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in json.loads(headers)]
        return Answer(final, body, content_type, charset, httpx.Headers(raw), fetched_at, is_fresh=False)

    def put(self, url: str, answer: Answer) -> None:
        """Store the answer of an address, for the next build too."""
        # byte for byte: servers send headers in any encoding or none
        headers = json.dumps([(name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.headers.raw])
        row = (answer.url, answer.body, answer.content_type, answer.charset, headers, answer.fetched_at)
        with self._lock:
            database = self._database or self._connect()
            database.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (url, time.time(), *row))

    def drop(self) -> None:
        """Remove the journal."""
        self.close()
        for suffix in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def _connect(self) -> sqlite3.Connection:
        database = self._database = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        # safe when the process is killed, which is its purpose; a page need not wait for the disk
        database.executescript(f"PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; {_SCHEMA}")
        database.execute("INSERT INTO crawl SELECT ? WHERE NOT EXISTS (SELECT * FROM crawl)", (self._base,))
        return database
