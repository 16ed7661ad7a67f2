"""The protocol of stores, which publish and serve generations: the embedded one, a folder, and any other.

A build always writes a generation into the index folder, which remembers pages and vectors for the next one. A store
takes finished generations; nothing is embedded again on the way from one store to another.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from embedder.late_interaction import Signs
from indexer.errors import IndexCorrupt
from indexer.filter import Filter
from indexer.generation.catalogue import DocumentFacts
from indexer.generation.document_database import StoredChunk
from indexer.generation.lexical.headings import Heading
from indexer.generation.lexical.lexical_query import LexicalQuery
from indexer.generation.lexical.synonyms import NO_SYNONYMS, Synonyms
from indexer.generation.manifest import Counts, Manifest
from indexer.generation.repetition import Shares
from indexer.generation.tokens import TokenSource
from indexer.publish.collections import Published
from indexer.records import Chunk, Document, PageRecord
from indexer.rowset import ScoredRows


class Searchable(Protocol):
    """One generation, open for searching from many threads; see `Generation` for every method.

    Besides IndexCorrupt, each may raise StoreUnreachable or StoreRefused where the store is another machine.
    """

    manifest: Manifest

    @property
    def id(self) -> str:
        """Name of the generation; later ones sort after it."""

    @property
    def tokens(self) -> TokenSource | None:
        """The tokens of the chunks, for late interaction; None where they are not kept."""

    @property
    def dimension(self) -> int:
        """Length of a vector."""

    @property
    def document_count(self) -> int:
        """Documents in the generation."""

    @property
    def chunk_count(self) -> int:
        """Chunks in the generation."""

    @property
    def words_take_long(self) -> bool:
        """Whether `search_words` takes longer than handing it to another thread does."""

    def select(self, only: Filter) -> Any:
        """Prepare a filter for `search`."""

    def search(self, vector: npt.NDArray[np.float32], k: int, allowed: Any = None) -> ScoredRows:
        """Return cosines float32 (n,) and rows int64 (n,) of the k chunks nearest to a vector, best first."""

    def read_query(
        self,
        query: str,
        synonyms: Synonyms = NO_SYNONYMS,
        is_word: Callable[[str], bool] | None = None,
        only: Filter | None = None,
    ) -> LexicalQuery:
        """Read a query, as a user types it, for `search_words`.

        Words that `is_word` knows are not corrected, and corrections are words of documents that a filter allows.
        """

    def suggest(self, typed: str, most: int, only: Filter | None = None) -> list[Heading]:
        """Return titles and headings that go on as somebody types, of documents that a filter allows, the best first.

        None where the store keeps none for that.
        """

    def within(self, query: LexicalQuery, allowed: Any = None) -> Any:
        """Narrow what `select` gave to what a query with required or excluded parts allows, for `search`."""

    def search_words(self, query: LexicalQuery, k: int, only: Filter | None = None) -> ScoredRows:
        """Return BM25 scores float32 (n,) and rows int64 (n,) of the k chunks that match a query best, best first."""

    def idf_sum(self, query: LexicalQuery) -> float:
        """Return the BM25 of a passage of average length that has each word of a query once; 0 where it is not known.

        That is the sum of the words' inverse document frequencies.
        """

    def vectors(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Return stored vectors by row, float32 (n, dim)."""

    def rows_of(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
        """Return document and signature by row, an array (n,) of `indexer.generation.rows.DTYPE`."""

    def matches(self, rows: npt.NDArray[np.int64], only: Filter) -> npt.NDArray[np.bool_]:
        """Return whether each of these rows is of a document that a filter allows, bool (n,)."""

    def dates(self, rows: npt.NDArray[np.int64]) -> list[str | None]:
        """Return the date of the document of each of these rows, YYYY-MM-DD or None."""

    def repetition(self, rows: npt.NDArray[np.int64]) -> Shares:
        """Return the shares of the texts that repeat, by row, uint8 (n,); 0 where that is not known."""

    def chunks(self, rows: npt.NDArray[np.int64]) -> list[StoredChunk]:
        """Return chunks by row, in the order asked for."""

    def section(self, row: int) -> str:
        """Return the text of the section that a chunk is of, as far as it stands near."""

    def facts(self, numbers: Sequence[int]) -> list[DocumentFacts]:
        """Return the facts of documents, given by their number, in no order."""

    def facts_by_id(self, id: str) -> DocumentFacts | None:
        """Return the facts of the document of an id, or None; its passages are not read."""

    def allows(self, id: str, only: Filter) -> bool:
        """Return whether there is a document of an id that a filter allows; its passages are not read."""

    def document(self, id: str) -> dict[str, Any] | None:
        """Return the document of an id with its passages, JSON-ready, or None."""

    def documents(self) -> Iterator[dict[str, Any]]:
        """Yield every document as `document` gives it."""

    def close(self) -> None:
        """Release what is held."""


class ScannedDocument(NamedTuple):
    """One document as it is copied from store to store."""

    document: Document  # without its sections
    chunks: list[Chunk]  # in reading order, without their embedded texts
    signatures: list[int]  # of the chunks' texts, 64 bits
    vectors: npt.NDArray[np.float32]  # (chunks, dimension), as they are stored: float16 values
    tokens: tuple[Signs, npt.NDArray[np.int32]] | None = None  # as `TokenWriter.add` takes them; None where not kept


class GenerationScan(Protocol):
    """A whole generation, read from front to back."""

    manifest: Manifest

    def entries(self) -> Iterator[ScannedDocument]:
        """Yield every document in the order of the index."""

    def pages(self) -> Iterator[PageRecord]:
        """Yield what the next build needs to know of every page."""

    def close(self) -> None:
        """Release what is held."""


class Store(Protocol):
    """Generations of one collection, at most one of them live; a generation that is not complete is never seen.

    Every method raises IndexMissing for a generation that is not there, or where none is live; StoreUnreachable or
    StoreRefused where the store is another machine; IndexUnwritable where a folder cannot be written. Methods that
    write raise BuildLocked while another process does.
    """

    name: str
    """Where it is, for messages; never with a secret."""

    def live_id(self) -> str:
        """Return the id of the live generation: cheap enough to ask every second."""

    def ids(self) -> list[str]:
        """Return the ids of the complete generations, newest first."""

    def published(self) -> list[Published]:
        """Describe the complete generations, newest first."""

    def open(self, generation_id: str | None = None) -> Searchable:
        """Open the live generation for searching, or a given one. Raises IndexCorrupt."""

    def read(self, generation_id: str | None = None) -> GenerationScan:
        """Open the live generation, or a given one, to be copied. Raises IndexCorrupt."""

    def write(self, manifest: Manifest, entries: Iterable[ScannedDocument], pages: Iterable[PageRecord] = ()) -> None:
        """Store a generation, which is not live yet; it takes the place of one with its id that is not live either.

        What killed writers left behind is removed. Everything of the manifest is kept but `files`, which say how this
        store holds it.

        Raises:
            StoreConflict: the generation with this id is live here.
            IndexCorrupt: there are other documents, chunks or vectors than the manifest counts.
        """

    def make_live(self, generation_id: str) -> None:
        """Publish a complete generation, or go back to it, in one step."""

    def remove(self, generation_id: str) -> None:
        """Remove a generation; raises StoreConflict if it is live."""

    def keep(self, most: int) -> None:
        """Remove all but the newest generations; the live one is always kept."""

    def close(self) -> None:
        """Release what is held."""


def check_counts(manifest: Manifest, written: Counts, where: str) -> None:
    """Raise IndexCorrupt unless as much was written as the manifest of the generation says."""
    if written != manifest.counts:
        raise IndexCorrupt(
            f"{where}: {written.documents:,} documents and {written.chunks:,} chunks came of generation {manifest.id}, "
            f"which has {manifest.counts.documents:,} and {manifest.counts.chunks:,}: verify it where it came from"
        )
