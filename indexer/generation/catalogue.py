"""The documents of a published generation, whole: by id, one after another, and what is told of many at once."""

import hashlib
import json
import re
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from indexer.generation.document_database import open_read_only
from indexer.generation.manifest import corrupt
from indexer.rowset import RowSet

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
