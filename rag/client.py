"""A client for the HTTP API of a running server. It needs neither a model nor an index."""

import base64
import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any, Self, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from indexer.network.http import proxy_for, tls_context
from rag.errors import ClientError, Refused, Rejected, Unavailable
from rag.messages import AnswerInWords, DocumentListing, IndexChange, Job
from rag.query.request import DEFAULT_COLLECTION, Filter, SearchRequest
from rag.query.results import Answer

T = TypeVar("T")
Work = TypeVar("Work", IndexChange, Job)

API = "/api/v1"
BUSY = (429, 503)
_ERRORS: dict[int, type[ClientError]] = {429: Unavailable, 503: Unavailable, 401: Refused, 403: Refused}
_MAX_DETAIL_CHARS = 300
_POLL_S = 0.2
_CONNECT_S = 10.0


class _Problem(msgspec.Struct):
    """The fields of an RFC 9457 problem that are copied to errors. A missing field is None."""

    detail: str | None = None
    field: str | None = None


class Client:
    """A client for one server. It is a context manager and can be shared between threads.

    Every method raises a `rag.errors.ClientError`: Unavailable if the server cannot be reached or is too busy, Refused
    if the key is missing or lacks the permission, Rejected if the request is invalid.
    """

    def __init__(
        self, url: str, key: str | None = None, *, timeout: float = 75.0, patience: float = 30.0, http_proxy: str = ""
    ) -> None:
        """Create a client, which connects on its first request.

        Args:
            url: address of the server, such as http://127.0.0.1:8642.
            key: a key from `pilotlight keys add`; None if the server requires none.
            timeout: seconds without data after which a request fails. `answer` can need 60 seconds.
            patience: maximum total seconds to wait for a busy server. Only responses with Retry-After are retried.
            http_proxy: address of a proxy, or `environment` to use variables such as HTTP_PROXY; empty for none.
        """
        try:
            address = httpx.URL(url)
        except httpx.InvalidURL:
            address = httpx.URL()
        if address.scheme not in ("http", "https") or not address.host:
            raise ClientError(f"the address of the server must be like http://127.0.0.1:8642, not {url[:80]!r}")
        if key is not None and not (key.isascii() and key.isprintable() and key):
            raise ClientError("a key is printable ASCII: enter it exactly as it was shown")
        self.url = str(address).rstrip("/")
        self._patience = patience
        self._timeout = timeout
        self._closed = threading.Event()
        read_timeout = httpx.Timeout(timeout, connect=min(timeout, _CONNECT_S))
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        proxy, context = proxy_for(self.url, http_proxy), tls_context()
        self._http = httpx.Client(timeout=read_timeout, headers=headers, proxy=proxy, trust_env=False, verify=context)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. Calls that wait in other threads raise ClientError."""
        self._closed.set()
        self._http.close()

    def status(self) -> dict[str, Any]:
        """Return the state of the server, such as its model. Raises Unavailable while the server loads the model."""
        return self._ask("/readyz", dict[str, Any])

    def search(self, query: str | SearchRequest, **options: Any) -> Answer:
        """Find the passages that answer a query best.

        Args:
            query: the query, or a request that contains the query and its options.
            options: fields of `SearchRequest`, such as `k`. The server has defaults for missing fields.
        """
        return self._ask(f"{API}/search", Answer, _fields(query, options))

    def answer(self, query: str, **options: Any) -> AnswerInWords:
        """Answer a question in words. The server needs the setting `answer_url`.

        Args:
            query: the question.
            options: fields of `rag.messages.AnswerRequest`, such as `history`.

        Returns:
            The answer, the hits, and the citations, each with the number of the cited hit.
        """
        return self._ask(f"{API}/answer", AnswerInWords, _fields(query, options))

    def call_tool(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, list[str]]:
        """Call an MCP tool of the server.

        Args:
            name: name of the tool.
            arguments: arguments of the tool. For a search, `shown` may list ids of passages to omit.

        Returns:
            The text of the result, and a list of passage ids, which is empty unless the call is a search with `shown`.

        Raises:
            Rejected: the tool refuses the call, or the server does not offer tools.
        """
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        result = self._ask("/mcp", dict[str, Any], body).get("result") or {}
        text = "".join(block.get("text", "") for block in result.get("content", ()))
        if result.get("isError", not text):
            raise Rejected(text or f"{self.url} does not answer tool calls")
        return text, result.get("_meta", {}).get("shown", [])

    def document(self, id: str, collection: str = DEFAULT_COLLECTION) -> DocumentListing:
        """Return a document with its passages. `id` is the field `document` of a hit. Raises Rejected if unknown."""
        return self._ask(f"{API}/documents/{quote(id, safe='')}", DocumentListing, params={"collection": collection})

    def documents(self, collection: str = DEFAULT_COLLECTION) -> Iterator[DocumentListing]:
        """Yield every document of a collection, unaffected by a rebuild of the index in the meantime."""
        params = {"collection": collection}
        with self._stream("GET", f"{API}/documents", params=params, accept="application/jsonl") as response:
            rest = b""
            for piece in response.iter_bytes():
                *lines, rest = (rest + piece).split(b"\n")
                for line in filter(None, lines):
                    yield self._decode(line, DocumentListing)

    def push(self, url: str, content: str | bytes, **facts: Any) -> IndexChange:
        """Push a document. It replaces an earlier document with the same address. Requires a key with the role write.

        Args:
            url: address of the document. The server does not fetch it.
            content: text or bytes. For bytes, also pass `content_type`, which may name a charset.
            facts: further fields of `rag.messages.Push`, such as `date`. They override the values in the document.

        Returns:
            The change as the server has stored it. Pass it to `wait` to wait until searches find the document.
        """
        body = {"text": content} if isinstance(content, str) else {"base64": base64.b64encode(content).decode("ascii")}
        return self._ask(f"{API}/documents", IndexChange, {"url": url, **body, **facts})

    def withdraw(self, url: str, collection: str = DEFAULT_COLLECTION) -> IndexChange:
        """Withdraw a pushed document, and return a change to pass to `wait`. Requires a key with the role write.

        Raises:
            Rejected: no document was pushed to this address.
        """
        return self._ask(f"{API}/documents", IndexChange, params={"url": url, "collection": collection}, verb="DELETE")

    def change(self, id: int, collection: str = DEFAULT_COLLECTION) -> IndexChange:
        """Return a change by its id. A change is the push or the withdrawal of a document, with its current state.

        Raises:
            Rejected: the change does not exist, or its record has been deleted.
        """
        return self._ask(f"{API}/changes/{id}", IndexChange, params={"collection": collection})

    def index(self, *, full: bool = False, collection: str = DEFAULT_COLLECTION) -> Job:
        """Start a build of the index from its sources, and return the build. Requires a key with the role write.

        With `full`, unchanged pages are reprocessed too. Pass the build to `wait` to wait until it has ended.

        Raises:
            Rejected: another build is running, or the collection has no sources.
        """
        return self._ask(f"{API}/index", Job, {"full": full, "collection": collection})

    def job(self, id: str) -> Job:
        """Return a build by its id."""
        return self._ask(f"{API}/index/{quote(id, safe='')}", Job)

    def cancel(self, id: str) -> Job:
        """Stop a build. The live index does not change."""
        return self._ask(f"{API}/index/{quote(id, safe='')}", Job, verb="DELETE")

    def wait(self, work: Work, timeout: float = math.inf) -> Work:
        """Wait until a change or a build has ended.

        Args:
            work: the change or the build.
            timeout: maximum wait in seconds.

        Returns:
            The change or the build in its final state.

        Raises:
            Unavailable: the timeout has passed.
            ClientError: the build has failed or was cancelled.
        """
        end = monotonic() + timeout
        while work.state in ("queued", "running", "cancelling"):
            if monotonic() >= end:
                name = "job" if isinstance(work, Job) else "change"
                raise Unavailable(f"{name} {work.id} is still {work.state} after {timeout:g} seconds")
            self._closed.wait(_POLL_S)
            work = self.job(work.id) if isinstance(work, Job) else self.change(work.id, work.collection)
        if isinstance(work, Job) and work.report is None:
            raise ClientError(f"job {work.id} is {work.state}: {work.error or 'the log of the server says why'}")
        return work

    def _ask(
        self, path: str, kind: type[T], body: Any = None, *, params: Mapping[str, str] | None = None, verb: str = ""
    ) -> T:
        with self._stream(verb or ("GET" if body is None else "POST"), path, body, params) as response:
            content = response.read()
        return self._decode(content, kind)

    def _decode(self, content: bytes | str, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(content, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ClientError(f"{self.url} sent an invalid response ({error}): is it a Pilotlight server?") from error

    @contextmanager
    def _stream(
        self,
        method: str,
        path: str,
        body: Any = None,
        params: Mapping[str, str] | None = None,
        accept: str = "application/json",
    ) -> Iterator[httpx.Response]:
        """Send a request, and yield the response before its body is read. Retries if the response has Retry-After."""
        headers = {"Accept": accept}
        request = self._http.build_request(method, self.url + path, json=body, params=params, headers=headers)
        try:
            response = self._send_with_retries(request)
            try:
                yield response
            finally:
                response.close()
        except httpx.TimeoutException as error:
            raise Unavailable(f"{self.url} did not respond within {self._timeout:g} seconds") from error
        except (httpx.TransportError, httpx.StreamError) as error:
            raise Unavailable(f"{self.url} cannot be reached: {str(error) or type(error).__name__}") from error

    def _send_with_retries(self, request: httpx.Request) -> httpx.Response:
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
                detail = " ".join((problem.detail or f"{self.url} responded with status {status}").split())
                kind = _ERRORS.get(status, Rejected if 400 <= status < 500 else ClientError)
                raise kind(detail[:_MAX_DETAIL_CHARS], status=status, field=problem.field, retry_after=retry_after)
            patience -= retry_after
            self._closed.wait(retry_after)


def _fields(query: str | SearchRequest, options: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(query, SearchRequest):
        options, query = query.options(), query.query
    fields: dict[str, Any] = {"query": query, **{name: value for name, value in options.items() if value is not None}}
    if isinstance(filter := fields.get("filter"), Filter):
        fields["filter"] = filter.as_dict()
    return fields
