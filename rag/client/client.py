"""A client of a running server: what its API does, typed. Nothing here loads a model or an index."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypedDict, TypeVar, Unpack, overload
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from rag.client.answer import WrittenAnswer
from rag.client.changes import Change, fields_of
from rag.client.jobs import Job
from rag.client.results import (
    Document,
    answer_of,
    document_of,
    outcome_of,
    relevance_of,
    suggestions_of,
    vectors_of,
)
from rag.client.transport import Transport
from rag.errors import ClientError
from rag.insights.store import What
from rag.query.filters import Filter, parameters_of
from rag.query.options import DEFAULT_COLLECTION, SUGGESTED
from rag.query.request import SearchRequest
from rag.query.results import Answer, Suggestion

Options = ParamSpec("Options")
Asker = TypeVar("Asker")
Asked = TypeVar("Asked")
Found = TypeVar("Found")

API = "/api/v1"
_JOBS, _DOCUMENTS, _CHANGES = f"{API}/index", f"{API}/documents", f"{API}/changes"
BATCH = 32  # searches, or texts, that go into one request


def _options_of(
    request: Callable[Concatenate[str, Options], SearchRequest],
) -> Callable[[Callable[Concatenate[Asker, Asked, ...], Found]], Callable[Concatenate[Asker, Asked, Options], Found]]:
    return lambda method: method


# Gives a method the options of a search as its keywords, which type checkers and editors then know. A TypedDict to
# unpack would be a second list of them, and one that is made from the request's fields is nothing to a type checker.
_with_options = _options_of(SearchRequest)


class IndexOptions(TypedDict, total=False):
    """How an index is built; what is not given is as for `pilotlight index`."""

    add: bool  # keep the sources of the index beside those named
    full: bool  # reprocess unchanged pages too
    collection: str


class PushOptions(TypedDict, total=False):
    """What is said of a document that is sent; goes before what the document says of itself."""

    content_type: str  # text/plain unless it is given; for bytes also with a charset
    title: str
    language: str  # a tag such as en
    date: str  # YYYY-MM-DD
    access: Mapping[str, Sequence[str]]  # who may read it: users and groups, see docs/access.md
    collection: str


class Client:
    """Asks one server; safe to use from many threads, and a context manager.

    Every method raises `rag.errors.ClientError`: Unavailable where the server cannot be reached or is too busy, Refused
    where the key does not open what is asked for, Rejected where the request cannot be met as it stands.
    """

    def __init__(self, url: str, key: str | None = None, *, timeout: float = 30.0, patience: float = 30.0) -> None:
        """Connects when it is first used.

        Args:
            url: address of the server, such as http://127.0.0.1:8642.
            key: as `pilotlight keys add` showed it; None where the server asks for none.
            timeout: seconds of silence after which a request has failed.
            patience: most seconds in all that one request waits for a server that is busy and says for how long.
        """
        self._transport = Transport(url, key, timeout, patience)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._transport.url!r})"

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def status(self) -> dict[str, Any]:
        """Return the facts of the server: model, engine, generation, counts. Raises Unavailable while it loads."""
        status: dict[str, Any] = self._transport.json("GET", "/readyz")
        return status

    @overload
    def search(self, query: SearchRequest) -> Answer: ...
    @overload
    @_with_options
    def search(self, query: str, **options: Any) -> Answer: ...
    def search(self, query: str | SearchRequest, **options: Any) -> Answer:
        """Find the passages that answer a query best; see the documentation of searching for the options.

        What is not given is as the server is set.
        """
        return answer_of(self._transport.json("POST", f"{API}/search", _fields(query, options)))

    def suggest(
        self, typed: str, *, collection: str = DEFAULT_COLLECTION, k: int = SUGGESTED, filter: Filter | None = None
    ) -> list[Suggestion]:
        """Return what somebody who types may be about to ask: titles, headings and past questions, likeliest first."""
        params = (("q", typed), ("collection", collection), ("k", str(k)), *parameters_of(filter))
        return suggestions_of(self._transport.json("GET", f"{API}/suggest", params=params))

    @_with_options
    def search_many(self, queries: Sequence[str], **options: Any) -> list[Answer | ClientError]:
        """Answer many queries, which go through the model together; one that cannot be gives its error instead."""
        outcomes: list[Answer | ClientError] = []
        for start in range(0, len(queries), BATCH):
            part = [_fields(query, options) for query in queries[start : start + BATCH]]
            body = self._transport.json("POST", f"{API}/search/batch", {"queries": part})
            outcomes += [outcome_of(raw) for raw in _list_in(body, "answers", len(part))]
        return outcomes

    @_with_options
    def pages(self, query: str, **options: Any) -> Iterator[Answer]:
        """Yield one answer after another, of k hits each, for as long as there are more."""
        offset: int | None = options.get("offset", 0)
        while offset is not None:
            answer = self.search(query, **{**options, "offset": offset})
            yield answer
            offset = answer.next

    @_with_options
    def answer(self, query: str, **options: Any) -> WrittenAnswer:
        """Have an answer written from the hits; iterate over its text. Only where the server is set up for it."""
        return WrittenAnswer(self._transport, f"{API}/answer", _fields(query, options))

    def feedback(self, search_id: str, feedback: What, hit: str | None = None) -> None:
        """Say what became of a search: of one of its hits that it was opened, good or bad; `none` takes that back.

        Only where the server keeps what people ask: else answers have no `search_id`.
        """
        fields = {"search_id": search_id, "feedback": feedback, **({"hit": hit} if hit else {})}
        with self._transport.stream("POST", f"{API}/feedback", fields):
            pass

    def document(self, id: str, collection: str = DEFAULT_COLLECTION) -> Document:
        """Return a document by its id, which hits have in `document`."""
        params = {"collection": collection}
        return document_of(self._transport.json("GET", f"{API}/documents/{quote(id, safe='')}", params=params))

    def documents(self, collection: str = DEFAULT_COLLECTION) -> Iterator[Document]:
        """Yield every document of a collection, from one generation throughout."""
        for line in self._transport.lines(f"{API}/documents", {"collection": collection}):
            yield document_of(self._transport.parse(line))

    def push(
        self,
        url: str,
        content: str | bytes,
        *,
        metadata: Mapping[str, str | Sequence[str]] | None = None,
        **options: Unpack[PushOptions],
    ) -> Change:
        """Send a document, which replaces what was sent for its address before; needs a key that may write.

        The server has it on its disk when this returns, and finds it within seconds; `Change.wait` waits for that.
        """
        return Change(
            self._transport,
            _CHANGES,
            self._transport.json("POST", _DOCUMENTS, fields_of(url, content, metadata, options)),
        )

    def withdraw(self, url: str, collection: str = DEFAULT_COLLECTION) -> Change:
        """Take back a document that was sent; raises Rejected where there is none."""
        params = {"url": url, "collection": collection}
        return Change(self._transport, _CHANGES, self._transport.json("DELETE", _DOCUMENTS, params=params))

    def changes(self, collection: str = DEFAULT_COLLECTION) -> list[Change]:
        """Return what was sent and withdrawn lately, the last one first."""
        raw = self._transport.json("GET", _CHANGES, params={"collection": collection})
        return [Change(self._transport, _CHANGES, change) for change in _list_in(raw, "changes")]

    def embed(self, texts: Sequence[str], role: str = "document") -> npt.NDArray[np.float32]:
        """Embed texts as float32 (n, dim); role is query or document, as a model may treat them differently."""
        parts = [
            vectors_of(
                self._transport.json(
                    "POST", f"{API}/embeddings", {"input": list(texts[start : start + BATCH]), "role": role}
                )
            )
            for start in range(0, len(texts), BATCH)
        ]
        return np.concatenate(parts) if parts else np.empty((0, 0), np.float32)

    def rerank(self, query: str, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Say how well each text answers a query, from 0 to 1; float32 (n,), in the order given.

        Only where the server has a cross-encoder (`rerank_model`).
        """
        parts = [np.empty(0, np.float32)]
        for start in range(0, len(texts), BATCH):
            part = list(texts[start : start + BATCH])
            raw = self._transport.json("POST", "/v1/rerank", {"query": query, "documents": part})
            parts.append(relevance_of(raw, len(part)))
        return np.concatenate(parts)

    def index(self, *sources: str, **options: Unpack[IndexOptions]) -> Job:
        """Have the index built again, from its own sources unless others are named; needs a key that may write."""
        return Job(self._transport, _JOBS, self._transport.json("POST", _JOBS, {"sources": sources, **options}))

    def job(self, id: str) -> Job:
        """Return a build by its id."""
        return Job(self._transport, _JOBS, self._transport.json("GET", f"{_JOBS}/{quote(id, safe='')}"))

    def jobs(self) -> list[Job]:
        """Return the builds that the server remembers, newest first."""
        return [Job(self._transport, _JOBS, raw) for raw in _list_in(self._transport.json("GET", _JOBS), "jobs")]


def _fields(query: str | SearchRequest, options: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(query, SearchRequest):
        options, query = query.given(), query.query
    fields: dict[str, Any] = {"query": query, **{name: value for name, value in options.items() if value is not None}}
    if isinstance(wanted := fields.get("filter"), Filter):
        fields["filter"] = wanted.as_dict()
    return fields


def _list_in(body: Any, name: str, length: int | None = None) -> list[Any]:
    found = body.get(name) if isinstance(body, dict) else None
    if not isinstance(found, list) or length not in (None, len(found)):
        raise ClientError(f"the server's answer has no {name}: is it Pilotlight?")
    return found
