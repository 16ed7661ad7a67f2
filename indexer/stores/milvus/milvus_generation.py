"""A generation in Milvus: open for searching, or to be read from front to back."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from indexer.errors import IndexMissing
from indexer.filter import Filter
from indexer.generation.catalogue import DocumentFacts, is_document_id
from indexer.generation.dense.vectors import check_query_vector
from indexer.generation.document_database import AROUND, StoredChunk, texts_around
from indexer.generation.lexical.analysis import ENGLISH
from indexer.generation.lexical.headings import Heading
from indexer.generation.lexical.lexical_query import LexicalQuery, read_query
from indexer.generation.lexical.stop_words import shares_by_order
from indexer.generation.lexical.synonyms import NO_SYNONYMS, Synonyms
from indexer.generation.manifest import Manifest, corrupt, parse_manifest
from indexer.generation.overlap import joined
from indexer.generation.repetition import Shares
from indexer.generation.rows import DTYPE
from indexer.generation.tokens import TokenSource
from indexer.records import PageRecord
from indexer.rowset import ScoredRows
from indexer.stores.described import Described
from indexer.stores.milvus import schema
from indexer.stores.milvus.address import records_of
from indexer.stores.milvus.connection import MilvusConnection, NotLoaded
from indexer.stores.milvus.milvus_query import MilvusQuery, expression
from indexer.stores.store import ScannedDocument

_MOST = 16_384  # rows that one call may ask for
_AT_ONCE = 500  # passages read at once
_LOADING = 600.0  # seconds that a collection may take to come into memory


class MilvusCollection:
    """One of the two collections of a generation, to be read."""

    def __init__(self, milvus: MilvusConnection, name: str) -> None:
        self.name = name
        self._milvus = milvus

    def load(self) -> None:
        """Have it in the memory of Milvus. Raises IndexMissing, StoreUnreachable or StoreRefused."""
        self._milvus.call("load_collection", self.name, most=_LOADING)

    def query(self, test: str, fields: Sequence[str], **options: Any) -> list[dict[str, Any]]:
        """Return the rows for which an expression is true, in no order. Raises as `MilvusConnection.call` does."""
        return list(self._ask("query", filter=test, output_fields=list(fields), **options))

    def search(self, **options: Any) -> list[Any]:
        """Return hits, best first. Raises as `MilvusConnection.call` does."""
        return list(self._ask("search", **options)[0])

    def count(self) -> int:
        """Return how many rows have been written, by whichever process."""
        [found] = self.query("", ["count(*)"], consistency_level="Strong")
        return int(found["count(*)"])

    def _ask(self, method: str, **options: Any) -> Any:
        try:
            return self._milvus.call(method, self.name, **options)
        except NotLoaded:  # a server that was started again may have forgotten it
            self.load()
            return self._milvus.call(method, self.name, **options)


class Within(NamedTuple):
    """Which chunks may be found."""

    test: str  # an expression of Milvus; empty for all
    wanted: MilvusQuery | None  # whose phrases they must hold, word after word


class MilvusGeneration(Described):
    """One immutable generation, both as a `Searchable` and as a `GenerationScan`; safe to share between threads."""

    def __init__(self, milvus: MilvusConnection, generation_id: str) -> None:
        """Open it.

        Raises:
            IndexMissing: there is none of this id, or it is not complete.
            IndexCorrupt: it is not as it was published, or of a version this program does not know.
            StoreUnreachable, StoreRefused: Milvus does not answer, or not so.
        """
        name = milvus.address.collection(generation_id)
        self._where = f"{milvus.address} collection {name}"
        self._passages = MilvusCollection(milvus, name)
        self._records = MilvusCollection(milvus, records_of(name))
        self.manifest: Manifest = read_manifest(milvus, generation_id)
        self._passages.load()
        if (found := self._passages.count()) != self.manifest.counts.chunks:
            raise corrupt(self._where, f"holds {found:,} chunks instead of {self.manifest.counts.chunks:,}")
        self._repetition = self._read_shares()
        self.tokens: TokenSource | None = None  # Milvus has no late interaction over bits

    @property
    def words_take_long(self) -> bool:
        """Whether `search_words` takes longer than handing it to another thread does: another machine always does."""
        return True

    def select(self, only: Filter) -> str:
        """Return the expression for a filter, which `search` takes."""
        return expression(only)

    def search(self, vector: npt.NDArray[np.float32], k: int, allowed: str | Within | None = None) -> ScoredRows:
        """Find the chunks nearest to a vector; see `Generation.search`. At most 16,384 are found."""
        check_query_vector(vector, self.dimension)
        within = allowed if isinstance(allowed, Within) else Within(allowed or "", None)

        def find(limit: int) -> dict[str, Any]:
            params = {"metric_type": "IP", "params": {"ef": max(limit, schema.EXPLORED)}}
            return {"data": [vector.tolist()], "anns_field": "vector", "limit": limit, "search_params": params}

        return _arrays(self._matching(find, k, within))

    def read_query(
        self,
        query: str,
        synonyms: Synonyms = NO_SYNONYMS,
        is_word: Callable[[str], bool] | None = None,
        only: Filter | None = None,
    ) -> LexicalQuery:
        """Read a query, as a user types it, for `search_words`; nothing is corrected."""
        languages = self.manifest.languages or (ENGLISH,)
        return read_query(query, shares_by_order(languages), synonyms=synonyms)

    def suggest(self, typed: str, most: int, only: Filter | None = None) -> list[Heading]:
        """Return nothing: titles and headings are not in order here."""
        return []

    def within(self, query: LexicalQuery, allowed: str | None = None) -> Within:
        """Return what a query requires and excludes, and what `select` gave, for `search`."""
        wanted = MilvusQuery.of(query)
        return Within(" and ".join([*wanted.tests(), *([allowed] if allowed else [])]), wanted)

    def search_words(self, query: LexicalQuery, k: int, only: Filter | None = None) -> ScoredRows:
        """Find the chunks that match the words of a query; see `Generation.search_words`. At most 16,384 are found."""
        within = self.within(query, self.select(only) if only else None)
        wanted = within.wanted
        if wanted is None or not wanted.text:
            return _arrays([])

        def find(limit: int) -> dict[str, Any]:
            params = {"metric_type": "BM25"}
            return {"data": [wanted.text], "anns_field": "sparse", "limit": limit, "search_params": params}

        # Milvus Lite gives BM25 as a distance, below 0.
        return _arrays(
            [{"row": hit["row"], "distance": abs(hit["distance"])} for hit in self._matching(find, k, within)]
        )

    def idf_sum(self, query: LexicalQuery) -> float:
        """Return 0: Milvus does not say in how many passages a word is, but by a call for each."""
        return 0.0

    def _matching(self, find: Callable[[int], dict[str, Any]], k: int, within: Within) -> list[Any]:
        """Search for k chunks, and further down as long as phrases are not there word after word."""
        wanted = within.wanted
        fields = ["row", "words"] if wanted is not None and wanted.phrases else ["row"]
        limit = min(k, _MOST)
        while True:
            found = self._passages.search(**find(limit), filter=within.test, output_fields=fields)
            matching = found
            if wanted is not None and wanted.phrases:
                matching = [hit for hit in found if wanted.matches(hit["entity"]["words"])]
            if len(matching) >= k or len(found) < limit or limit == _MOST:
                return matching[:k]
            limit = min(4 * limit, _MOST)

    def vectors(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Return stored vectors by row, float32 (n, dim)."""
        found = [row["vector"] for row in self._by_row(rows, ["vector"])]
        return np.array(found, dtype=np.float32).reshape(-1, self.dimension)

    def rows_of(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
        """Return document and signature by row, an array (n,) of `indexer.generation.rows.DTYPE`."""
        found = self._by_row(rows, ["document", "signature"])
        return np.array([(row["document"], schema.signature_of(row)) for row in found], dtype=DTYPE)

    def matches(self, rows: npt.NDArray[np.int64], only: Filter) -> npt.NDArray[np.bool_]:
        """Return whether each of these rows is of a document that a filter allows, bool (n,)."""
        found = self._passages.query(f"row in {rows.tolist()} and {expression(only)}", ["row"])
        return np.isin(rows, [row["row"] for row in found])

    def dates(self, rows: npt.NDArray[np.int64]) -> list[str | None]:
        """Return the date of the document of each of these rows, YYYY-MM-DD or None."""
        return [row["date"] or None for row in self._by_row(rows, ["date"])]

    def repetition(self, rows: npt.NDArray[np.int64]) -> Shares:
        """Return the shares of the texts that repeat, by row, uint8 (n,); 0 where that is not known."""
        return self._repetition[rows]

    def chunks(self, rows: npt.NDArray[np.int64]) -> list[StoredChunk]:
        """Return chunks by row, in the order asked for."""
        return [schema.chunk_of(row) for row in self._by_row(rows, schema.SHOWN)]

    def section(self, row: int) -> str:
        """Return the text of the section that a chunk is of; see `Generation.section`."""
        fields = ["row", "document", "url", "section", "text"]
        found = self._passages.query(f"row >= {row - AROUND} and row <= {row + AROUND}", fields)
        around = sorted(tuple(chunk[name] for name in fields) for chunk in found)
        if not (texts := texts_around(row, around)):
            raise corrupt(self._where, f"has no chunk {row}")
        return joined(texts, self.manifest.settings)

    def facts(self, numbers: Sequence[int]) -> list[DocumentFacts]:
        """Return the facts of documents, given by their number, in no order."""
        if not numbers:
            return []
        test = f"document in {list(map(int, numbers))} and position == 0"
        return [schema.facts_of(row) for row in self._passages.query(test, ["about"])]

    def facts_by_id(self, id: str) -> DocumentFacts | None:
        """Return the facts of the document of an id, or None."""
        if not is_document_id(id):
            return None
        found = self._passages.query(f'document_id == "{id}" and position == 0', ["about"])
        return schema.facts_of(found[0]) if found else None

    def allows(self, id: str, only: Filter) -> bool:
        """Return whether there is a document of an id that a filter allows."""
        wanted = f'document_id == "{id}" and position == 0 and {expression(only)}'
        return is_document_id(id) and bool(self._passages.query(wanted, ["row"]))

    def document(self, id: str) -> dict[str, Any] | None:
        """Return the document of an id with its passages, JSON-ready, or None."""
        if not is_document_id(id):
            return None
        found = self._passages.query(f'document_id == "{id}"', schema.SHOWN)
        return self._shown(sorted(found, key=itemgetter("row"))) if found else None

    def documents(self) -> Iterator[dict[str, Any]]:
        """Yield every document as `document` gives it."""
        return map(self._shown, self._each([*schema.SHOWN, "document"]))

    def entries(self) -> Iterator[ScannedDocument]:
        """Yield every document in the order of the index."""
        return map(schema.scanned_document, self._each(schema.STORED))

    def pages(self) -> Iterator[PageRecord]:
        """Yield what the next build needs to know of every page."""
        try:
            yield from schema.pages_in(self._record_bodies(0))
        except (ValueError, TypeError, KeyError) as error:
            raise corrupt(self._where, f"has pages that cannot be read ({error})") from error

    def close(self) -> None:
        """Do nothing: the connection is the store's."""

    def _shown(self, found: list[dict[str, Any]]) -> dict[str, Any]:
        return {"generation": self.id, **schema.document_of(found).as_dict()}

    def _each(self, fields: Sequence[str]) -> Iterator[list[dict[str, Any]]]:
        """Yield the passages of each document."""
        return (list(group) for _, group in groupby(self._in_order(fields), key=itemgetter("document")))

    def _in_order(self, fields: Sequence[str]) -> Iterator[dict[str, Any]]:
        for start in range(0, self.chunk_count, _AT_ONCE):
            yield from self._by_row(np.arange(start, min(start + _AT_ONCE, self.chunk_count)), fields)

    def _by_row(self, rows: npt.NDArray[np.int64], fields: Sequence[str]) -> list[dict[str, Any]]:
        """Fields of passages by row, in the order asked for. Raises IndexCorrupt if one is missing."""
        found: dict[int, dict[str, Any]] = {}
        for start in range(0, len(rows), _MOST):
            test = f"row in {rows[start : start + _MOST].tolist()}"
            found |= {row["row"]: row for row in self._passages.query(test, ["row", *fields])}
        if missing := [row for row in rows.tolist() if row not in found]:
            raise corrupt(self._where, f"has no chunk {missing[0]}")
        return [found[row] for row in rows.tolist()]

    def _read_shares(self) -> Shares:
        try:
            shares = schema.shares_in(self._record_bodies(schema.SHARES))
        except ValueError as error:
            raise corrupt(self._where, "has shares of repetition that cannot be read") from error
        if not len(shares):  # of an older program
            return np.zeros(self.chunk_count, np.uint8)
        if len(shares) != self.chunk_count:
            raise corrupt(self._where, f"has shares of repetition for {len(shares):,} chunks")
        return shares

    def _record_bodies(self, part: int) -> Iterator[str]:
        """Yield what stands in the records from a part on, as far as they follow each other."""
        while found := self._records.query(
            f"part >= {part} and part < {part + 100}", ["part", "body"], consistency_level="Strong"
        ):
            yield from (record["body"] for record in sorted(found, key=itemgetter("part")))
            part += 100


def read_manifest(milvus: MilvusConnection, generation_id: str) -> Manifest:
    """Read and check the manifest of a generation. Raises as `MilvusGeneration` does."""
    name = milvus.address.collection(generation_id)
    where = f"{milvus.address} collection {name}"
    records = MilvusCollection(milvus, records_of(name))
    found = records.query("part < 0", ["part", "body"], consistency_level="Strong")
    if not found:
        raise IndexMissing(f"{where} is incomplete: writing it was interrupted")
    try:
        raw = schema.manifest_in(record["body"] for record in sorted(found, key=itemgetter("part"), reverse=True))
    except ValueError as error:
        raise corrupt(where, "has a manifest that is cut short") from error
    return parse_manifest(raw, where, generation_id, needs=())


def read_order(milvus: MilvusConnection, generation_id: str) -> int:
    """Return the place of a generation in the order of publishing, 0 if an older program wrote it."""
    records = MilvusCollection(milvus, records_of(milvus.address.collection(generation_id)))
    found = records.query(f"part == {schema.ORDER}", ["part", "body"], consistency_level="Strong")
    return int(found[0]["body"]) if found and found[0]["body"].isdecimal() else 0


def _arrays(found: Sequence[Any]) -> ScoredRows:
    """Scores and rows, best first."""
    rows = np.fromiter((hit["row"] for hit in found), np.int64, len(found))
    scores = np.fromiter((hit["distance"] for hit in found), np.float32, len(found))
    order = np.lexsort((rows, -scores))
    return scores[order], rows[order]
