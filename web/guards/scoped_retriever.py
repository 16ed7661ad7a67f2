"""The caller of a request, and the one place where its scope is enforced: a filter that is ANDed to every request.

Routes get their retriever from `visible`, and call `may_write` before they change a collection. Documents outside a
scope are answered like documents that do not exist. Scores and counts of words are those of the whole collection.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from flask import current_app, g
from msgspec.structs import replace

from rag.errors import CollectionMissing
from rag.query.request import DEFAULT_COLLECTION, SUGGESTED, Filter, SearchRequest
from rag.query.results import Answer, QueryTokens, Suggestion
from rag.serving.access import EVERYTHING, NOTHING, Scope
from rag.serving.live import LiveRetriever, Matches, StoredChunk

Found = TypeVar("Found")

OUTSIDE = "is none that this caller may write"  # whether or not it exists
FACTS = ("generation", "created_at", "documents", "chunks")  # of the default collection, in a status
USER = "user:"  # before the name of a user in that of a caller; no key has a colon in its name


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller that a request comes from."""

    name: str  # of the key, or `user:` and that of the user; empty without either
    role: str | None  # None: may see what everybody may
    is_shown: bool = False  # its key stands in pages, so that many share it
    scope: Scope = EVERYTHING  # what it may see
    writes: Scope = NOTHING  # what it may change

    @property
    def shown(self) -> str:
        """What it is called in an answer to it."""
        user = self.name.removeprefix(USER)
        return f"The key {user!r}" if user == self.name else f"The user {user!r}"


NOBODY = Caller("", None)


def caller() -> Caller:
    """Return who makes the request under way."""
    return g.get("caller", NOBODY)  # type: ignore[no-any-return]  # g has no types


def visible(retriever: LiveRetriever) -> LiveRetriever:
    """Return a retriever as the caller of this request may use it."""
    scope = caller().scope
    return retriever if scope is EVERYTHING or scope.is_all else ScopedRetriever(retriever, scope)


def may_write(collection: str) -> bool:
    """Return whether the caller of this request may change a collection."""
    return caller().writes.has_whole(collection)


def sees_all() -> bool:
    """Return whether the caller of this request may read every document of the server."""
    scope = caller().scope
    if scope.is_all:
        return True
    collections = current_app.extensions["retriever"].status().get("collections", [])
    return not any(each.get("restricted") for each in collections) and scope.without_lists().is_all


class ScopedRetriever(LiveRetriever):
    """A retriever of the documents of a scope, without models; a test checks that it narrows all that tells of them."""

    def __init__(self, retriever: LiveRetriever, scope: Scope) -> None:
        self._inner = retriever
        self._scope = scope

    def status(self) -> dict[str, Any]:
        """Return the facts of the server, with the collections of the scope alone."""
        status = self._inner.status()
        collections = [each for each in status.get("collections", []) if self._scope.has(each["name"])]
        first = next((each for each in collections if each["name"] == DEFAULT_COLLECTION), None)
        found = {name: value for name, value in status.items() if first or name not in FACTS}
        reason = (first and (first.get("reason") or (not status["ready"] and status.get("reason")))) or ""
        missing = bool(first and status.get("missing"))
        return found | {"reason": reason, "missing": missing, "collections": collections}

    def describe(self, collection: str = DEFAULT_COLLECTION) -> dict[str, Any]:
        """Return the facts of a generation, which name its documents: only of collections that the scope has whole."""
        if not self._has_whole(collection):
            raise self._missing(collection)
        return self._ask_within(collection, None, lambda inner, _: inner.describe(collection))

    def search(self, request: SearchRequest, embedded: QueryTokens | None = None, scope: Scope = EVERYTHING) -> Answer:
        """Search the documents of the scope."""
        if request.collections is not None:
            return self._inner.search(request, embedded, self._scope)
        return self._ask_within(
            request.collection, request.only, lambda inner, only: inner.search(replace(request, filter=only), embedded)
        )

    def document(self, id: str, collection: str = DEFAULT_COLLECTION, filter: Filter | None = None) -> dict[str, Any]:
        """Return a document of the scope."""
        return self._ask_within(collection, filter, lambda inner, only: inner.document(id, collection, only))

    def questions(self, collection: str = DEFAULT_COLLECTION) -> list[str]:
        """Return headings of a collection that the scope has whole; of others, none."""
        found = self._ask_within(collection, None, lambda inner, _: inner.questions(collection))
        return found if self._has_whole(collection) else []

    def suggest(
        self, typed: str, collection: str = DEFAULT_COLLECTION, filter: Filter | None = None, most: int = SUGGESTED
    ) -> list[Suggestion]:
        """Suggest titles and headings of documents of the scope."""
        return self._ask_within(collection, filter, lambda inner, only: inner.suggest(typed, collection, only, most))

    def grep(
        self, matches: Matches, collection: str = DEFAULT_COLLECTION, filter: Filter | None = None, most: int = 100
    ) -> tuple[int, list[StoredChunk]]:
        """Find passages of documents of the scope by their texts."""
        return self._ask_within(collection, filter, lambda inner, only: inner.grep(matches, collection, only, most))

    def overview(self, collection: str = DEFAULT_COLLECTION, filter: Filter | None = None) -> dict[str, Any]:
        """Count the documents of the scope."""
        return self._ask_within(collection, filter, lambda inner, only: inner.overview(collection, only))

    def documents(self, collection: str = DEFAULT_COLLECTION, filter: Filter | None = None) -> Iterator[dict[str, Any]]:
        """Return every document of the scope."""
        return self._ask_within(collection, filter, lambda inner, only: inner.documents(collection, only))

    def _ask_within(
        self, collection: str, wanted: Filter | None, ask: Callable[[LiveRetriever, Filter | None], Found]
    ) -> Found:
        """Ask about a collection within the scope. Raises CollectionMissing, which names only those of the scope."""
        if not self._scope.has(collection):
            raise self._missing(collection)
        try:
            return ask(self._inner, self._scope.narrowed(collection, wanted))
        except CollectionMissing as error:
            raise self._missing(collection) from error

    def _has_whole(self, collection: str) -> bool:
        if self._scope.has_whole(collection) or not self._scope.without_lists().has_whole(collection):
            return self._scope.has_whole(collection)
        found = self._inner.status().get("collections", [])
        return not any(each.get("restricted") for each in found if each["name"] == collection)

    def _missing(self, collection: str) -> CollectionMissing:
        names = [each["name"] for each in self._inner.status().get("collections", [])]
        return CollectionMissing(collection, filter(self._scope.has, names))
