"""Errors of the application; see `embedder.errors` for the whole tree.

RagError
├── SettingsError       a setting whose value cannot be used: names the setting, the value and what is allowed
├── QueryError          a query, k, or mode that cannot be answered (HTTP 400)
├── CollectionMissing   a collection that is not there: names those that are (HTTP 404)
├── NotReady            the retriever is still loading, or has no index (HTTP 503)
├── FingerprintMismatch the index was built by another model or precision: names the fields
└── DatasetError        an evaluation folder that is not in BEIR's layout
"""

from collections.abc import Iterable

from embedder.errors import PilotlightError


class RagError(PilotlightError):
    """Base of the application's errors."""


class SettingsError(RagError):
    """A setting whose value cannot be used."""


class QueryError(RagError):
    """A query that cannot be answered as asked."""


class CollectionMissing(RagError):
    """A collection that is not in the index."""

    field = "collection"

    def __init__(self, name: str, known: Iterable[str]) -> None:
        there = ", ".join(known) or "none yet"
        super().__init__(f"there is no collection {name[:80]!r}; there are: {there}")


class NotReady(RagError):
    """The retriever cannot answer yet."""


class FingerprintMismatch(RagError):
    """The index was built by an embedder that gives other vectors."""


class DatasetError(RagError):
    """An evaluation folder that is not in BEIR's layout."""
