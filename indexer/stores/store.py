"""Stores of generations: the index folder, and Milvus, which a build in the folder publishes to.

A build always writes a generation into the index folder, which remembers pages and vectors for the next one.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Union

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
from indexer.rowset import RowFacts, ScoredRows, TermHits

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


class FolderStore:
    """Generations of one collection, at most one of them live; one that is not complete is never seen.

    `MilvusStore` is the other store, with the same methods. They raise IndexMissing for a generation that is not there,
    or where none is live.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder  # an index folder, or a collection's
        self.name = str(folder)  # for messages; never with a secret

    def live_id(self) -> str:
        """Return the id of the live generation: cheap enough to call every second. Raises as `current_id` does."""
        return current_id(self.folder)

    def published(self) -> list[Published]:
        """Describe the complete generations, newest first."""
        return list_generations(self.folder)

    def open(self, generation_id: str | None = None) -> "Generation":
        """Open a generation for searching. Raises as `Generation.open` does."""
        from indexer.generation.generation import Generation  # loads FAISS

        return Generation.open(self.folder, generation_id)

    def make_live(self, generation_id: str) -> None:
        """Publish a complete generation, or go back to it, in one step. Raises as `roll_back` does."""
        roll_back(self.folder, generation_id)

    def close(self) -> None:
        """Do nothing: a folder holds nothing open."""


if TYPE_CHECKING:
    from indexer.generation.generation import Generation
    from indexer.stores.milvus.milvus_store import MilvusStore

Store = Union[FolderStore, "MilvusStore"]
