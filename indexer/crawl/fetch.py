"""Fetch pages over HTTP, with redirects, retries, a deadline, a size limit and conditional requests."""

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
from indexer.crawl.guard import GuardedBackend, is_public, resolve_checked
from indexer.crawl.http_response import (
    HEAD_LENGTH,
    HttpResponse,
    PageUnavailable,
    detect_media_type,
    file_names,
    page_headers,
    parse_content_type,
    retry_after,
)
from indexer.errors import FetchError, NotWanted
from indexer.network.credentials import Session
from indexer.network.http import ACCEPT_ENCODING, CutShort, decode_body, proxy_for, proxy_hint, tls_context
from indexer.network.urls import normalise, on_site, origin, without_session
from indexer.read.formats import CONTENT_TYPES, MAX_SITEMAP_LENGTH

MAX_REDIRECTS = 5
MAX_PAUSE_SECONDS = 60.0
_ATTEMPTS = 3
_CONNECT_TIMEOUT = 10.0
_MAX_FAILED_SECONDS = 7_200.0
_BACKOFF = 0.3
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_NOT_MODIFIED, _PROXY_LOGIN_REQUIRED = 304, 407
_TEXT_TYPE = re.compile(r"\s*(?:text/|[\w./-]+[+/](?:xml|json)\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Options of one request.

    `check_redirect` raises NotWanted to refuse the target of a redirect. `validators` returns conditional headers for
    an address, such as If-None-Match. A body over `max_length` bytes is truncated. If `max_length` is None, a body over
    the crawl's limit is an error. Only media types in `types` are accepted, or all if `types` is None. Media types in
    `long_types` have the higher size limit of sitemaps, or all if `long_types` is None. If `is_anonymous` is true, the
    headers of the session are not sent.
    """

    check_redirect: Callable[[str], object] = str
    types: Collection[str] | None = CONTENT_TYPES
    max_length: int | None = None
    validators: Callable[[str], Mapping[str, str]] = lambda _: {}
    long_types: Collection[str] | None = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    is_anonymous: bool = False


ANY_PAGE = PageRequest()


class Fetcher:
    """HTTP client of one crawl, shared by its threads. Connects to private addresses only if the limits permit it."""

    def __init__(self, limits: CrawlLimits, sessions: Mapping[str, Session] | None = None) -> None:
        self._limits = limits
        self._sessions = sessions or {}
        self._backend = GuardedBackend(allow_private=limits.allow_private)
        self._proxy_backend = GuardedBackend(allow_private=True, deadline=self._backend.deadline)
        self._tls, self._pools_lock = tls_context(), threading.Lock()
        self._pool_of_proxy: dict[str | None, httpcore.ConnectionPool] = {}
        self._timeouts = dict.fromkeys(("read", "write", "pool"), limits.timeout)
        self._timeouts["connect"] = min(limits.timeout, _CONNECT_TIMEOUT)
        self._headers = {
            "User-Agent": limits.user_agent,
            "Accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.1",  # no Markdown: servers should send HTML
            "Accept-Encoding": ACCEPT_ENCODING,
            "Connection": "keep-alive",
        }
        self.pacer = RequestPacer(limits.delay)
        self.failed_seconds = 0.0

    def abort(self) -> None:
        """Abort the requests of all threads."""
        self.pacer.stopped.set()
        self._backend.abort()
        self._proxy_backend.abort()

    def close(self) -> None:
        """Close the connections."""
        for pool in self._pool_of_proxy.values():
            pool.close()

    def leave_site(self, site: str) -> None:
        """Forbid private addresses if `site` is public. Call this when the crawl moves from `site` to another host."""
        url_parts = urlsplit(site)
        if self._backend.allow_private is True:
            with suppress(OSError, UnicodeError):
                addresses = resolve_checked(url_parts.hostname or "", url_parts.port or 443, allow_private=True)
                self._backend.allow_private = not all(map(is_public, map(ipaddress.ip_address, addresses)))

    def session(self, url: str) -> Session | None:
        """Return the session for the origin of an address, or None."""
        return self._sessions.get(origin(url))

    def get(self, url: str, request: PageRequest = ANY_PAGE) -> HttpResponse:
        """Fetch a normalised address.

        Raises:
            NotWanted: the address, the target of a redirect, or the media type is refused.
            PageUnavailable: the page may be available later.
            FetchError: the request failed for another reason.
            CredentialsError: a secret for the origin cannot be read.
        """
        began = time.monotonic()
        self._backend.deadline.at = began + self._limits.timeout
        if self.failed_seconds > _MAX_FAILED_SECONDS:
            raise PageUnavailable(f"failed requests to the site have taken over {_MAX_FAILED_SECONDS:,.0f} seconds")
        for number in range(_ATTEMPTS):
            try:
                return self._follow_redirects(url, request)
            except PageUnavailable as error:
                backoff = _BACKOFF * 2**number
                if error.pause:
                    self.pacer.pause(error.pause)
                is_last = not error.retry or number == _ATTEMPTS - 1 or error.pause > MAX_PAUSE_SECONDS
                is_late = time.monotonic() + backoff >= self._backend.deadline.at
                if is_last or (not error.pause and (is_late or self.pacer.stopped.wait(backoff))):
                    self.failed_seconds += time.monotonic() - began
                    raise
        raise AssertionError("unreachable")

    def _follow_redirects(self, url: str, request: PageRequest) -> HttpResponse:
        for _ in range(MAX_REDIRECTS + 1):
            self._backend.deadline.at += self.pacer.wait()  # the wait does not count towards the timeout
            result = self._send(url, request)
            if isinstance(result, HttpResponse):
                return replace(result, url=without_session(result.url))
            if result != url:
                request.check_redirect(result)
            url = result
        raise FetchError(f"more than {MAX_REDIRECTS} redirects")

    def _send(self, url: str, request: PageRequest) -> HttpResponse | str:
        session = None if request.is_anonymous else self.session(url)
        validators = request.validators(url)
        secret_headers = session.headers(url) if session else {}
        request_headers = {**self._headers, **request.headers, **validators, **secret_headers}
        with self._connected(url, request_headers, has_secrets=session is not None) as response:
            status, headers = response.status, httpx.Headers(response.headers)
            redact: Callable[[bytes], bytes] = bytes
            if session is not None:
                session.store_cookies(url, headers.get_list("Set-Cookie"))
                redact = session.redact
            fetched_at = datetime.now(UTC).isoformat(timespec="seconds")
            if status == _NOT_MODIFIED and validators:
                return HttpResponse(url, b"", "", None, page_headers(headers, redact), fetched_at, is_unchanged=True)
            if status in _REDIRECTS:
                location = redact(headers.get("Location", "").encode()).decode("utf-8", "replace")
                target = normalise(url, location, keep_session=True)
                if target is None:
                    raise NotWanted("redirect to an address that is not http or https")
                return on_site(target, origin(url))
            if status == 429 or status >= 500:
                raise PageUnavailable(f"HTTP {status}", status=status, retry=True, pause=retry_after(headers) or 0.0)
            if not 200 <= status < 300:
                hint = proxy_hint(url, self._limits.http_proxy) if status == _PROXY_LOGIN_REQUIRED else ""
                raise FetchError(f"HTTP {status}{hint}", status=status)
            content_type, body = self._typed_body(response, headers, url, request)
            charset = parse_content_type(headers.get("Content-Type", ""))[1]
            return HttpResponse(url, redact(body), content_type, charset, page_headers(headers, redact), fetched_at)

    @contextmanager
    def _connected(self, url: str, headers: Mapping[str, str], *, has_secrets: bool) -> Iterator[httpcore.Response]:
        split = urlsplit(url)
        if split.scheme not in ("http", "https"):
            raise NotWanted(f"{split.scheme}: is not supported, use http or https")
        target = f"{split.path}?{split.query}" if split.query else split.path
        # httpcore would drop everything after a semicolon if it parsed the address
        address = httpcore.URL(scheme=split.scheme, host=split.hostname or "", port=split.port, target=target)
        all_headers = [("Host", split.netloc), *headers.items()]
        pool, hint = self._pool_for(url), proxy_hint(url, self._limits.http_proxy)
        try:
            with pool.stream("GET", address, headers=all_headers, extensions={"timeout": self._timeouts}) as response:
                yield response
        except httpcore.TimeoutException as error:
            hint = hint if isinstance(error, httpcore.ConnectTimeout) else ""
            raise PageUnavailable(f"no complete response within {self._limits.timeout:g} s{hint}") from error
        except httpcore.ProxyError as error:
            raise PageUnavailable(f"the proxy refused the request: {' '.join(str(error).split())[:200]}") from error
        except (httpcore.ProtocolError, httpcore.NetworkError, ssl.SSLError) as error:
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            reason += hint if isinstance(error, httpcore.ConnectError) else ""
            if has_secrets and isinstance(error, httpcore.ProtocolError):  # the message may quote secret headers
                reason = "the response is not valid HTTP"
            raise PageUnavailable(reason, retry=not self.pacer.stopped.is_set()) from error
        except CutShort as error:
            raise PageUnavailable(str(error)) from error

    def _pool_for(self, url: str) -> httpcore.ConnectionPool:
        """Return the connection pool for an address. Raises NotWanted if a proxy would fetch a private address."""
        proxy, url_parts = proxy_for(url, self._limits.http_proxy), urlsplit(url)
        allowed = self._backend.allow_private
        if proxy is not None and allowed is not True:
            try:
                resolve_checked(url_parts.hostname or "", url_parts.port or 443, allow_private=allowed)
            except (OSError, UnicodeError) as error:
                problem = f"only the proxy can resolve {url_parts.hostname}, so its address may be private"
                raise NotWanted(f"{problem}; allow it with --allow-private") from error
        with self._pools_lock:
            if proxy not in self._pool_of_proxy:
                self._pool_of_proxy[proxy] = self._make_pool(proxy)
            return self._pool_of_proxy[proxy]

    def _make_pool(self, proxy: str | None) -> httpcore.ConnectionPool:
        via, backend = None, self._backend
        if proxy is not None:
            url_parts = urlsplit(proxy)
            if url_parts.scheme not in ("http", "https"):
                raise FetchError(f"{url_parts.scheme}:// proxies are not supported, use an http or https proxy")
            login = (unquote(url_parts.username), unquote(url_parts.password or "")) if url_parts.username else None
            address = f"{url_parts.scheme}://{url_parts.netloc.rpartition('@')[2]}"
            via, backend = httpcore.Proxy(address, auth=login), self._proxy_backend
        limit = self._limits.concurrency + 1
        return httpcore.ConnectionPool(
            self._tls, via, max_connections=limit, keepalive_expiry=15.0, network_backend=backend
        )

    def _typed_body(
        self, response: httpcore.Response, headers: httpx.Headers, url: str, request: PageRequest
    ) -> tuple[str, bytes]:
        header = headers.get("Content-Type", "")
        declared, _ = parse_content_type(header)
        limit = self._limits.max_bytes if request.max_length is None else request.max_length
        may_be_long = request.long_types is None or declared in request.long_types
        max_length = max(limit, MAX_SITEMAP_LENGTH) if may_be_long else limit
        is_text = _TEXT_TYPE.match(header) is not None
        pieces = decode_body(response.iter_stream(), headers.get("Content-Encoding", ""), is_text=is_text)
        names = file_names(url, headers.get("Content-Disposition", ""))
        body, is_accepted = bytearray(), request.types is None or declared in request.types
        for piece in pieces:
            body += piece
            if len(body) > max_length:
                if request.max_length is None:
                    raise FetchError(f"larger than {max_length:,} bytes")
                del body[max_length:]
                break
            if not is_accepted and len(body) >= HEAD_LENGTH:
                is_accepted = detect_media_type(declared, names, bytes(body[:HEAD_LENGTH])) in CONTENT_TYPES
                if not is_accepted:
                    break
            self._backend.remaining()
        if request.types is None:
            return declared, bytes(body)
        content_type = detect_media_type(declared, names, bytes(body))
        if content_type not in request.types:
            raise NotWanted(f"content type {declared} is not read" if declared else "the response has no content type")
        if content_type not in (request.long_types or ()) and len(body) > limit:
            raise FetchError(f"larger than {limit:,} bytes")
        return content_type, bytes(body)


class RequestPacer:
    """Limits the requests of all threads to one site: one request per `delay` seconds, and none during a pause."""

    def __init__(self, delay: float) -> None:
        self.delay = delay
        self.stopped = threading.Event()
        self._lock = threading.Lock()
        self._next_start = self._paused_until = 0.0

    def wait(self) -> float:
        """Wait until the next request may start, and return the seconds waited.

        Raises:
            PageUnavailable: the site has demanded a pause that is longer than `MAX_PAUSE_SECONDS`.
            FetchError: the crawl is being stopped.
        """
        with self._lock:
            now = time.monotonic()
            if now < self._paused_until:
                raise PageUnavailable(f"the site asks to wait {self._paused_until - now:,.0f} s")
            wait = max(0.0, self._next_start - now)
            self._next_start = now + wait + self.delay
        if wait and self.stopped.wait(wait):
            raise FetchError("the crawl is being stopped")
        return wait

    def pause(self, seconds: float) -> None:
        """Start a pause. Until its end, requests wait, or fail if the pause is longer than `MAX_PAUSE_SECONDS`."""
        with self._lock:
            until = time.monotonic() + seconds
            if seconds > MAX_PAUSE_SECONDS:
                self._paused_until = max(self._paused_until, until)
            else:
                self._next_start = max(self._next_start, until)
