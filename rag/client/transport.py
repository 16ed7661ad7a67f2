"""HTTP as `rag.Client` speaks it: keys, waiting where the server asks for it, and problems turned into errors."""

import json
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import httpx
import msgspec

from rag.errors import ClientError, Refused, Rejected, Unavailable
from rag.events import MEDIA_TYPE as EVENTS
from rag.events import Event, EventDecoder

T = TypeVar("T")
Params = Mapping[str, str] | tuple[tuple[str, str], ...]  # of an address; as pairs, a name may come twice

BUSY = (429, 503)
_MOST_CHARACTERS = 300  # of what a server says, in an error


class Problem(msgspec.Struct):
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


class Transport:
    """One server. Safe to use from many threads."""

    def __init__(self, url: str, key: str | None, timeout: float, patience: float) -> None:
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

    def close(self) -> None:
        """Close connections; what waits to try again gives up."""
        self._closed.set()
        self._http.close()

    def get(self, path: str, kind: type[T], params: Params | None = None) -> T:
        """Return the answer to a GET, as `send` does."""
        return self.send("GET", path, kind, params=params)

    def send(self, method: str, path: str, kind: type[T], body: Any = None, params: Params | None = None) -> T:
        """Return the answer to a request, decoded; raises ClientError as `stream` and `decode` do."""
        with self.stream(method, path, body, params) as response:
            content = response.read()
        return self.decode(content, kind)

    def decode(self, content: bytes | str, kind: type[T]) -> T:
        """Decode JSON that the server has sent; raises ClientError where it is something else."""
        try:
            return msgspec.json.decode(content, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ClientError(f"the answer of {self.url} is not as expected ({error}): is it Pilotlight?") from error

    @contextmanager
    def stream(
        self, method: str, path: str, body: Any = None, params: Params | None = None, accept: str = "application/json"
    ) -> Iterator[httpx.Response]:
        """Send a request, again where the server is busy and says for how long; give the open answer.

        Raises:
            Unavailable: the server cannot be reached, breaks off, or is busy for longer than is to be waited.
            Refused: the key does not open this.
            Rejected: the request cannot be met as it stands.
            ClientError: anything else that is no answer.
        """
        headers = {"Accept": accept} | ({} if body is None else {"Content-Type": "application/json"})
        content = None if body is None else json.dumps(body)
        request = self._http.build_request(method, self.url + path, content=content, params=params, headers=headers)
        try:
            response = self._send(request)
            try:
                yield response
            finally:
                response.close()
        except httpx.TimeoutException as error:
            raise Unavailable(f"{self.url} gave no answer within {self._timeout:g} seconds") from error
        except (httpx.TransportError, httpx.StreamError) as error:
            raise Unavailable(f"{self.url} cannot be reached: {str(error) or type(error).__name__}") from error

    def _send(self, request: httpx.Request) -> httpx.Response:
        patience = self._patience
        while True:
            if self._closed.is_set():
                raise ClientError("this client has been closed")
            response = self._http.send(request, stream=True)
            status, problem = response.status_code, Problem()
            if status < 300:
                return response
            try:
                if response.headers.get("Content-Type", "").startswith("application/problem+json"):
                    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                        problem = msgspec.json.decode(response.read(), type=Problem)
            finally:
                response.close()
            seconds = response.headers.get("Retry-After", "")
            retry_after = float(seconds[:10]) if seconds.isdecimal() else None
            if status not in BUSY or retry_after is None or retry_after > patience:
                raise problem.as_error(status, f"{self.url} answered with status {status}", retry_after)
            patience -= retry_after
            self._closed.wait(retry_after)

    def lines(self, path: str, params: Params | None = None) -> Generator[bytes, None, None]:
        """Yield the lines of an answer as they come; raises ClientError as `stream` does."""
        with self.stream("GET", path, params=params, accept="application/jsonl") as response:
            rest = b""
            for part in response.iter_bytes():
                *lines, rest = (rest + part).split(b"\n")
                yield from filter(None, lines)
            if rest:
                yield rest

    def events(self, path: str, body: Any) -> Generator[Event, None, None]:
        """Yield server-sent events as they come; raises ClientError as `stream` does."""
        with self.stream("POST", path, body, accept=EVENTS) as response:
            decoder = EventDecoder()
            try:
                for text in response.iter_text():
                    yield from decoder.feed(text)
            except ValueError as error:
                raise ClientError(f"{self.url} did not stream events: {error}") from error
