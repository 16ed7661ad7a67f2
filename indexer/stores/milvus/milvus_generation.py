"""A generation in Milvus, open for searching."""

import json
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from indexer.errors import IndexMissing
from indexer.filter import Filter
from indexer.generation.documents import AROUND, DocumentFacts, StoredChunk, is_document_id, texts_around
from indexer.generation.lexical.analysis import ENGLISH
from indexer.generation.lexical.headings import Heading
from indexer.generation.lexical.lexical_query import LexicalQuery, Synonyms, read_query
from indexer.generation.likeness import once
from indexer.generation.manifest import Manifest, corrupt, parse_manifest
from indexer.generation.vectors import check_query_vector
from indexer.rowset import RowFacts, ScoredRows, TermHits
from indexer.stores.milvus import schema
from indexer.stores.milvus.connection import MilvusConnection, records_of
from indexer.stores.milvus.schema import MilvusQuery, expression

_MOST = 16_384  # rows that one call may ask for
_BATCH = 500  # passages read at once
Rows = npt.NDArray[np.int64]


class MilvusGeneration:
    """One immutable generation as a `Searchable`; safe to share between threads."""

    terms_take_long = True  # a call to another machine always does
    tokens = None  # Milvus has no late interaction over bits

    def __init__(self, milvus: MilvusConnection, generation_id: str) -> None:
        """Open it; raises IndexMissing if it is not complete, IndexCorrupt, StoreUnreachable or StoreRefused."""
        self._milvus = milvus
        self._name = milvus.address.collection(generation_id)
        self._where = f"{milvus.address} collection {self._name}"
        self.manifest: Manifest = read_manifest(milvus, generation_id)
        languages = self.manifest.languages or (ENGLISH,)
        # how many passages each language may have, of which only the order is known
        self._passages = {language: 1 << (len(languages) - place) for place, language in enumerate(languages)}
        milvus.load(self._name)
        [found] = self._rows("", ["count(*)"], consistency_level="Strong")  # written by any process
        self._count = self.manifest.counts.chunks
        if found["count(*)"] != self._count:
            raise corrupt(self._where, f"holds {found['count(*)']:,} chunks instead of {self._count:,}")
        try:
            text = "".join(_bodies(milvus, self._name, f"part >= {schema.SHARES}"))
            self._repetition = np.frombuffer(b64decode(text, validate=True), np.uint8)
        except ValueError as error:
            raise corrupt(self._where, "has shares of repetition that cannot be read") from error
        if len(self._repetition) != self._count:
            raise corrupt(self._where, f"has shares of repetition for {len(self._repetition):,} chunks")

    def read_query(
        self,
        query: str,
        synonyms: Synonyms = MappingProxyType({}),
        is_word: Callable[[str], bool] | None = None,
        only: Filter | None = None,
    ) -> LexicalQuery:
        """Read a query as a user types it; nothing is corrected, as Milvus has no list of its words."""
        return read_query(query, self._passages, synonyms=synonyms)

    def search_vectors(
        self, vector: npt.NDArray[np.float32], k: int, only: Filter | None = None, terms: LexicalQuery | None = None
    ) -> ScoredRows:
        """Find the chunks nearest to a vector, at most 16,384."""
        check_query_vector(vector, self.manifest.counts.dimension)
        query = MilvusQuery.of(terms) if terms is not None and terms.is_bounded else None
        asked = {"data": [vector.tolist()], "anns_field": "vector"}
        return self._matching(asked, {"metric_type": "IP"}, k, only, query)

    def search_terms(self, terms: LexicalQuery, k: int, only: Filter | None = None) -> TermHits:
        """Find the chunks that match the words of a query, at most 16,384; `idf_sum` is not known."""
        query = MilvusQuery.of(terms)
        if not query.text:
            return TermHits(np.empty(0, np.float32), np.empty(0, np.int64), 0.0)
        asked = {"data": [query.text], "anns_field": "sparse"}
        return TermHits(*self._matching(asked, {"metric_type": "BM25"}, k, only, query), 0.0)

    def _matching(
        self, asked: dict[str, Any], params: dict[str, Any], k: int, only: Filter | None, query: MilvusQuery | None
    ) -> ScoredRows:
        """Search for k chunks, and deeper as long as too few of them have the phrases word after word."""
        tests = [*(query.tests() if query else ()), *([expression(only.conditions())] if only else [])]
        phrases = query if query and query.phrases else None
        is_by_words = params["metric_type"] == "BM25"
        asked |= {"filter": " and ".join(tests), "output_fields": ["row", "words"] if phrases else ["row"]}
        limit = min(k, _MOST)
        while True:
            explored = {} if is_by_words else {"params": {"ef": max(limit, schema.EXPLORED)}}
            found = self._milvus.read("search", self._name, limit=limit, search_params=params | explored, **asked)[0]
            matching = [hit for hit in found if not phrases or phrases.matches(hit["entity"]["words"])]
            if len(matching) >= k or len(found) < limit or limit == _MOST:
                break
            limit = min(4 * limit, _MOST)
        rows = np.array([hit["row"] for hit in matching[:k]], np.int64)
        scores = np.array([hit["distance"] for hit in matching[:k]], np.float32)
        if is_by_words:
            scores = np.abs(scores)  # some servers give BM25 as a distance, below 0
        order = np.lexsort((rows, -scores))
        return scores[order], rows[order]

    def suggest(self, typed: str, most: int, only: Filter | None = None) -> list[Heading]:
        """Return nothing: there is no index of titles and headings."""
        return []

    def vectors(self, rows: Rows) -> npt.NDArray[np.float32]:
        """Return stored vectors by row, float32 (n, dim)."""
        found = [row["vector"] for row in self._by_row(rows, ["vector"])]
        return np.array(found, dtype=np.float32).reshape(-1, self.manifest.counts.dimension)

    def row_facts(self, rows: Rows) -> RowFacts:
        """Return what the ranking must know of chunks, by row."""
        found = self._by_row(rows, ["document", "signature"])
        documents = np.array([row["document"] for row in found], np.int64)
        signatures = np.array([row["signature"] for row in found], np.int64).view(np.uint64)
        return RowFacts(documents, signatures, self._repetition[rows])

    def matches(self, rows: Rows, only: Filter) -> npt.NDArray[np.bool_]:
        """Return whether each of these rows is of a document that a filter allows, bool (n,)."""
        found = self._rows(f"row in {rows.tolist()} and {expression(only.conditions())}", ["row"])
        return np.isin(rows, [row["row"] for row in found])

    def facts(self, numbers: Sequence[int]) -> dict[int, DocumentFacts]:
        """Return the facts of documents by number."""
        test = f"document in {list(numbers)} and position == 0"
        found = self._rows(test, ["document", "about"]) if numbers else []
        return {row["document"]: DocumentFacts(*map(row["about"].get, DocumentFacts._fields)) for row in found}

    def chunks(self, rows: Rows) -> list[StoredChunk]:
        """Return chunks by row, in the order of `rows`."""
        return [schema.chunk_of(row) for row in self._by_row(rows, schema.SHOWN)]

    def section(self, row: int) -> str:
        """Return the text of the section of a chunk, limited to the chunks near it."""
        fields = ["row", "document", "url", "section", "text"]
        found = self._rows(f"row >= {row - AROUND} and row <= {row + AROUND}", fields)
        around = sorted(tuple(chunk[name] for name in fields) for chunk in found)
        if not (texts := texts_around(row, around)):
            raise corrupt(self._where, f"has no chunk {row}")
        return "\n".join(once(texts))

    def documents(self, only: Filter | None = None, id: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield every document that a filter allows with its passages, JSON-ready, or the one with an id."""
        tests, fields = [expression(only.conditions())] if only else [], [*schema.SHOWN, "document"]
        if id is None:
            found = self.rows(fields, *tests)
        elif is_document_id(id):
            test = " and ".join([f'document_id == "{id}"', *tests])
            found = iter(sorted(self._rows(test, fields), key=itemgetter("row")))
        else:
            return
        for _, passages in groupby(found, key=itemgetter("document")):
            yield {"generation": self.manifest.id, **schema.document_of(list(passages))}

    def rows(self, fields: Sequence[str], test: str = "row >= 0") -> Iterator[dict[str, Any]]:
        """Yield fields of all passages for which an expression is true, in the order of the index."""
        for start in range(0, self._count, _BATCH):
            batch = f"row >= {start} and row < {start + _BATCH} and {test}"
            yield from sorted(self._rows(batch, ["row", *fields]), key=itemgetter("row"))

    def close(self) -> None:
        """Do nothing: the store closes the connection."""

    def _rows(self, test: str, fields: Sequence[str], **options: Any) -> list[dict[str, Any]]:
        return self._milvus.rows(self._name, test, fields, **options)

    def _by_row(self, rows: Rows, fields: Sequence[str]) -> list[dict[str, Any]]:
        """Return fields of passages by row, in the order of `rows`. Raises IndexCorrupt if one is missing."""
        found: dict[int, dict[str, Any]] = {}
        for start in range(0, len(rows), _MOST):
            test = f"row in {rows[start : start + _MOST].tolist()}"
            found |= {row["row"]: row for row in self._rows(test, ["row", *fields])}
        if missing := [row for row in rows.tolist() if row not in found]:
            raise corrupt(self._where, f"has no chunk {missing[0]}")
        return [found[row] for row in rows.tolist()]


def read_manifest(milvus: MilvusConnection, generation_id: str) -> Manifest:
    """Read and check the manifest of a generation. Raises as `MilvusGeneration` does."""
    name = milvus.address.collection(generation_id)
    where = f"{milvus.address} collection {name}"
    parts = _bodies(milvus, name, "part < 0")
    if not parts:
        raise IndexMissing(f"{where} is incomplete: writing it was interrupted")
    try:
        raw = str(json.loads("".join(reversed(parts)))).encode("utf-8", "replace")
    except ValueError as error:
        raise corrupt(where, "has a manifest that is cut short") from error
    return parse_manifest(raw, where, generation_id, needs=())


def _bodies(milvus: MilvusConnection, name: str, test: str) -> list[str]:
    """Return the bodies of records of a generation for which an expression is true, by their number."""
    found = milvus.rows(records_of(name), test, ["part", "body"], consistency_level="Strong")
    return [record["body"] for record in sorted(found, key=itemgetter("part"))]
