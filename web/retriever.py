"""The protocol by which the web application asks for searches; `rag.serving.live.LiveRetriever` satisfies it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Literal, Protocol

import numpy as np
import numpy.typing as npt

from rag.query.filters import Filter
from rag.query.options import DEFAULT_COLLECTION, SUGGESTED
from rag.query.request import SearchRequest
from rag.query.results import Answer, QueryTokens, Relevance, Suggestion
from rag.serving.live import Section

Role = Literal["query", "document"]
Vectors = npt.NDArray[np.float32]  # (n, dim)


class Embedding(Protocol):
    """Texts as a model has embedded them; `rag.query.served_model.Embedding` satisfies it."""

    @property
    def vectors(self) -> Vectors:
        """Their vectors."""

    @property
    def tokens(self) -> int:
        """Tokens of all texts, whatever the model's length."""

    @property
    def model(self) -> str:
        """Name of the model."""


class Retriever(Protocol):
    """Answers queries; safe to call from several threads at once."""

    @property
    def ready(self) -> bool:
        """Whether a search would be answered now."""

    def status(self) -> dict[str, Any]:
        """JSON-ready facts, among them ready, reason, documents, chunks and created_at (ISO 8601)."""

    def describe(self, collection: str = DEFAULT_COLLECTION) -> dict[str, Any]:
        """JSON-ready facts of the generation served: its id, counts, sources, the report of its build."""

    def search(self, request: SearchRequest, embedded: QueryTokens | None = None) -> Answer:
        """Return the passages that answer a query best.

        Args:
            request: what is searched for, and how.
            embedded: the query's vector and tokens, where `embed_queries` has made them already.

        Raises:
            QueryError: the query cannot be answered as asked.
            CollectionMissing: there is no such collection.
            NotReady: it is still loading.
            DeadlinePassed: there was not time enough.
        """

    def embed(self, texts: Sequence[str], role: Role = "document", model: str = "") -> Embedding:
        """Embed texts by the model, together with the texts of other requests.

        Raises ModelMissing, NotReady or DeadlinePassed.
        """

    def embed_queries(self, queries: Sequence[str]) -> list[QueryTokens]:
        """Embed queries, with their tokens, as `search` takes them. Raises as `embed` does."""

    def rerank(self, query: str, texts: Sequence[str]) -> Relevance:
        """Say how well each text answers a query. Raises RerankOff, NotReady or DeadlinePassed."""

    def document(self, id: str, collection: str = DEFAULT_COLLECTION, filter: Filter | None = None) -> dict[str, Any]:
        """Return a document that a filter allows with its passages, JSON-ready.

        Raises DocumentMissing, CollectionMissing or NotReady.
        """

    def sections(
        self, id: str, collection: str = DEFAULT_COLLECTION, whole: str = "", filter: Filter | None = None
    ) -> tuple[dict[str, Any], list[Section]]:
        """Return a document and, by heading, its passages, in which only that of the id `whole` repeats another.

        Raises as `document` does.
        """

    def original(
        self, id: str, collection: str = DEFAULT_COLLECTION, filter: Filter | None = None
    ) -> tuple[str, BinaryIO]:
        """Open the file that a document was read from; return its name and the open file, at its beginning.

        Raises OriginalMissing, and as `document` does.
        """

    def headings(self, collection: str = DEFAULT_COLLECTION) -> list[str]:
        """Return headings from all over the index that are worth asking for, best first. Raises as `document` does."""

    def suggest(
        self, typed: str, collection: str = DEFAULT_COLLECTION, filter: Filter | None = None, most: int = SUGGESTED
    ) -> list[Suggestion]:
        """Return what somebody who types may be about to ask, of documents that a filter allows, likeliest first.

        Raises as `document` does, and FilterError.
        """

    def documents(self, collection: str = DEFAULT_COLLECTION, filter: Filter | None = None) -> Iterator[dict[str, Any]]:
        """Return every document of one generation that a filter allows, as `document` does.

        Raises CollectionMissing or NotReady.
        """

    def close(self) -> None:
        """Stop background work and release files."""


class Jobs(Protocol):
    """Builds of the index; `rag.serving.job_manager.JobManager` satisfies it, and says what each does and raises."""

    def start(
        self,
        *,
        sources: Sequence[str] = (),
        add: bool = False,
        full: bool = False,
        collection: str = "default",
    ) -> dict[str, Any]:
        """Begin one. Raises JobRefused or JobConflict."""

    def all(self) -> list[dict[str, Any]]:
        """Return those that are remembered, newest first."""

    def get(self, job_id: str) -> dict[str, Any]:
        """Return one. Raises JobMissing."""

    def cancel(self, job_id: str) -> dict[str, Any]:
        """Tell one to stop. Raises JobMissing or JobConflict."""


class Pushes(Protocol):
    """Documents that senders push; `rag.serving.pushed_queue.PushedQueue` satisfies it, and says what each raises."""

    def put(
        self,
        url: str,
        body: bytes,
        content_type: str,
        *,
        charset: str | None = None,
        title: str = "",
        language: str | None = None,
        date: str | None = None,
        metadata: Mapping[str, str | Sequence[str]] | None = None,
        access: Mapping[str, Any] | None = None,
        collection: str = "default",
    ) -> dict[str, Any]:
        """Accept a document. Raises DocumentRefused, JobConflict, QueueFull or StorageFull."""

    def delete(self, url: str, collection: str = "default") -> dict[str, Any]:
        """Accept that one is to go. Raises PushedMissing, and as `put` does."""

    def change(self, number: str, collection: str = "default") -> dict[str, Any]:
        """Return one of these. Raises ChangeMissing or DocumentRefused."""

    def queue(self, collection: str = "default") -> dict[str, Any]:
        """Return how much waits, and the latest changes. Raises DocumentRefused."""

    def waiting(self) -> dict[str, dict[str, Any]]:
        """Return how much waits and has failed, by collection. Raises sqlite3.Error or OSError."""
