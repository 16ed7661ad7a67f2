"""Stores of generations: the index folder, and Milvus, which a build in the folder publishes to.

A build always writes a generation into the index folder, which remembers pages and vectors for the next one.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from indexer.filter import Filter
from indexer.generation.arrays import TokenReader
from indexer.generation.documents import DocumentFacts, StoredChunk
from indexer.generation.layout import current_id
from indexer.generation.lexical.headings import Heading
from indexer.generation.lexical.lexical_query import LexicalQuery
from indexer.generation.lexical.query_words import NO_SYNONYMS, Synonyms
from indexer.generation.manifest import Manifest
from indexer.publish.collections import Published, list_generations
from indexer.publish.publish import roll_back
from indexer.records import Chunk, Document
from indexer.rowset import RowFacts, ScoredRows, TermHits

if TYPE_CHECKING:
    from indexer.generation.generation import Generation

Rows = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.float32]


class Searchable(Protocol):
    """One generation, open for searching from many threads; `Generation` says more of every method.

    Rows are int64 (n,). Besides IndexCorrupt, each method may raise StoreUnreachable or StoreRefused where the store is
    another machine.
    """

    manifest: Manifest

    @property
    def tokens(self) -> TokenReader | None:
        """The tokens of the chunks, for late interaction; None where they are not kept."""

    @property
    def terms_take_long(self) -> bool:
        """Whether `search_terms` takes longer than handing it to another thread does."""

    def read_query(
        self,
        query: str,
        synonyms: Synonyms = NO_SYNONYMS,
        is_word: Callable[[str], bool] | None = None,
        only: Filter | None = None,
    ) -> LexicalQuery:
        """Read a query, as a user types it, for the searches."""

    def search_vectors(
        self, vector: Vectors, k: int, only: Filter | None = None, terms: LexicalQuery | None = None
    ) -> ScoredRows:
        """Return cosines float32 (n,) and rows of the k chunks nearest to a vector, best first."""

    def search_terms(self, terms: LexicalQuery, k: int, only: Filter | None = None) -> TermHits:
        """Return BM25 scores and rows of the k chunks that match the words of a query best, best first."""

    def suggest(self, typed: str, most: int, only: Filter | None = None) -> list[Heading]:
        """Return titles and headings that begin with what is typed, of documents that a filter allows."""

    def vectors(self, rows: Rows) -> Vectors:
        """Return stored vectors by row, float32 (n, dim)."""

    def row_facts(self, rows: Rows) -> RowFacts:
        """Return document, signature and repeated share by row."""

    def matches(self, rows: Rows, only: Filter) -> npt.NDArray[np.bool_]:
        """Return whether each of these rows is of a document that a filter allows, bool (n,)."""

    def facts(self, numbers: Sequence[int]) -> dict[int, DocumentFacts]:
        """Return the facts of documents by number."""

    def chunks(self, rows: Rows) -> list[StoredChunk]:
        """Return chunks by row, in the order of `rows`."""

    def section(self, row: int) -> str:
        """Return the text of the section of a chunk, limited to the chunks near it."""

    def documents(self, only: Filter | None = None, id: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield every document that a filter allows with its passages, JSON-ready, or the one with an id."""

    def close(self) -> None:
        """Release what is held."""


class Store(Protocol):
    """Generations of one collection, at most one of them live; a generation that is not complete is never seen.

    Every method raises IndexMissing for a generation that is not there, or where none is live; StoreUnreachable or
    StoreRefused where the store is another machine; IndexUnwritable where a folder cannot be written.
    """

    name: str
    """Where it is, for messages; never with a secret."""

    def live_id(self) -> str:
        """Return the id of the live generation: cheap enough to call every second."""

    def published(self) -> list[Published]:
        """Describe the complete generations, newest first."""

    def open(self, generation_id: str | None = None) -> Searchable:
        """Open the live generation for searching, or a given one. Raises IndexCorrupt."""

    def make_live(self, generation_id: str) -> None:
        """Publish a complete generation, or go back to it, in one step. Raises IndexCorrupt if it cannot be opened."""

    def close(self) -> None:
        """Release what is held."""


class FolderStore:
    """An index folder, or a collection's, as a `Store`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = str(folder)

    def live_id(self) -> str:
        """Return the id of the live generation. Raises as `layout.current_id` does."""
        return current_id(self.folder)

    def published(self) -> list[Published]:
        """Describe the published generations, newest first."""
        return list_generations(self.folder)

    def open(self, generation_id: str | None = None) -> "Generation":
        """Open a generation for searching. Raises as `Generation.open` does."""
        from indexer.generation.generation import Generation  # loads FAISS

        return Generation.open(self.folder, generation_id)

    def make_live(self, generation_id: str) -> None:
        """Verify a generation and publish it. Raises as `publish.roll_back` does."""
        roll_back(self.folder, generation_id)

    def close(self) -> None:
        """Do nothing: a folder holds nothing open."""


class ScannedDocument(NamedTuple):
    """One document with all that a store needs of it."""

    document: Document  # without its sections
    chunks: list[Chunk]  # in reading order, without their embedded texts
    signatures: list[int]  # of the chunks' texts, 64 bits
    vectors: Vectors  # (chunks, dimension), as they are stored: float16 values


def scan(folder: Path, generation_id: str) -> Iterator[ScannedDocument]:
    """Yield every document of a folder's generation in the order of the index. Raises IndexMissing or IndexCorrupt."""
    from indexer.generation.previous import PreviousGeneration

    with closing(PreviousGeneration.open(folder, generation_id)) as generation:
        for number, _, _ in generation.documents():
            document, chunks, rows = generation.read(number)
            vectors = generation.vectors(np.arange(rows.start, rows.stop))
            yield ScannedDocument(document, chunks, generation.signatures(rows), vectors)
