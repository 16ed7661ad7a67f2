"""A published generation, opened for searching. Imports nothing that only a build needs."""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from indexer.errors import IndexCorrupt
from indexer.filter import Filter
from indexer.generation.catalogue import Catalogue, DocumentFacts
from indexer.generation.current import current_id, generation_folder
from indexer.generation.dense.vectors import VectorReader
from indexer.generation.document_database import DocumentReader, StoredChunk
from indexer.generation.layout import GENERATIONS
from indexer.generation.lexical.headings import Heading
from indexer.generation.lexical.lexical_index import LexicalReader
from indexer.generation.lexical.lexical_query import LexicalQuery
from indexer.generation.lexical.synonyms import NO_SYNONYMS, Synonyms
from indexer.generation.manifest import (
    DOCUMENTS,
    LEXICAL,
    REPETITION,
    ROWS,
    VECTORS,
    Manifest,
    check_files,
    corrupt,
    read_manifest,
)
from indexer.generation.overlap import joined
from indexer.generation.repetition import Shares, read_shares
from indexer.generation.rows import read_rows
from indexer.generation.tokens import open_tokens
from indexer.rowset import RowSet

MANY_CHUNKS = 300_000  # from which a search by words takes about half a millisecond, as waking a thread does
FILTERS = 64  # whose rows are remembered: people and pages ask with the same few


