"""What the web application asks of the rest of Pilotlight; `rag.live.live.LiveRetriever` satisfies it."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol

import numpy as np
import numpy.typing as npt

from rag.query.filters import Filter
from rag.query.options import DEFAULT_COLLECTION
from rag.query.results import Answer

Role = Literal["query", "document"]
Vector = npt.NDArray[np.float32]  # (dim,)
Vectors = npt.NDArray[np.float32]  # (n, dim)


class Retriever(Protocol):
    """Answers queries; safe to call from several threads at once."""

    @property
    def ready(self) -> bool:
        """Whether a search would be answered now."""

    def status(self) -> dict[str, Any]:
        """JSON-ready facts, among them ready, reason, documents, chunks and created_at (ISO 8601)."""

    def describe(self, collection: str = DEFAULT_COLLECTION) -> dict[str, Any]:
        """JSON-ready facts of the generation served: its id, counts, sources, the report of its build and settings."""

    def search(
        self,
        query: str,
        *,
        k: int = 10,
        offset: int = 0,
        mode: str = "hybrid",
        filter: Filter | None = None,
        collection: str = DEFAULT_COLLECTION,
        per_document: int | None = None,
        diversity: float = 0.0,
        expand: str | None = None,
        facets: bool = False,
        sentences: bool = False,
        vector: Vector | None = None,
    ) -> Answer:
        """Return the k best passages of those that pass the filter.

        Args:
            query: what to search for.
            k: how many passages.
            offset: how many better ones to leave out.
            mode: one of MODES.
            filter: which documents may be found; None for all.
            collection: name of the index to search.
            per_document: most passages of one document, 0 for no limit; None for what the server is set to.
            diversity: 0 for the best passages, towards 1 for passages that differ from each other.
            expand: one of EXPANSIONS; section adds the text around each passage. None for what the server is set to.
            facets: whether the documents among the candidates are counted.
            sentences: whether to find the nearest sentence in hits that share no word with the query.
            vector: the query's own, float32 (dim,), where `embed` has made it already.

        Raises:
            QueryError: the query cannot be answered as asked.
            CollectionMissing: there is no such collection.
            NotReady: it is still loading.
            DeadlinePassed: there was not time enough.
        """

    def embed(self, texts: Sequence[str], role: Role = "document") -> Vectors:
        """Embed texts as float32 (n, dim), together with what others ask for. Raises NotReady or DeadlinePassed."""

    def count_tokens(self, texts: Sequence[str], role: Role = "document") -> list[int]:
        """Tokens of each text, whatever the model's length. Raises NotReady."""

    def document(self, id: str, collection: str = DEFAULT_COLLECTION) -> dict[str, Any]:
        """Return a document with its passages, JSON-ready. Raises DocumentMissing, CollectionMissing or NotReady."""

    def original(self, id: str, collection: str = DEFAULT_COLLECTION) -> tuple[str, BinaryIO]:
        """Open the file that a document was read from; return its name and the open file, at its beginning.

        Raises OriginalMissing, and as `document` does.
        """

    def headings(self, collection: str = DEFAULT_COLLECTION) -> list[str]:
        """Return headings from all over the index that are worth asking for, best first. Raises as `document` does."""

    def documents(self, collection: str = DEFAULT_COLLECTION) -> Iterator[dict[str, Any]]:
        """Return every document of one generation, as `document` does. Raises CollectionMissing or NotReady."""

    def close(self) -> None:
        """Stop background work and release files."""


class Jobs(Protocol):
    """Builds of the index; `rag.live.jobs.Jobs` satisfies it, and says what each does and raises."""

    def start(
        self, *, sources: Sequence[str] = (), add: bool = False, full: bool = False, collection: str = "default"
    ) -> dict[str, Any]:
        """Begin one. Raises JobRefused or JobConflict."""

    def all(self) -> list[dict[str, Any]]:
        """Return those that are remembered, newest first."""

    def get(self, job_id: str) -> dict[str, Any]:
        """Return one. Raises JobMissing."""

    def cancel(self, job_id: str) -> dict[str, Any]:
        """Tell one to stop. Raises JobMissing or JobConflict."""


class Limits(Protocol):
    """The settings that bound a request; `rag.settings.Settings` has them."""

    @property
    def max_k(self) -> int:
        """Most passages one search may ask for."""

    @property
    def max_query_chars(self) -> int:
        """Longest query, in characters."""

    @property
    def per_document(self) -> int:
        """Most passages of one document, where a query does not say; 0 for any number."""

    @property
    def site_name(self) -> str:
        """What the search page calls itself."""

    @property
    def site_logo(self) -> str:
        """File of its logo; empty for ours."""

    @property
    def site_accent(self) -> str:
        """Colour of its links, #rrggbb; empty for ours."""

    @property
    def examples(self) -> str:
        """Questions of the start page, with | between; empty for headings of the index."""

    @property
    def originals(self) -> bool:
        """Whether files of folders may be downloaded."""

    @property
    def log_queries(self) -> bool:
        """Whether the log says what is searched for."""

    @property
    def host(self) -> str:
        """Address that is listened to."""

    @property
    def keys_file(self) -> Path:
        """File of the keys; need not be there."""

    @property
    def anonymous(self) -> str:
        """What callers without a key may do: auto, none or read."""

    @property
    def cors_origins(self) -> str:
        """Origins whose pages may call the API, with commas between."""

    @property
    def proxies(self) -> int:
        """Reverse proxies in front."""

    @property
    def rate_limit(self) -> float:
        """Requests a second for each caller; 0 for any number."""

    @property
    def deadline(self) -> float:
        """Seconds that a search may take."""
