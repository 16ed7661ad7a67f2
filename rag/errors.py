"""Errors of the application, with the status that HTTP gives them; see `embedder.errors` for the whole tree.

RagError
├── SettingsError, KeysError, DatasetError, FingerprintMismatch, NotPublished
├── QueryError: FieldError, RerankOff
├── NotThere: CollectionMissing, DocumentMissing, JobMissing
├── DocumentRefused: TypeNotRead, DocumentTooLarge
├── QueueFull, StorageFull, JobRefused, JobConflict, NotReady, DeadlinePassed
├── InsightsError: InsightsOff
├── AnswerError: AnswersOff, EndpointFailed, EndpointSlow
└── ClientError: Unavailable, Refused, Rejected
"""

from collections.abc import Iterable

from embedder.errors import PilotlightError


class RagError(PilotlightError):
    """Base of the application's errors."""


class SettingsError(RagError):
    """A setting, or a command line, that cannot be used: names it, the value, and what is allowed or was meant."""


class QueryError(RagError):
    """A query that cannot be answered as asked (400)."""


class FieldError(QueryError):
    """A field of a request that cannot be used; the message is a sentence that names it and says what it must be."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(detail)
        self.field = field


class RerankOff(QueryError):
    """There is no cross-encoder to rank with (501)."""

    def __init__(self) -> None:
        super().__init__("reranking is not configured here: set rerank_model")


class NotThere(RagError):
    """Something that is asked for by its name and is not there (404); `field` is where the name was given."""

    def __init__(self, detail: str, field: str = "id") -> None:
        super().__init__(detail)
        self.field = field


class CollectionMissing(NotThere):
    """A collection that is not in the index."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        there = ", ".join(known)
        others = f"there are: {there}" if there else "the index has none yet"
        super().__init__(f"there is no collection {name[:80]!r}; {others}", "collection")


class DocumentMissing(NotThere):
    """A document that is not in the collection."""

    def __init__(self, document: str, collection: str) -> None:
        super().__init__(f"there is no document {document[:80]!r} in collection {collection!r}")


class JobMissing(NotThere):
    """A job that is not known, or not any more."""

    def __init__(self, job: str) -> None:
        super().__init__(f"there is no job {job[:80]!r}: it never existed, or is no longer kept")


class DocumentRefused(RagError):
    """A document that cannot be indexed as it was sent (400)."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(f"{field} {detail}")
        self.field = field


class TypeNotRead(DocumentRefused):
    """A document of a media type that is not read (415)."""


class DocumentTooLarge(DocumentRefused):
    """A document that is larger than documents may be (413)."""


class QueueFull(RagError):
    """Too many documents wait to be indexed (429)."""


class StorageFull(RagError):
    """There is no room for a document (507)."""


class JobRefused(RagError):
    """A job that is not allowed as it is asked for (403)."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(f"{field} {detail}")
        self.field = field


class JobConflict(RagError):
    """A job that cannot be started or stopped as things are (409)."""


class NotReady(RagError):
    """The retriever cannot answer yet (503)."""


class DeadlinePassed(RagError):
    """The answer would have come too late (503)."""

    def __init__(self) -> None:
        super().__init__("the server is too busy to answer in time: try again shortly")


class KeysError(RagError):
    """A file of keys, a name or a key that cannot be used."""


class FingerprintMismatch(RagError):
    """The index was built by an embedder that gives other vectors: names the fields."""


class NotPublished(RagError):
    """A generation that was built, but did not reach its store."""


class InsightsError(RagError):
    """The record of what people ask cannot be kept, read or deleted."""


class InsightsOff(InsightsError):
    """What people ask is not kept (501)."""

    def __init__(self) -> None:
        super().__init__("what people ask is not kept here: set insights")


class DatasetError(RagError):
    """An evaluation folder that is not in BEIR's layout."""


class AnswerError(RagError):
    """A written answer could not be had."""


class AnswersOff(AnswerError):
    """No endpoint is set that writes answers (501)."""


class EndpointFailed(AnswerError):
    """The endpoint cannot be reached, refused, or did not speak the protocol (502)."""


class EndpointSlow(AnswerError):
    """The endpoint took too long (504)."""


class ClientError(RagError):
    """A server did not give the client what it asked for; `status` is that of HTTP, None where there was no answer."""

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
    """The key is missing, unknown, or does not open this."""


class Rejected(ClientError):
    """The request cannot be met as it stands: `field` names what is wrong with it."""
