"""Documents that senders push: accepted onto the disk at once, and indexed within seconds by a process of its own.

What is known of them lies in folders beside the indexes, so that every worker of a server can accept them and tell what
became of them:

INDEX/pushed/documents.sqlite   what was sent to the default collection; each collection has a file of its own
INDEX/pushed/lock               held for as long as the process lives that indexes what was sent to any of them
INDEX/pushed/log.txt            what that process said
"""

import base64
import fcntl
import logging
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from indexer.decoding import one_line
from indexer.generation.documents import document_id
from indexer.generation.layout import COLLECTIONS, DEFAULT, PUSHED, collection_dir, is_collection_name
from indexer.publish.collections import live_id
from indexer.read.access_list import readers_of
from indexer.read.extraction import collect, day_of, language_of
from indexer.read.formats import CONTENT_TYPES
from indexer.records import Page, Stated
from indexer.sources.pushed_store import SOURCE, Change, PushedStore
from indexer.urls import has_user, normalise
from rag.errors import (
    DocumentRefused,
    JobConflict,
    NotThere,
    QueueFull,
    StorageFull,
)
from rag.messages import Push
from rag.serving.job_manager import RUNNER, start_process, writing
from rag.settings import Settings

MOST_BYTES = 10_000_000_000  # of the documents of one collection
MOST_QUEUED = 10_000  # changes of one collection that wait
MOST_SHOWN = 100  # changes that are listed
_LOOK = 1.0  # seconds between two looks at what waits, for what another worker accepted, or a killed one left

log = logging.getLogger("pilotlight")


class PushedQueue:
    """Accepts documents, and has them indexed. Any number of processes may do so at once."""

    def __init__(self, settings: Settings, runner: Sequence[str] = RUNNER) -> None:
        """Take the command that indexes what waits."""
        self._settings = settings
        self._runner = runner
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="pilotlight-pushed", daemon=True)

    def start(self) -> None:
        """See from now on that what waits is indexed. Returns at once."""
        self._thread.start()

    def close(self) -> None:
        """Leave that to others; the process that indexes goes on until nothing waits."""
        self._closed.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def put(self, sent: Push) -> dict[str, Any]:
        """Accept a document in place of what its address had; it is on the disk when this returns the change.

        Raises DocumentRefused for what cannot be used, JobConflict where nothing can
        be indexed, QueueFull where too much waits, StorageFull without room.
        """
        store, settings = self._store(sent.collection), self._settings
        content_type, _, parameter = sent.content_type.lower().partition(";")
        charset = parameter.strip().removeprefix("charset=").strip('"') or None
        if content_type.strip() not in CONTENT_TYPES:
            raise DocumentRefused("content_type", f"{content_type[:80]!r} is not read", 415)
        body = base64.b64decode(sent.base64 or "") if sent.text is None else sent.text.encode()
        if len(body) > settings.max_bytes:
            raise DocumentRefused("document", f"is larger than {settings.max_bytes:,} bytes, see max_bytes", 413)
        page = Page(
            url=_address(sent.url),
            source=SOURCE,
            body=body,
            content_type=content_type.strip(),
            charset=charset if sent.text is None else "utf-8",
            etag=None,
            last_modified=None,
            fetched_at=datetime.now(UTC).isoformat(timespec="seconds"),
            stated=_stated(sent),
        )
        with writing(settings.index_dir, self._folder(sent.collection), len(body)):
            facts = store.facts()
            if facts.queued >= MOST_QUEUED:
                raise QueueFull(f"{facts.queued:,} changes wait to be indexed: try again shortly")
            if facts.bytes + len(body) > MOST_BYTES:
                raise StorageFull(f"the documents of this collection would have more than {MOST_BYTES:,} bytes")
            change = store.put(page)
        self._wake.set()
        return _described(change, sent.collection)

    def delete(self, url: str, collection: str = DEFAULT) -> dict[str, Any]:
        """Accept that a document that was pushed is to go. Raises NotThere where there is none, and as `put`."""
        store, address = self._store(collection), _address(url)
        with writing(self._settings.index_dir, self._folder(collection)):
            if not store.has(address):
                text = f"no document was pushed to collection {collection!r} for {address[:200]}"
                raise NotThere(f"{text}; what a site or folder gave goes with its source", "url")
            change = store.remove(address)
        self._wake.set()
        return _described(change, collection)

    def change(self, number: str, collection: str = DEFAULT) -> dict[str, Any]:
        """Return a change and what became of it, JSON-ready. Raises NotThere, or DocumentRefused."""
        store = PushedStore(self._folder(collection))
        is_number = number.isascii() and number.isdecimal() and len(number) <= 18
        found = store.change(int(number)) if is_number else None
        if found is None:
            raise NotThere(f"collection {collection!r} has no change {number[:80]!r}, or has forgotten it")
        return _described(found, collection)

    def queue(self, collection: str = DEFAULT) -> dict[str, Any]:
        """Return how much waits, why it could not be indexed, and the latest changes, the last one first."""
        store = PushedStore(self._folder(collection))
        changes = [_described(change, collection) for change in store.changes(MOST_SHOWN)]
        return {"collection": collection, **asdict(store.facts()), "failed": store.failed(), "changes": changes}

    def waiting(self) -> dict[str, dict[str, Any]]:
        """Return how much waits, for how long, and has failed, JSON-ready, by collection that was ever pushed to."""
        now, found = datetime.now(UTC), {}
        for name, folder in pushed_folders(self._settings.index_dir).items():
            store = PushedStore(folder)
            facts = store.facts()
            waits = (now - datetime.fromisoformat(facts.oldest)).total_seconds() if facts.oldest else 0.0
            found[name] = asdict(facts) | {"failed": store.failed(), "oldest_seconds": max(0.0, waits)}
        return found

    def _folder(self, collection: str) -> Path:
        if not is_collection_name(collection):
            raise DocumentRefused("collection", "is not a name that a collection can have")
        return collection_dir(self._settings.index_dir, collection)

    def _store(self, collection: str) -> PushedStore:
        """The store of a collection that can be changed from here."""
        folder, settings = self._folder(collection), self._settings
        if settings.store and (collection != DEFAULT or live_id(folder) is None):
            raise JobConflict(
                f"{settings.store} holds one collection, which is built in the folder {settings.index}: "
                "push documents to the server that has that folder"
            )
        return PushedStore(folder)

    def _keep(self) -> None:
        while not self._closed.is_set():
            try:
                folders = pushed_folders(self._settings.index_dir).values()
                if any(PushedStore(folder).is_waiting() for folder in folders):
                    self._run()
            except (OSError, sqlite3.Error) as error:  # which may pass
                log.warning("what was pushed cannot be looked at: %s", error)
            self._wake.wait(_LOOK)
            self._wake.clear()

    def _run(self) -> None:
        """Start the process that indexes, unless it lives."""
        folder = self._settings.index_dir / PUSHED
        folder.mkdir(exist_ok=True)
        with (folder / "lock").open("w") as lock:  # inherited, and so held until the process ends, however it does
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            start_process(self._runner, self._settings, lock, folder / "log.txt")


