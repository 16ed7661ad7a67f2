"""The queue of pushed documents, which a separate process indexes. A change is the push or withdrawal of a document.

INDEX/pushed/documents.sqlite   documents pushed to the default collection; other collections have their own file
INDEX/pushed/lock, log.txt      lock and output of the process that indexes the documents of all collections
"""

import fcntl
import logging
import re
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from indexer.generation.documents import document_id
from indexer.generation.manifest import COLLECTIONS, DEFAULT, PUSHED, collection_dir, is_collection_name
from indexer.network.urls import has_user, normalise
from indexer.publish.publish import live_id
from indexer.read.access_list import readers_of
from indexer.read.extraction import collect, day_of, language_of
from indexer.read.formats import CONTENT_TYPES
from indexer.records import Page, SenderFacts
from indexer.sources.pushed_store import SOURCE, Change, PushedStore
from indexer.text.cleaning import one_line
from rag.errors import JobConflict, NotThere, QueueFull, RequestRefused, StorageFull
from rag.jobs.jobs import RUNNER, folder_of, start_process, writing
from rag.messages import Push
from rag.settings import Settings

MAX_PUSHED_BYTES = 10_000_000_000  # per collection
MAX_QUEUED = 10_000  # documents waiting to be indexed, per collection
MAX_LISTED_CHANGES = 100
_CHARSET = re.compile(r"[a-z0-9_.:-]+")
_POLL_SECONDS = 1.0

log = logging.getLogger("pilotlight")


