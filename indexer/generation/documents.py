"""Documents, chunks and what the crawler remembers, in one SQLite file; docs/index-format.md explains every column.

A chunk's `row` is its position in the vector index. The rows of one document are contiguous.
"""

import hashlib
import json
import re
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from indexer.filter import Filter
from indexer.generation.manifest import corrupt
from indexer.records import Chunk, Document, PageRecord
from indexer.rowset import RowSet

SCHEMA = """
CREATE TABLE documents (
    id INTEGER PRIMARY KEY,
    url TEXT NOT NULL UNIQUE,
    source TEXT NOT NULL,
    title TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    etag TEXT,
    last_modified TEXT,
    fetched_at TEXT NOT NULL,
    content_type TEXT NOT NULL,
    language TEXT,
    date TEXT,
    metadata TEXT NOT NULL,
    first_row INTEGER NOT NULL,
    chunks INTEGER NOT NULL
) STRICT;
CREATE TABLE terms (
    term TEXT NOT NULL,
    document INTEGER NOT NULL REFERENCES documents (id),
    PRIMARY KEY (term, document)
) STRICT, WITHOUT ROWID;
CREATE TABLE chunks (
    row INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    document INTEGER NOT NULL REFERENCES documents (id),
    url TEXT NOT NULL,
    section TEXT NOT NULL,
    text TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    position INTEGER NOT NULL
) STRICT;
CREATE TABLE pages (
    url TEXT PRIMARY KEY,
    source TEXT NOT NULL,
    requested TEXT NOT NULL,
    etag TEXT,
    last_modified TEXT,
    content_hash TEXT NOT NULL,
    links TEXT NOT NULL,
    noindex INTEGER NOT NULL,
    outcome TEXT NOT NULL
) STRICT, WITHOUT ROWID;
"""
# Made at the end, when they are sorted once instead of kept in order all along.
_INDEXES = """
CREATE INDEX documents_date ON documents (date, first_row, chunks);
CREATE INDEX chunks_content_hash ON chunks (content_hash);
CREATE INDEX pages_requested ON pages (requested) WHERE requested != url;
"""
_SELECT = """
SELECT row, chunks.id, chunks.url, documents.url, title, section, text, position, language, date, content_type, metadata
FROM chunks JOIN documents ON documents.id = chunks.document WHERE row IN (SELECT value FROM json_each(?))
"""
AROUND = 24  # chunks on either side of one that are looked at for the rest of its section
_NEIGHBOURS = """
SELECT row, document, url, section, text FROM chunks WHERE row BETWEEN ? AND ? ORDER BY row
"""


class StoredChunk(NamedTuple):
    """A passage as it is shown."""

    id: str
    url: str  # with the section's anchor
    document_url: str
    title: str
    section: str  # heading path joined with " › "
    text: str
    position: int  # 0, 1, … within the document
    language: str | None  # primary subtag, such as en
    date: str | None  # YYYY-MM-DD
    content_type: str
    metadata: dict[str, Any]  # name to text, or to a list of texts


