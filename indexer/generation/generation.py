"""Open a published generation for searching. Imports no modules of builds."""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from indexer.errors import IndexCorrupt
from indexer.filter import Filter
from indexer.generation import manifest as manifests
from indexer.generation.documents import DocumentEntry, DocumentReader
from indexer.generation.lexical.lexical_index import LexicalReader
from indexer.generation.lexical.lexical_query import LexicalQuery
from indexer.generation.lexical.vocabulary import Heading
from indexer.generation.manifest import DOCUMENTS, GENERATIONS, LEXICAL, ROWS, TOKENS, VECTORS
from indexer.generation.rows import ROW, RowFacts, ScoredRows, TermHits, TokenReader, read_array
from indexer.generation.vectors import VectorReader
from indexer.generation.versions import Edition, edition_at

MANY_CHUNKS = 300_000  # with more, a search by words takes longer than waking a thread
MAX_CACHED_FILTERS = 64

Rows = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]


class Generation:
    """An immutable generation with open files, safe to share between threads but not across a fork.

    Its folder may be deleted while it is open.
    """

    names: Sequence[str] = ()

    def __init__(self, folder: Path, *, are_checked: bool = False) -> None:
        """Open a folder, and compare checksums unless `are_checked`; raises IndexCorrupt."""
        self.folder = folder
        self.manifest = manifests.read_manifest(folder)
        if not are_checked:
            manifests.check_files(folder, self.manifest)
        counts = self.manifest.counts
        self._vectors = VectorReader(folder / VECTORS)
        self.lexical = LexicalReader(folder / LEXICAL, self.manifest.languages)
        self._documents = DocumentReader(folder / DOCUMENTS)
        self._rows = read_array(folder / ROWS, ROW)
        self.tokens = TokenReader(folder, counts.chunks) if TOKENS in self.manifest.files else None
        self.select = lru_cache(MAX_CACHED_FILTERS)(self._documents.select)
        self._find_headings = manifests.guarded(folder / LEXICAL, self.lexical.headings.find)
        self.read_query = self.lexical.read
        self.vectors = self._vectors.vectors
        self.facts, self.chunks, self.section = self._documents.facts, self._documents.read, self._documents.section
        self.passages, self.headings = self._documents.passages, self._documents.headings
        self.survey, self.twins = self._documents.survey, self._documents.twins()
        self.terms_take_long = counts.chunks >= MANY_CHUNKS
        for name, actual, expected in (
            (VECTORS, (self._vectors.count, self._vectors.dimension), (counts.chunks, counts.dimension)),
            (LEXICAL, self.lexical.count, counts.chunks),
            (ROWS, len(self._rows), counts.chunks),
            (DOCUMENTS, (self._documents.documents, self._documents.chunks), (counts.documents, counts.chunks)),
        ):
            if actual != expected:
                raise manifests.corrupt(folder / name, "its counts do not match the manifest")

    @classmethod
    def open(cls, index_dir: Path, generation_id: str | None = None) -> Self:
        """Open a generation of an index, the live one by default; raises IndexMissing or IndexCorrupt."""
        if generation_id is not None:
            return cls(manifests.generation_folder(index_dir, generation_id))
        while True:
            name = manifests.current_id(index_dir)
            try:
                return cls(index_dir / GENERATIONS / name)
            except IndexCorrupt:
                # two builds that ended since then may have removed this generation
                if manifests.current_id(index_dir) == name:
                    raise

    def search_vectors(
        self, vector: npt.NDArray[np.float32], k: int, only: Filter | None = None, terms: LexicalQuery | None = None
    ) -> ScoredRows:
        """Find the k chunks nearest to a vector.

        Args:
            vector: float32 (dim,).
            k: maximum of chunks.
            only: filter for documents.
            terms: from `read_query`; required and excluded words narrow the search.

        Returns: cosines, float32 (n,), best first, and rows, int64 (n,).

        Raises: VectorError as `VectorReader.search` does.
        """
        allowed = self.select(only) if only else None
        if terms is not None and terms.is_bounded:
            within = self.lexical.within(terms.required, terms.excluded)
            allowed = within if allowed is None else within & allowed
        return self._vectors.search(vector, k, allowed)

    def search_terms(self, terms: LexicalQuery, k: int, only: Filter | None = None) -> TermHits:
        """Find the k chunks that match the words of a query best; see `LexicalReader.search`."""
        return TermHits(*self.lexical.search(terms, k, only, self.select(only) if only else None))

    def suggest(self, typed: str, limit: int, only: Filter | None = None) -> list[Heading]:
        """Return titles and headings that begin as typed, see `Headings.find`."""
        return self._find_headings(typed, limit, self.select(only) if only else None)

    def score_tokens(self, score: Callable[[TokenReader | None, Rows], Scores], rows: Rows) -> Scores:
        """Score passages by their tokens with `score`, which takes the tokens and rows of one generation."""
        return score(self.tokens, rows)

    def collections(self, rows: Sequence[int]) -> list[str] | None:
        """Return the name of the collection of each row, or None if there is only one."""
        return None

    def row_facts(self, rows: Rows) -> RowFacts:
        """Return the facts of rows, int64 (n,)."""
        return RowFacts(self._rows["document"][rows], self._rows["signature"][rows])

    def editions(self, numbers: Sequence[int]) -> dict[int, Edition | None]:
        """Return the edition of each document by number, or None for a document without one."""
        versions = self.manifest.versions
        return {number: edition_at(each.url, each.source, versions) for number, each in self.facts(numbers).items()}

    def documents(self, only: Filter | None = None, id: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield the documents with their passages, JSON-ready; `only` and `id` select some. Raises IndexCorrupt."""
        for entry in self.entries(only, id):
            yield {"generation": self.manifest.id, **entry.facts, "passages": self.passages(entry.rows)}

    def entries(self, only: Filter | None = None, id: str | None = None) -> Iterator[DocumentEntry]:
        """Yield the documents without their passages; `only` and `id` select some."""
        return self._documents.entries(self.select(only) if only else None, id)

    def entry_of(self, chunk_id: str, only: Filter | None = None) -> tuple[DocumentEntry, int] | None:
        """Return the document of a chunk and the row of the chunk, or None if the filter excludes it."""
        return self._documents.entry_of(chunk_id, self.select(only) if only else None)

    def scan(self, only: Filter | None = None) -> Iterator[list[tuple[int, bytes]]]:
        """Yield rows and texts of passages, see `DocumentReader.scan`."""
        return self._documents.scan(self.select(only) if only else None)

    def close(self) -> None:
        """Close the files."""
        self._documents.close()