class PushedQueue:
    """Stores pushed documents, and starts the process that indexes them. Several processes may use the same queue."""

    def __init__(self, settings: Settings, runner: Sequence[str] = RUNNER) -> None:
        """Create a queue. `runner` is the command that indexes the waiting documents of all collections."""
        self._settings = settings
        self._runner = runner
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="pilotlight-pushed", daemon=True)

    def start(self) -> None:
        """Start the thread that starts the indexing process if documents are waiting."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread. The indexing process continues until no documents are waiting."""
        self._closed.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def put(self, push: Push) -> dict[str, Any]:
        """Store a document. It replaces an earlier document with the same address. Returns the change, JSON-ready.

        Raises:
            RequestRefused: the document is invalid.
            QueueFull, StorageFull: there is no room for the document.
            JobConflict: another server builds the collection, or a document has this address and `replace` is false.
        """
        store, settings = self._store(push.collection), self._settings
        content_type, _, parameter = push.content_type.lower().partition(";")
        charset = parameter.strip().removeprefix("charset=").strip('"') or None
        if content_type.strip() not in CONTENT_TYPES:
            raise RequestRefused("content_type", f"{content_type[:80]!r} is not supported", 415)
        if charset and not _CHARSET.fullmatch(charset):
            raise RequestRefused("content_type", f"has {charset[:80]!r}, which is not a valid charset", 415)
        body = (push.base64 or b"") if push.text is None else push.text.encode()
        if len(body) > settings.max_bytes:
            raise RequestRefused("document", f"is larger than {settings.max_bytes:,} bytes, see max_bytes", 413)
        page = Page(
            url=_address(push.url),
            source=SOURCE,
            body=body,
            content_type=content_type.strip(),
            charset=charset if push.text is None else "utf-8",
            fetched_at=datetime.now(UTC).isoformat(timespec="seconds"),
            sender_facts=_sender_facts(push),
        )
        with writing(settings.index_dir, folder_of(settings, push.collection), len(body)):
            facts = store.facts()
            if facts.queued >= MAX_QUEUED:
                raise QueueFull(f"{facts.queued:,} changes wait to be indexed: try again shortly")
            if facts.bytes + len(body) > MAX_PUSHED_BYTES:
                raise StorageFull(f"the documents of this collection would have more than {MAX_PUSHED_BYTES:,} bytes")
            change = store.put(page, replace=push.replace)
            if change is None:
                raise JobConflict(f"{page.url} already has a document, and `replace` is false")
        self._wake.set()
        return _describe_change(change, push.collection)

    def delete(self, url: str, collection: str = DEFAULT) -> dict[str, Any]:
        """Withdraw the document pushed to an address. Raises NotThere if there is none, and the errors of `put`."""
        store, address = self._store(collection), _address(url)
        with writing(self._settings.index_dir, folder_of(self._settings, collection)):
            if not store.has(address):
                text = f"no document was pushed to collection {collection!r} for {address[:200]}"
                raise NotThere(f"{text}; a crawled document is removed with its source", "url")
            change = store.remove(address)
        self._wake.set()
        return _describe_change(change, collection)

    def change(self, number: str, collection: str = DEFAULT) -> dict[str, Any]:
        """Return a change with its state, JSON-ready. Raises NotThere if there is no change with this number."""
        store = PushedStore(folder_of(self._settings, collection))
        is_number = number.isascii() and number.isdecimal() and len(number) <= 18
        change = store.change(int(number)) if is_number else None
        if change is None:
            raise NotThere(f"collection {collection!r} has no change {number[:80]!r}, or its record was deleted")
        return _describe_change(change, collection)

    def queue(self, collection: str = DEFAULT) -> dict[str, Any]:
        """Return the state of a collection's queue, with its last error and its latest changes, newest first."""
        store = PushedStore(folder_of(self._settings, collection))
        changes = [_describe_change(change, collection) for change in store.changes(MAX_LISTED_CHANGES)]
        return {"collection": collection, **asdict(store.facts()), "failed": store.failed(), "changes": changes}

    def waiting(self) -> dict[str, dict[str, Any]]:
        """Return the state of each queue by collection, JSON-ready."""
        now, queues = datetime.now(UTC), {}
        for name, folder in pushed_folders(self._settings.index_dir).items():
            store = PushedStore(folder)
            facts = store.facts()
            waits = (now - datetime.fromisoformat(facts.oldest)).total_seconds() if facts.oldest else 0.0
            queues[name] = asdict(facts) | {"failed": store.failed(), "oldest_seconds": max(0.0, waits)}
        return queues

    def _store(self, collection: str) -> PushedStore:
        """Return the store of a collection's documents. Raises JobConflict if another server builds the collection."""
        settings = self._settings
        folder = folder_of(settings, collection)
        if settings.store and (collection != DEFAULT or live_id(folder) is None):
            raise JobConflict(
                f"{settings.store} has only one collection, which is built in the folder {settings.index}: "
                "push documents to the server that has that folder"
            )
        return PushedStore(folder)

    def _watch(self) -> None:
        while not self._closed.is_set():
            try:
                folders = pushed_folders(self._settings.index_dir).values()
                if any(PushedStore(folder).is_waiting() for folder in folders):
                    self._run()
            except (OSError, sqlite3.Error) as error:
                log.warning("the queue of pushed documents cannot be read: %s", error)
            self._wake.wait(_POLL_SECONDS)
            self._wake.clear()

    def _run(self) -> None:
        """Start the process that indexes waiting documents, unless it is already running."""
        folder = self._settings.index_dir / PUSHED
        folder.mkdir(exist_ok=True)
        with suppress(BlockingIOError), (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            start_process(self._runner, self._settings, lock, folder / "log.txt")


def pushed_folders(index_dir: Path) -> dict[str, Path]:
    """Return the folder of each collection with pushed documents by name, even if the collection is not built yet."""
    try:
        names = sorted(entry.name for entry in (index_dir / COLLECTIONS).iterdir() if is_collection_name(entry.name))
    except (FileNotFoundError, NotADirectoryError):
        names = []
    folders = {name: collection_dir(index_dir, name) for name in (DEFAULT, *names)}
    return {name: folder for name, folder in folders.items() if PushedStore(folder).exists}


def _address(url: str) -> str:
    """Return the normalised address of a document. Raises RequestRefused if it is invalid."""
    address = normalise("", url)
    if address is None or has_user(url):
        raise RequestRefused("url", "must be an http or https address of at most 2,000 characters, without a user name")
    if "#" in url:
        raise RequestRefused("url", "must not have a fragment: hits add anchors to the address of a document")
    return address


def _sender_facts(push: Push) -> SenderFacts:
    pairs = [(name, v) for name, of in push.metadata.items() for v in ([of] if isinstance(of, str) else of or ())]
    if wrong := [name for name, value in pairs if not collect([(name, value)])]:
        raise RequestRefused("metadata", f"has a name or value that is empty or too long: {wrong[0][:80]!r}")
    if push.date is not None and day_of(push.date) != push.date:
        raise RequestRefused("date", "must be a day such as 2026-01-31")
    readers = None
    if push.access is not None:
        names = msgspec.structs.asdict(push.access)
        try:
            readers = readers_of({kind: each for kind, each in names.items() if each is not None})
        except ValueError as error:
            raise RequestRefused("access", str(error)) from error
    language = language_of(push.language)
    return SenderFacts(one_line(push.title or ""), language, push.date, tuple(collect(pairs).items()), readers)


def _describe_change(change: Change, collection: str) -> dict[str, Any]:
    return {**asdict(change), "collection": collection, "document": document_id(change.url)}
