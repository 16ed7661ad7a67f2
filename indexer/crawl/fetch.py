"""One page over HTTP: redirects by hand, a deadline, a cap on decoded bytes, a few retries, conditional requests."""

import ipaddress
import re
import ssl
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from urllib.parse import unquote, urlsplit

import httpcore
import httpx

from indexer.config import CrawlLimits
from indexer.crawl.guard import GuardedBackend, is_public, resolve
from indexer.crawl.http_response import (
    HEAD,
    HttpResponse,
    PageUnavailable,
    actual_type,
    media_type,
    names_of,
    page_headers,
    retry_after,
)
from indexer.errors import FetchError, NotWanted
from indexer.network import content_codings
from indexer.network.credentials import Session
from indexer.network.proxies import proxy_for, tls_context, unused_proxy
from indexer.network.urls import normalise, on_site, origin, without_session
from indexer.read.formats import CONTENT_TYPES, LONGEST_LIST

MAX_REDIRECTS = 5
MAX_PAUSE = 60.0  # seconds that a server may ask for in Retry-After; beyond that it is given up
_ATTEMPTS = 3
_CONNECT = 10.0  # seconds to connect, at most
_MAX_LOST = 7_200.0  # seconds of requests that failed, all together, after which no more are sent
_BACKOFF = 0.3  # seconds before the second attempt; doubles
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_NOT_MODIFIED = 304
_TEXT = re.compile(r"\s*(?:text/|[\w./-]+[+/](?:xml|json)\b)", re.IGNORECASE)  # media types of which none is packed


@dataclass(frozen=True, slots=True)
class PageRequest:
    """How one address is fetched."""

    scope: Callable[[str], object] = str  # called with each redirect; raises NotWanted to refuse it
    types: Collection[str] | None = CONTENT_TYPES  # accepted, by header, name and first bytes; None: any, by header
    cut_at: int | None = None  # bytes kept of a longer body, which is refused otherwise
    validators: Callable[[str], Mapping[str, str]] = lambda _: {}  # headers for each hop, such as If-None-Match
    lists: Collection[str] | None = ()  # types that may be as long as a sitemap; None: any
    headers: Mapping[str, str] = field(default_factory=dict)  # in addition to the usual ones, or in their place
    as_stranger: bool = False  # without the credentials of the origin


ANY_PAGE = PageRequest()


