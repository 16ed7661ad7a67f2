"""The live generation as the next build sees it: what need not be fetched, parsed, cut or embedded again."""

import json
import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from embedder.late_interaction import Signs
from indexer import notes
from indexer.filter import access_of
from indexer.generation.arrays import TokenReader, open_tokens, read_rows
from indexer.generation.documents import SCHEMA, metadata_from_json, open_read_only
from indexer.generation.layout import GENERATIONS, current_id, generation_folder
from indexer.generation.manifest import DOCUMENTS, ROWS, VECTORS, Manifest, check_files, corrupt, read_manifest
from indexer.records import EVERYBODY, SEPARATOR, AccessLists, Chunk, Document, Page, PageRecord, Readers, Section

if TYPE_CHECKING:
    from indexer.generation.dense.vectors import VectorReader

READER_VERSION = 15  # raise it whenever pages would be parsed or cut in another way than before
INDEXED = "indexed"  # outcome of a page that became a document
_INDEXED_WITH = INDEXED + ": "  # the same, before its notes
_SETTLED = timedelta(seconds=2)  # age from which a modification time, in whole seconds, tells versions apart

_PAGE = "SELECT url, source, requested, etag, last_modified, content_hash, links, noindex, outcome FROM pages"
_DOCUMENT = """
SELECT url, source, title, content_hash, etag, last_modified, fetched_at, content_type, language, date, metadata,
       first_row, chunks FROM documents WHERE id = ?
"""
_CHUNKS = (
    "SELECT id, url, section, text, content_hash, tokens, position FROM chunks WHERE row >= ? AND row < ? ORDER BY row"
)


def is_indexed(outcome: str) -> bool:
    """Return whether the outcome is that of a page that became a document."""
    return outcome == INDEXED or outcome.startswith(_INDEXED_WITH)


def indexed_with(page_notes: tuple[str, ...]) -> str:
    """Return the outcome of a page that became a document with these notes."""
    return _INDEXED_WITH + notes.join(page_notes) if page_notes else INDEXED


def notes_of(outcome: str) -> tuple[str, ...]:
    """Return the notes in an outcome; none for a page that did not become a document."""
    return notes.split(outcome.removeprefix(_INDEXED_WITH)) if outcome.startswith(_INDEXED_WITH) else ()


def record_of(page: Page, outcome: str) -> PageRecord:
    """Return the record of a page that the next build needs."""
    return PageRecord(
        url=page.url,
        source=page.source,
        requested=page.requested or page.url,
        etag=page.etag if _can_be_sent(page.etag) else None,
        last_modified=page.last_modified if _can_be_sent(page.last_modified) and _is_settled(page) else None,
        content_hash=page.content_hash,
        links=page.links,
        noindex=page.noindex,
        outcome=outcome,
    )


def conditions(record: PageRecord) -> Mapping[str, str]:
    """Return the headers of a request that is to be answered only if the page has changed."""
    if record.etag is not None:
        return {"If-None-Match": record.etag}
    return {"If-Modified-Since": record.last_modified} if record.last_modified is not None else {}


def live_sources(index_dir: Path) -> list[str]:
    """Return the sources of the live generation; raises IndexMissing or IndexCorrupt."""
    return read_manifest(_live(index_dir)).sources


