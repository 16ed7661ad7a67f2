"""Errors of the application; see `embedder.errors` for the whole tree.

RagError
├── UsageError          a command line that cannot be read: says what is wrong, and what was probably meant
├── SettingsError       a setting whose value cannot be used: names the setting, the value and what is allowed
├── QueryError          a query that cannot be answered as asked (HTTP 400)
│   ├── FieldError      a field of a request that is missing, unknown or of a value that is not allowed: names it
│   └── RerankOff       no cross-encoder is set that ranks anew (HTTP 501)
├── NotThere            something that is asked for by its name and is not there (HTTP 404)
│   ├── CollectionMissing  a collection: names those that are
│   ├── DocumentMissing    a document
│   ├── ModelMissing       a model that embeds: names those that are
│   ├── JobMissing         a job that builds the index
│   ├── PushedMissing      a document that was pushed
│   └── ChangeMissing      a document that was pushed or withdrawn, by its number
├── DocumentRefused     a document that cannot be indexed as it was sent: names the field (HTTP 400)
│   ├── TypeNotRead     of a media type that is not read (HTTP 415)
│   └── DocumentTooLarge  larger than documents may be (HTTP 413)
├── QueueFull           too many documents wait to be indexed (HTTP 429)
├── StorageFull         there is no room for a document (HTTP 507)
├── JobRefused          a job that is not allowed as it is asked for: names the field (HTTP 403)
├── JobConflict         a job that cannot be started or stopped as things are (HTTP 409)
├── NotReady            the retriever is still loading, or has no index (HTTP 503)
├── DeadlinePassed      there was not time enough to answer (HTTP 503)
├── KeysError           a file of keys, a name or a key that cannot be used
├── FingerprintMismatch the index was built by another model or precision: names the fields
├── ModelUnusable       the model cannot be loaded: says why
├── NotPublished        a generation that was built, but did not reach its store
├── InsightsError       what people ask cannot be kept, read or deleted
│   └── InsightsOff     it is not kept here (HTTP 501)
├── DatasetError        an evaluation folder that is not in BEIR's layout
├── AnswerError         a written answer could not be had
│   ├── AnswersOff      no endpoint is set that writes answers (HTTP 501)
│   ├── EndpointFailed  the endpoint cannot be reached, refused, or did not speak the protocol (HTTP 502)
│   └── EndpointSlow    the answer was not there in time (HTTP 504)
└── ClientError         a server did not give `rag.Client` what it asked for
    ├── Unavailable     not reached, or it cannot answer now: `retry_after` says in how many seconds it may
    ├── Refused         the key is missing, unknown, or of a role that may not do this (HTTP 401, 403)
    └── Rejected        the request cannot be met as it stands: `field` names what is wrong with it (HTTP 4xx)
"""

from collections.abc import Iterable

from embedder.errors import PilotlightError


class RagError(PilotlightError):
    """Base of the application's errors."""


class UsageError(RagError):
    """A command line that cannot be read."""


class SettingsError(RagError):
    """A setting whose value cannot be used."""


class QueryError(RagError):
    """A query that cannot be answered as asked."""


class FieldError(QueryError):
    """A field of a request that cannot be used; the message is a sentence that names it and says what it must be."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(detail)
        self.field = field


class RerankOff(QueryError):
    """There is no cross-encoder to rank with."""

    def __init__(self) -> None:
        super().__init__("reranking is not configured here: set rerank_model")


class NotThere(RagError):
    """Something that is asked for by its name and is not there; `field` is where the name was given."""

    field: str


class CollectionMissing(NotThere):
    """A collection that is not in the index."""

    field = "collection"

    def __init__(self, name: str, known: Iterable[str]) -> None:
        there = ", ".join(known)
        others = f"there are: {there}" if there else "the index has none yet"
        super().__init__(f"there is no collection {name[:80]!r}; {others}")


class DocumentMissing(NotThere):
    """A document that is not in the collection."""

    field = "id"

    def __init__(self, document: str, collection: str) -> None:
        super().__init__(f"there is no document {document[:80]!r} in collection {collection!r}")


class ModelMissing(NotThere):
    """A model that is not in use here."""

    field = "model"

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"there is no model {name[:80]!r} here; there are: {', '.join(known) or 'none yet'}")


class OriginalMissing(NotThere):
    """The file of a document, which is not there, or which there never was."""

    field = "id"


class JobMissing(NotThere):
    """A job that is not known, or not any more."""

    field = "id"

    def __init__(self, job: str) -> None:
        super().__init__(f"there is no job {job[:80]!r}: it never existed, or is no longer kept")


class PushedMissing(NotThere):
    """A document that was never pushed, or was withdrawn."""

    field = "url"

    def __init__(self, url: str, collection: str) -> None:
        super().__init__(
            f"no document was pushed to collection {collection!r} for {url[:200]}; "
            "what a site or folder gave goes with its source"
        )


class ChangeMissing(NotThere):
    """A change that is not known, or not any more."""

    field = "id"

    def __init__(self, number: str, collection: str) -> None:
        super().__init__(
            f"collection {collection!r} has no change {number[:80]!r}: it was never made, or is no longer remembered"
        )


class DocumentRefused(RagError):
    """A document that cannot be indexed as it was sent."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(f"{field} {detail}")
        self.field = field


class TypeNotRead(DocumentRefused):
    """A document of a media type that is not read."""


class DocumentTooLarge(DocumentRefused):
    """A document that is larger than documents may be."""


class QueueFull(RagError):
    """Too many documents wait to be indexed."""


class StorageFull(RagError):
    """There is no room for a document."""


class JobRefused(RagError):
    """A job that is not allowed as it is asked for."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(f"{field} {detail}")
        self.field = field


class JobConflict(RagError):
    """A job that cannot be started or stopped as things are."""


class NotReady(RagError):
    """The retriever cannot answer yet."""


class DeadlinePassed(RagError):
    """The answer would have come too late."""

    def __init__(self) -> None:
        super().__init__("the server is too busy to answer in time: try again shortly")


class KeysError(RagError):
    """A file of keys, a name or a key that cannot be used."""


class FingerprintMismatch(RagError):
    """The index was built by an embedder that gives other vectors."""


class ModelUnusable(RagError):
    """The model that built an index cannot be loaded."""


class NotPublished(RagError):
    """A generation that was built, but did not reach its store."""


class InsightsError(RagError):
    """The record of what people ask cannot be used as it was meant."""


class InsightsOff(InsightsError):
    """What people ask is not kept."""

    def __init__(self) -> None:
        super().__init__("what people ask is not kept here: set insights")


class DatasetError(RagError):
    """An evaluation folder that is not in BEIR's layout."""


class AnswerError(RagError):
    """A written answer could not be had."""


class AnswersOff(AnswerError):
    """No endpoint is set that writes answers."""


class EndpointFailed(AnswerError):
    """The endpoint that writes answers failed."""


class EndpointSlow(AnswerError):
    """The endpoint that writes answers took too long."""


class ClientError(RagError):
    """A server did not give the client what it asked for; `status` is that of HTTP, None where there was no answer."""

    def __init__(
        self, detail: str, *, status: int | None = None, field: str | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.field = field
        self.retry_after = retry_after


class Unavailable(ClientError):
    """The server was not reached, or cannot answer now."""


class Refused(ClientError):
    """The key does not open this."""


class Rejected(ClientError):
    """The request cannot be met as it stands."""
