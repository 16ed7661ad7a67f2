"""What the web application asks of the rest of Pilotlight; `rag.live.LiveRetriever` satisfies it."""

from typing import Any, Protocol

from rag.filters import Filter
from rag.options import DEFAULT_COLLECTION
from rag.results import Answer


class Retriever(Protocol):
    """Answers queries; safe to call from several threads at once."""

    @property
    def ready(self) -> bool:
        """Whether a search would be answered now."""

    def status(self) -> dict[str, Any]:
        """JSON-ready facts, among them ready, reason, documents, chunks and created_at (ISO 8601)."""

    def search(
        self,
        query: str,
        *,
        k: int = 10,
        mode: str = "hybrid",
        filter: Filter | None = None,
        collection: str = DEFAULT_COLLECTION,
        per_document: int | None = None,
        diversity: float = 0.0,
        expand: str | None = None,
    ) -> Answer:
        """Return the k best passages of those that pass the filter.

        Args:
            query: what to search for.
            k: how many passages.
            mode: one of MODES.
            filter: which documents may be found; None for all.
            collection: name of the index to search.
            per_document: most passages of one document, 0 for no limit; None for what the server is set to.
            diversity: 0 for the best passages, towards 1 for passages that differ from each other.
            expand: one of EXPANSIONS; section adds the text around each passage. None for what the server is set to.

        Raises:
            QueryError: the query cannot be answered as asked.
            CollectionMissing: there is no such collection.
            NotReady: it is still loading.
        """

    def close(self) -> None:
        """Stop background work and release files."""


class Limits(Protocol):
    """The settings that bound a request; `rag.settings.Settings` has them."""

    @property
    def max_k(self) -> int:
        """Most passages one search may ask for."""

    @property
    def max_query_chars(self) -> int:
        """Longest query, in characters."""
