"""A client of a running server: its API, typed. Nothing here loads a model or an index."""

import base64
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, overload
from urllib.parse import quote

import msgspec
import numpy as np
import numpy.typing as npt

from rag import messages
from rag.client.transport import Problem, Transport
from rag.errors import ClientError, Unavailable
from rag.events import Event
from rag.insights.store import What
from rag.messages import Citation, Document, Sentence
from rag.query.request import (
    DEFAULT_COLLECTION,
    MOST_EXCHANGES,
    MOST_OF_ANSWER,
    SUGGESTED,
    Filter,
    SearchRequest,
    parameters_of,
)
from rag.query.results import Answer, Suggestion

Options = ParamSpec("Options")
Caller = TypeVar("Caller")
Subject = TypeVar("Subject")
Found = TypeVar("Found")

API = "/api/v1"
BATCH = 32  # searches, or texts, that go into one request
_CHANGE_POLL_S, _JOB_POLL_S = 0.2, 0.5


def _options_of(
    request: Callable[Concatenate[str, Options], SearchRequest],
) -> Callable[
    [Callable[Concatenate[Caller, Subject, ...], Found]], Callable[Concatenate[Caller, Subject, Options], Found]
]:
    return lambda method: method


# Gives a method the options of a search as its keywords, which type checkers and editors then know. A TypedDict to
# unpack would be a second list of them, and one that is made from the request's fields is nothing to a type checker.
_with_options = _options_of(SearchRequest)


class Change:
    """A document that was sent or withdrawn; `state` and `reason` are as of the last answer of the server."""

    def __init__(self, transport: Transport, facts: messages.Change) -> None:
        self._transport = transport
        self._take(facts)

    def __repr__(self) -> str:
        return f"Change({self.id}, {self.url!r}, {self.state!r})"

    def refresh(self) -> None:
        """Ask what has become of it."""
        params = {"collection": self.collection}
        self._take(self._transport.get(f"{API}/changes/{self.id}", messages.Change, params))

    def wait(self, timeout: float | None = None) -> str:
        """Wait until it was dealt with; return its state: indexed, skipped, failed, removed or superseded.

        Raises Unavailable if it still waits after so many seconds.
        """
        _wait(self, lambda: self.state == "queued", timeout, _CHANGE_POLL_S)
        return self.state

    def _take(self, facts: messages.Change) -> None:
        self.id, self.url, self.collection = facts.id, facts.url, facts.collection
        self.document = facts.document  # its id, as hits have it
        self.state, self.reason = str(facts.state), facts.reason


class Job:
    """A build; `state`, `progress`, `report` and `error` are as of the last answer of the server."""

    def __init__(self, transport: Transport, facts: messages.Job) -> None:
        self._transport = transport
        self._take(facts)

    def __repr__(self) -> str:
        return f"Job({self.id!r}, {self.state!r})"

    @property
    def running(self) -> bool:
        """Whether it has not come to its end, good or bad."""
        return self.state in ("running", "cancelling")

    def refresh(self) -> None:
        """Ask how far it is."""
        self._take(self._transport.get(_job_path(self.id), messages.Job))

    def cancel(self) -> None:
        """Have it stopped; the live index stays as it is."""
        self._take(self._transport.send("DELETE", _job_path(self.id), messages.Job))

    def wait(self, timeout: float | None = None) -> dict[str, Any]:
        """Wait until it has ended; return the report of the build.

        Raises Unavailable if it still runs after so many seconds, and ClientError if it failed or was cancelled.
        """
        _wait(self, lambda: self.running, timeout, _JOB_POLL_S)
        if self.report is None:
            raise ClientError(f"job {self.id} is {self.state}: {self.error or 'the log of the server says why'}")
        return self.report

    def _take(self, facts: messages.Job) -> None:
        self.id, self.state, self.progress = facts.id, str(facts.state), facts.progress
        self.report, self.error = facts.report, facts.error


def _job_path(id: str) -> str:
    return f"{API}/index/{quote(id, safe='')}"


def _wait(work: Change | Job, is_waiting: Callable[[], bool], timeout: float | None, poll: float) -> None:
    end = None if timeout is None else monotonic() + timeout
    pause = threading.Event()  # never set: it can be interrupted, which a sleep cannot everywhere
    while is_waiting():
        if end is not None and monotonic() >= end:
            name = type(work).__name__.lower()
            raise Unavailable(f"{name} {work.id} is still {work.state} after {timeout:g} seconds")
        pause.wait(poll)
        work.refresh()