class Fetcher:
    """A guarded HTTP client, shared by the fetcher threads of one crawl."""

    def __init__(self, limits: CrawlLimits, sessions: Mapping[str, Session] | None = None) -> None:
        self._limits = limits
        self._sessions = sessions or {}  # by origin
        self._backend = GuardedBackend(allow_private=limits.allow_private)
        self._proxy_backend = GuardedBackend(allow_private=True, deadline=self._backend.deadline)
        self._tls, self._pools_lock = tls_context(), threading.Lock()
        self._pool_of_proxy: dict[str | None, httpcore.ConnectionPool] = {}
        self._timeouts = dict.fromkeys(("read", "write", "pool"), limits.timeout)
        self._timeouts["connect"] = min(limits.timeout, _CONNECT)
        self._headers = {
            "User-Agent": limits.user_agent,
            "Accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.1",  # naming Markdown would be given it
            "Accept-Encoding": content_codings.ACCEPTED,
            "Connection": "keep-alive",
        }
        self.turns = Turns(limits.delay)
        self.lost = 0.0  # seconds of requests that failed, of all threads

    def abort(self) -> None:
        """End every fetch that is under way, in whatever thread."""
        self.turns.stopped.set()
        self._backend.abort()
        self._proxy_backend.abort()

    def close(self) -> None:
        """Close the connections."""
        for pool in self._pool_of_proxy.values():
            pool.close()

    def follow(self, site: str) -> None:
        """Go from a site to another host: a public one has no say over private addresses, even if all are allowed."""
        parts = urlsplit(site)
        if self._backend.allow_private is True:
            with suppress(OSError, UnicodeError):
                found = resolve(parts.hostname or "", parts.port or 443, allow_private=True)
                self._backend.allow_private = not all(is_public(ipaddress.ip_address(each)) for each in found)

    def session(self, url: str) -> Session | None:
        """Return the session with the origin of an address, or None."""
        return self._sessions.get(origin(url))

    def get(self, url: str, request: PageRequest = ANY_PAGE) -> HttpResponse:
        """Fetch a normalised address.

        Raises:
            NotWanted: reached, but refused by address, scope or media type.
            Unavailable: it may be there at another time.
            FetchError: anything else that went wrong, in one line.
            CredentialsError: a secret for its origin cannot be read.
        """
        began = time.monotonic()
        self._backend.deadline.at = began + self._limits.timeout
        if self.lost > _MAX_LOST:
            raise PageUnavailable(f"the site has let requests wait for {_MAX_LOST:,.0f} seconds in all")
        for number in range(_ATTEMPTS):
            try:
                return self._follow_redirects(url, request)
            except FetchError as error:
                backoff = _BACKOFF * 2**number
                pause = error.pause if isinstance(error, PageUnavailable) else 0.0
                if pause:
                    self.turns.hold(pause)
                is_last = not error.retry or number == _ATTEMPTS - 1 or pause > MAX_PAUSE
                is_late = time.monotonic() + backoff >= self._backend.deadline.at
                if is_last or (not pause and (is_late or self.turns.stopped.wait(backoff))):
                    self.lost += time.monotonic() - began if isinstance(error, PageUnavailable) else 0.0
                    raise
        raise AssertionError("unreachable")

    def _follow_redirects(self, url: str, request: PageRequest) -> HttpResponse:
        """Send a request for each hop, each in its turn."""
        for _ in range(MAX_REDIRECTS + 1):
            self._backend.deadline.at += self.turns.wait()  # waiting takes no time of the page
            answer = self._send(url, request)
            if isinstance(answer, HttpResponse):
                return replace(answer, url=without_session(answer.url))
            if answer != url:
                request.scope(answer)
            url = answer
        raise FetchError(f"more than {MAX_REDIRECTS} redirects")

    def _send(self, url: str, request: PageRequest) -> HttpResponse | str:
        """Send one request; return its answer, or the address that it redirects to."""
        session = None if request.as_stranger else self.session(url)
        validators = request.validators(url)
        sent = {**self._headers, **request.headers, **validators, **(session.headers(url) if session else {})}
        with self._connected(url, sent, is_secret=session is not None) as response:
            status, headers = response.status, httpx.Headers(response.headers)
            redact: Callable[[bytes], bytes] = bytes
            if session is not None:
                session.take_cookies(url, headers.get_list("Set-Cookie"))
                redact = session.redact
            fetched_at = datetime.now(UTC).isoformat(timespec="seconds")
            if status == _NOT_MODIFIED and validators:
                return HttpResponse(url, b"", "", None, page_headers(headers, redact), fetched_at, is_unchanged=True)
            if status in _REDIRECTS:
                location = redact(headers.get("Location", "").encode()).decode("utf-8", "replace")
                target = normalise(url, location, keep_session=True)
                if target is None:
                    raise NotWanted("redirect to something that is not http or https")
                return on_site(target, origin(url))
            if status == 429 or status >= 500:
                raise PageUnavailable(f"HTTP {status}", status=status, retry=True, pause=retry_after(headers) or 0.0)
            if not 200 <= status < 300:
                raise FetchError(f"HTTP {status}", status=status)
            content_type, body = self._typed_body(response, headers, url, request)
            charset = media_type(headers.get("Content-Type", ""))[1]
            return HttpResponse(url, redact(body), content_type, charset, page_headers(headers, redact), fetched_at)

    @contextmanager
    def _connected(self, url: str, headers: Mapping[str, str], *, is_secret: bool) -> Iterator[httpcore.Response]:
        """Send a GET request and yield its answer; raises FetchError."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https"):
            raise NotWanted(f"{parts.scheme}: is not fetched, only http and https are")
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        # in pieces, as httpcore itself leaves out what follows a semicolon
        address = httpcore.URL(scheme=parts.scheme, host=parts.hostname or "", port=parts.port, target=target)
        sent = [("Host", parts.netloc), *headers.items()]
        pool, hint = self._pool_for(url), unused_proxy(url, self._limits.http_proxy)
        try:
            with pool.stream("GET", address, headers=sent, extensions={"timeout": self._timeouts}) as response:
                yield response
        except httpcore.TimeoutException as error:
            hint = hint if isinstance(error, httpcore.ConnectTimeout) else ""
            raise PageUnavailable(f"no complete answer within {self._limits.timeout:g} s{hint}") from error
        except httpcore.ProxyError as error:
            raise PageUnavailable(f"the proxy refuses: {' '.join(str(error).split())[:200]}") from error
        except (httpcore.ProtocolError, httpcore.NetworkError, ssl.SSLError) as error:
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            reason += hint if isinstance(error, httpcore.ConnectError) else ""
            if is_secret and isinstance(error, httpcore.ProtocolError):  # which may quote headers
                reason = "an answer that is no HTTP"
            raise PageUnavailable(reason, retry=not self.turns.stopped.is_set()) from error
        except content_codings.CutShort as error:
            raise PageUnavailable(str(error)) from error

    def _pool_for(self, url: str) -> httpcore.ConnectionPool:
        """Return the connections for an address. Raises NotWanted if a proxy would have to fetch a private one."""
        proxy, parts = proxy_for(url, self._limits.http_proxy), urlsplit(url)
        allowed = self._backend.allow_private
        if proxy is not None and allowed is not True:
            try:
                resolve(parts.hostname or "", parts.port or 443, allow_private=allowed)
            except (OSError, UnicodeError) as error:
                unknown = f"only the proxy can resolve {parts.hostname}, which may be private"
                raise NotWanted(f"{unknown}; allow it with --allow-private") from error
        with self._pools_lock:
            if proxy not in self._pool_of_proxy:
                self._pool_of_proxy[proxy] = self._make_pool(proxy)
            return self._pool_of_proxy[proxy]

    def _make_pool(self, proxy: str | None) -> httpcore.ConnectionPool:
        most, via, backend = self._limits.concurrency + 1, None, self._backend
        if proxy is not None:
            parts = urlsplit(proxy)
            if parts.scheme not in ("http", "https"):
                raise FetchError(f"a proxy with {parts.scheme}: is not supported, only http and https are")
            login = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
            place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
            via, backend = httpcore.Proxy(place, auth=login), self._proxy_backend
        return httpcore.ConnectionPool(
            self._tls, via, max_connections=most, keepalive_expiry=15.0, network_backend=backend
        )

    def _typed_body(
        self, response: httpcore.Response, headers: httpx.Headers, url: str, request: PageRequest
    ) -> tuple[str, bytes]:
        """Return the media type of an answer and its decoded body, or only its first bytes if it may be cut."""
        stated = headers.get("Content-Type", "")
        declared, _ = media_type(stated)
        limit = self._limits.max_bytes if request.cut_at is None else request.cut_at
        most = max(limit, LONGEST_LIST) if request.lists is None or declared in request.lists else limit
        parts = content_codings.decoded(response.iter_stream(), headers.get("Content-Encoding", ""))
        if _TEXT.match(stated):
            parts = content_codings.without_gzip(
                parts
            )  # packed by an application without the server's knowledge, or twice
        names = names_of(url, headers.get("Content-Disposition", ""))
        body, is_wanted = bytearray(), request.types is None or declared in request.types
        for part in parts:
            body += part
            if len(body) > most:
                if request.cut_at is None:
                    raise FetchError(f"larger than {most:,} bytes")
                del body[most:]
                break
            if not is_wanted and len(body) >= HEAD:
                is_wanted = actual_type(declared, names, bytes(body[:HEAD])) in CONTENT_TYPES
                if not is_wanted:
                    break
            self._backend.remaining()
        if request.types is None:
            return declared, bytes(body)
        content_type = actual_type(declared, names, bytes(body))
        if content_type not in request.types:
            raise NotWanted(f"content type {declared or 'missing'} is not read")
        if content_type not in (request.lists or ()) and len(body) > limit:
            raise FetchError(f"larger than {limit:,} bytes")
        return content_type, bytes(body)


class Turns:
    """Turns of the threads that fetch from one site: the delay between requests, and the pauses that it asks for."""

    def __init__(self, delay: float) -> None:
        self.delay = delay  # seconds between requests
        self.stopped = threading.Event()  # wakes threads that wait
        self._lock = threading.Lock()
        self._next_start = self._barred_until = 0.0

    def wait(self) -> float:
        """Wait for one's turn; return the seconds waited. Raises FetchError, Unavailable if that would be too long."""
        with self._lock:
            now = time.monotonic()
            if now < self._barred_until:
                raise PageUnavailable(f"the site asks to wait {self._barred_until - now:,.0f} s")
            wait = max(0.0, self._next_start - now)
            self._next_start = now + wait + self.delay
        if wait and self.stopped.wait(wait):
            raise FetchError("the crawl is being stopped")
        return wait

    def hold(self, seconds: float) -> None:
        """Make all threads wait for so long, or fail at once if it is longer than `MAX_PAUSE`."""
        with self._lock:
            until = time.monotonic() + seconds
            if seconds > MAX_PAUSE:
                self._barred_until = max(self._barred_until, until)
            else:
                self._next_start = max(self._next_start, until)