class Generation:
    """One immutable generation with every file open; its folder may be deleted while it is open.

    `search` and `chunks` may be called from many threads at once. Open it after forking, not before.
    """

    def __init__(self, folder: Path, *, are_checked: bool = False) -> None:
        """Open a generation folder, after its checksums unless these are checked; raises IndexCorrupt with the file."""
        self.folder = folder
        self.manifest: Manifest = read_manifest(folder)
        if not are_checked:
            check_files(folder, self.manifest)
        self._vectors = VectorReader(folder / VECTORS)
        self._lexical = LexicalReader(folder / LEXICAL, self.manifest.languages, self.manifest.analysis)
        self._documents = DocumentReader(folder / DOCUMENTS)
        self.catalogue = Catalogue(folder / DOCUMENTS)
        self.rows = read_rows(folder / ROWS)
        self.select = lru_cache(FILTERS)(self._documents.select)
        counts = self.manifest.counts
        if (self._vectors.count, self._vectors.dimension) != (counts.chunks, counts.dimension):
            raise corrupt(folder / VECTORS, "its vectors do not match the manifest")
        if self._lexical.count != counts.chunks:
            raise corrupt(folder / LEXICAL, "its chunks do not match the manifest")
        if len(self.rows) != counts.chunks:
            raise corrupt(folder / ROWS, "its rows do not match the manifest")
        is_there = REPETITION in self.manifest.files
        self._repetition = read_shares(folder / REPETITION, counts.chunks) if is_there else None
        self.tokens = open_tokens(folder, self.manifest)
        """The tokens of the chunks, or None where they are not kept."""
        if (self._documents.documents, self._documents.chunks) != (counts.documents, counts.chunks):
            raise corrupt(folder / DOCUMENTS, "its documents or chunks do not match the manifest")

    @classmethod
    def open(cls, index_dir: Path, generation_id: str | None = None) -> Self:
        """Open the live generation of an index, or a given one.

        Raises:
            IndexMissing: nothing has been published there, or there is no such generation.
            IndexCorrupt: a file is missing or altered; the message names it.
        """
        if generation_id is not None:
            return cls(generation_folder(index_dir, generation_id))
        name = current_id(index_dir)
        while True:
            try:
                return cls(index_dir / GENERATIONS / name)
            except IndexCorrupt:
                # Two builds may have ended meanwhile, and taken away the generation that was live before them.
                newer = current_id(index_dir)
                if newer == name:
                    raise
                name = newer

    @property
    def id(self) -> str:
        """Id of the generation; later ones sort after it."""
        return self.manifest.id

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._vectors.dimension

    @property
    def document_count(self) -> int:
        """Number of documents in the generation."""
        return self._documents.documents

    @property
    def chunk_count(self) -> int:
        """Number of chunks in the generation."""
        return self._documents.chunks

    @property
    def words_take_long(self) -> bool:
        """Whether `search_words` takes longer than handing it to another thread."""
        return self.chunk_count >= MANY_CHUNKS

    def search(
        self, vector: npt.NDArray[np.float32], k: int, allowed: RowSet | None = None
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """Find the k chunks nearest to a vector; see `VectorReader.search`.

        Args:
            vector: float32 (dim,).
            k: number of chunks, at least 1.
            allowed: rows to choose from, as `select` returns them; None means all.

        Returns:
            Scores float32 (n,), best first, and rows int64 (n,), n = min(k, chunks).

        Raises:
            VectorError: the vector has the wrong length, or is not finite.
        """
        return self._vectors.search(vector, k, allowed)

    def read_query(
        self,
        query: str,
        synonyms: Synonyms = NO_SYNONYMS,
        is_word: Callable[[str], bool] | None = None,
        only: Filter | None = None,
    ) -> LexicalQuery:
        """Read a query, as a user types it, for `search_words`; see `LexicalReader.read`."""
        return self._lexical.read(query, synonyms, is_word, only)

    def suggest(self, typed: str, most: int, only: Filter | None = None) -> list[Heading]:
        """Return the titles and headings that go on as somebody types, of documents that a filter allows.

        See `LexicalReader.suggest`.
        """
        return self._lexical.suggest(typed, most, self.select(only) if only else None)

    def within(self, query: LexicalQuery, allowed: RowSet | None = None) -> RowSet:
        """Return the rows, of those that `select` gave, which a query with required or excluded parts allows."""
        found = self._lexical.within(query.required, query.excluded)
        return found if allowed is None else found & allowed

    def search_words(
        self, query: LexicalQuery, k: int, only: Filter | None = None
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """Find the k chunks that match the words of a query best; see `LexicalReader.search`.

        Args:
            query: as `read_query` gives it.
            k: number of chunks, at least 1.
            only: filter for the chunks' documents; None means all.

        Returns:
            BM25 scores float32 (n,), best first, and rows int64 (n,), n <= k.
        """
        return self._lexical.search(query, k, only, self.select(only) if only else None)

    def idf_sum(self, query: LexicalQuery) -> float:
        """Return the sum of the inverse document frequencies of a query's words; see `LexicalReader.idf_sum`."""
        return self._lexical.idf_sum(query)

    def vectors(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Return stored vectors by row, float32 (n, dim); `rows` is int64 (n,)."""
        return self._vectors.vectors(rows)

    def rows_of(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
        """Return document and signature by row, an array (n,) of `rows.DTYPE`; `rows` is int64 (n,)."""
        return self.rows[rows]

    def matches(self, rows: npt.NDArray[np.int64], only: Filter) -> npt.NDArray[np.bool_]:
        """Return whether each of these rows is of a document that a filter allows, bool (n,); `rows` is int64 (n,)."""
        return self.select(only).contains(rows)

    def dates(self, rows: npt.NDArray[np.int64]) -> list[str | None]:
        """Return the date of the document of each of these rows, YYYY-MM-DD or None; `rows` is int64 (n,)."""
        return self.catalogue.dates(self.rows[rows]["document"].tolist())

    def repetition(self, rows: npt.NDArray[np.int64]) -> Shares:
        """Return the repeated shares of texts by row, uint8 (n,), see `indexer.generation.repetition`; 0 if unknown."""
        return np.zeros(len(rows), np.uint8) if self._repetition is None else self._repetition[rows]

    def chunks(self, rows: npt.NDArray[np.int64]) -> list[StoredChunk]:
        """Return chunks by row, in the order of `rows`.

        Args:
            rows: int64 (n,), as `search` returns them.

        Raises:
            IndexCorrupt: a row is not in the generation.
        """
        return self._documents.read(rows)

    def section(self, row: int) -> str:
        """Return the text of the section of a chunk, limited to the 24 chunks on either side of it.

        Raises:
            IndexCorrupt: the row is not in the generation.
        """
        return joined(self._documents.section(row), self.manifest.settings)

    def facts(self, numbers: Sequence[int]) -> list[DocumentFacts]:
        """Return the facts of documents by number, in no particular order. Raises IndexCorrupt."""
        return self.catalogue.facts(numbers)

    def facts_by_id(self, id: str) -> DocumentFacts | None:
        """Return the facts of the document with an id, or None. Raises IndexCorrupt."""
        return self.catalogue.facts_by_id(id)

    def allows(self, id: str, only: Filter) -> bool:
        """Return whether there is a document with an id that a filter allows; as fast as where there is none.

        Raises IndexCorrupt.
        """
        allowed, row = self.select(only), self.catalogue.first_row(id)
        found = bool(allowed.contains(np.array([row or 0]))[0])
        return found and row is not None

    def document(self, id: str) -> dict[str, Any] | None:
        """Return the document with an id and its passages, JSON-ready, or None. Raises IndexCorrupt."""
        found = self.catalogue.find(id)
        return {"generation": self.id, **found.as_dict()} if found else None

    def documents(self) -> Iterator[dict[str, Any]]:
        """Yield every document as `document` returns it. Raises IndexCorrupt."""
        return ({"generation": self.id, **found.as_dict()} for found in self.catalogue)

    def close(self) -> None:
        """Close the files."""
        self._documents.close()
        self.catalogue.close()