class WrittenAnswer:
    """The text of an answer, piece by piece; a context manager, whose end also ends the writing.

    `found` is there at once: the search whose hits the citations number. `text` and `sentences` grow while it is read;
    `citations` and `finish_reason` are there once the text has been read to its end.
    """

    def __init__(self, transport: Transport, fields: Mapping[str, Any]) -> None:
        """Ask for it; `fields` are those of the request."""
        self._transport = transport
        self._fields = fields
        self._events = transport.events(f"{API}/answer", fields)
        self.text = ""
        self.sentences: list[Sentence] = []
        self.citations: tuple[Citation, ...] = ()
        self.finish_reason: str | None = None
        try:
            first = next(self._events, None)
            if first is None or first.name not in ("hits", "error"):
                raise ClientError(f"{transport.url} did not stream an answer: is it Pilotlight?")
            self.found = self._read(first, Answer)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop reading; the server then stops writing."""
        self._events.close()

    def ask_further(self, question: str) -> "WrittenAnswer":
        """Ask another question with the same options, and the conversation up to here."""
        exchange = {"question": self._fields["query"], "answer": self.text[:MOST_OF_ANSWER]}
        history = [*self._fields.get("history", ()), exchange][-MOST_EXCHANGES:]
        return WrittenAnswer(self._transport, {**self._fields, "query": question, "history": history})

    def __iter__(self) -> Iterator[str]:
        """Yield the text as it comes; raises ClientError where the server cannot go on."""
        for event in self._events:
            if event.name == "token":
                text = self._read(event, _Written).text
                self.text += text
                yield text
            elif event.name == "support":
                self.sentences.append(self._read(event, Sentence))
            elif event.name == "citations":
                self.citations = self._read(event, _Written).citations
            elif event.name == "done":
                self.finish_reason = self._read(event, _Written).finish_reason
            else:
                self._read(event, dict[str, Any])
        if self.finish_reason is None:
            raise Unavailable(f"{self._transport.url} broke off in the middle of an answer")

    def _read(self, event: Event, kind: type[Found]) -> Found:
        if event.name != "error":
            return self._transport.decode(event.data, kind)
        problem = self._transport.decode(event.data, Problem)
        error = problem.as_error(None, "the answer could not be written to its end")
        error.status = problem.status
        raise error


class _Written(msgspec.Struct):
    """What events of a written answer bring, each a part of it."""

    text: str = ""
    citations: tuple[Citation, ...] = ()
    finish_reason: str | None = None


class _Batch(msgspec.Struct):
    answers: list[msgspec.Raw]


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

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._transport.url!r})"

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def status(self) -> dict[str, Any]:
        """Return the facts of the server: model, engine, generation, counts. Raises Unavailable while it loads."""
        return self._transport.get("/readyz", dict[str, Any])

    @overload
    def search(self, query: SearchRequest) -> Answer: ...
    @overload
    @_with_options
    def search(self, query: str, **options: Any) -> Answer: ...
    def search(self, query: str | SearchRequest, **options: Any) -> Answer:
        """Find the passages that answer a query best; see the documentation of searching for the options.

        An option that is left out is as the server is set.
        """
        return self._transport.send("POST", f"{API}/search", Answer, _fields(query, options))

    def suggest(
        self, typed: str, *, collection: str = DEFAULT_COLLECTION, k: int = SUGGESTED, filter: Filter | None = None
    ) -> list[Suggestion]:
        """Return what somebody who types may be about to ask: titles and headings, likeliest first."""
        params = (("q", typed), ("collection", collection), ("k", str(k)), *parameters_of(filter))
        return self._transport.get(f"{API}/suggest", messages.Suggestions, params).suggestions

    @_with_options
    def search_many(self, queries: Sequence[str], **options: Any) -> list[Answer | ClientError]:
        """Answer many queries, which go through the model together; one that cannot be gives its error instead."""
        outcomes: list[Answer | ClientError] = []
        for start in range(0, len(queries), BATCH):
            part = [_fields(query, options) for query in queries[start : start + BATCH]]
            found = self._transport.send("POST", f"{API}/search/batch", _Batch, {"queries": part}).answers
            if len(found) != len(part):
                raise ClientError(f"{self._transport.url} did not answer every query: is it Pilotlight?")
            for raw in map(bytes, found):
                problem = self._transport.decode(raw, Problem)
                is_answer = problem.status is None
                error = problem.as_error(problem.status, "the server gave no answer")
                outcomes.append(self._transport.decode(raw, Answer) if is_answer else error)
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
        return WrittenAnswer(self._transport, _fields(query, options))

    def feedback(self, search_id: str, feedback: What, hit: str | None = None) -> None:
        """Say what became of a search: of one of its hits that it was opened, good or bad; `none` takes that back.

        Only where the server keeps what people ask: else the `search_id` of answers is None.
        """
        fields = {"search_id": search_id, "feedback": feedback, "hit": hit}
        with self._transport.stream("POST", f"{API}/feedback", fields):
            pass

    def document(self, id: str, collection: str = DEFAULT_COLLECTION) -> Document:
        """Return a document by its id, which hits have in `document`."""
        return self._transport.get(f"{API}/documents/{quote(id, safe='')}", Document, {"collection": collection})

    def documents(self, collection: str = DEFAULT_COLLECTION) -> Iterator[Document]:
        """Yield every document of a collection, from one generation throughout."""
        for line in self._transport.lines(f"{API}/documents", {"collection": collection}):
            yield self._transport.decode(line, Document)

    def push(
        self,
        url: str,
        content: str | bytes,
        *,
        metadata: Mapping[str, str | Sequence[str]] | None = None,
        content_type: str | None = None,
        title: str | None = None,
        language: str | None = None,
        date: str | None = None,
        access: Mapping[str, Sequence[str]] | None = None,
        collection: str = DEFAULT_COLLECTION,
    ) -> Change:
        """Send a document, which replaces what was sent for its address before; needs a key that may write.

        The server has it on its disk when this returns, and finds it within seconds; `Change.wait` waits for that.
        Facts that are given go before those which the document states itself: for bytes, `content_type` has a charset
        too, `date` is YYYY-MM-DD, and `access` has the names of users and groups that may read it.
        """
        body = {"text": content} if isinstance(content, str) else {"base64": base64.b64encode(content).decode("ascii")}
        facts = {"content_type": content_type, "title": title, "language": language, "date": date, "access": access}
        fields = {"url": url, **body, "metadata": dict(metadata or {}), **facts, "collection": collection}
        return Change(self._transport, self._transport.send("POST", f"{API}/documents", messages.Change, fields))

    def withdraw(self, url: str, collection: str = DEFAULT_COLLECTION) -> Change:
        """Take back a document that was sent; raises Rejected where there is none."""
        params = {"url": url, "collection": collection}
        found = self._transport.send("DELETE", f"{API}/documents", messages.Change, params=params)
        return Change(self._transport, found)

    def changes(self, collection: str = DEFAULT_COLLECTION) -> list[Change]:
        """Return what was sent and withdrawn lately, the last one first."""
        found = self._transport.get(f"{API}/changes", messages.PushQueue, {"collection": collection})
        return [Change(self._transport, each) for each in found.changes]

    def embed(self, texts: Sequence[str], role: str = "document") -> npt.NDArray[np.float32]:
        """Embed texts as float32 (n, dim); role is query or document, as a model may treat them differently."""
        vectors: list[npt.NDArray[np.float32]] = []
        for start in range(0, len(texts), BATCH):
            fields = {"input": list(texts[start : start + BATCH]), "role": role, "encoding_format": "base64"}
            found = self._transport.send("POST", "/v1/embeddings", messages.Embeddings, fields)
            vectors += [np.frombuffer(base64.b64decode(str(each.embedding)), "<f4") for each in found.data]
        return np.stack(vectors).astype(np.float32) if vectors else np.empty((0, 0), np.float32)

    def rerank(self, query: str, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Say how well each text answers a query, from 0 to 1; float32 (n,), in the order given.

        Only where the server has a cross-encoder (`rerank_model`).
        """
        scores = np.zeros(len(texts), np.float32)
        for start in range(0, len(texts), BATCH):
            fields = {"query": query, "documents": list(texts[start : start + BATCH])}
            for ranked in self._transport.send("POST", "/v1/rerank", messages.Reranking, fields).results:
                scores[start + ranked.index] = ranked.relevance_score
        return scores

    def index(self, *sources: str, add: bool = False, full: bool = False, collection: str = DEFAULT_COLLECTION) -> Job:
        """Have the index built again, from its own sources unless others are named; needs a key that may write.

        `add` keeps the sources of the index besides those named, `full` reprocesses unchanged pages too.
        """
        fields = {"sources": sources, "add": add, "full": full, "collection": collection}
        return Job(self._transport, self._transport.send("POST", f"{API}/index", messages.Job, fields))

    def job(self, id: str) -> Job:
        """Return a build by its id."""
        return Job(self._transport, self._transport.get(_job_path(id), messages.Job))

    def jobs(self) -> list[Job]:
        """Return the builds that the server remembers, newest first."""
        return [Job(self._transport, each) for each in self._transport.get(f"{API}/index", messages.Jobs).jobs]


def _fields(query: str | SearchRequest, options: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(query, SearchRequest):
        options, query = query.given(), query.query
    fields: dict[str, Any] = {"query": query, **{name: value for name, value in options.items() if value is not None}}
    if isinstance(wanted := fields.get("filter"), Filter):
        fields["filter"] = wanted.as_dict()
    return fields
