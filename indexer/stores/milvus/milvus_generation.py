"""A generation in Milvus, open for searching."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from indexer.errors import IndexMissing
from indexer.filter import Filter
from indexer.generation.arrays import DTYPE
from indexer.generation.dense.vectors import check_query_vector
from indexer.generation.documents import AROUND, DocumentFacts, StoredChunk, is_document_id, texts_around
from indexer.generation.lexical.analysis import ENGLISH
from indexer.generation.lexical.headings import Heading
from indexer.generation.lexical.lexical_query import LexicalQuery, read_query
from indexer.generation.lexical.query_words import NO_SYNONYMS, Synonyms, shares_by_order
from indexer.generation.likeness import Shares, joined
from indexer.generation.manifest import Manifest, corrupt, parse_manifest
from indexer.rowset import ScoredRows
from indexer.stores.milvus import schema
from indexer.stores.milvus.connection import MilvusConnection, NotLoaded, records_of
from indexer.stores.milvus.schema import MilvusQuery, expression
from indexer.stores.store import RowFacts, TermHits

_MOST = 16_384  # rows that one call may ask for
_BATCH = 500  # passages read at once
_LOAD_SECONDS = 600.0  # that a collection may take to come into memory


class MilvusCollection:
    """One of the two collections of a generation, to be read."""

    def __init__(self, milvus: MilvusConnection, name: str) -> None:
        self.name = name
        self._milvus = milvus

    def load(self) -> None:
        """Load it into the memory of Milvus. Raises IndexMissing, StoreUnreachable or StoreRefused."""
        self._milvus.call("load_collection", self.name, timeout=_LOAD_SECONDS)

    def query(self, test: str, fields: Sequence[str], **options: Any) -> list[dict[str, Any]]:
        """Return the rows for which an expression is true, in no order. Raises as `MilvusConnection.call` does."""
        return list(self._call("query", filter=test, output_fields=list(fields), **options))

    def search(self, **options: Any) -> list[Any]:
        """Return hits, best first. Raises as `MilvusConnection.call` does."""
        return list(self._call("search", **options)[0])

    def count(self) -> int:
        """Return how many rows have been written, by any process."""
        [found] = self.query("", ["count(*)"], consistency_level="Strong")
        return int(found["count(*)"])

    def _call(self, method: str, **options: Any) -> Any:
        try:
            return self._milvus.call(method, self.name, **options)
        except NotLoaded:  # a restarted server may have forgotten it
            self.load()
            return self._milvus.call(method, self.name, **options)


class MilvusGeneration:
    """One immutable generation as a `Searchable`; safe to share between threads."""

    terms_take_long = True  # a call to another machine always does
    tokens = None  # Milvus has no late interaction over bits

    def __init__(self, milvus: MilvusConnection, generation_id: str) -> None:
        """Open it.

        Raises:
            IndexMissing: there is none of this id, or it is not complete.
            IndexCorrupt: it is not as it was published, or of a version this program does not know.
            StoreUnreachable, StoreRefused: Milvus does not answer, or refuses to.
        """
        name = milvus.address.collection(generation_id)
        self._where = f"{milvus.address} collection {name}"
        self._passages = MilvusCollection(milvus, name)
        self._records = MilvusCollection(milvus, records_of(name))
        self.manifest: Manifest = read_manifest(milvus, generation_id)
        self._count = self.manifest.counts.chunks
        self._passages.load()
        if (found := self._passages.count()) != self._count:
            raise corrupt(self._where, f"holds {found:,} chunks instead of {self._count:,}")
        self._repetition = self._read_shares()

    def read_query(
        self,
        query: str,
        synonyms: Synonyms = NO_SYNONYMS,
        is_word: Callable[[str], bool] | None = None,
        only: Filter | None = None,
    ) -> LexicalQuery:
        """Read a query as a user types it; nothing is corrected, as Milvus has no list of its words."""
        languages = self.manifest.languages or (ENGLISH,)
        return read_query(query, shares_by_order(languages), synonyms=synonyms)

    def search_vectors(
        self, vector: npt.NDArray[np.float32], k: int, only: Filter | None = None, terms: LexicalQuery | None = None
    ) -> ScoredRows:
        """Find the chunks nearest to a vector, at most 16,384."""
        check_query_vector(vector, self.manifest.counts.dimension)
        query = MilvusQuery.of(terms) if terms is not None and terms.is_bounded else None

        def find(limit: int) -> dict[str, Any]:
            params = {"metric_type": "IP", "params": {"ef": max(limit, schema.EXPLORED)}}
            return {"data": [vector.tolist()], "anns_field": "vector", "limit": limit, "search_params": params}

        return _arrays(self._matching(find, k, only, query))

    def search_terms(self, terms: LexicalQuery, k: int, only: Filter | None = None) -> TermHits:
        """Find the chunks that match the words of a query, at most 16,384; `idf_sum` is not known."""
        query = MilvusQuery.of(terms)
        if not query.text:
            return TermHits(*_arrays([]), 0.0)

        def find(limit: int) -> dict[str, Any]:
            params = {"metric_type": "BM25"}
            return {"data": [query.text], "anns_field": "sparse", "limit": limit, "search_params": params}

        found = self._matching(find, k, only, query)
        # Some servers give BM25 as a distance, below 0.
        return TermHits(*_arrays([{"row": hit["row"], "distance": abs(hit["distance"])} for hit in found]), 0.0)

    def _matching(
        self, find: Callable[[int], dict[str, Any]], k: int, only: Filter | None, query: MilvusQuery | None
    ) -> list[Any]:
        """Search for k chunks, and deeper as long as too few of them have the phrases word after word."""
        tests = [*(query.tests() if query else ()), *([expression(only)] if only else [])]
        phrases = query if query and query.phrases else None
        fields = ["row", "words"] if phrases else ["row"]
        limit = min(k, _MOST)
        while True:
            found = self._passages.search(**find(limit), filter=" and ".join(tests), output_fields=fields)
            matching = [hit for hit in found if not phrases or phrases.matches(hit["entity"]["words"])]
            if len(matching) >= k or len(found) < limit or limit == _MOST:
                return matching[:k]
            limit = min(4 * limit, _MOST)

    def suggest(self, typed: str, most: int, only: Filter | None = None) -> list[Heading]:
        """Return nothing: there is no index of titles and headings."""
        return []

    def vectors(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Return stored vectors by row, float32 (n, dim)."""
        found = [row["vector"] for row in self._by_row(rows, ["vector"])]
        return np.array(found, dtype=np.float32).reshape(-1, self.manifest.counts.dimension)

    def row_facts(self, rows: npt.NDArray[np.int64]) -> RowFacts:
        """Return what the ranking must know of chunks, by row."""
        found = self._by_row(rows, ["document", "signature"])
        pairs = np.array([(row["document"], schema.signature_of(row)) for row in found], dtype=DTYPE)
        return RowFacts(pairs["document"], pairs["signature"], self._repetition[rows])

    def matches(self, rows: npt.NDArray[np.int64], only: Filter) -> npt.NDArray[np.bool_]:
        """Return whether each of these rows is of a document that a filter allows, bool (n,)."""
        found = self._passages.query(f"row in {rows.tolist()} and {expression(only)}", ["row"])
        return np.isin(rows, [row["row"] for row in found])

    def facts(self, numbers: Sequence[int]) -> dict[int, DocumentFacts]:
        """Return the facts of documents by number."""
        if not numbers:
            return {}
        found = self._passages.query(f"document in {list(numbers)} and position == 0", ["document", "about"])
        return {row["document"]: schema.facts_of(row) for row in found}

    def chunks(self, rows: npt.NDArray[np.int64]) -> list[StoredChunk]:
        """Return chunks by row, in the order of `rows`."""
        return [schema.chunk_of(row) for row in self._by_row(rows, schema.SHOWN)]

    def section(self, row: int) -> str:
        """Return the text of the section of a chunk, limited to the chunks near it."""
        fields = ["row", "document", "url", "section", "text"]
        found = self._passages.query(f"row >= {row - AROUND} and row <= {row + AROUND}", fields)
        around = sorted(tuple(chunk[name] for name in fields) for chunk in found)
        if not (texts := texts_around(row, around)):
            raise corrupt(self._where, f"has no chunk {row}")
        return joined(texts, self.manifest.settings)

    def documents(self, only: Filter | None = None, id: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield every document that a filter allows with its passages, JSON-ready, or the one with an id."""
        tests = [expression(only)] if only else []
        if id is None:
            found = self.rows([*schema.SHOWN, "document"], *tests)
        elif is_document_id(id):
            test = " and ".join([f'document_id == "{id}"', *tests])
            found = iter(sorted(self._passages.query(test, [*schema.SHOWN, "document"]), key=itemgetter("row")))
        else:
            found = iter(())
        for _, passages in groupby(found, key=itemgetter("document")):
            yield {"generation": self.manifest.id, **schema.document_of(list(passages)).as_dict()}

    def rows(self, fields: Sequence[str], test: str = "row >= 0") -> Iterator[dict[str, Any]]:
        """Yield fields of all passages for which an expression is true, in the order of the index."""
        for start in range(0, self._count, _BATCH):
            batch = f"row >= {start} and row < {start + _BATCH} and {test}"
            yield from sorted(self._passages.query(batch, ["row", *fields]), key=itemgetter("row"))

    def close(self) -> None:
        """Do nothing: the store closes the connection."""

    def _by_row(self, rows: npt.NDArray[np.int64], fields: Sequence[str]) -> list[dict[str, Any]]:
        """Return fields of passages by row, in the order of `rows`. Raises IndexCorrupt if one is missing."""
        found: dict[int, dict[str, Any]] = {}
        for start in range(0, len(rows), _MOST):
            test = f"row in {rows[start : start + _MOST].tolist()}"
            found |= {row["row"]: row for row in self._passages.query(test, ["row", *fields])}
        if missing := [row for row in rows.tolist() if row not in found]:
            raise corrupt(self._where, f"has no chunk {missing[0]}")
        return [found[row] for row in rows.tolist()]

    def _read_shares(self) -> Shares:
        try:
            shares = schema.shares_in(_bodies(self._records, f"part >= {schema.SHARES} and part < {schema.ORDER}"))
        except ValueError as error:
            raise corrupt(self._where, "has shares of repetition that cannot be read") from error
        if not len(shares):  # of an older program
            return np.zeros(self._count, np.uint8)
        if len(shares) != self._count:
            raise corrupt(self._where, f"has shares of repetition for {len(shares):,} chunks")
        return shares


def read_manifest(milvus: MilvusConnection, generation_id: str) -> Manifest:
    """Read and check the manifest of a generation. Raises as `MilvusGeneration` does."""
    name = milvus.address.collection(generation_id)
    where = f"{milvus.address} collection {name}"
    records = MilvusCollection(milvus, records_of(name))
    parts = _bodies(records, "part < 0")
    if not parts:
        raise IndexMissing(f"{where} is incomplete: writing it was interrupted")
    try:
        raw = schema.manifest_in(reversed(parts))
    except ValueError as error:
        raise corrupt(where, "has a manifest that is cut short") from error
    return parse_manifest(raw, where, generation_id, needs=())


def _bodies(records: MilvusCollection, test: str) -> list[str]:
    """Return the bodies of records for which an expression is true, by their number."""
    found = records.query(test, ["part", "body"], consistency_level="Strong")
    return [record["body"] for record in sorted(found, key=itemgetter("part"))]


def _arrays(found: Sequence[Any]) -> ScoredRows:
    """Return scores and rows, best first."""
    rows = np.fromiter((hit["row"] for hit in found), np.int64, len(found))
    scores = np.fromiter((hit["distance"] for hit in found), np.float32, len(found))
    order = np.lexsort((rows, -scores))
    return scores[order], rows[order]
