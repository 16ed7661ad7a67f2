"""A published generation, opened for searching. Imports nothing that only a build needs."""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from indexer.errors import IndexCorrupt
from indexer.filter import Filter
from indexer.generation.arrays import open_tokens, read_rows
from indexer.generation.dense.vectors import VectorReader
from indexer.generation.documents import Catalogue, DocumentFacts, DocumentReader, StoredChunk
from indexer.generation.layout import GENERATIONS, current_id, generation_folder
from indexer.generation.lexical.headings import Heading
from indexer.generation.lexical.lexical_index import LexicalReader
from indexer.generation.lexical.lexical_query import LexicalQuery
from indexer.generation.lexical.query_words import NO_SYNONYMS, Synonyms
from indexer.generation.likeness import joined, read_shares
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
from indexer.rowset import RowFacts, ScoredRows, TermHits

MANY_CHUNKS = 300_000  # from which a search by words takes about half a millisecond, as waking a thread does
FILTERS = 64  # whose rows are remembered: people and pages ask with the same few


class Generation:
    """One immutable generation with every file open; its folder may be deleted while it is open.

    Every method may be called from many threads at once. Open it after forking, not before.
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
        self._catalogue = Catalogue(folder / DOCUMENTS)
        self._rows = read_rows(folder / ROWS)
        self.select = lru_cache(FILTERS)(self._documents.select)
        counts = self.manifest.counts
        if (self._vectors.count, self._vectors.dimension) != (counts.chunks, counts.dimension):
            raise corrupt(folder / VECTORS, "its vectors do not match the manifest")
        if self._lexical.count != counts.chunks:
            raise corrupt(folder / LEXICAL, "its chunks do not match the manifest")
        if len(self._rows) != counts.chunks:
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
    def terms_take_long(self) -> bool:
        """Whether `search_terms` takes longer than handing it to another thread."""
        return self.manifest.counts.chunks >= MANY_CHUNKS

    def read_query(
        self,
        query: str,
        synonyms: Synonyms = NO_SYNONYMS,
        is_word: Callable[[str], bool] | None = None,
        only: Filter | None = None,
    ) -> LexicalQuery:
        """Read a query, as a user types it, for the searches; see `LexicalReader.read`."""
        return self._lexical.read(query, synonyms, is_word, only)

    def search_vectors(
        self, vector: npt.NDArray[np.float32], k: int, only: Filter | None = None, terms: LexicalQuery | None = None
    ) -> ScoredRows:
        """Find the k chunks nearest to a vector.

        Args:
            vector: float32 (dim,).
            k: number of chunks, at least 1.
            only: filter for the chunks' documents; None means all.
            terms: a query, as `read_query` gives it, whose required and excluded parts narrow the search.

        Returns:
            Cosines float32 (n,), best first, and rows int64 (n,), n <= k.

        Raises:
            VectorError: the vector has the wrong length, or is not finite.
        """
        allowed = self.select(only) if only else None
        if terms is not None and terms.is_bounded:
            within = self._lexical.within(terms.required, terms.excluded)
            allowed = within if allowed is None else within & allowed
        return self._vectors.search(vector, k, allowed)

    def search_terms(self, terms: LexicalQuery, k: int, only: Filter | None = None) -> TermHits:
        """Find the k chunks that match the words of a query best; see `LexicalReader.search`.

        Args:
            terms: a query, as `read_query` gives it.
            k: number of chunks, at least 1.
            only: filter for the chunks' documents; None means all.
        """
        scores, rows = self._lexical.search(terms, k, only, self.select(only) if only else None)
        return TermHits(scores, rows, self._lexical.idf_sum(terms))

    def suggest(self, typed: str, most: int, only: Filter | None = None) -> list[Heading]:
        """Return titles and headings for what is typed, of documents that a filter allows; see `LexicalReader`."""
        return self._lexical.suggest(typed, most, self.select(only) if only else None)

    def vectors(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Return stored vectors by row, float32 (n, dim); `rows` is int64 (n,)."""
        return self._vectors.vectors(rows)

    def row_facts(self, rows: npt.NDArray[np.int64]) -> RowFacts:
        """Return document, signature and repeated share by row; `rows` is int64 (n,)."""
        pairs = self._rows[rows]
        repeated = np.zeros(len(rows), np.uint8) if self._repetition is None else self._repetition[rows]
        return RowFacts(pairs["document"], pairs["signature"], repeated)

    def matches(self, rows: npt.NDArray[np.int64], only: Filter) -> npt.NDArray[np.bool_]:
        """Return whether each of these rows is of a document that a filter allows, bool (n,); `rows` is int64 (n,)."""
        return self.select(only).contains(rows)

    def facts(self, numbers: Sequence[int]) -> dict[int, DocumentFacts]:
        """Return the facts of documents by number. Raises IndexCorrupt."""
        return self._catalogue.facts(numbers)

    def chunks(self, rows: npt.NDArray[np.int64]) -> list[StoredChunk]:
        """Return chunks by row, in the order of `rows`, int64 (n,). Raises IndexCorrupt if one is not there."""
        return self._documents.read(rows)

    def section(self, row: int) -> str:
        """Return the text of the section of a chunk, limited to the 24 chunks on either side of it.

        Raises:
            IndexCorrupt: the row is not in the generation.
        """
        return joined(self._documents.section(row), self.manifest.settings)

    def documents(self, only: Filter | None = None, id: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield every document that a filter allows with its passages, JSON-ready, or the one with an id.

        Nothing is read of a document that the filter does not allow. Raises IndexCorrupt.
        """
        allowed = self.select(only) if only else None
        for found in self._catalogue.documents(allowed, id):
            yield {"generation": self.manifest.id, **found.as_dict()}

    def close(self) -> None:
        """Close the files."""
        self._documents.close()
        self._catalogue.close()
