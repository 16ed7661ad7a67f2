"""A client of a running server: its API, typed by `rag.messages`. Nothing here loads a model or an index."""

import base64
import json
import math
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any, Self, TypeVar
from urllib.parse import quote

import httpx
import msgspec
import numpy as np
import numpy.typing as npt

from rag import messages
from rag.errors import ClientError, Refused, Rejected, Unavailable
from rag.events import MEDIA_TYPE as EVENTS
from rag.events import Event, EventDecoder
from rag.insights.store import What
from rag.messages import Change, Citation, Document, Job, Sentence
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

T = TypeVar("T")
Work = TypeVar("Work", Change, Job)
Params = Mapping[str, str] | tuple[tuple[str, str], ...]  # of an address; as pairs, a name may come twice

API = "/api/v1"
BATCH = 32  # searches, or texts, that go into one request
BUSY = (429, 503)
_MOST_CHARACTERS = 300  # of what a server says, in an error
_POLL_S = 0.2
_UNDER_WAY = ("queued", "running", "cancelling")


class _Problem(msgspec.Struct):
    """The fields of a problem that errors show; of an answer that is none, all are missing."""

    detail: str | None = None
    field: str | None = None
    status: int | None = None

    def as_error(self, status: int | None, otherwise: str, retry_after: float | None = None) -> ClientError:
        """Return the error that a status stands for, in the problem's words or else others."""
        kind = ClientError
        if status in BUSY:
            kind = Unavailable
        elif status in (401, 403):
            kind = Refused
        elif status is not None and 400 <= status < 500:
            kind = Rejected
        detail = otherwise if self.detail is None else " ".join(self.detail.split())[:_MOST_CHARACTERS]
        return kind(detail, status=status, field=self.field, retry_after=retry_after)


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
        try:
            parts = httpx.URL(url)
        except httpx.InvalidURL:
            parts = httpx.URL()
        if parts.scheme not in ("http", "https") or not parts.host:
            raise ClientError(f"the address of the server must be like http://127.0.0.1:8642, not {url[:80]!r}")
        if key is not None and not (key.isascii() and key.isprintable() and key):
            raise ClientError("a key is printable ASCII: enter it exactly as it was shown")
        self.url = str(parts).rstrip("/")
        self._patience = patience
        self._timeout = timeout
        self._closed = threading.Event()
        self._http = httpx.Client(timeout=timeout, headers={"Authorization": f"Bearer {key}"} if key else {})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; what waits gives up."""
        self._closed.set()
        self._http.close()

    def status(self) -> dict[str, Any]:
        """Return the facts of the server: model, engine, generation, counts. Raises Unavailable while it loads."""
        return self._ask("/readyz", dict[str, Any])

    def search(self, query: str | SearchRequest, **options: Any) -> Answer:
        """Find the passages that answer a query best; the options are the fields of `SearchRequest`.

        An option that is left out is as the server is set.
        """
        return self._ask(f"{API}/search", Answer, _fields(query, options))

    def suggest(
        self, typed: str, *, collection: str = DEFAULT_COLLECTION, k: int = SUGGESTED, filter: Filter | None = None
    ) -> list[Suggestion]:
        """Return titles and headings that go on as was typed, likeliest first."""
        params = (("q", typed), ("collection", collection), ("k", str(k)), *parameters_of(filter))
        return self._ask(f"{API}/suggest", messages.Suggestions, params=params).suggestions

    def search_many(self, queries: Sequence[str], **options: Any) -> list[Answer | ClientError]:
        """Answer many queries, which go through the model together; one that cannot be gives its error instead."""
        outcomes: list[Answer | ClientError] = []
        for start in range(0, len(queries), BATCH):
            part = [_fields(query, options) for query in queries[start : start + BATCH]]
            found = self._ask(f"{API}/search/batch", _Batch, {"queries": part}).answers
            if len(found) != len(part):
                raise ClientError(f"{self.url} did not answer every query: is it Pilotlight?")
            for raw in map(bytes, found):
                problem = self._decode(raw, _Problem)
                error = problem.as_error(problem.status, "the server gave no answer")
                outcomes.append(self._decode(raw, Answer) if problem.status is None else error)
        return outcomes

    def pages(self, query: str, **options: Any) -> Iterator[Answer]:
        """Yield one answer after another, of k hits each, for as long as there are more."""
        offset: int | None = options.get("offset", 0)
        while offset is not None:
            answer = self.search(query, **{**options, "offset": offset})
            yield answer
            offset = answer.next

    def answer(self, query: str, **options: Any) -> "WrittenAnswer":
        """Have an answer written from the hits; iterate over its text. Only where the server is set up for it."""
        return WrittenAnswer(self, _fields(query, options))

    def feedback(self, search_id: str, feedback: What, hit: str | None = None) -> None:
        """Say what became of a search: of one of its hits that it was opened, good or bad; `none` takes that back.

        Only where the server keeps what people ask: else the `search_id` of answers is None.
        """
        with self._stream("POST", f"{API}/feedback", {"search_id": search_id, "feedback": feedback, "hit": hit}):
            pass

    def document(self, id: str, collection: str = DEFAULT_COLLECTION) -> Document:
        """Return a document by its id, which hits have in `document`."""
        return self._ask(f"{API}/documents/{quote(id, safe='')}", Document, params={"collection": collection})

    def documents(self, collection: str = DEFAULT_COLLECTION) -> Iterator[Document]:
        """Yield every document of a collection, from one generation throughout."""
        params = {"collection": collection}
        with self._stream("GET", f"{API}/documents", params=params, accept="application/jsonl") as response:
            rest = b""
            for part in response.iter_bytes():
                *lines, rest = (rest + part).split(b"\n")
                for line in filter(None, lines):
                    yield self._decode(line, Document)

    def push(self, url: str, content: str | bytes, **facts: Any) -> Change:
        """Send a document, which replaces what was sent for its address before; needs a key that may write.

        The server has it on its disk when this returns, and finds it within seconds; `wait` waits for that. The facts
        are further fields of `rag.messages.Push`, and go before those which the document states itself: for bytes,
        `content_type` has a charset too, and `date` is YYYY-MM-DD.
        """
        body = {"text": content} if isinstance(content, str) else {"base64": base64.b64encode(content).decode("ascii")}
        return self._ask(f"{API}/documents", Change, {"url": url, **body, **facts})

    def withdraw(self, url: str, collection: str = DEFAULT_COLLECTION) -> Change:
        """Take back a document that was sent; raises Rejected where there is none."""
        return self._ask(f"{API}/documents", Change, params={"url": url, "collection": collection}, verb="DELETE")

    def change(self, id: int, collection: str = DEFAULT_COLLECTION) -> Change:
        """Return what has become of a document that was sent or withdrawn."""
        return self._ask(f"{API}/changes/{id}", Change, params={"collection": collection})

    def changes(self, collection: str = DEFAULT_COLLECTION) -> list[Change]:
        """Return what was sent and withdrawn lately, the last one first."""
        return self._ask(f"{API}/changes", messages.PushQueue, params={"collection": collection}).changes

    def embed(self, texts: Sequence[str], role: str = "document") -> npt.NDArray[np.float32]:
        """Embed texts as float32 (n, dim); role is query or document, as a model may treat them differently."""
        vectors: list[npt.NDArray[np.float32]] = []
        for start in range(0, len(texts), BATCH):
            fields = {"input": list(texts[start : start + BATCH]), "role": role, "encoding_format": "base64"}
            found = self._ask("/v1/embeddings", messages.Embeddings, fields)
            vectors += [np.frombuffer(base64.b64decode(str(each.embedding)), "<f4") for each in found.data]
        return np.stack(vectors).astype(np.float32) if vectors else np.empty((0, 0), np.float32)

    def rerank(self, query: str, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Say how well each text answers a query, from 0 to 1; float32 (n,), in the order given.

        Only where the server has a cross-encoder (`rerank_model`).
        """
        scores = np.zeros(len(texts), np.float32)
        for start in range(0, len(texts), BATCH):
            fields = {"query": query, "documents": list(texts[start : start + BATCH])}
            for ranked in self._ask("/v1/rerank", messages.Reranking, fields).results:
                scores[start + ranked.index] = ranked.relevance_score
        return scores

    def index(self, *, full: bool = False, collection: str = DEFAULT_COLLECTION) -> Job:
        """Have the index built again, unchanged pages too with `full`; needs a key that may write."""
        return self._ask(f"{API}/index", Job, {"full": full, "collection": collection})

    def job(self, id: str) -> Job:
        """Return a build by its id."""
        return self._ask(f"{API}/index/{quote(id, safe='')}", Job)

    def jobs(self) -> list[Job]:
        """Return the builds that the server remembers, newest first."""
        return self._ask(f"{API}/index", messages.Jobs).jobs

    def cancel(self, id: str) -> Job:
        """Have a build stopped; the live index stays as it is."""
        return self._ask(f"{API}/index/{quote(id, safe='')}", Job, verb="DELETE")

    def wait(self, work: Work, timeout: float = math.inf) -> Work:
        """Wait until a change was dealt with, or a build has ended; return it as it is then.

        Raises Unavailable if it still waits after so many seconds, and ClientError for a build that did not succeed.
        """
        end = monotonic() + timeout
        while work.state in _UNDER_WAY:
            if monotonic() >= end:
                name = type(work).__name__.lower()
                raise Unavailable(f"{name} {work.id} is still {work.state} after {timeout:g} seconds")
            self._closed.wait(_POLL_S)
            work = self.job(work.id) if isinstance(work, Job) else self.change(work.id, work.collection)
        if isinstance(work, Job) and work.report is None:
            raise ClientError(f"job {work.id} is {work.state}: {work.error or 'the log of the server says why'}")
        return work

    def _ask(self, path: str, kind: type[T], body: Any = None, *, params: Params | None = None, verb: str = "") -> T:
        with self._stream(verb or ("GET" if body is None else "POST"), path, body, params) as response:
            content = response.read()
        return self._decode(content, kind)

    def _decode(self, content: bytes | str, kind: type[T]) -> T:
        """Decode JSON that the server has sent."""
        try:
            return msgspec.json.decode(content, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ClientError(f"the answer of {self.url} is not as expected ({error}): is it Pilotlight?") from error

    @contextmanager
    def _stream(
        self, method: str, path: str, body: Any = None, params: Params | None = None, accept: str = "application/json"
    ) -> Iterator[httpx.Response]:
        """Send a request, again where the server is busy and says for how long; give the open answer."""
        headers = {"Accept": accept} | ({} if body is None else {"Content-Type": "application/json"})
        content = None if body is None else json.dumps(body)
        request = self._http.build_request(method, self.url + path, content=content, params=params, headers=headers)
        try:
            response = self._patiently(request)
            try:
                yield response
            finally:
                response.close()
        except httpx.TimeoutException as error:
            raise Unavailable(f"{self.url} gave no answer within {self._timeout:g} seconds") from error
        except (httpx.TransportError, httpx.StreamError) as error:
            raise Unavailable(f"{self.url} cannot be reached: {str(error) or type(error).__name__}") from error

    def _patiently(self, request: httpx.Request) -> httpx.Response:
        patience = self._patience
        while True:
            if self._closed.is_set():
                raise ClientError("this client has been closed")
            response = self._http.send(request, stream=True)
            status, problem = response.status_code, _Problem()
            if status < 300:
                return response
            try:
                if response.headers.get("Content-Type", "").startswith("application/problem+json"):
                    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                        problem = msgspec.json.decode(response.read(), type=_Problem)
            finally:
                response.close()
            seconds = response.headers.get("Retry-After", "")
            retry_after = float(seconds[:10]) if seconds.isdecimal() else None
            if status not in BUSY or retry_after is None or retry_after > patience:
                raise problem.as_error(status, f"{self.url} answered with status {status}", retry_after)
            patience -= retry_after
            self._closed.wait(retry_after)

    def _events(self, path: str, body: Any) -> Generator[Event, None, None]:
        """Yield server-sent events as they come."""
        with self._stream("POST", path, body, accept=EVENTS) as response:
            decoder = EventDecoder()
            try:
                for text in response.iter_text():
                    yield from decoder.feed(text)
            except ValueError as error:
                raise ClientError(f"{self.url} did not stream events: {error}") from error


class WrittenAnswer:
    """The text of an answer, piece by piece; a context manager, whose end also ends the writing.

    `found` is there at once: the search whose hits the citations number. `text` and `sentences` grow while it is read;
    `citations` and `finish_reason` are there once the text has been read to its end.
    """

    def __init__(self, client: Client, fields: Mapping[str, Any]) -> None:
        """Ask for it; `fields` are those of the request."""
        self._client = client
        self._fields = fields
        self._events = client._events(f"{API}/answer", fields)
        self.text = ""
        self.sentences: list[Sentence] = []
        self.citations: tuple[Citation, ...] = ()
        self.finish_reason: str | None = None
        try:
            first = next(self._events, None)
            if first is None or first.name not in ("hits", "error"):
                raise ClientError(f"{client.url} did not stream an answer: is it Pilotlight?")
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
        return WrittenAnswer(self._client, {**self._fields, "query": question, "history": history})

    def __iter__(self) -> Iterator[str]:
        """Yield the text as it comes; raises ClientError where the server cannot go on."""
        for event in self._events:
            if event.name == "support":
                self.sentences.append(self._read(event, Sentence))
                continue
            piece = self._read(event, _Written)
            self.text += piece.text
            self.citations = piece.citations or self.citations
            self.finish_reason = piece.finish_reason or self.finish_reason
            if piece.text:
                yield piece.text
        if self.finish_reason is None:
            raise Unavailable(f"{self._client.url} broke off in the middle of an answer")

    def _read(self, event: Event, kind: type[T]) -> T:
        if event.name != "error":
            return self._client._decode(event.data, kind)
        problem = self._client._decode(event.data, _Problem)
        error = problem.as_error(None, "the answer could not be written to its end")
        error.status = problem.status
        raise error


def _fields(query: str | SearchRequest, options: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(query, SearchRequest):
        options, query = query.given(), query.query
    fields: dict[str, Any] = {"query": query, **{name: value for name, value in options.items() if value is not None}}
    if isinstance(wanted := fields.get("filter"), Filter):
        fields["filter"] = wanted.as_dict()
    return fields
