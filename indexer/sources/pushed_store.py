"""Store pushed documents in a database: the latest document of each address, and its state in the index.

Changes are numbered in the order of their arrival. The database keeps the address of a withdrawn document, so that the
next build removes the document, even after a rollback to an older index.
"""

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from indexer.errors import IndexMissing
from indexer.generation.documents import open_read_only
from indexer.generation.manifest import DOCUMENTS, GENERATIONS, PUSHED, current_id
from indexer.publish.publish import sync
from indexer.records import Page, SenderFacts

SOURCE = "pushed://documents"
MAX_SETTLED_CHANGES = 10_000
_PUT, _DELETE = "put", "delete"
_DATABASE, _LOCK = "documents.sqlite", "making.lock"
_LOCK_SECONDS = 10.0
_SCHEMA = Path(__file__).with_name("pushed.sql").read_text("utf-8")
_SELECT_CHANGES = "SELECT id, url, action, at, state, reason, generation FROM changes"
_SELECT_NEWER = "SELECT 1 FROM changes AS later WHERE later.url = changes.url AND later.id > changes.id"
_SELECT_SUMS = "SELECT count(body), coalesce(sum(length(body)), 0) FROM documents"


@dataclass(frozen=True, slots=True)
class Change:
    """A document that was pushed or withdrawn. `at` is the time in UTC (ISO 8601). Later changes have higher ids.

    `generation` is the first index generation that contains the change. `reason` is why the document was not indexed.
    """

    id: int
    url: str
    action: str
    at: str
    state: str  # queued, indexed, skipped, failed, removed or superseded
    reason: str | None
    generation: str | None


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """Sizes of the queue and the store, the time of the oldest queued change, and the last error of indexing."""

    queued: int
    oldest: str | None
    documents: int
    bytes: int
    error: str | None


