"""One page over HTTP: redirects by hand, a deadline, a cap on decoded bytes, a few retries, conditional requests."""

import ssl
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from types import TracebackType
from typing import Self

import httpcore
import httpx

from indexer import encodings
from indexer.config import CrawlLimits
from indexer.crawl.guard import GuardedPool
from indexer.crawl.headers import language_in, retry_after
from indexer.crawl.traffic import Traffic
from indexer.errors import FetchError, NotWanted
from indexer.read.formats import CONTENT_TYPES, LONGEST_LIST
from indexer.records import Page
from indexer.urls import normalise

MAX_REDIRECTS = 5
_ATTEMPTS = 3
_CONNECT = 10.0  # seconds to connect, at most
_BACKOFF = 0.3  # seconds before the second attempt; doubles
_LONGEST_PAUSE = 60.0  # seconds a server may ask for in Retry-After; beyond that it is given up
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_NOT_MODIFIED = 304
_NETWORK_ERRORS = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, ssl.SSLError)


class Unavailable(FetchError):
    """A page that may well be there: no connection, no complete answer in time, HTTP 429 or 5xx."""

    def __init__(self, reason: str, *, status: int | None = None, retry: bool = False, pause: float = 0.0) -> None:
        super().__init__(reason, status=status, retry=retry)
        self.pause = pause  # seconds in which the server wants to be left alone


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a server, redirects followed."""

    url: str  # of the last hop, normalised
    body: bytes  # decoded
    content_type: str
    charset: str | None
    headers: httpx.Headers
    fetched_at: str  # ISO 8601, UTC
    unchanged: bool = False  # HTTP 304: the body is the one that the validators belong to, and is left out

    def as_page(self, source: str, requested: str) -> Page:
        """Return the page of a source that this address led to."""
        return Page(
            url=self.url,
            source=source,
            body=self.body,
            content_type=self.content_type,
            charset=self.charset,
            etag=self.headers.get("ETag"),
            last_modified=self.headers.get("Last-Modified"),
            fetched_at=self.fetched_at,
            requested=requested,
            language=language_in(self.headers),
        )


def allow_all(url: str) -> None:
    """Scope of a fetch that may be redirected anywhere; addresses are still checked."""


def unconditional(url: str) -> Mapping[str, str]:
    """Validators of a page that nothing is known of."""
    return {}


@dataclass(slots=True)
class _Order:
    """One call of `Fetcher.get`, which explains the fields, but for the address: redirects change that."""

    deadline: float  # time.monotonic() at which the page must be there; waiting one's turn moves it
    scope: Callable[[str], None]
    types: Collection[str] | None
    cut_at: int | None
    validators: Callable[[str], Mapping[str, str]]
    lists: Collection[str]
    may_be_missing: bool


class Fetcher:
    """A guarded HTTP client, shared by the fetcher threads of one crawl."""

    def __init__(self, limits: CrawlLimits, traffic: Traffic | None = None) -> None:
        self._limits = limits
        self._traffic = traffic or Traffic()
        self._pool = GuardedPool(allow_private=limits.allow_private, connections=limits.concurrency + 1)
        self._timeouts = dict.fromkeys(("read", "write", "pool"), limits.timeout)
        self._timeouts["connect"] = min(limits.timeout, _CONNECT)
        self._headers = {
            "User-Agent": limits.user_agent,
            "Accept": "text/html,application/xhtml+xml,text/markdown,text/plain;q=0.8,*/*;q=0.1",
            "Accept-Encoding": encodings.ACCEPTED,
            "Connection": "keep-alive",
        }
        self._stopped = threading.Event()
        self._turn = threading.Lock()
        self._next_start = 0.0
        self._barred_until = 0.0
        self.delay = limits.delay  # seconds between requests

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.close()

    def abort(self) -> None:
        """End every fetch that is under way, in whatever thread."""
        self._stopped.set()
        self._pool.backend.abort()

    def get(
        self,
        url: str,
        *,
        scope: Callable[[str], None] = allow_all,
        types: Collection[str] | None = CONTENT_TYPES,
        cut_at: int | None = None,
        validators: Callable[[str], Mapping[str, str]] = unconditional,
        lists: Collection[str] = (),
        may_be_missing: bool = False,
    ) -> Answer:
        """Fetch one address.

        Args:
            url: normalised address.
            scope: called with the address of each redirect; raises NotWanted to refuse it.
            types: media types accepted, or None for any.
            cut_at: keep only so many bytes instead of refusing a longer body.
            validators: called with every address on the way; gives If-None-Match or If-Modified-Since to send with it.
            lists: media types of which a body may be as long as a sitemap, if that is more than a page.
            may_be_missing: whether a 4xx status is as good an answer as any, and counts as one.

        Raises:
            NotWanted: reached, but refused by address, scope or media type.
            Unavailable: it may well be there at another time.
            FetchError: anything else that went wrong, in one line.
        """
        order = _Order(time.monotonic() + self._limits.timeout, scope, types, cut_at, validators, lists, may_be_missing)
        for attempt in range(_ATTEMPTS):
            try:
                return self._follow(url, order)
            except FetchError as error:
                pause = _BACKOFF * 2**attempt
                asked = error.pause if isinstance(error, Unavailable) else 0.0
                if asked:
                    self._hold(asked)
                if not error.retry or attempt == _ATTEMPTS - 1 or asked > _LONGEST_PAUSE:
                    raise
                if not asked and (time.monotonic() + pause >= order.deadline or self._stopped.wait(pause)):
                    raise
        raise AssertionError("unreachable")

    def _follow(self, url: str, order: _Order) -> Answer:
        for _ in range(MAX_REDIRECTS + 1):
            answer = self._once(url, order)
            if isinstance(answer, Answer):
                return answer
            if answer != url:
                order.scope(answer)
            url = answer
        raise FetchError(f"more than {MAX_REDIRECTS} redirects")

    def _once(self, url: str, order: _Order) -> Answer | str:
        """Return the answer, or the address it redirects to."""
        validators = order.validators(url)
        order.deadline += self._wait_for_turn()
        self._pool.backend.set_deadline(order.deadline)
        began = time.monotonic()
        size, failed = 0, True
        try:
            answer = self._ask(url, order, validators)
            size, failed = len(answer.body) if isinstance(answer, Answer) else 0, False
        except FetchError as error:
            failed = not (order.may_be_missing and is_missing(error))
            raise
        finally:
            self._traffic.note(url, seconds=time.monotonic() - began, size=size, failed=failed)
        return answer

    def _ask(self, url: str, order: _Order, validators: Mapping[str, str]) -> Answer | str:
        try:
            with self._pool.get(url, {**self._headers, **validators}, self._timeouts) as response:
                status, headers = response.status, httpx.Headers(response.headers)
                if status == _NOT_MODIFIED and validators:
                    return Answer(url, b"", "", None, headers, _now(), unchanged=True)
                if status in _REDIRECTS:
                    target = normalise(url, headers.get("Location", ""))
                    if target is None:
                        raise NotWanted("redirect to something that is not http or https")
                    return target
                if status == 429 or status >= 500:
                    pause = retry_after(headers)
                    raise Unavailable(f"HTTP {status}", status=status, retry=True, pause=pause or 0.0)
                if not 200 <= status < 300:
                    raise FetchError(f"HTTP {status}", status=status)
                content_type, charset = _content_type(headers.get("Content-Type", ""))
                if order.types is not None and content_type not in order.types:
                    raise NotWanted(f"content type {content_type or 'missing'} is not read")
                return Answer(
                    url=url,
                    body=self._body(response, headers, order, content_type),
                    content_type=content_type,
                    charset=charset,
                    headers=headers,
                    fetched_at=_now(),
                )
        except httpcore.TimeoutException as error:
            raise Unavailable(f"no complete answer within {self._limits.timeout:g} s") from error
        except _NETWORK_ERRORS as error:
            raise Unavailable(_one_line(error), retry=not self._stopped.is_set()) from error
        except encodings.CutShort as error:
            raise Unavailable(str(error)) from error

    def _body(self, response: httpcore.Response, headers: httpx.Headers, order: _Order, content_type: str) -> bytes:
        limit = self._limits.max_bytes if order.cut_at is None else order.cut_at
        if content_type in order.lists:
            limit = max(limit, LONGEST_LIST)
        kept = bytearray()
        for part in encodings.decoded(response.iter_stream(), headers.get("Content-Encoding", "")):
            kept += part
            if len(kept) > limit:
                if order.cut_at is None:
                    raise FetchError(f"larger than {limit:,} bytes")
                del kept[limit:]
                break
            if time.monotonic() > order.deadline:
                raise Unavailable(f"no complete answer within {self._limits.timeout:g} s")
        return bytes(kept)

    def _wait_for_turn(self) -> float:
        """Keep the distance between requests and the pauses asked for; returns the seconds waited."""
        with self._turn:
            now = time.monotonic()
            if now < self._barred_until:
                raise Unavailable(f"the site asks to wait {self._barred_until - now:,.0f} s")
            wait = max(0.0, self._next_start - now)
            self._next_start = now + wait + self.delay
        if wait and self._stopped.wait(wait):
            raise FetchError("the crawl is being stopped")
        return wait

    def _hold(self, seconds: float) -> None:
        """Let no thread ask for anything for so long: they wait, or fail at once if that is too long."""
        with self._turn:
            until = time.monotonic() + seconds
            if seconds > _LONGEST_PAUSE:
                self._barred_until = max(self._barred_until, until)
            else:
                self._next_start = max(self._next_start, until)


def _content_type(header: str) -> tuple[str, str | None]:
    message = Message()
    message["Content-Type"] = header
    charset = message.get_param("charset")
    return header.partition(";")[0].strip().lower(), charset if isinstance(charset, str) else None


def is_missing(error: FetchError) -> bool:
    """Whether the server has answered that there is no such page, or none for us."""
    return error.status is not None and 400 <= error.status < 500


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text[:200] or type(error).__name__
