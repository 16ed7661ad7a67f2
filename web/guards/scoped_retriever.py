"""What a caller may see of the index, the builds and the pushed documents: the one place where a scope is enforced.

Every route asks through `visible`, `visible_jobs` or `visible_pushes`. What is outside a scope is answered like what is
not there, word for word, and found out by the same steps.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, TypeVar

from flask import current_app
from msgspec.structs import replace

from rag.document_sections import Section
from rag.errors import (
    ChangeMissing,
    CollectionMissing,
    DocumentMissing,
    DocumentRefused,
    JobConflict,
    JobMissing,
    JobRefused,
    PushedMissing,
)
from rag.query.filters import Filter
from rag.query.options import DEFAULT_COLLECTION, SUGGESTED
from rag.query.request import SearchRequest
from rag.query.results import Answer, QueryTokens, Relevance, Suggestion
from rag.serving.pushed_queue import OUTSIDE as ELSEWHERE
from rag.serving.pushed_queue import address_of, document_id_of, queue_of
from rag.serving.scope import UNLISTED, Scope
from web.guards.callers import caller
from web.retriever import Embedding, Jobs, Pushes, Retriever, Role

Found = TypeVar("Found")

OUTSIDE = "is none that this key may write"  # whether or not there is one
NO_GENERATION = ""  # the id is another one whenever anything in a collection has changed
RUNNING = ("running", "cancelling")
FACTS = ("generation", "created_at", "documents", "chunks")  # of a collection, in a status
OF_WHOLE = (*FACTS, "restricted")  # those for callers alone who may see all of it


def visible(retriever: Retriever) -> Retriever:
    """Return what the caller of the request under way may see of a retriever."""
    scope = caller().scope
    return retriever if scope.is_all else ScopedRetriever(retriever, scope)


def visible_jobs(jobs: Jobs) -> Jobs:
    """Return what the caller of the request under way may see of builds."""
    scope = caller().writes
    return jobs if scope.is_all else ScopedJobs(jobs, scope)


def visible_pushes(pushes: Pushes) -> Pushes:
    """Return what the caller of the request under way may see of pushed documents."""
    scope = caller().writes
    return pushes if scope.is_all else ScopedPushes(pushes, scope, current_app.extensions["retriever"])


def sees_all() -> bool:
    """Return whether nothing is kept from the caller; one without a name sees what has no list, if anything has one.

    This is for what is told beside documents, which are always filtered: a list may come at any moment.
    """
    scope = caller().scope
    return scope.is_all or (scope == UNLISTED and not is_restricted(current_app.extensions["retriever"].status()))


def is_restricted(status: dict[str, Any], collection: str | None = None) -> bool:
    """Return whether a document of a collection, or of any, has an access list."""
    found = status.get("collections", [])
    return any(each.get("restricted") for each in found if collection in (None, each["name"]))


class ScopedRetriever:
    """A retriever with the collections and documents of a scope alone; satisfies `web.retriever.Retriever`."""

    def __init__(self, retriever: Retriever, scope: Scope) -> None:
        self._inner = retriever
        self._scope = scope

    @property
    def ready(self) -> bool:
        """Whether a search would be answered now."""
        return self._inner.ready

    def status(self) -> dict[str, Any]:
        """The facts of the whole server, and of the collections that may be seen; OF_WHOLE of those that are whole."""
        status = self._inner.status()
        collections = [
            {
                name: value
                for name, value in each.items()
                if name not in OF_WHOLE or self._has_whole(each["name"], status)
            }
            for each in status.get("collections", [])
            if self._scope.has(each["name"])
        ]
        first = next((each for each in collections if each["name"] == DEFAULT_COLLECTION), None)
        loading = status.get("reason") if not status["ready"] and first else None
        return {
            **{name: value for name, value in status.items() if name not in OF_WHOLE},
            "reason": loading or (first or {}).get("reason") or "",
            "missing": bool(status.get("missing")) and first is not None,
            **{name: first[name] for name in FACTS if first and name in first},
            "collections": collections,
        }

    def describe(self, collection: str = DEFAULT_COLLECTION) -> dict[str, Any]:
        """Facts of a generation, which count all of its documents: only of collections that are seen whole."""
        if not self._has_whole(collection):
            raise self._missing(collection)
        return self._ask(collection, lambda inner: inner.describe(collection))

    def search(self, request: SearchRequest, embedded: QueryTokens | None = None, seen: Filter | None = None) -> Answer:
        """Search among what may be seen."""
        allowed = self._scope.narrowed(request.collection, seen)
        found = self._ask(request.collection, lambda inner: inner.search(request, embedded, allowed))
        return found if self._has_whole(request.collection) else replace(found, generation=NO_GENERATION)

    def embed(self, texts: Sequence[str], role: Role = "document", model: str = "") -> Embedding:
        """Embed texts."""
        return self._inner.embed(texts, role, model)

    def embed_queries(self, queries: Sequence[str]) -> list[QueryTokens]:
        """Embed queries."""
        return self._inner.embed_queries(queries)

    def rerank(self, query: str, texts: Sequence[str]) -> Relevance:
        """Say how well each text, which the caller brings, answers a query."""
        return self._inner.rerank(query, texts)

    def document(self, id: str, collection: str = DEFAULT_COLLECTION, filter: Filter | None = None) -> dict[str, Any]:
        """Return a document that may be seen."""
        allowed = self._scope.narrowed(collection, filter)
        found = self._ask(collection, lambda inner: inner.document(id, collection, allowed))
        return found | self._generation(collection)

    def sections(
        self, id: str, collection: str = DEFAULT_COLLECTION, whole: str = "", filter: Filter | None = None
    ) -> tuple[dict[str, Any], list[Section]]:
        """Return a document that may be seen, and its passages by heading."""
        allowed = self._scope.narrowed(collection, filter)
        found, sections = self._ask(collection, lambda inner: inner.sections(id, collection, whole, allowed))
        return found | self._generation(collection), sections

    def original(
        self, id: str, collection: str = DEFAULT_COLLECTION, filter: Filter | None = None
    ) -> tuple[str, BinaryIO]:
        """Open the file of a document that may be seen."""
        allowed = self._scope.narrowed(collection, filter)
        return self._ask(collection, lambda inner: inner.original(id, collection, allowed))

    def headings(self, collection: str = DEFAULT_COLLECTION) -> list[str]:
        """Headings from all over the index; none where a part of its documents may not be seen."""
        found = self._ask(collection, lambda inner: inner.headings(collection))
        return found if self._has_whole(collection) else []

    def suggest(
        self, typed: str, collection: str = DEFAULT_COLLECTION, filter: Filter | None = None, most: int = SUGGESTED
    ) -> list[Suggestion]:
        """Suggest from documents that may be seen."""
        allowed = self._scope.narrowed(collection, filter)
        return self._ask(collection, lambda inner: inner.suggest(typed, collection, allowed, most))

    def documents(self, collection: str = DEFAULT_COLLECTION, filter: Filter | None = None) -> Iterator[dict[str, Any]]:
        """Return every document that may be seen."""
        allowed = self._scope.narrowed(collection, filter)
        found = self._ask(collection, lambda inner: inner.documents(collection, allowed))
        return (each | self._generation(collection) for each in found)

    def close(self) -> None:
        """Stop background work and release files."""
        self._inner.close()

    def _ask(self, collection: str, ask: Callable[[Retriever], Found]) -> Found:
        """Ask about a collection. Raises CollectionMissing, with those that may be seen, wherever it may not be."""
        if not self._scope.has(collection):
            raise self._missing(collection)
        try:
            return ask(self._inner)
        except CollectionMissing as error:
            raise self._missing(collection) from error

    def _generation(self, collection: str) -> dict[str, str]:
        """Return what is told of the generation instead of its id, where a part of its documents may not be seen."""
        return {} if self._has_whole(collection) else {"generation": NO_GENERATION}

    def _has_whole(self, collection: str, status: dict[str, Any] | None = None) -> bool:
        """Whether all documents of a collection may be seen, so that they may be counted."""
        if self._scope != UNLISTED:
            return self._scope.has_whole(collection)
        return not is_restricted(status or self._inner.status(), collection)

    def _missing(self, collection: str) -> CollectionMissing:
        names = [each["name"] for each in self._inner.status().get("collections", [])]
        return CollectionMissing(collection, self._scope.among(names))


class ScopedJobs:
    """The builds of the collections that a scope has whole; satisfies `web.retriever.Jobs`."""

    def __init__(self, jobs: Jobs, scope: Scope) -> None:
        self._inner = jobs
        self._scope = scope

    def start(
        self,
        *,
        sources: Sequence[str] = (),
        add: bool = False,
        full: bool = False,
        collection: str = DEFAULT_COLLECTION,
    ) -> dict[str, Any]:
        """Begin one. Raises JobRefused for a collection outside, and what `Jobs.start` does."""
        if not self._scope.has_whole(collection):  # a build reads and tells of all of it
            raise JobRefused("collection", OUTSIDE)
        try:
            return self._inner.start(sources=sources, add=add, full=full, collection=collection)
        except JobConflict as error:
            if any(
                not self._scope.has_whole(job["collection"]) and job["state"] in RUNNING for job in self._inner.all()
            ):
                raise JobConflict("another build is running: try again when it has ended") from error
            raise

    def all(self) -> list[dict[str, Any]]:
        """Return those of collections that may be seen, newest first."""
        return [job for job in self._inner.all() if self._scope.has_whole(job["collection"])]

    def get(self, job_id: str) -> dict[str, Any]:
        """Return one. Raises JobMissing."""
        job = self._inner.get(job_id)
        if not self._scope.has_whole(job["collection"]):
            raise JobMissing(job_id)
        return job

    def cancel(self, job_id: str) -> dict[str, Any]:
        """Tell one to stop. Raises JobMissing or JobConflict."""
        self.get(job_id)
        return self._inner.cancel(job_id)


class ScopedPushes:
    """The pushed documents of a scope; satisfies `web.retriever.Pushes`.

    Where a scope has a part of a collection, it writes documents of that part, and at no address where there is
    another, whoever that is from.
    """

    def __init__(self, pushes: Pushes, scope: Scope, retriever: Retriever) -> None:
        self._inner = pushes
        self._scope = scope
        self._retriever = retriever

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
        collection: str = DEFAULT_COLLECTION,
        only: Filter | None = None,
    ) -> dict[str, Any]:
        """Accept a document. Raises DocumentRefused for one outside, and what `Pushes.put` does."""
        only = self._narrowed(collection, only)
        if only and not self._is_free(url, collection, only):
            raise DocumentRefused("url", ELSEWHERE)
        return self._inner.put(
            url,
            body,
            content_type,
            charset=charset,
            title=title,
            language=language,
            date=date,
            metadata=metadata,
            access=access,
            collection=collection,
            only=only,
        )

    def delete(self, url: str, collection: str = DEFAULT_COLLECTION, only: Filter | None = None) -> dict[str, Any]:
        """Accept that one is to go. Raises as `put` does, and PushedMissing for one outside, too."""
        only = self._narrowed(collection, only)
        if only and not self._is_free(url, collection, only):
            raise PushedMissing(address_of(url), collection)
        return self._inner.delete(url, collection, only)

    def change(self, number: str, collection: str = DEFAULT_COLLECTION, only: Filter | None = None) -> dict[str, Any]:
        """Return one of these. Raises DocumentRefused or ChangeMissing."""
        only = self._narrowed(collection, only)
        found = self._inner.change(number, collection, only)
        if only and not self._is_free(found["url"], collection, only):
            raise ChangeMissing(number, collection)
        return found

    def queue(self, collection: str = DEFAULT_COLLECTION, only: Filter | None = None) -> dict[str, Any]:
        """Return how much waits, and the latest changes. Raises DocumentRefused."""
        only = self._narrowed(collection, only)
        found = self._inner.queue(collection, only)
        if only is None:
            return found
        return queue_of([each for each in found["changes"] if self._is_free(each["url"], collection, only)], collection)

    def waiting(self) -> dict[str, dict[str, Any]]:
        """Return how much waits and has failed, by collection that is seen whole."""
        return {name: each for name, each in self._inner.waiting().items() if self._scope.has_whole(name)}

    def _narrowed(self, collection: str, only: Filter | None) -> Filter | None:
        if not self._scope.has(collection):
            raise DocumentRefused("collection", OUTSIDE)
        return self._scope.narrowed(collection, only)

    def _is_free(self, url: str, collection: str, only: Filter) -> bool:
        """Whether no document that is indexed at an address is outside, as one may be by what it says itself.

        Raises NotReady: then it is not known.
        """
        id = document_id_of(url)
        for allowed in (only, None):
            try:
                self._retriever.document(id, collection, allowed)
            except CollectionMissing:
                return True
            except DocumentMissing:
                continue
            return allowed is only
        return True