class PushedStore:
    """The documents that were pushed to one collection. Safe to share between threads and processes.

    Methods raise sqlite3.Error or OSError if the disk is full or fails, or if the database is locked for too long.
    """

    def __init__(self, index_dir: Path) -> None:
        """Prepare to store documents in the folder of a collection. The folder may be created later."""
        self._index_dir, self._path = index_dir, index_dir / PUSHED / _DATABASE

    @property
    def exists(self) -> bool:
        """Return whether the database exists. The first pushed or withdrawn document creates it."""
        return self._path.exists()

    def put(self, page: Page, *, replace: bool = True) -> Change | None:
        """Store a document, and replace an earlier document with the same address.

        Args:
            replace: if this is False and the address already has a document, store nothing and return None.
        """
        facts_json = json.dumps(page.sender_facts)
        facts = (page.content_hash, page.content_type, page.charset, facts_json, page.fetched_at, page.body)
        return self._accept(page.url, _PUT, page.fetched_at, facts, replace=replace)

    def remove(self, url: str) -> Change:
        """Withdraw the document with an address. Its `sender_facts` remain stored, because they name its readers."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        last = self.page_without_body(url)
        content_type, facts_json = (last.content_type, json.dumps(last.sender_facts)) if last else ("", "[]")
        change = self._accept(url, _DELETE, now, ("", content_type, None, facts_json, now, None))
        assert change is not None  # noqa: S101 - None only if `replace` is False
        return change

    def last(self) -> int:
        """Return the number of the last change, or 0 if there is none."""
        return int(self._one("SELECT coalesce(max(id), 0) FROM changes")[0])

    def is_waiting(self) -> bool:
        """Return whether a change is waiting to be indexed."""
        return self._one("SELECT 1 FROM changes WHERE state = 'queued' LIMIT 1") is not None

    def change(self, number: int) -> Change | None:
        """Return a change by its number, or None if it is no longer recorded."""
        row = self._one(f"{_SELECT_CHANGES} WHERE id = ?", number)
        return Change(*row) if row else None

    def changes(self, limit: int) -> list[Change]:
        """Return the latest changes, newest first."""
        return [Change(*row) for row in self._rows(f"{_SELECT_CHANGES} ORDER BY id DESC LIMIT ?", limit)]

    def facts(self) -> QueueFacts:
        """Return the sizes of the store and its queue, and the last error."""
        queued = "(SELECT count(*) AS queued, min(at) FROM changes WHERE state = 'queued')"
        return QueueFacts(*self._one(f"SELECT * FROM {queued}, totals"))  # noqa: S608 - only constants

    def failed(self) -> int:
        """Return the number of documents whose latest change failed."""
        failed = f"SELECT count(*) FROM changes WHERE state = 'failed' AND NOT EXISTS ({_SELECT_NEWER})"  # noqa: S608 - only constants
        return int(self._one(failed)[0])

    def has(self, url: str) -> bool:
        """Return whether a pushed document has this address, in this store or, after an import, in the live index."""
        if (row := self._one("SELECT body IS NOT NULL FROM documents WHERE url = ?", url)) is not None:
            return bool(row[0])
        try:
            path = self._index_dir / GENERATIONS / current_id(self._index_dir) / DOCUMENTS
        except IndexMissing:
            return False
        with closing(open_read_only(path)) as pages:
            row = pages.execute("SELECT 1 FROM pages WHERE url = ? AND source = ?", (url, SOURCE)).fetchone()
            return row is not None

    def listed(self) -> Iterator[tuple[str, str, bool]]:
        """Yield `(address, content hash, is_stored)` by address. A document that was withdrawn is not stored."""
        columns = "url, content_hash, body IS NOT NULL"
        batch = f"SELECT {columns} FROM documents WHERE url > ? ORDER BY url LIMIT 1000"  # noqa: S608 - only constants
        last = ""
        while rows := self._rows(batch, last):
            yield from rows
            last = rows[-1][0]

    def page(self, url: str) -> Page | None:
        """Return the document with an address, or None if it is missing or was withdrawn."""
        return self._page(url, "body", "body IS NOT NULL")

    def page_without_body(self, url: str) -> Page | None:
        """Return a document without its body, even if it was withdrawn, or None if it was never pushed."""
        return self._page(url, "x''", "stated != '[]'")

    def record_error(self, detail: str) -> None:
        """Record the reason why waiting documents could not be indexed."""
        with self._transaction() as database:
            database.execute("UPDATE totals SET trouble = ?", (detail,))

    def clear(self, last: int) -> None:
        """Delete documents without a change after number `last`. Call this after removing them from the index."""
        if self.exists:
            with self._transaction() as database:
                newer = "SELECT url FROM changes WHERE id > ?"
                database.execute(f"DELETE FROM documents WHERE url NOT IN ({newer})", (last,))  # noqa: S608 - only constants
                database.execute(f"UPDATE totals SET (documents, bytes) = ({_SELECT_SUMS})")  # noqa: S608 - only constants
                database.execute("UPDATE changes SET state = 'removed' WHERE state = 'queued' AND id <= ?", (last,))

    def record_indexed(self, last: int) -> None:
        """Record that the live index contains all changes up to number `last`. Raises IndexMissing if none is live."""
        generation = current_id(self._index_dir)
        latest = f"{_SELECT_CHANGES} WHERE state = 'queued' AND id <= ? AND NOT EXISTS ({_SELECT_NEWER})"
        path = self._index_dir / GENERATIONS / generation / DOCUMENTS
        with closing(open_read_only(path)) as pages, self._transaction() as database:
            for change in [Change(*row) for row in database.execute(latest, (last,))]:
                state, reasons = "removed", "[]"
                if change.action == _PUT:
                    row = pages.execute("SELECT outcome, reasons FROM pages WHERE url = ?", (change.url,)).fetchone()
                    state, reasons = row or ("skipped", '["not read"]')
                values = (state, "; ".join(json.loads(reasons)) or None, generation, change.id)
                database.execute("UPDATE changes SET state = ?, reason = ?, generation = ? WHERE id = ?", values)
            database.execute("UPDATE changes SET state = 'superseded' WHERE state = 'queued' AND id <= ?", (last,))
            database.execute("UPDATE totals SET trouble = NULL")
            old = "DELETE FROM changes WHERE state != 'queued' AND id <= (SELECT max(id) FROM changes) - ?"
            database.execute(old, (MAX_SETTLED_CHANGES,))

    def _accept(self, url: str, action: str, at: str, facts: tuple[Any, ...], *, replace: bool = True) -> Change | None:
        self._create_database()
        *_, body = facts
        with self._transaction() as database:
            documents, size = database.execute(f"{_SELECT_SUMS} WHERE url = ?", (url,)).fetchone()
            if documents and not replace:
                return None
            growth = (int(body is not None) - documents, len(body or b"") - size)
            database.execute("UPDATE totals SET documents = documents + ?, bytes = bytes + ?", growth)
            database.execute("INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?, ?, ?, ?)", (url, *facts))
            insert = "INSERT INTO changes (url, action, at, state) VALUES (?, ?, ?, 'queued')"
            number = database.execute(insert, (url, action, at)).lastrowid
        return Change(int(number or 0), url, action, at, "queued", None, None)

    def _page(self, url: str, column: str, condition: str) -> Page | None:
        columns = f"content_type, charset, stated, pushed_at, content_hash, {column}"
        query = f"SELECT {columns} FROM documents WHERE url = ? AND {condition}"  # noqa: S608 - only constants
        row = self._one(query, url)
        if row is None:
            return None
        content_type, charset, facts_json, pushed_at, content_hash, body = row
        page = Page(url, SOURCE, body, content_type, charset, None, None, pushed_at, content_hash=content_hash)
        return replace(page, sender_facts=msgspec.json.decode(facts_json, type=SenderFacts))

    def _rows(self, query: str, *values: object) -> list[Any]:
        with self._connected() as database:
            return database.execute(query, values).fetchall()

    def _one(self, query: str, *values: object) -> Any:
        return next(iter(self._rows(query, *values)), None)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._connected() as database, database:
            database.execute("BEGIN IMMEDIATE")
            yield database

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """Open a connection for one `with` block. Another process may replace the file before the next block."""
        if self.exists:
            address = f"{self._path.absolute().as_uri()}?mode=rw"
            database = sqlite3.connect(address, uri=True, timeout=_LOCK_SECONDS, isolation_level=None)
        else:
            database = sqlite3.connect(":memory:")
            database.executescript(_SCHEMA)
        with closing(database):
            database.execute("PRAGMA synchronous = FULL")
            database.execute("PRAGMA trusted_schema = OFF")
            yield database

    def _create_database(self) -> None:
        """Create the database if it is missing. A power cut never leaves an incomplete database."""
        if self.exists:
            return
        folder = self._path.parent
        folder.mkdir(exist_ok=True)
        with (folder / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self.exists:
                return
            new = self._path.with_suffix(".new")
            new.unlink(missing_ok=True)
            with closing(sqlite3.connect(new)) as database:
                database.execute("PRAGMA journal_mode = WAL")
                database.executescript(_SCHEMA)
            sync(new)
            os.replace(new, self._path)
            sync(folder)
            sync(self._index_dir)
