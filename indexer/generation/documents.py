"""Write and read the SQLite file with documents, chunks and crawled pages; docs/index-format.md explains its columns.

The `row` of a chunk is its position in the vector index. The chunks of a document have consecutive rows.
"""

import hashlib
import json
import re
import sqlite3
import threading
import weakref
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import groupby, starmap
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import MsgspecError, Struct
from msgspec.json import Decoder

from indexer.filter import AnyOf, Condition, Dated, Filter, HasTerm, LacksTerm
from indexer.generation.editions import TABLES, write_twins
from indexer.generation.manifest import corrupt
from indexer.generation.rows import RowSet
from indexer.records import Chunk, Document, PageRecord, TextBlock

SCHEMA = Path(__file__).with_name("documents.sql").read_text("utf-8") + TABLES
# Indexes are created after all rows are inserted, because sorting once is faster than updating them for every row.
_LAST_STATEMENTS = """
DELETE FROM link_texts WHERE EXISTS (
    SELECT TRUE FROM documents WHERE url = substr(target, 1, instr(target || '#', '#') - 1) AND instr(title, text));
CREATE INDEX documents_date ON documents (date, first_row, chunks);
CREATE INDEX chunks_content_hash ON chunks (content_hash);
CREATE INDEX pages_requested ON pages (requested) WHERE requested != url;
"""
_CHECK_COLUMNS = "SELECT blocks, reasons, better FROM chunks, pages, twins LIMIT 0"
_IN = "IN (SELECT value FROM json_each(?))"
_CHUNKS = f"""
SELECT row, chunks.id, chunks.url, documents.url, title, section, text, position, language, date, content_type,
    metadata, blocks
FROM chunks JOIN documents ON documents.id = chunks.document WHERE row {_IN}
"""  # noqa: S608 - fixed texts
# Columns in the order of the tables. `Document` and `Chunk` have fields of the same names.
DOCUMENT_FIELDS = (
    "url", "source", "title", "content_hash", "etag", "last_modified", "fetched_at", "content_type", "language", "date"
)  # fmt: skip
CHUNK_FIELDS = ("url", "section", "text", "content_hash", "tokens", "position")
SHOWN_FIELDS = ("url", "title", "source", "language", "date", "content_type", "metadata", "fetched_at")
PASSAGE_FIELDS = ("id", "url", "section", "text")
_DOCUMENTS = f"SELECT first_row, chunks, {', '.join(SHOWN_FIELDS)} FROM documents WHERE id {_IN} ORDER BY id"  # noqa: S608
_FACTS = "url, source, language, content_type, date"
_PASSAGES = f"SELECT {', '.join(PASSAGE_FIELDS)}, blocks FROM chunks WHERE row BETWEEN ? AND ? ORDER BY row"  # noqa: S608
_SECTION = "SELECT row, document, url, section, text, blocks FROM chunks WHERE row BETWEEN ? AND ? ORDER BY row"
SECTION_NEIGHBOURS = 24  # number of chunks shown before and after a chunk, if they belong to its section
_READ_BATCH = 64
_ID = re.compile(r"[0-9a-f]{32}")
read_blocks = Decoder(list[TextBlock]).decode
read_metadata = Decoder(dict[str, Any]).decode


class StoredChunk(Struct, frozen=True):
    """A chunk with columns of its document. `url` has a fragment, and `section` is the heading path."""

    id: str
    url: str
    document_url: str
    title: str
    section: str
    text: str
    position: int
    language: str | None
    date: str | None
    content_type: str
    metadata: dict[str, Any]
    blocks: list[TextBlock] = []


class SectionText(NamedTuple):
    """The text of a section, and the positions of code and tables in it."""

    text: str
    blocks: list[TextBlock]


class DocumentEntry(NamedTuple):
    """The id and `SHOWN_FIELDS` of a document, as JSON values, and the rows of its chunks."""

    facts: dict[str, Any]
    rows: range


