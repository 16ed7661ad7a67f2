"""Errors of the application; `status` is the HTTP status. `embedder.errors` shows the whole tree.

RagError
├── SettingsError, KeysError, DatasetError, FingerprintMismatch, NotPublished
├── QueryError: FieldError
├── NotThere: CollectionMissing, JobMissing
├── RequestRefused, QueueFull, StorageFull, JobConflict
├── NotConfigured, NotReady, DeadlinePassed, InsightsError
├── AnswerError: EndpointFailed, EndpointSlow
└── ClientError: Unavailable, Refused, Rejected
"""

from collections.abc import Iterable

from embedder.errors import PilotlightError


class RagError(PilotlightError):
    """Base of the application's errors."""

    status: int | None = None  # None: 500, and clients do not get the message

    def __init_subclass__(cls, status: int | None = None) -> None:
        cls.status = status or cls.status


class SettingsError(RagError):
    """An invalid setting or command line; the message names it, its value, and the allowed values."""


class QueryError(RagError, status=400):
    """An invalid query."""


class FieldError(QueryError):
    """An invalid field of a request; the message names it and its allowed values."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(detail)
        self.field = field


class NotThere(RagError, status=404):
    """Something that a request names does not exist; `field` is the field of the request."""

    def __init__(self, detail: str, field: str = "id") -> None:
        super().__init__(detail)
        self.field = field


class CollectionMissing(NotThere):
    """A collection that is not in the index."""

    def __init__(self, name: str, names: Iterable[str], field: str = "collection") -> None:
        listed = ", ".join(names)
        hint = f"there are: {listed}" if listed else "the index has none yet"
        super().__init__(f"there is no collection {name[:80]!r}; {hint}", field)


class JobMissing(NotThere):
    """A job that never existed, or is no longer kept."""

    def __init__(self, job: str) -> None:
        super().__init__(f"there is no job {job[:80]!r}: it never existed, or is no longer kept")


class RequestRefused(RagError):
    """A push or a job that is not allowed (403), or a document that is unreadable (415) or too large (413)."""

    def __init__(self, field: str, detail: str, status: int = 400) -> None:
        super().__init__(f"{field} {detail}")
        self.field, self.status = field, status


class QueueFull(RagError, status=429):
    """Too many documents wait to be indexed."""


class StorageFull(RagError, status=507):
    """There is no room for a document."""


class JobConflict(RagError, status=409):
    """A job that cannot be started or stopped now."""


class NotConfigured(RagError, status=501):
    """A feature that the settings of this server do not enable."""


class NotReady(RagError, status=503):
    """The retriever cannot answer yet."""


class DeadlinePassed(RagError, status=503):
    """The deadline of the request has passed."""

    def __init__(self) -> None:
        super().__init__("the server is too busy to answer in time: try again shortly")


class KeysError(RagError):
    """An invalid key, key name or key file."""


class FingerprintMismatch(RagError):
    """The index was built by an embedder with different vectors; the message names the differing fields."""


class NotPublished(RagError):
    """A generation was built, but could not be published to its store."""


class InsightsError(RagError, status=503):
    """The record of searches cannot be written, read or deleted."""


class DatasetError(RagError):
    """An evaluation folder that is not in BEIR's layout."""


class AnswerError(RagError, status=502):
    """An answer could not be written."""


class EndpointFailed(AnswerError):
    """The endpoint cannot be reached, refuses requests, or violates the protocol (502)."""


class EndpointSlow(AnswerError, status=504):
    """The endpoint took too long."""


class ClientError(RagError):
    """A request of the client failed; `status` is that of HTTP, None without a response."""

    def __init__(
        self, detail: str, *, status: int | None = None, field: str | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.field = field
        self.retry_after = retry_after  # seconds


class Unavailable(ClientError):
    """The server was not reached, or cannot answer now."""


class Refused(ClientError):
    """The key is missing, unknown, or lacks the permission."""


class Rejected(ClientError):
    """The request is invalid; `field` names the field at fault."""
