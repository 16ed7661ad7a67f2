"""Documents and chunks in one SQLite file; a chunk's `row` is its position in the vector index.

documents: id, url, source, title, content_hash, etag, last_modified, fetched_at
chunks: row (from 0), id, document, url, section, text, content_hash (of what was embedded), tokens, position
"""

import hashlib
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from indexer.manifest import corrupt
from indexer.records import Chunk, Document

_SCHEMA = """
CREATE TABLE documents (
    id INTEGER PRIMARY KEY,
    url TEXT NOT NULL UNIQUE,
    source TEXT NOT NULL,
    title TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    etag TEXT,
    last_modified TEXT,
    fetched_at TEXT NOT NULL
) STRICT;
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
"""
_SELECT = """
SELECT chunks.id, chunks.url, documents.url, title, section, text, position
FROM chunks JOIN documents ON documents.id = chunks.document WHERE chunks.row = ?
"""


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A passage as it is shown."""

    id: str
    url: str  # with the section's anchor
    document_url: str
    title: str
    section: str  # heading path joined with " › "
    text: str
    position: int  # 0, 1, … within the document


class DocumentWriter:
    """Writes one new file; `close` makes it complete. Rows are given out in the order chunks are added."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        # An unfinished file is thrown away, so a journal would protect nothing.
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.executescript(_SCHEMA)
        self._database.execute("BEGIN")
        self.documents = 0
        self.chunks = 0

    def add(self, document: Document, chunks: Sequence[Chunk]) -> None:
        """Store a document and its chunks."""
        self._database.execute(
            "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                self.documents,
                document.url,
                document.source,
                document.title,
                document.content_hash,
                document.etag,
                document.last_modified,
                document.fetched_at,
            ),
        )
        self._database.executemany(
            "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    self.chunks + offset,
                    chunk.id,
                    self.documents,
                    chunk.url,
                    chunk.section,
                    chunk.text,
                    hashlib.sha256(chunk.embedded_text.encode()).hexdigest(),
                    chunk.tokens,
                    chunk.position,
                )
                for offset, chunk in enumerate(chunks)
            ),
        )
        self.documents += 1
        self.chunks += len(chunks)

    def finish(self) -> None:
        """Complete the file."""
        self._database.execute("COMMIT")

    def close(self) -> None:
        """Release the file, complete or not."""
        self._database.close()


class DocumentReader:
    """Reads a published file; safe to use from many threads, and after the file has been unlinked."""

    def __init__(self, path: Path) -> None:
        """Raises IndexCorrupt if it is not such a file."""
        self._path = path
        self._lock = threading.Lock()
        try:
            self._database = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False
            )
            self._database.execute("PRAGMA trusted_schema = OFF")
            self.documents = self._count("SELECT count(*) FROM documents")
            self.chunks = self._count("SELECT count(*) FROM chunks")
            last = self._count("SELECT coalesce(max(row), -1) FROM chunks")
        except sqlite3.Error as error:
            raise corrupt(path, f"is not a readable database ({error})") from error
        if last != self.chunks - 1:
            raise corrupt(path, "has gaps between its chunks")

    def read(self, rows: Sequence[int] | npt.NDArray[np.int64]) -> list[StoredChunk]:
        """Chunks by row, in the order asked for; raises IndexCorrupt if one is missing."""
        chunks = []
        try:
            with self._lock:
                for row in rows:
                    found = self._database.execute(_SELECT, (int(row),)).fetchone()
                    if found is None:
                        raise corrupt(self._path, f"has no chunk {row}")
                    chunks.append(StoredChunk(*found))
        except sqlite3.Error as error:
            raise corrupt(self._path, f"cannot be read ({error})") from error
        return chunks

    def close(self) -> None:
        """Release the file; a read under way is waited for."""
        with self._lock:
            self._database.close()

    def _count(self, query: str) -> int:
        return int(self._database.execute(query).fetchone()[0])
