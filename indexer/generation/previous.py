"""Read the previous build's index during a build, which reuses records, chunks and vectors of unchanged pages."""

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from embedder.late_interaction import Signs
from indexer.filter import access_of
from indexer.generation import manifest as manifests
from indexer.generation.documents import CHUNK_FIELDS, DOCUMENT_FIELDS, SCHEMA, Database, read_blocks
from indexer.generation.manifest import DOCUMENTS, GENERATIONS, ROWS, TOKENS, VECTORS, Manifest
from indexer.generation.rows import ROW, TokenReader, read_array
from indexer.records import (
    EVERYBODY,
    SEPARATOR,
    AccessLists,
    Chunk,
    Document,
    Outcome,
    Page,
    PageRecord,
    PageState,
    Section,
    SectionBlock,
)

if TYPE_CHECKING:
    from indexer.generation.vectors import VectorReader

READER_VERSION = 25  # increment when pages are parsed or split differently
_PAGE = "SELECT url, source, requested, etag, last_modified, content_hash, links, noindex, outcome, reasons FROM pages"


def record_of(page: Page, outcome: Outcome) -> PageRecord:
    """Return the record of a page for the next build. Drop an ETag or date that is not valid in a header."""
    headers = (page.etag, page.last_modified)
    etag, last_modified = (value if value and value.isascii() and value.isprintable() else None for value in headers)
    return PageRecord(
        url=page.url,
        source=page.source,
        requested=page.requested or page.url,
        etag=etag,
        last_modified=last_modified,
        content_hash=page.content_hash,
        links=page.links,
        noindex=page.noindex,
        outcome=outcome,
    )


def conditions(record: PageRecord) -> Mapping[str, str]:
    """Return the headers of a conditional request for a page, or no headers if it has no ETag and no date."""
    if record.etag is not None:
        return {"If-None-Match": record.etag}
    return {"If-Modified-Since": record.last_modified} if record.last_modified is not None else {}


def live_sources(index_dir: Path) -> list[str]:
    """Return the sources of the live index generation. Raises IndexMissing or IndexCorrupt."""
    return manifests.read_manifest(index_dir / GENERATIONS / manifests.current_id(index_dir)).sources


class ScannedDocument(NamedTuple):
    """A document with its chunks; `vectors` is (chunks, dimension). Sections and embedded texts are empty."""

    document: Document
    chunks: list[Chunk]
    signatures: list[int]
    vectors: npt.NDArray[np.float32]


def scan(index_dir: Path, generation_id: str) -> Iterator[ScannedDocument]:
    """Yield every document of a generation in the order of the index. Raises IndexMissing or IndexCorrupt."""
    folder = manifests.generation_folder(index_dir, generation_id)
    with closing(PreviousGeneration(folder)) as generation:
        for number, _, _ in generation.documents():
            document, chunks, rows = generation.read(number)
            vectors = generation.vectors(np.arange(rows.start, rows.stop))
            yield ScannedDocument(document, chunks, generation.signatures(rows), vectors)


def sections_of(chunks: list[Chunk]) -> tuple[Section, ...]:
    """Convert chunks back to sections, so that a page can be split again if it can no longer be fetched."""
    return tuple(
        Section(
            tuple(chunk.section.split(SEPARATOR)) if chunk.section else (),
            unquote(chunk.url.partition("#")[2]) or None,
            chunk.text,
            blocks=tuple(SectionBlock(*block[:2], None if block.kind == "code" else "") for block in chunk.blocks),
        )
        for chunk in chunks
    )


