"""Store index generations in Milvus. Each generation has two collections, and an alias names the live generation.

The manifest is written last, so a generation without a manifest is incomplete. Milvus has no lock against simultaneous
builds. Therefore only one index folder may publish to an alias, and the lock of that folder is used.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from indexer.errors import IndexCorrupt, IndexMissing, StoreRefused
from indexer.filter import Filter
from indexer.generation.documents import (
    PASSAGE_FIELDS,
    SECTION_NEIGHBOURS,
    SHOWN_FIELDS,
    DocumentEntry,
    DocumentFacts,
    SectionText,
    StoredChunk,
    document_id,
    is_document_id,
    section_text,
)
from indexer.generation.editions import Edition, edition_at
from indexer.generation.lexical.analysis import ENGLISH
from indexer.generation.lexical.lexical_query import LexicalQuery, Synonyms, read_query
from indexer.generation.lexical.vocabulary import Heading
from indexer.generation.manifest import ANALYSIS, Manifest, corrupt, parse_manifest
from indexer.generation.previous import ScannedDocument
from indexer.generation.rows import RowFacts, Rows, ScoredRows
from indexer.generation.vectors import check_query_vector
from indexer.publish.publish import Published
from indexer.records import TextBlock
from indexer.stores.milvus import (
    CHUNK_FIELDS,
    MIN_HNSW_EF,
    MilvusAddress,
    MilvusConnection,
    bm25_text,
    constraints,
    expression,
    has_phrases,
    indexes,
    manifest_records,
    passage_rows,
    passages_indexes,
    passages_schema,
    records_of,
    records_schema,
)

_ALIAS_TIMEOUT_S = 3.0
_WRITE_TIMEOUT_S = 60.0
_ROWS_PER_BATCH = 200  # small, because Milvus refuses messages over 64 MB
_TYPICAL_CHUNK_TOKENS = 150
_MAX_ROWS_PER_CALL = 16_384


class MilvusStore:
    """A `Store` in Milvus. Threads may share it."""

    def __init__(self, url: str, *, token: str = "", seconds_left: Callable[[], float] = lambda: math.inf) -> None:
        """Set the address of the store. The connection is opened at the first request.

        Args:
            url: address of the store, see `MilvusAddress.parse`.
            token: USER:PASSWORD, or a token of Milvus.
            seconds_left: returns how many seconds the caller can still wait. Called before each request.

        Raises:
            StoreAddressError: the address is malformed.
        """
        self._address = MilvusAddress.parse(url)
        self._milvus = MilvusConnection(self._address, token, seconds_left)
        self.name = str(self._address)

    def live_id(self) -> str:
        """Return the id of the live index generation. Sends one request, which takes at most three seconds."""
        try:
            alias = self._milvus.call("describe_alias", self._address.name, timeout=_ALIAS_TIMEOUT_S)
        except IndexMissing as error:
            raise IndexMissing(
                f"there is no index in {self.name}; publish one with: pilotlight index --store {self.name}"
            ) from error
        collection = alias["collection_name"]
        if (generation_id := self._address.generation_of(collection)) is None:
            raise corrupt(self.name, f"names {collection}, which is not a generation")
        return generation_id

    def published(self) -> list[Published]:
        """Describe the complete index generations, newest first. Their sizes in bytes are None."""
        live, generations = None, []
        with suppress(IndexMissing, IndexCorrupt):
            live = self.live_id()
        for id in self._all():
            with suppress(IndexMissing):
                try:
                    manifest = read_manifest(self._milvus, id)
                    facts = manifest.created_at, manifest.counts.documents, manifest.counts.chunks, None, ""
                    generations.append(Published(id, id == live, *facts))
                except IndexCorrupt as error:
                    generations.append(Published(id, id == live, None, None, None, None, str(error)))
        return generations

    def open(self, generation_id: str | None = None) -> "MilvusGeneration":
        """Open an index generation for searching, by default the live generation."""
        return MilvusGeneration(self._milvus, generation_id or self.live_id())

    def make_live(self, generation_id: str) -> None:
        """Make a complete index generation live by changing the alias, which is atomic."""
        self.open(generation_id)
        name, collection, method = self._address.name, self._address.collection(generation_id), "alter_alias"
        try:
            self._milvus.call("describe_alias", name)
        except IndexMissing:
            method = "create_alias"
        self._milvus.call(method, collection, name)

    def write(self, manifest: Manifest, documents: Iterable[ScannedDocument]) -> None:
        """Store an index generation without making it live. Replaces the generation if Milvus has all or part of it.

        Raises IndexCorrupt if Milvus has not stored every passage. Also raises the errors of `MilvusConnection.call`.

        Args:
            manifest: manifest of the generation, which is stored without its `files`.
            documents: documents in the order of the index, from `previous.scan`.
        """
        self.remove(manifest.id)
        collection = self._address.collection(manifest.id)
        fields = passages_schema(manifest.counts.dimension)
        self._milvus.call("create_collection", collection, schema=fields, timeout=_WRITE_TIMEOUT_S)
        rows = passage_rows(documents)
        while batch := list(islice(rows, _ROWS_PER_BATCH)):
            self._milvus.call("insert", collection, batch, timeout=_WRITE_TIMEOUT_S)
        self._milvus.call("flush", collection, timeout=None)
        self._milvus.call("create_index", collection, passages_indexes(manifest.counts.chunks), timeout=None)
        filters = {field: {"index_type": "INVERTED"} for field in ("date", "document", "document_id", "terms")}
        with suppress(StoreRefused):  # Milvus Lite cannot index arrays, but filters also work without an index
            self._milvus.call("create_index", collection, indexes(**filters), timeout=None, sync=False)
        records = records_of(collection)
        self._milvus.call("create_collection", records, schema=records_schema(), timeout=_WRITE_TIMEOUT_S)
        unused = indexes(unused={"index_type": "FLAT", "metric_type": "IP"})
        self._milvus.call("create_index", records, unused, timeout=None, sync=False)
        written = replace(manifest, files={}, analysis=ANALYSIS)
        self._milvus.call("insert", records, manifest_records(written), timeout=_WRITE_TIMEOUT_S)
        self._milvus.call("flush", records, timeout=None)
        try:
            self.open(manifest.id)
        except IndexCorrupt:
            self.remove(manifest.id)
            raise

    def keep(self, count: int) -> None:
        """Keep the live index generation and the `count` - 1 generations before it, and remove older generations."""
        live = self.live_id()
        for id in [id for id in self._all() if id < live][max(0, count - 1) :]:
            self.remove(id)

    def remove(self, generation_id: str) -> None:
        """Remove an index generation, even if it is incomplete."""
        if generation_id in self._all():
            collection = self._address.collection(generation_id)
            for name in (records_of(collection), collection):  # manifest first: without it, the rest is never opened
                self._milvus.call("drop_collection", name, timeout=_WRITE_TIMEOUT_S)

    def close(self) -> None:
        """Close the connection. A later call opens a new one."""
        self._milvus.close()

    def _all(self) -> list[str]:
        """Return the ids of all index generations, including incomplete generations, newest first."""
        names = self._milvus.call("list_collections")
        return sorted(filter(None, map(self._address.generation_of, names)), reverse=True)


class MilvusGeneration:
    """An immutable index generation in Milvus, without token vectors. Threads may share it. See `Searchable`."""

    names: Sequence[str] = ()
    terms_take_long = True
    tokens = None
    twins: Mapping[int, frozenset[int]] = MappingProxyType({})

    def __init__(self, milvus: MilvusConnection, generation_id: str) -> None:
        """Open an index generation. Raises IndexCorrupt if a passage is missing, or an error of `read_manifest`."""
        self._milvus = milvus
        self._name = milvus.address.collection(generation_id)
        self._rows = partial(milvus.rows, self._name)
        self._where = f"{milvus.address} collection {self._name}"
        self.manifest: Manifest = read_manifest(milvus, generation_id)
        languages = self.manifest.languages or (ENGLISH,)
        # The manifest lists languages in order of their number of passages, but without the numbers. Any descending
        # numbers have the same effect.
        self._passages = {language: 1 << (len(languages) - place) for place, language in enumerate(languages)}
        [count] = self._rows("", ["count(*)"], consistency_level="Strong")
        self._count = self.manifest.counts.chunks
        if count["count(*)"] != self._count:
            raise corrupt(self._where, f"has {count['count(*)']:,} chunks instead of {self._count:,}")

    def read_query(
        self,
        query: str,
        synonyms: Synonyms = MappingProxyType({}),
        is_word: Callable[[str], bool] | None = None,
        filter: Filter | None = None,
    ) -> LexicalQuery:
        """Parse a query. Spelling is not corrected, because Milvus has no list of words."""
        return read_query(query, self._passages, synonyms=synonyms)

    def search_vectors(
        self, vector: npt.NDArray[np.float32], k: int, filter: Filter | None = None, terms: LexicalQuery | None = None
    ) -> ScoredRows:
        """Return the chunks nearest to a vector, with their scores. The maximum of `k` is 16,384."""
        check_query_vector(vector, self.manifest.counts.dimension)
        return self._matching({"data": [vector.tolist()], "anns_field": "vector"}, "IP", k, filter, terms)

    def search_terms(self, terms: LexicalQuery, k: int, filter: Filter | None = None) -> ScoredRows:
        """Return the chunks that best match the words of a query, with their scores. The maximum of `k` is 16,384."""
        if not (text := bm25_text(terms)):
            return ScoredRows.none()
        return self._matching({"data": [text], "anns_field": "sparse"}, "BM25", k, filter, terms)

    def _matching(
        self, search: dict[str, Any], metric: str, k: int, filter: Filter | None, terms: LexicalQuery | None
    ) -> ScoredRows:
        """Search for `k` chunks. If too few of the hits contain the required phrases, search again for more hits."""
        tests = [*(constraints(terms) if terms else ()), *([expression(filter.conditions())] if filter else [])]
        required = terms.required if terms else ()
        search |= {"filter": " and ".join(tests), "output_fields": ["row", "words"] if required else ["row"]}
        limit = min(k, _MAX_ROWS_PER_CALL)
        while True:
            params = {"metric_type": metric, "params": {"ef": max(limit, MIN_HNSW_EF)} if metric == "IP" else {}}
            hits = self._milvus.read("search", self._name, limit=limit, search_params=params, **search)[0]
            matching = [hit for hit in hits if not required or has_phrases(hit["entity"]["words"], required)]
            if len(matching) >= k or len(hits) < limit or limit == _MAX_ROWS_PER_CALL:
                break
            limit = min(4 * limit, _MAX_ROWS_PER_CALL)
        rows = np.array([hit["row"] for hit in matching[:k]], np.int64)
        scores = np.array([hit["distance"] for hit in matching[:k]], np.float32)
        if metric == "BM25":
            scores = np.abs(scores)  # some servers return negative distances
        order = np.lexsort((rows, -scores))
        return ScoredRows(scores[order], rows[order])

    def suggest(self, typed: str, limit: int, filter: Filter | None = None) -> list[Heading]:
        """Return an empty list, because Milvus has no index of titles and headings."""
        return []

    def vectors(self, rows: Rows) -> npt.NDArray[np.float32]:
        """Return the stored vectors of rows as float32 (n, dim)."""
        stored = [row["vector"] for row in self._by_row(rows, ["vector"])]
        return np.array(stored, dtype=np.float32).reshape(-1, self.manifest.counts.dimension)

    def row_facts(self, rows: Rows) -> RowFacts:
        """Return the document number and the similarity hash of each chunk in `rows`, in the same order."""
        names = ("document", "signature")
        stored = self._by_row(rows, names)
        documents, signatures = (np.array([row[name] for row in stored], np.int64) for name in names)
        return RowFacts(documents, signatures.view(np.uint64))

    def collections(self, rows: Sequence[int]) -> list[str] | None:
        """Return None, because all rows are in one collection."""
        return None

    def facts(self, numbers: Sequence[int]) -> dict[int, DocumentFacts]:
        """Return the columns of documents that filters can test, such as `language`, by document number."""
        test = f"document in {list(numbers)} and position == 0"
        stored = self._rows(test, ["document", "about"]) if numbers else []
        return {row["document"]: DocumentFacts(*map(row["about"].get, DocumentFacts._fields)) for row in stored}

    def editions(self, numbers: Sequence[int]) -> dict[int, Edition | None]:
        """Return the page and the version that the address of each document names, or None without a version."""
        versions = self.manifest.versions
        return {number: edition_at(each.url, each.source, versions) for number, each in self.facts(numbers).items()}

    def chunks(self, rows: Rows) -> list[StoredChunk]:
        """Return the chunks of `rows`, in this order."""
        chunks = []
        for row in self._by_row(rows, CHUNK_FIELDS):
            facts = {**row["about"], **row, "document_url": row["about"]["url"], "blocks": _blocks(row)}
            chunks.append(StoredChunk(*map(facts.__getitem__, StoredChunk.__struct_fields__)))
        return chunks

    def section(self, row: int) -> SectionText:
        """Return the text of a chunk's section, limited to `SECTION_NEIGHBOURS` chunks on each side of the chunk."""
        fields = ["row", "document", "url", "section", "text"]
        nearby = self._in_range(range(row - SECTION_NEIGHBOURS, row + SECTION_NEIGHBOURS + 1), [*fields, "about"])
        chunks = [(*(chunk[name] for name in fields), _blocks(chunk)) for chunk in nearby]
        return section_text(row, chunks, self._where)

    def documents(self, filter: Filter | None = None, id: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield each matching document as a JSON object with its passages. `id` selects one document."""
        rows = self._select([*CHUNK_FIELDS, "document"], filter, id)
        for _, members in groupby(rows, key=itemgetter("document")):
            passages = list(members)
            facts = {name: passages[0]["about"][name] for name in SHOWN_FIELDS}
            texts = [*map(_passage, passages)]
            yield {"generation": self.manifest.id, "id": document_id(facts["url"]), **facts, "passages": texts}

    def entries(self, filter: Filter | None = None, id: str | None = None) -> Iterator[DocumentEntry]:
        """Yield the documents that match a filter, without their passages. `id` selects one document."""
        for row in self._select(["document", "about"], filter, id, "position == 0"):
            facts = {name: row["about"][name] for name in SHOWN_FIELDS}
            count = len(self._rows(f"document == {row['document']}", ["row"]))
            yield DocumentEntry({"id": document_id(facts["url"]), **facts}, range(row["row"], row["row"] + count))

    def entry_of(self, chunk_id: str, filter: Filter | None = None) -> tuple[DocumentEntry, int] | None:
        """Return a chunk's document and row, or None if the chunk is missing or the filter excludes its document."""
        if not is_document_id(chunk_id):  # chunk ids have the same form as document ids
            return None
        for row in self._rows(f'id == "{chunk_id}"', ["row", "document_id"]):
            for entry in self.entries(filter, row["document_id"]):
                return entry, row["row"]
        return None

    def headings(self, rows: range) -> list[tuple[str, str, int]]:
        """Return (address, heading path, estimated number of tokens) for each chunk in a range of rows."""
        chunks = self._in_range(rows, ["url", "section"])
        return [(chunk["url"], chunk["section"], _TYPICAL_CHUNK_TOKENS) for chunk in chunks]

    def passages(self, rows: range) -> list[dict[str, Any]]:
        """Return the chunks in a range of rows as JSON objects."""
        return list(map(_passage, self._in_range(rows, CHUNK_FIELDS)))

    def scan(self, filter: Filter | None = None) -> Iterator[list[tuple[int, bytes]]]:
        """Yield the row and the UTF-8 text of each passage that matches a filter."""
        for row in self._select(["text"], filter):
            yield [(row["row"], row["text"].encode())]

    def survey(self, filter: Filter | None = None) -> list[DocumentFacts]:
        """Return the columns that filters can test, such as `language`, for all documents that match a filter."""
        abouts = (row["about"] for row in self._select(["about"], filter, test="position == 0"))
        return [DocumentFacts(*map(about.get, DocumentFacts._fields)) for about in abouts]

    def _select(
        self, fields: Sequence[str], filter: Filter | None, id: str | None = None, test: str = "row >= 0"
    ) -> Iterator[dict[str, Any]]:
        """Yield fields of passages that match a filter and an expression, in order of rows. `id` selects a document."""
        test = f"{test} and {expression(filter.conditions() if filter else ())}"
        if id is None:
            yield from self._in_range(range(self._count), fields, test)
        elif is_document_id(id):
            rows = self._rows(f'document_id == "{id}" and {test}', ["row", *fields])
            yield from sorted(rows, key=itemgetter("row"))

    def _in_range(self, rows: range, fields: Sequence[str], test: str = "row >= 0") -> Iterator[dict[str, Any]]:
        """Yield fields of the passages that are in a range of rows and match an expression, in order of rows."""
        for start in range(rows.start, rows.stop, _ROWS_PER_BATCH):
            batch = f"row >= {start} and row < {min(start + _ROWS_PER_BATCH, rows.stop)} and {test}"
            yield from sorted(self._rows(batch, ["row", *fields]), key=itemgetter("row"))

    def close(self) -> None:
        """Do nothing, because the store closes the connection."""

    def _by_row(self, rows: Rows, fields: Sequence[str]) -> list[dict[str, Any]]:
        """Return fields of the passages in `rows`, in the same order. Raises IndexCorrupt if a passage is missing."""
        by_row: dict[int, dict[str, Any]] = {}
        for start in range(0, len(rows), _MAX_ROWS_PER_CALL):
            test = f"row in {rows[start : start + _MAX_ROWS_PER_CALL].tolist()}"
            by_row |= {row["row"]: row for row in self._rows(test, ["row", *fields])}
        if missing := [row for row in rows.tolist() if row not in by_row]:
            raise corrupt(self._where, f"has no chunk {missing[0]}")
        return [by_row[row] for row in rows.tolist()]


def read_manifest(milvus: MilvusConnection, generation_id: str) -> Manifest:
    """Read a generation's manifest. Raises IndexMissing or IndexCorrupt if it is missing or damaged."""
    name = milvus.address.collection(generation_id)
    where = f"{milvus.address} collection {name}"
    records = milvus.rows(records_of(name), "part >= 0", ["part", "body"], consistency_level="Strong")
    if not records:
        raise IndexMissing(f"{where} is incomplete: writing it was interrupted")
    try:
        text = json.loads("".join(record["body"] for record in sorted(records, key=itemgetter("part"))))
    except ValueError as error:
        raise corrupt(where, "has a manifest that is truncated, or of an older version") from error
    return parse_manifest(str(text).encode("utf-8", "replace"), where, generation_id, needs=())


def _passage(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in PASSAGE_FIELDS} | {"blocks": _blocks(row)}


def _blocks(row: Mapping[str, Any]) -> list[TextBlock]:
    return [TextBlock(*block) for block in row["about"]["blocks"]]