class DocumentWriter:
    """Writes one new file; `finish` makes it complete. Rows are given out in the order chunks are added."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        # An unfinished file is thrown away, so a journal would protect nothing.
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.executescript(SCHEMA)
        self._database.execute("BEGIN")
        self.documents = 0
        self.chunks = 0

    def add(self, document: Document, chunks: Sequence[Chunk], terms: Sequence[str]) -> None:
        """Store a document, its chunks and the terms that filters test."""
        number, row = self.documents, self.chunks
        self._database.execute(
            "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                number,
                document.url,
                document.source,
                document.title,
                document.content_hash,
                document.etag,
                document.last_modified,
                document.fetched_at,
                document.content_type,
                document.language,
                document.date,
                json.dumps(flat_metadata(document), ensure_ascii=False),
                row,
                len(chunks),
            ),
        )
        self._database.executemany("INSERT INTO terms VALUES (?, ?)", ((term, number) for term in terms))
        self._database.executemany(
            "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    row + offset,
                    chunk.id,
                    number,
                    chunk.url,
                    chunk.section,
                    chunk.text,
                    chunk.content_hash,
                    chunk.tokens,
                    chunk.position,
                )
                for offset, chunk in enumerate(chunks)
            ),
        )
        self.documents += 1
        self.chunks += len(chunks)

    def remember(self, page: PageRecord) -> None:
        """Store what the next build needs to know of a page."""
        self._database.execute(
            "INSERT INTO pages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                page.url,
                page.source,
                page.requested,
                page.etag,
                page.last_modified,
                page.content_hash,
                json.dumps(page.links, ensure_ascii=False),
                page.noindex,
                page.outcome,
            ),
        )

    def finish(self) -> None:
        """Complete the file."""
        self._database.execute("COMMIT")
        self._database.executescript(_INDEXES)

    def close(self) -> None:
        """Release the file, complete or not."""
        self._database.close()


class DocumentReader:
    """Reads a published file; safe to use from many threads, and after the file has been unlinked."""

    def __init__(self, path: Path) -> None:
        """Open the file; raises IndexCorrupt if it is not such a file."""
        self._path = path
        self._lock = threading.Lock()
        self._select_lock = threading.Lock()  # a filter over many documents must not keep texts waiting
        try:
            self._database = open_read_only(path, self)
            self._filters = open_read_only(path, self)
            self.documents = self._count("SELECT count(*) FROM documents")
            self.chunks = self._count("SELECT coalesce(sum(chunks), 0) FROM documents")
            last = self._count("SELECT coalesce(max(row), -1) FROM chunks")
        except sqlite3.Error as error:
            raise corrupt(path, f"is not a readable database ({error})") from error
        if last != self.chunks - 1:
            raise corrupt(path, "has gaps between its chunks")

    def read(self, rows: Sequence[int] | npt.NDArray[np.int64]) -> list[StoredChunk]:
        """Return chunks by row, in the order asked for; raises IndexCorrupt if one is missing."""
        wanted = [int(row) for row in rows]
        try:
            with self._lock:
                found = self._database.execute(_SELECT, (json.dumps(wanted),)).fetchall()
            chunks = {
                row: StoredChunk(*(*fields, {} if metadata == "{}" else json.loads(metadata)))  # empty, as a rule
                for row, *fields, metadata in found
            }
        except (sqlite3.Error, ValueError) as error:
            raise corrupt(self._path, f"cannot be read ({error})") from error
        missing = [row for row in wanted if row not in chunks]
        if missing:
            raise corrupt(self._path, f"has no chunk {missing[0]}")
        return [chunks[row] for row in wanted]

    def section(self, row: int) -> list[str]:
        """Return the texts of the chunks around one that are of the same section, itself among them, in reading order.

        At most 24 on either side; raises IndexCorrupt if they cannot be read.
        """
        try:
            with self._lock:
                found = self._database.execute(_NEIGHBOURS, (row - AROUND, row + AROUND)).fetchall()
        except sqlite3.Error as error:
            raise corrupt(self._path, f"cannot be read ({error})") from error
        if not (texts := texts_around(row, found)):
            raise corrupt(self._path, f"has no chunk {row}")
        return texts

    def select(self, wanted: Filter) -> RowSet:
        """Return the rows of the documents that a filter allows; raises IndexCorrupt if they cannot be read."""
        try:
            with self._select_lock:
                return wanted.select(self._filters, self.chunks)
        except (sqlite3.Error, ValueError) as error:
            raise corrupt(self._path, f"cannot be read ({error})") from error

    def close(self) -> None:
        """Release the file; a read under way is waited for."""
        with self._lock, self._select_lock:
            self._database.close()
            self._filters.close()

    def _count(self, query: str) -> int:
        return int(self._database.execute(query).fetchone()[0])


def texts_around(row: int, found: Iterable[tuple[int, int, str, str, str]]) -> list[str]:
    """Return the texts of the run that holds a row; each chunk is (row, document, url, section, text), in row order."""
    for _, group in groupby(found, key=lambda chunk: chunk[1:4]):
        run = list(group)
        if run[0][0] <= row <= run[-1][0]:
            return [text for *_, text in run]
    return []


def open_read_only(path: Path, owner: object = None) -> sqlite3.Connection:
    """Connect to a published file, which never changes, from any thread; raises sqlite3.Error.

    With an owner it is closed when that is gone. By itself it would stay open until the garbage collector comes by: it
    and its cache of statements refer to each other.
    """
    database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)
    if owner is not None:
        weakref.finalize(owner, database.close).atexit = False  # when a thread may still be reading
    database.execute("PRAGMA trusted_schema = OFF")
    return database


def metadata_from_json(text: str) -> Mapping[str, tuple[str, ...]]:
    """Return stored metadata as a document has it; raises ValueError, TypeError or AttributeError if it is none."""
    return metadata_from_flat(json.loads(text))


def metadata_from_flat(flat: Mapping[str, Any]) -> Mapping[str, tuple[str, ...]]:
    """Return what `flat_metadata` gave as a document has it; raises TypeError or AttributeError if it is none."""
    items = flat.items()
    return MappingProxyType({name: (value,) if isinstance(value, str) else tuple(value) for name, value in items})


def flat_metadata(document: Document) -> dict[str, str | list[str]]:
    """Return metadata as it is stored and shown: name to text, or to a list of texts."""
    return {name: values[0] if len(values) == 1 else list(values) for name, values in document.metadata.items()}


_ID = re.compile(r"[0-9a-f]{32}")
_AT_ONCE = 64  # documents that are read under the lock: none of them waits long for another
_FACTS = """
SELECT id, url, source, language, content_type, date FROM documents WHERE id IN (SELECT value FROM json_each(?))
"""
_FIRST_ROWS = "SELECT id, first_row FROM documents WHERE id IN (SELECT value FROM json_each(?))"
_DOCUMENTS = """
SELECT id, url, title, source, language, date, content_type, metadata, fetched_at FROM documents
WHERE id BETWEEN ? AND ? ORDER BY id
"""
_PASSAGES = """
SELECT document, id, url, section, text FROM chunks WHERE row BETWEEN
(SELECT first_row FROM documents WHERE id = ?) AND (SELECT first_row + chunks - 1 FROM documents WHERE id = ?)
ORDER BY row
"""


class DocumentFacts(NamedTuple):
    """The facts of a document that searches are narrowed by."""

    url: str
    source: str
    language: str | None
    content_type: str
    date: str | None = None  # YYYY-MM-DD


class StoredPassage(NamedTuple):
    """One passage of a document."""

    id: str
    url: str  # with the section's anchor
    section: str  # heading path joined with " › "
    text: str


class StoredDocument(NamedTuple):
    """One document with its passages, in reading order."""

    id: str
    url: str
    title: str
    source: str
    language: str | None
    date: str | None  # YYYY-MM-DD
    content_type: str
    metadata: dict[str, Any]  # name to text, or to a list of texts
    fetched_at: str  # ISO 8601, UTC
    passages: list[StoredPassage]

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON-ready form."""
        return self._asdict() | {"passages": [passage._asdict() for passage in self.passages]}


