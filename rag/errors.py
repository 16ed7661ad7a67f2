"""The errors of the application, each with its HTTP status. `embedder.errors` shows the whole hierarchy.

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
    """The base class of the application's errors."""

    status: int | None = None  # HTTP status; None for an internal error, whose message clients must not see

    def __init_subclass__(cls, status: int | None = None) -> None:
        cls.status = status or cls.status


class SettingsError(RagError):
    """An invalid setting or command line. The message contains the name, the value and the allowed values."""


class QueryError(RagError, status=400):
    """An invalid query."""


class FieldError(QueryError):
    """An invalid field of a request. The message contains its name and the allowed values."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(detail)
        self.field = field


class NotThere(RagError, status=404):
    """A request refers to something that does not exist. `field` is the name of the field with the reference."""

    def __init__(self, detail: str, field: str = "id") -> None:
        super().__init__(detail)
        self.field = field


class CollectionMissing(NotThere):
    """A request names a collection that is not in the index."""

    def __init__(self, name: str, names: Iterable[str], field: str = "collection") -> None:
        listed = ", ".join(names)
        hint = f"there are: {listed}" if listed else "the index has none yet"
        super().__init__(f"there is no collection {name[:80]!r}; {hint}", field)


class JobMissing(NotThere):
    """A request names a job that never existed or whose record has been deleted."""

    def __init__(self, job: str) -> None:
        super().__init__(f"there is no job {job[:80]!r}: it never existed, or its record was deleted")


class RequestRefused(RagError):
    """A push or job that is refused: invalid (400), not allowed (403), too large (413), or of a wrong type (415)."""

    def __init__(self, field: str, detail: str, status: int = 400) -> None:
        """Create an error whose message is the name of the field followed by `detail`."""
        super().__init__(f"{field} {detail}")
        self.field, self.status = field, status


class QueueFull(RagError, status=429):
    """Too many documents wait to be indexed."""


class StorageFull(RagError, status=507):
    """A document cannot be stored: the disk is full, or the collection would exceed its maximum size."""


class JobConflict(RagError, status=409):
    """A job that cannot be started or stopped now."""


class NotConfigured(RagError, status=501):
    """A feature that the settings of this server do not enable."""


class NotReady(RagError, status=503):
    """The index or the model is not loaded, or the store cannot be reached."""


class DeadlinePassed(RagError, status=503):
    """The deadline of the request has passed."""

    def __init__(self) -> None:
        super().__init__("the server is too busy to answer in time: try again shortly")


class KeysError(RagError):
    """An invalid key, key name or key file."""


class FingerprintMismatch(RagError):
    """The index was built with an embedder that makes different vectors. The message names the fields that differ."""


class NotPublished(RagError):
    """The index was built, but could not be published to Milvus."""


class InsightsError(RagError, status=503):
    """The database of recorded searches cannot be written or read."""


class DatasetError(RagError):
    """An evaluation folder that is not in BEIR's layout."""


class AnswerError(RagError, status=502):
    """The server of the language model failed to generate an answer."""


class EndpointFailed(AnswerError):
    """The endpoint of `answer_url` cannot be reached, refuses requests, or violates the protocol."""


class EndpointSlow(AnswerError, status=504):
    """The endpoint of `answer_url` did not answer in time."""


class ClientError(RagError):
    """A request of `rag.Client` failed. `status` is the HTTP status, or None if there was no response."""

    def __init__(
        self, detail: str, *, status: int | None = None, field: str | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.field = field
        self.retry_after = retry_after  # seconds


class Unavailable(ClientError):
    """The server cannot be reached, or is too busy to answer."""


class Refused(ClientError):
    """The key is missing, unknown, or lacks the permission."""


class Rejected(ClientError):
    """The request is invalid. `field` is the name of the invalid field, if the server returned it."""