class PreviousGeneration:
    """Looks things up in one generation, whose files have been checked. May be used from many threads."""

    def __init__(
        self,
        path: Path,
        database: sqlite3.Connection,
        manifest: Manifest | None = None,
        vectors: "VectorReader | None" = None,
        rows: npt.NDArray[np.void] | None = None,
        tokens: TokenReader | None = None,
    ) -> None:
        """Use `open` or `nothing`."""
        self.manifest = manifest
        self.is_trusted = manifest is not None  # whether the same page would become the same chunks today
        self._path = path
        self._database = database
        self._vectors = vectors
        self._rows_file = rows
        self._tokens = tokens
        self._lock = threading.Lock()

    @classmethod
    def open(cls, index_dir: Path, generation_id: str | None = None) -> Self:
        """Open the live generation, or a given one.

        Raises:
            IndexMissing: there is none, or none of this id.
            IndexCorrupt: a file is missing, altered or of another version.
            IndexUnreadable: a file cannot be read for now.
        """
        from indexer.generation.dense.vectors import VectorReader  # loads FAISS, which a crawler has no use for

        folder = generation_folder(index_dir, generation_id) if generation_id else _live(index_dir)
        manifest = read_manifest(folder)
        check_files(folder, manifest)
        vectors, rows, path = VectorReader(folder / VECTORS), read_rows(folder / ROWS), folder / DOCUMENTS
        try:
            return cls(path, open_read_only(path), manifest, vectors, rows, open_tokens(folder, manifest))
        except sqlite3.Error as error:
            raise corrupt(path, f"is not a readable database ({error})") from error

    @classmethod
    def nothing(cls) -> Self:
        """Return the previous generation of a first build: an empty one."""
        database = sqlite3.connect(":memory:", check_same_thread=False)
        database.executescript(SCHEMA)
        return cls(Path(), database)

    def page(self, url: str) -> PageRecord | None:
        """Return the record of the page with this address."""
        rows = self._rows(f"{_PAGE} WHERE url = ?", url)
        return _page(rows[0]) if rows else None

    def unchanging_page(self, url: str) -> PageRecord | None:
        """Return its record if its content alone decides what comes of it, and today's program would do the same."""
        record = self.page(url) if self.is_trusted else None
        return record if record is not None and not record.noindex else None

    def page_behind(self, requested: str) -> PageRecord | None:
        """Return the record of the page that this address led to, by a redirect or without one."""
        rows = self._rows(f"{_PAGE} WHERE requested = ?1 AND requested != url", requested)
        return _page(rows[0]) if rows else self.page(requested)

    def resting(self, sources: Iterable[str], refresh: Collection[str]) -> set[str]:
        """Return those sources that need not be read: none is to be refreshed, and they are here as they should be."""
        known = set(self.manifest.sources) if self.manifest is not None and self.is_trusted else set()
        return {source for source in sources if source in known and source not in refresh}

    def pages(self, prefix: str = "") -> Iterator[PageRecord]:
        """Yield the records of all addresses that begin so, in their order."""
        last = prefix
        while rows := self._rows(f"{_PAGE} WHERE url > ? ORDER BY url LIMIT 1000", last):
            for row in rows:
                if not row[0].startswith(prefix):
                    return
                yield _page(row)
            last = rows[-1][0]

    def requested(self, source: str, prefix: str) -> list[str]:
        """Return the addresses beginning so that led to the pages of a source."""
        known = (record.requested for record in self.pages(prefix) if record.source == source)
        return [url for url in known if url.startswith(prefix)]

    def document(self, url: str) -> tuple[int, str]:
        """Return the number of the document with this address, and the source that led to it; there must be one."""
        rows = self._rows("SELECT id, source FROM documents WHERE url = ?", url)
        if not rows:
            raise corrupt(self._path, f"has no document {url}, which it remembers as indexed")
        return int(rows[0][0]), str(rows[0][1])

    def documents(self) -> Iterator[tuple[int, str, str]]:
        """Yield number, address and source of every document."""
        last = -1
        while rows := self._rows("SELECT id, url, source FROM documents WHERE id > ? ORDER BY id LIMIT 1000", last):
            yield from rows
            last = rows[-1][0]

    def read(self, document_id: int) -> tuple[Document, list[Chunk], range]:
        """Return a document without its sections, its chunks without their embedded texts, and their rows."""
        [(*fields, metadata, first, count)] = self._rows(_DOCUMENT, document_id)
        url, source, title, content_hash, etag, last_modified, fetched_at, content_type, language, date = fields
        document = Document(
            url=url,
            source=source,
            title=title,
            sections=(),
            content_hash=content_hash,
            etag=etag,
            last_modified=last_modified,
            fetched_at=fetched_at,
            content_type=content_type,
            language=language,
            date=date,
            metadata=metadata_from_json(metadata),
            access=self._access.get(document_id, EVERYBODY),
        )
        chunks = [
            Chunk(
                id=id,
                url=chunk_url,
                document_url=url,
                title=title,
                section=section,
                text=text,
                embedded_text="",
                content_hash=chunk_hash,
                tokens=tokens,
                position=position,
            )
            for id, chunk_url, section, text, chunk_hash, tokens, position in self._rows(_CHUNKS, first, first + count)
        ]
        return document, chunks, range(first, first + count)

    def is_given(self, url: str, access: Readers) -> bool:
        """Return whether the documents of a page, and of what is in it, may be read by whom this list names."""
        rows = self._rows("SELECT id FROM documents WHERE url = ?1 OR url BETWEEN ?1 || '!/' AND ?1 || '!0'", url)
        return all(self._access.get(number, EVERYBODY).given == access for (number,) in rows)

    @cached_property
    def _access(self) -> dict[int, AccessLists]:
        """The access lists of those documents that have any, by number."""
        found: dict[int, list[str]] = {}
        for term, number in self._rows("SELECT term, document FROM terms WHERE term BETWEEN 'access.' AND 'access/'"):
            found.setdefault(number, []).append(term)
        return {number: access_of(terms) for number, terms in found.items()}

    def row_of(self, content_hash: str) -> int | None:
        """Return a row whose embedded text has this hash."""
        rows = self._rows("SELECT row FROM chunks WHERE content_hash = ? LIMIT 1", content_hash)
        return int(rows[0][0]) if rows else None

    def vectors(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Return vectors by row, float32 (n, dimension), as they are stored."""
        if self._vectors is None:
            raise LookupError("there are no earlier vectors")
        return self._vectors.vectors(rows)

    @property
    def vector_index(self) -> "VectorReader":
        """The vectors as they are searched; there must be some."""
        if self._vectors is None:
            raise LookupError("there are no earlier vectors")
        return self._vectors

    def tokens(self, rows: npt.NDArray[np.int64]) -> tuple[Signs, npt.NDArray[np.int32]] | None:
        """Return tokens by row as `TokenReader.read` does, or None where they are not kept."""
        return None if self._tokens is None else self._tokens.read(rows)

    def signatures(self, rows: range) -> list[int]:
        """Return the signatures of the texts of chunks by row."""
        if self._rows_file is None:
            raise LookupError("there are no earlier rows")
        return [int(number) for number in self._rows_file["signature"][rows.start : rows.stop]]

    def close(self) -> None:
        """Release the files."""
        with self._lock:
            self._database.close()

    def _rows(self, query: str, *values: object) -> list[Any]:
        try:
            with self._lock:
                return self._database.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise corrupt(self._path, f"cannot be read ({error})") from error


def _live(index_dir: Path) -> Path:
    return index_dir / GENERATIONS / current_id(index_dir)


def sections_of(chunks: list[Chunk]) -> tuple[Section, ...]:
    """Return sections to cut chunks from, for pages that must be cut anew but are out of reach."""
    return tuple(
        Section(tuple(chunk.section.split(SEPARATOR)) if chunk.section else (), _anchor(chunk), chunk.text)
        for chunk in chunks
    )


def _anchor(chunk: Chunk) -> str | None:
    return unquote(chunk.url.partition("#")[2]) or None


def _page(row: Any) -> PageRecord:
    url, source, requested, etag, last_modified, content_hash, links, noindex, outcome = row
    return PageRecord(
        url, source, requested, etag, last_modified, content_hash, tuple(json.loads(links)), bool(noindex), outcome
    )


def _can_be_sent(value: str | None) -> bool:
    """Whether a validator is there, and may stand in the header of a request: servers say anything."""
    return bool(value and value.isascii() and value.isprintable())


def _is_settled(page: Page) -> bool:
    """Whether the page can no longer change within the second in which it says it was last modified."""
    if page.last_modified is None:
        return False
    try:
        modified = parsedate_to_datetime(page.last_modified)
        return datetime.fromisoformat(page.fetched_at) - modified >= _SETTLED
    except (ValueError, TypeError, OverflowError):  # no date, one without a zone, one of no calendar
        return False