def is_document_id(text: str) -> bool:
    """Return whether a text is one that `document_id` gives."""
    return _ID.fullmatch(text) is not None


@lru_cache(1 << 14)
def document_id(url: str) -> str:
    """Return the id of the document at an address, 32 hex digits: the same in every generation."""
    return _digest(url).hex()


class Catalogue:
    """Reads the documents of a published file; safe to use from many threads, and after it has been unlinked."""

    def __init__(self, path: Path) -> None:
        """Open the file; raises IndexCorrupt if it is not such a file."""
        self._path = path
        self._lock = threading.Lock()
        self._ids: tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]] | None = None
        try:
            self._database = open_read_only(path, self)
            self._last = int(self._database.execute("SELECT coalesce(max(id), -1) FROM documents").fetchone()[0])
        except sqlite3.Error as error:
            raise corrupt(path, f"is not a readable database ({error})") from error

    def facts(self, numbers: Sequence[int]) -> dict[int, DocumentFacts]:
        """Return the facts of documents by number. Raises IndexCorrupt."""
        return {number: DocumentFacts(*facts) for number, *facts in self._rows(_FACTS, json.dumps(numbers))}

    def documents(self, allowed: RowSet | None = None, id: str | None = None) -> Iterator[StoredDocument]:
        """Yield the documents with allowed rows, in the order of the index, or only the one with an id.

        Whether there is a document with an id takes as long as whether it is allowed. Raises IndexCorrupt.
        """
        numbers = self._numbers(id) or [self._last] if id is not None else range(self._last + 1)
        for start in range(0, len(numbers), _AT_ONCE):
            for first, last in _runs(self._allowed(numbers[start : start + _AT_ONCE], allowed)):
                for document in self._read(first, last):
                    if id is None or document.id == id:
                        yield document

    def _allowed(self, numbers: Sequence[int], allowed: RowSet | None) -> list[int]:
        """Return the numbers of documents whose rows are allowed."""
        if allowed is None:
            return list(numbers)
        rows = dict(self._rows(_FIRST_ROWS, json.dumps(list(numbers))))
        there = [number for number in numbers if number in rows]
        is_allowed = allowed.contains(np.array([rows[number] for number in there], np.int64))
        return [number for number, is_so in zip(there, is_allowed.tolist(), strict=True) if is_so]

    def close(self) -> None:
        """Release the file; a read under way is waited for."""
        with self._lock:
            self._database.close()

    def _read(self, first: int, last: int) -> list[StoredDocument]:
        last = min(last, self._last)
        passages: dict[int, list[StoredPassage]] = {number: [] for number in range(first, last + 1)}
        rows = self._rows(_DOCUMENTS, first, last)
        for number, *fields in self._rows(_PASSAGES, first, last):
            passages.setdefault(number, []).append(StoredPassage(*fields))
        try:
            return [
                StoredDocument(*(document_id(row[1]), *row[1:7], json.loads(row[7]), row[8], passages[row[0]]))
                for row in rows
            ]
        except ValueError as error:
            raise corrupt(self._path, f"cannot be read ({error})") from error

    def _numbers(self, wanted: str) -> list[int]:
        """Numbers of the documents whose ids begin as an id does: one, or none, unless two share half of it."""
        if not is_document_id(wanted):
            return []
        key = np.uint64(int(wanted[:16], 16))
        keys, numbers = self._sorted_ids()
        found = numbers[np.searchsorted(keys, key) : np.searchsorted(keys, key, side="right")]
        return [int(number) for number in found]

    def _sorted_ids(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
        """First halves of all ids, ascending, and the number of the document of each; made once."""
        if self._ids is None:
            rows = self._rows("SELECT id, url FROM documents")
            keys = np.array([int.from_bytes(_digest(url)[:8], "big") for _, url in rows], dtype=np.uint64)
            order = np.argsort(keys, kind="stable")
            self._ids = keys[order], np.array([number for number, _ in rows], dtype=np.int64)[order]
        return self._ids

    def _rows(self, query: str, *values: Any) -> list[Any]:
        try:
            with self._lock:
                return self._database.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise corrupt(self._path, f"cannot be read ({error})") from error


def _digest(url: str) -> bytes:
    return hashlib.sha256(url.encode("utf-8", "replace")).digest()[:16]


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last of each run of consecutive ascending numbers."""
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        yield members[0], members[-1]
