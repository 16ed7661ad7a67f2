"""Pushed documents on disk: the latest version of each address, and its state in the index.

Changes are numbered in the order in which they were accepted. A withdrawn address stays in the file without its
document, so that the next build removes it from any generation, also from an older one that is live again.
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

SOURCE = "pushed://documents"  # the source that these documents have in an index
QUEUED, REMOVED, SUPERSEDED = "queued", "removed", "superseded"
STATES = (QUEUED, "indexed", "skipped", "failed", REMOVED, SUPERSEDED)
KEPT = 10_000  # changes that are remembered after they were dealt with
_PUT, _DELETE = "put", "delete"
_DATABASE, _LOCK = "documents.sqlite", "making.lock"
_PATIENCE = 10.0  # seconds that a change waits for others
_SCHEMA = Path(__file__).with_name("pushed.sql").read_text("utf-8")
_CHANGE = "SELECT id, url, action, at, state, reason, generation FROM changes"
_NEWER = "SELECT 1 FROM changes AS later WHERE later.url = changes.url AND later.id > changes.id"
_SUMS = "SELECT count(body), coalesce(sum(length(body)), 0) FROM documents"


@dataclass(frozen=True, slots=True)
class Change:
    """A document that was sent or withdrawn; a higher number was accepted later."""

    id: int
    url: str
    action: str  # "put" or "delete"
    at: str  # ISO 8601, UTC: when it was accepted
    state: str  # one of STATES
    reason: str | None  # why it was skipped or failed
    generation: str | None  # the one that was live when it was dealt with


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """Numbers of pushed and of waiting documents."""

    queued: int  # changes
    oldest: str | None
    documents: int  # all that were not withdrawn
    bytes: int
    error: str | None  # why what waits could not be indexed when it was last tried


class PushedStore:
    """The documents sent to one collection; any number of processes and threads may use it at once.

    Methods raise sqlite3.Error or OSError where the disk is full or failing, or others keep the file for too long.
    """

    def __init__(self, index_dir: Path) -> None:
        """Take the folder of the collection, which has to be there before anything is accepted."""
        self._index_dir, self._path = index_dir, index_dir / PUSHED / _DATABASE

    @property
    def is_there(self) -> bool:
        """Return whether anything was ever sent."""
        return self._path.exists()

    def put(self, page: Page, *, replace: bool = True) -> Change | None:
        """Store a document, in place of an earlier one of its address; it is on disk when this returns.

        Without `replace`, return None where the address has a document: of several senders, one is the first.
        """
        stated = json.dumps(page.sender_facts)
        facts = (page.content_hash, page.content_type, page.charset, stated, page.fetched_at, page.body)
        return self._accept(page.url, _PUT, page.fetched_at, facts, replace=replace)

    def remove(self, url: str) -> Change:
        """Withdraw the document of an address. Its facts stay, as they name its readers."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        last = self.described(url)
        content_type, stated = (last.content_type, json.dumps(last.sender_facts)) if last else ("", "[]")
        change = self._accept(url, _DELETE, now, ("", content_type, None, stated, now, None))
        assert change is not None  # noqa: S101 - for the type checker; it replaces
        return change

    def last(self) -> int:
        """Return the number of the last change that was accepted, 0 if there was none."""
        return int(self._one("SELECT coalesce(max(id), 0) FROM changes")[0])

    def is_waiting(self) -> bool:
        """Return whether a change waits."""
        return self._one("SELECT 1 FROM changes WHERE state = 'queued' LIMIT 1") is not None

    def change(self, number: int) -> Change | None:
        """Return a change that is remembered."""
        found = self._one(f"{_CHANGE} WHERE id = ?", number)
        return Change(*found) if found else None

    def changes(self, most: int) -> list[Change]:
        """Return the latest changes, the last one first."""
        return [Change(*row) for row in self._rows(f"{_CHANGE} ORDER BY id DESC LIMIT ?", most)]

    def facts(self) -> QueueFacts:
        """Return how much there is, and how much waits."""
        queued = "(SELECT count(*) AS queued, min(at) FROM changes WHERE state = 'queued')"
        return QueueFacts(*self._one(f"SELECT * FROM {queued}, totals"))  # noqa: S608 - no input

    def failed(self) -> int:
        """Return how many documents could not be read, and were not sent again or withdrawn since."""
        failed = f"SELECT count(*) FROM changes WHERE state = 'failed' AND NOT EXISTS ({_NEWER})"  # noqa: S608 - no input
        return int(self._one(failed)[0])

    def has(self, url: str) -> bool:
        """Return whether there is a document of an address: here, or in a live generation that came from elsewhere."""
        if (sent := self._one("SELECT body IS NOT NULL FROM documents WHERE url = ?", url)) is not None:
            return bool(sent[0])
        try:
            path = self._index_dir / GENERATIONS / current_id(self._index_dir) / DOCUMENTS
        except IndexMissing:
            return False
        with closing(open_read_only(path)) as pages:
            found = pages.execute("SELECT 1 FROM pages WHERE url = ? AND source = ?", (url, SOURCE))
            return found.fetchone() is not None

    def listed(self) -> Iterator[tuple[str, str, bool]]:
        """Yield address and content hash of every document, in order, and whether it was not withdrawn."""
        columns = "url, content_hash, body IS NOT NULL"
        some = f"SELECT {columns} FROM documents WHERE url > ? ORDER BY url LIMIT 1000"  # noqa: S608 - no input
        last = ""
        while rows := self._rows(some, last):
            yield from rows
            last = rows[-1][0]

    def page(self, url: str) -> Page | None:
        """Return the document of an address, None if it was withdrawn."""
        return self._page(url, "body", "body IS NOT NULL")

    def described(self, url: str) -> Page | None:
        """Return the facts of a document without its body, also of a withdrawn one."""
        return self._page(url, "x''", "stated != '[]'")

    def trouble(self, detail: str) -> None:
        """Record why waiting documents could not be indexed."""
        with self._changing() as database:
            database.execute("UPDATE totals SET trouble = ?", (detail,))

    def clear(self, last: int) -> None:
        """Forget the documents of the changes up to a number, as their source has left the index."""
        if self.is_there:
            with self._changing() as database:
                newer = "SELECT url FROM changes WHERE id > ?"
                database.execute(f"DELETE FROM documents WHERE url NOT IN ({newer})", (last,))  # noqa: S608 - no input
                database.execute(f"UPDATE totals SET (documents, bytes) = ({_SUMS})")  # noqa: S608 - no input
                done = (REMOVED, last)
                database.execute("UPDATE changes SET state = ? WHERE state = 'queued' AND id <= ?", done)

    def settle(self, last: int) -> None:
        """Record that the live generation includes the changes up to a number.

        Raises IndexMissing where there is none.
        """
        generation = current_id(self._index_dir)
        of_due = f"{_CHANGE} WHERE state = 'queued' AND id <= ? AND NOT EXISTS ({_NEWER})"
        path = self._index_dir / GENERATIONS / generation / DOCUMENTS
        with closing(open_read_only(path)) as pages, self._changing() as database:
            for change in [Change(*row) for row in database.execute(of_due, (last,))]:
                state, reasons = REMOVED, "[]"
                if change.action == _PUT:
                    row = pages.execute("SELECT outcome, reasons FROM pages WHERE url = ?", (change.url,)).fetchone()
                    state, reasons = row or ("skipped", '["not read"]')
                became = (state, "; ".join(json.loads(reasons)) or None, generation, change.id)
                database.execute("UPDATE changes SET state = ?, reason = ?, generation = ? WHERE id = ?", became)
            rest = (SUPERSEDED, last)
            database.execute("UPDATE changes SET state = ? WHERE state = 'queued' AND id <= ?", rest)
            database.execute("UPDATE totals SET trouble = NULL")
            old = "DELETE FROM changes WHERE state != 'queued' AND id <= (SELECT max(id) FROM changes) - ?"
            database.execute(old, (KEPT,))

    def _accept(self, url: str, action: str, at: str, facts: tuple[Any, ...], *, replace: bool = True) -> Change | None:
        self._make()
        *_, body = facts
        with self._changing() as database:
            documents, size = database.execute(f"{_SUMS} WHERE url = ?", (url,)).fetchone()
            if documents and not replace:
                return None
            grown = (int(body is not None) - documents, len(body or b"") - size)
            database.execute("UPDATE totals SET documents = documents + ?, bytes = bytes + ?", grown)
            database.execute("INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?, ?, ?, ?)", (url, *facts))
            noted = "INSERT INTO changes (url, action, at, state) VALUES (?, ?, ?, ?)"
            number = database.execute(noted, (url, action, at, QUEUED)).lastrowid
        return Change(int(number or 0), url, action, at, QUEUED, None, None)

    def _page(self, url: str, column: str, condition: str) -> Page | None:
        columns = f"content_type, charset, stated, pushed_at, content_hash, {column}"
        found = f"SELECT {columns} FROM documents WHERE url = ? AND {condition}"  # noqa: S608 - no input
        row = self._one(found, url)
        if row is None:
            return None
        content_type, charset, stated, pushed_at, content_hash, body = row
        page = Page(url, SOURCE, body, content_type, charset, None, None, pushed_at, content_hash=content_hash)
        return replace(page, sender_facts=msgspec.json.decode(stated, type=SenderFacts))

    def _rows(self, query: str, *values: object) -> list[Any]:
        with self._connected() as database:
            return database.execute(query, values).fetchall()

    def _one(self, query: str, *values: object) -> Any:
        return next(iter(self._rows(query, *values)), None)

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """Give a transaction that is on the disk once the block has ended well, and never was if it has not."""
        with self._connected() as database, database:  # commits, or rolls back
            database.execute("BEGIN IMMEDIATE")
            yield database

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection for one use: the file may be replaced together with its collection."""
        if self.is_there:
            address = f"{self._path.absolute().as_uri()}?mode=rw"
            database = sqlite3.connect(address, uri=True, timeout=_PATIENCE, isolation_level=None)
        else:
            database = sqlite3.connect(":memory:")
            database.executescript(_SCHEMA)
        with closing(database):
            database.execute("PRAGMA synchronous = FULL")
            database.execute("PRAGMA trusted_schema = OFF")
            yield database

    def _make(self) -> None:
        """Make the file if it is missing, whole or not at all, so that a power cut leaves nothing out of its folder."""
        if self.is_there:
            return
        folder = self._path.parent
        folder.mkdir(exist_ok=True)
        with (folder / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self.is_there:
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