class PreviousGeneration:
    """Reads the index generation that is live when a build begins. It is empty in a first build. Safe for threads.

    `is_trusted` is true if the build would split unchanged pages into the same chunks.
    """

    manifest: Manifest | None = None
    is_trusted = False
    _vectors: "VectorReader"
    _row_facts: npt.NDArray[np.void]
    _tokens: TokenReader | None = None

    def __init__(self, folder: Path | None = None) -> None:
        """Open a generation's folder and check its files, or create an empty generation if `folder` is None."""
        if folder is None:
            connection = sqlite3.connect(":memory:", check_same_thread=False)
            connection.executescript(SCHEMA)
            self._database = Database(Path(), connection)
            return
        from indexer.generation.vectors import VectorReader  # loads FAISS, which a crawler does not need

        self.manifest, self.is_trusted = manifests.read_manifest(folder), True
        manifests.check_files(folder, self.manifest)
        self._database = Database(folder / DOCUMENTS)
        self._vectors = VectorReader(folder / VECTORS)
        self._row_facts = read_array(folder / ROWS, ROW)
        if TOKENS in self.manifest.files:
            self._tokens = TokenReader(folder, self.manifest.counts.chunks)

    @classmethod
    def open(cls, index_dir: Path) -> Self:
        """Open the live generation; raises IndexMissing, IndexCorrupt or IndexUnreadable."""
        return cls(index_dir / GENERATIONS / manifests.current_id(index_dir))

    def page(self, url: str) -> PageRecord | None:
        """Return the record of the page with this address, or None."""
        return self._page("url = ?", url)

    def reusable_page(self, url: str) -> PageRecord | None:
        """Return the record of a page, or None if the page must be parsed again even if its content is unchanged."""
        record = self.page(url) if self.is_trusted else None
        return record if record is not None and not record.noindex else None

    def page_behind(self, requested: str) -> PageRecord | None:
        """Return the record of the page that was received for an address, directly or through redirects, or None."""
        return self._page("requested = ?1 AND requested != url", requested) or self.page(requested)

    def _page(self, condition: str, url: str) -> PageRecord | None:
        rows = self._database.rows(f"{_PAGE} WHERE {condition}", url)
        return _record(rows[0]) if rows else None

    def copied_sources(self, sources: Iterable[str], refresh: Collection[str]) -> set[str]:
        """Return the sources that need not be fetched again: this generation has them, and `refresh` does not."""
        stored = set(self.manifest.sources) if self.manifest is not None and self.is_trusted else set()
        return stored.intersection(sources).difference(refresh)

    def pages(self, prefix: str = "") -> Iterator[PageRecord]:
        """Yield the records of all pages whose addresses begin with a prefix, ordered by address."""
        last = prefix
        while rows := self._database.rows(f"{_PAGE} WHERE url > ? ORDER BY url LIMIT 1000", last):
            for row in rows:
                if not row[0].startswith(prefix):
                    return
                yield _record(row)
            last = rows[-1][0]

    def requested(self, source: str, prefix: str) -> list[str]:
        """Return the addresses that a source requested, if both they and the final addresses begin with `prefix`."""
        requested = (record.requested for record in self.pages(prefix) if record.source == source)
        return [url for url in requested if url.startswith(prefix)]

    def document(self, url: str) -> tuple[int, str]:
        """Return (number, source) of the document at an address. Raises IndexCorrupt if the document is missing."""
        rows = self._database.rows("SELECT id, source FROM documents WHERE url = ?", url)
        if not rows:
            raise manifests.corrupt(self._database.path, f"has no document {url}, but records it as indexed")
        return int(rows[0][0]), str(rows[0][1])

    def documents(self) -> Iterator[tuple[int, str, str]]:
        """Yield (number, address, source) of every document."""
        last, query = -1, "SELECT id, url, source FROM documents WHERE id > ? ORDER BY id LIMIT 1000"
        while rows := self._database.rows(query, last):
            yield from rows
            last = rows[-1][0]

    def sketch(self, document_id: int) -> bytes:
        """Return the sketch of a document: hashes from which `editions` detects duplicates, as bytes."""
        [(hashes,)] = self._database.rows("SELECT hashes FROM sketches WHERE document = ?", document_id)
        return bytes(hashes)

    def first_signatures(self, source: str) -> Iterator[tuple[int, str, int]]:
        """Yield (number, address, similarity hash of the first chunk) of every document of a source."""
        query = "SELECT id, url, first_row FROM documents WHERE source = ?"
        for number, url, row in self._database.rows(query, source):
            yield number, url, self.signatures(range(row, row + 1))[0]

    def read(self, document_id: int) -> tuple[Document, list[Chunk], range]:
        """Return a document, its chunks and their rows. Sections and embedded texts are empty: they are not stored."""
        columns = ", ".join(DOCUMENT_FIELDS)
        query = f"SELECT {columns}, metadata, first_row, chunks FROM documents WHERE id = ?"  # noqa: S608 - fixed names
        [(*fields, metadata, first, count)] = self._database.rows(query, document_id)
        facts: dict[str, Any] = dict(zip(DOCUMENT_FIELDS, fields, strict=True))
        facts["metadata"] = {
            name: (value,) if isinstance(value, str) else tuple(value) for name, value in json.loads(metadata).items()
        }
        links = tuple(link[1:] for link in self._database.link_texts("id = ?", document_id))
        document = Document(**facts, sections=(), access=self._access.get(document_id, EVERYBODY), link_texts=links)
        columns = ", ".join(CHUNK_FIELDS)
        query = f"SELECT id, {columns}, blocks FROM chunks WHERE row >= ? AND row < ? ORDER BY row"  # noqa: S608 - fixed names
        shared: dict[str, Any] = {"document_url": document.url, "title": document.title, "embedded_text": ""}
        chunks = [
            Chunk(id=id, **shared, **dict(zip(CHUNK_FIELDS, values, strict=True)), blocks=tuple(read_blocks(blocks)))
            for id, *values, blocks in self._database.rows(query, first, first + count)
        ]
        return document, chunks, range(first, first + count)

    @cached_property
    def _access(self) -> dict[int, AccessLists]:
        """Map document numbers to access lists. Documents without an access list are absent."""
        query = "SELECT document, term FROM terms WHERE term BETWEEN 'access.' AND 'access/' ORDER BY document, term"
        groups = groupby(self._database.rows(query), key=itemgetter(0))
        return {number: access_of([term for _, term in rows]) for number, rows in groups}

    def row_of(self, content_hash: str) -> int | None:
        """Return the row of a chunk whose embedded text has this hash, or None."""
        rows = self._database.rows("SELECT row FROM chunks WHERE content_hash = ? LIMIT 1", content_hash)
        return int(rows[0][0]) if rows else None

    def vectors(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Return the vectors stored at these rows, float32 (n, dimension)."""
        return self._vectors.vectors(rows)

    def tokens(self, rows: npt.NDArray[np.int64]) -> tuple[Signs, npt.NDArray[np.int32]] | None:
        """Return the token vectors of these rows as `TokenReader.read` does, or None if the generation has none."""
        return None if self._tokens is None else self._tokens.read(rows)

    def signatures(self, rows: range) -> list[int]:
        """Return the similarity hashes of the chunks in a range of rows."""
        return [int(number) for number in self._row_facts["signature"][rows.start : rows.stop]]

    def close(self) -> None:
        """Close the database."""
        self._database.close()


def _record(row: Any) -> PageRecord:
    url, source, requested, etag, last_modified, content_hash, links, noindex, state, reasons = row
    outcome = Outcome(PageState(state), tuple(json.loads(reasons)))
    facts = (url, source, requested, etag, last_modified, content_hash)
    return PageRecord(*facts, tuple(json.loads(links)), bool(noindex), outcome)