def pushed_folders(index_dir: Path) -> dict[str, Path]:
    """Return the folders of the collections that anything was pushed to, published or not, by name."""
    try:
        names = sorted(entry.name for entry in (index_dir / COLLECTIONS).iterdir() if is_collection_name(entry.name))
    except (FileNotFoundError, NotADirectoryError):
        names = []
    folders = {name: collection_dir(index_dir, name) for name in (DEFAULT, *names)}
    return {name: folder for name, folder in folders.items() if PushedStore(folder).is_there}


def _address(url: str) -> str:
    """Return an address as documents are known by. Raises DocumentRefused."""
    address = normalise("", url)
    if address is None or has_user(url):
        raise DocumentRefused("url", "must be an http or https address of at most 2,000 characters, without a user")
    if "#" in url:
        raise DocumentRefused("url", "must not have a fragment: a document has one address, which hits add anchors to")
    return address


def _stated(sent: Push) -> Stated:
    pairs = [
        (name, value)
        for name, given in sent.metadata.items()
        for value in ([given] if isinstance(given, str) else given or ())
    ]
    for name, value in pairs:
        if not collect([(name, value)]):
            raise DocumentRefused("metadata", f"has a name or value that is empty or too long: {name[:80]!r}")
    if sent.date is not None and day_of(sent.date) != sent.date:
        raise DocumentRefused("date", "must be a day such as 2026-01-31")
    readers = None
    if sent.access is not None:
        given = {name: names for name, names in msgspec.structs.asdict(sent.access).items() if names is not None}
        try:
            readers = readers_of(given)
        except ValueError as error:
            raise DocumentRefused("access", str(error)) from error
    language = language_of(sent.language)
    return Stated(one_line(sent.title or ""), language, sent.date, tuple(collect(pairs).items()), readers)


def _described(change: Change, collection: str) -> dict[str, Any]:
    return {**asdict(change), "collection": collection, "document": document_id(change.url)}