class DocumentFacts(NamedTuple):
    """The columns of a document that filters can test."""

    url: str
    source: str
    language: str | None
    content_type: str
    date: str | None = None


class DocumentWriter:
    """Writes a new SQLite file, which is complete after `finish`. Chunks get rows 0, 1, … in the order of `add`."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        # An unfinished file is deleted, so a journal would protect nothing.
        self._database.executescript(f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; {SCHEMA} BEGIN;")
        self.documents = 0
        self.chunks = 0

    def add(self, document: Document, chunks: Sequence[Chunk], terms: Sequence[str], sketch: bytes) -> None:
        """Store a document and its chunks, with terms for filters and the document's `editions.sketch`."""
        number, row = self.documents, self.chunks
        facts = attrgetter(*DOCUMENT_FIELDS)(document)
        metadata = json.dumps(flat_metadata(document), ensure_ascii=False)
        self._insert("documents", [(number, *facts, metadata, row, len(chunks))])
        self._insert("terms", [(term, number) for term in terms])
        self._insert("sketches", [(number, sketch)])
        self._insert("link_texts", [(number, *link) for link in document.link_texts])
        columns = attrgetter(*CHUNK_FIELDS)
        rows = ((chunk.id, number, *columns(chunk), json.dumps(chunk.blocks)) for chunk in chunks)
        self._insert("chunks", [(place, *values) for place, values in enumerate(rows, row)])
        self.documents += 1
        self.chunks += len(chunks)

    def remember(self, page: PageRecord) -> None:
        """Store the record of a page for the next build."""
        before = page.url, page.source, page.requested, page.etag, page.last_modified, page.content_hash
        links, reasons = (json.dumps(texts, ensure_ascii=False) for texts in (page.links, page.outcome.reasons))
        self._insert("pages", [(*before, links, page.noindex, page.outcome.state, reasons)])

    def titles(self) -> Iterator[tuple[str, str, str]]:
        """Yield (source, address, title) of each document added so far."""
        return self._database.execute("SELECT source, url, title FROM documents ORDER BY id")

    def _insert(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            self._database.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608 - only question marks

    def languages(self, sample: int) -> list[tuple[str | None, int, list[str]]]:
        """Return (language, number of chunks, sample of their texts) for each language, the most frequent first."""
        counts = "SELECT language, sum(chunks) FROM documents GROUP BY language ORDER BY 2 DESC"
        sampled = f"SELECT language, text FROM chunks JOIN documents ON documents.id = document WHERE row {_IN}"  # noqa: S608
        rows = json.dumps(list(range(0, self.chunks, max(1, self.chunks // sample))))
        texts: defaultdict[str | None, list[str]] = defaultdict(list)
        for language, text in self._database.execute(sampled, (rows,)):
            texts[language].append(text)
        return [(each, count, texts[each]) for each, count in self._database.execute(counts) if each in texts]

    def finish(self) -> None:
        """Detect duplicates, commit, and create the SQL indexes."""
        write_twins(self._database)
        self._database.execute("COMMIT")
        self._database.executescript(_LAST_STATEMENTS)

    def close(self) -> None:
        """Close the file. Without `finish`, it remains incomplete."""
        self._database.close()


class Database:
    """A connection to a published SQLite file, for one thread at a time. Use it in a `with` block, or call `rows`.

    If reading fails, the block raises IndexCorrupt. The file may be deleted while the connection is open.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection | None = None) -> None:
        """Open the file, or use an open connection to it. Raises IndexCorrupt if a table or column is missing."""
        self.path = path
        self._lock = threading.Lock()
        try:
            self._connection = connection or open_read_only(path)
            self._connection.execute(_CHECK_COLUMNS)
        except sqlite3.Error as error:
            raise corrupt(path, f"is not a readable database ({error})") from error
        # The connection and its statement cache form a reference cycle, which is collected late. The finalizer closes
        # the connection as soon as this object is deleted, but not at exit, when a thread may still be reading.
        weakref.finalize(self, self._connection.close).atexit = False

    def __enter__(self) -> sqlite3.Connection:
        self._lock.acquire()
        return self._connection

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._lock.release()
        if isinstance(error, sqlite3.Error | MsgspecError | ValueError | TypeError | OverflowError):
            raise corrupt(self.path, f"cannot be read ({error})") from error

    def rows(self, query: str, *values: Any) -> list[Any]:
        """Return all rows of an SQL query. Raises IndexCorrupt if the file is damaged."""
        with self as connection:
            return connection.execute(query, values).fetchall()

    def link_texts(self, condition: str = "TRUE", *values: Any) -> list[Any]:
        """Return (page, target, text) of links that meet an SQL condition; [] if the file has no link texts."""
        query = f"SELECT url, target, text FROM link_texts JOIN documents ON id = document WHERE {condition}"  # noqa: S608
        return self.rows(query, *values) if self._has_link_texts else []

    @cached_property
    def _has_link_texts(self) -> bool:
        return bool(self.rows("SELECT TRUE FROM sqlite_master WHERE name = 'link_texts'"))

    def close(self) -> None:
        """Wait for a read in progress, then close the file."""
        with self as connection:
            connection.close()


def open_read_only(path: Path) -> sqlite3.Connection:
    """Open a published SQLite file. Any thread may use the connection. Raises sqlite3.Error."""
    database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)
    database.execute("PRAGMA trusted_schema = OFF")
    return database


class DocumentReader:
    """Reads a published SQLite file. Threads may share a reader. Methods raise IndexCorrupt if the file is damaged."""

    def __init__(self, path: Path) -> None:
        """Open the file. Raises IndexCorrupt if it cannot be read or rows are missing."""
        self._texts, self._filters, self._documents = Database(path), Database(path), Database(path)
        self._id_prefixes: npt.NDArray[np.uint64] | None = None
        counts = "SELECT count(*), coalesce(sum(chunks), 0), coalesce(max(id), -1) FROM documents"
        [(self.documents, self.chunks, last)] = self._texts.rows(counts)
        [(last_row,)] = self._texts.rows("SELECT coalesce(max(row), -1) FROM chunks")
        if (last, last_row) != (self.documents - 1, self.chunks - 1):
            raise corrupt(path, "has gaps between its rows")

    def read(self, rows: Sequence[int] | npt.NDArray[np.int64]) -> list[StoredChunk]:
        """Return the chunks at these rows, in the same order. Raises IndexCorrupt if a chunk is missing."""
        numbers: list[int] = np.asarray(rows).tolist()
        chunks: dict[int, StoredChunk] = {}
        with self._texts as connection:
            for row, *fields, metadata, blocks in connection.execute(_CHUNKS, (str(numbers),)):
                chunks[row] = StoredChunk(*[*fields, read_metadata(metadata), read_blocks(blocks)])
        try:
            return [chunks[row] for row in numbers]
        except KeyError as error:
            raise corrupt(self._texts.path, f"has no chunk {error}") from error

    def section(self, row: int) -> SectionText:
        """Return the section that contains a chunk, with at most `SECTION_NEIGHBOURS` chunks before and after it."""
        with self._texts as connection:
            chunks = connection.execute(_SECTION, (row - SECTION_NEIGHBOURS, row + SECTION_NEIGHBOURS))
            return section_text(row, [(*fields, read_blocks(blocks)) for *fields, blocks in chunks], self._texts.path)

    def select(self, filter: Filter) -> RowSet:
        """Return the rows of the documents that a filter allows. Raises IndexCorrupt if the file is damaged."""
        with self._filters as connection:
            return select_rows(filter, connection, self.chunks)

    def facts(self, numbers: Sequence[int]) -> dict[int, DocumentFacts]:
        """Map document numbers to `DocumentFacts`. Raises IndexCorrupt if the file is damaged."""
        query = f"SELECT id, {_FACTS} FROM documents WHERE id {_IN}"  # noqa: S608
        return {number: DocumentFacts(*facts) for number, *facts in self._documents.rows(query, json.dumps(numbers))}

    def twins(self) -> dict[int, frozenset[int]]:
        """Map the number of each document that has better structured duplicates to the numbers of these duplicates."""
        better: defaultdict[int, set[int]] = defaultdict(set)
        for number, other in self._documents.rows("SELECT document, better FROM twins"):
            better[number].add(other)
        return {number: frozenset(numbers) for number, numbers in better.items()}

    def scan(self, allowed: RowSet | None = None) -> Iterator[list[tuple[int, bytes]]]:
        """Yield batches of (row, UTF-8 text) of the allowed chunks. Raises IndexCorrupt if the file is damaged."""
        query = "SELECT row, CAST(text AS BLOB) FROM chunks WHERE row BETWEEN ? AND ?"
        for start in range(0, self.chunks, _READ_BATCH):
            texts = self._documents.rows(query, start, start + _READ_BATCH - 1)
            yield texts if allowed is None else [each for each in texts if each[0] in allowed]

    def survey(self, filter: Filter | None = None) -> list[DocumentFacts]:
        """Return `DocumentFacts` of all documents, or only of the documents that a filter allows."""
        values: list[str] = []
        where = _sql(filter.conditions(), values) if filter else "TRUE"
        query = f"SELECT {_FACTS} FROM documents WHERE {where}"  # noqa: S608 - fixed conditions
        return list(starmap(DocumentFacts, self._documents.rows(query, *values)))

    def entries(self, allowed: RowSet | None = None, id: str | None = None) -> Iterator[DocumentEntry]:
        """Yield the allowed documents, or only the document with this id. Raises IndexCorrupt if the file is damaged.

        For an unknown id, another document is read, so the time does not reveal whether a forbidden document exists.
        """
        numbers = range(self.documents) if id is None else self._numbers(id) or [self.documents - 1]
        for start in range(0, len(numbers), _READ_BATCH):
            for entry in self._read_entries(numbers[start : start + _READ_BATCH], allowed):
                if id is None or entry.facts["id"] == id:
                    yield entry

    def entry_of(self, chunk_id: str, allowed: RowSet | None = None) -> tuple[DocumentEntry, int] | None:
        """Return the document and the row of a chunk, or None if the chunk is missing or not allowed."""
        for row, number in self._documents.rows("SELECT row, document FROM chunks WHERE id = ?", chunk_id):
            for entry in self._read_entries([number], allowed):
                return entry, row
        return None

    def headings(self, rows: range) -> list[tuple[str, str, int]]:
        """Return (address, heading path, number of tokens) of each chunk in a range of rows."""
        query = "SELECT url, section, tokens FROM chunks WHERE row BETWEEN ? AND ? ORDER BY row"
        return self._documents.rows(query, rows.start, rows.stop - 1)

    def passages(self, rows: range) -> list[dict[str, Any]]:
        """Return the chunks in a range of rows as dicts, ready for JSON. Raises IndexCorrupt if the file is damaged."""
        passages: list[dict[str, Any]] = []
        for start in range(rows.start, rows.stop, _READ_BATCH):
            batch = start, min(start + _READ_BATCH, rows.stop) - 1
            with self._documents as connection:
                for *fields, blocks in connection.execute(_PASSAGES, batch):
                    passages.append(dict(zip(PASSAGE_FIELDS, fields, strict=True)) | {"blocks": read_blocks(blocks)})
        return passages

    def _read_entries(self, numbers: Sequence[int], allowed: RowSet | None) -> list[DocumentEntry]:
        entries = []
        with self._documents as connection:
            for first, count, url, *fields in connection.execute(_DOCUMENTS, (json.dumps(list(numbers)),)):
                if allowed is None or first in allowed:
                    facts = dict(zip(("id", *SHOWN_FIELDS), (document_id(url), url, *fields), strict=True))
                    facts["metadata"] = json.loads(facts["metadata"])
                    entries.append(DocumentEntry(facts, range(first, first + count)))
        return entries

    def _numbers(self, id: str) -> list[int]:
        """Return the numbers of the documents whose ids have the same first 64 bits as this id, usually one or none."""
        if not is_document_id(id):
            return []
        if self._id_prefixes is None:
            urls = self._documents.rows("SELECT url FROM documents ORDER BY id")
            self._id_prefixes = np.array([int.from_bytes(_digest(url)[:8], "big") for (url,) in urls], np.uint64)
        return np.flatnonzero(self._id_prefixes == np.uint64(int(id[:16], 16))).tolist()

    def close(self) -> None:
        """Wait for reads in progress, then close the file."""
        for database in (self._texts, self._filters, self._documents):
            database.close()


def select_rows(filter: Filter, connection: sqlite3.Connection, total: int) -> RowSet:
    """Return the rows of all passages whose documents match a filter. Rows are numbered from 0 to `total` - 1.

    Raises:
        sqlite3.Error: the database cannot be read.
        ValueError: a row in the database is outside this range.
    """
    values: list[str] = []
    where = _sql(filter.conditions(), values)
    query = f"SELECT first_row, first_row + chunks FROM documents WHERE {where}"  # noqa: S608 - fixed conditions
    return RowSet.from_ranges(total, connection.execute(query, values))


def _sql(conditions: Iterable[Condition], values: list[str]) -> str:
    """Return an SQL expression that is true if a document meets all conditions; append its parameters to `values`."""
    tests = []
    for condition in conditions:
        match condition:
            case HasTerm(terms):
                marks = ", ".join("?" * len(terms))
                tests.append(f"id IN (SELECT document FROM terms WHERE term IN ({marks}))")  # noqa: S608 - only question marks
                values += terms
            case LacksTerm(term):
                tests.append("id NOT IN (SELECT document FROM terms WHERE term = ?)")
                values.append(term)
            case Dated(first, last):
                for comparison, day in ((">=", first), ("<=", last)):
                    if day is not None:
                        tests.append(f"date {comparison} ?")
                        values.append(day)
            case AnyOf(alternatives):
                tests.append(f"({' OR '.join(f'({_sql(each, values)})' for each in alternatives) or 'FALSE'})")
    return " AND ".join(tests) or "TRUE"


def section_text(row: int, chunks: Iterable[Sequence[Any]], where: Path | str) -> SectionText:
    """Return the section that contains a chunk. If the chunk is missing, raise IndexCorrupt with the path `where`.

    Args:
        chunks: (row, document, url, section, text, blocks) of the chunks near this row, in ascending order.
    """
    for _, group in groupby(chunks, key=lambda chunk: chunk[1:4]):
        run = list(group)
        if run[0][0] <= row <= run[-1][0]:
            blocks: list[TextBlock] = []
            length = 0
            for *_, text, chunk_blocks in run:
                for start, end, kind in chunk_blocks:
                    block = TextBlock(start + length, end + length, kind)
                    if blocks and blocks[-1].kind == kind and blocks[-1].end + 1 == block.start == length:
                        block = TextBlock(blocks.pop().start, block.end, kind)  # rejoins a block split between chunks
                    blocks.append(block)
                length += len(text) + 1
            return SectionText("\n".join(text for *_, text, _ in run), blocks)
    raise corrupt(where, f"has no chunk {row}")


def flat_metadata(document: Document) -> dict[str, str | list[str]]:
    """Return the metadata to store and show. Each value is a string, or a list if there are several strings."""
    return {name: values[0] if len(values) == 1 else list(values) for name, values in document.metadata.items()}


def is_document_id(text: str) -> bool:
    """Return whether a text has the form of a document id: 32 hex digits."""
    return _ID.fullmatch(text) is not None


@lru_cache(1 << 12)
def document_id(url: str) -> str:
    """Return the id of the document at an address: 32 hex digits, the same in every generation."""
    return _digest(url).hex()


def _digest(url: str) -> bytes:
    return hashlib.sha256(url.encode("utf-8", "replace")).digest()[:16]
