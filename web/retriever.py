"""What the web application asks of the rest of Pilotlight; `rag.live.LiveRetriever` satisfies it."""

from typing import Any, Protocol

from rag.results import Answer


class Retriever(Protocol):
    """Answers queries; safe to call from several threads at once."""

    @property
    def ready(self) -> bool:
        """Whether a search would be answered now."""

    def status(self) -> dict[str, Any]:
        """JSON-ready facts, among them ready, reason, documents, chunks and created_at (ISO 8601)."""

    def search(self, query: str, *, k: int = 10, mode: str = "dense") -> Answer:
        """Return the k best passages. Raises QueryError for a bad query, NotReady while loading."""

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
