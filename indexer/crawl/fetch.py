"""One page over HTTP: redirects by hand, a deadline, a cap on decoded bytes, a few retries, conditional requests."""

import re
import ssl
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

import httpcore
import httpx

from indexer import encodings
from indexer.config import CrawlLimits
from indexer.crawl.access.exchange import REDIRECTS, Access, Reply
from indexer.crawl.access.session import Session, Sessions
from indexer.crawl.answers import Answer, Unavailable, is_missing
from indexer.crawl.guard import GuardedPool
from indexer.crawl.headers import kept, retry_after
from indexer.crawl.media_types import HEAD, actual_type, may_be_read, media_type, names_of
from indexer.crawl.traffic import Traffic
from indexer.crawl.turns import LONGEST_PAUSE, Turns
from indexer.errors import FetchError, NotWanted
from indexer.read.formats import CONTENT_TYPES, LONGEST_LIST
from indexer.session_ids import without_session
from indexer.urls import normalise

MAX_REDIRECTS = 5
_ATTEMPTS = 3
_CONNECT = 10.0  # seconds to connect, at most
_BACKOFF = 0.3  # seconds before the second attempt; doubles
_NOT_MODIFIED = 304
_STRANGER = Access(0, {})
_NO_HEADERS: Mapping[str, str] = {}
_TEXT = re.compile(r"\s*(?:text/|[\w./-]+[+/](?:xml|json)\b)", re.IGNORECASE)  # media types of which none is packed
_NETWORK_ERRORS = (httpcore.NetworkError, ssl.SSLError)


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
    lists: Collection[str] | None
    may_be_missing: bool
    headers: Mapping[str, str]


class Fetcher:
    """A guarded HTTP client, shared by the fetcher threads of one crawl."""

    def __init__(self, limits: CrawlLimits, traffic: Traffic | None = None, sessions: Sessions | None = None) -> None:
        """Take the limits, who is told of every request, and the sessions with the origins that there are any with."""
        self._limits = limits
        self._sessions = sessions or Sessions()
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
        self.turns = Turns(limits.delay)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.close()

    def abort(self) -> None:
        """End every fetch that is under way, in whatever thread."""
        self.turns.stopped.set()
        self._pool.backend.abort()

    def get(
        self,
        url: str,
        *,
        scope: Callable[[str], None] = allow_all,
        types: Collection[str] | None = CONTENT_TYPES,
        cut_at: int | None = None,
        validators: Callable[[str], Mapping[str, str]] = unconditional,
        lists: Collection[str] | None = (),
        may_be_missing: bool = False,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> Answer:
        """Fetch one address.

        Args:
            url: normalised address.
            scope: called with the address of each redirect; raises NotWanted to refuse it.
            types: media types accepted, found by header, name and first bytes; None for any, by the header alone.
            cut_at: keep only so many bytes instead of refusing a longer body.
            validators: called with every address on the way; gives If-None-Match or If-Modified-Since to send with it.
            lists: media types of which a body may be as long as a sitemap, if that is more than a page; None for any.
            may_be_missing: whether a 4xx status is as good an answer as any, and counts as one.
            headers: to send beside the usual ones, or instead of those.

        Raises:
            NotWanted: reached, but refused by address, scope or media type.
            Unavailable: it may well be there at another time.
            FetchError: anything else that went wrong, in one line.
        """
        deadline = time.monotonic() + self._limits.timeout
        order = _Order(deadline, scope, types, cut_at, validators, lists, may_be_missing, headers)
        for attempt in range(_ATTEMPTS):
            try:
                return self._follow(url, order)
            except FetchError as error:
                pause = _BACKOFF * 2**attempt
                asked = error.pause if isinstance(error, Unavailable) else 0.0
                if asked:
                    self.turns.hold(asked)
                if not error.retry or attempt == _ATTEMPTS - 1 or asked > LONGEST_PAUSE:
                    raise
                if not asked and (time.monotonic() + pause >= order.deadline or self.turns.stopped.wait(pause)):
                    raise
        raise AssertionError("unreachable")

    def session(self, url: str) -> Session | None:
        """Return the session with the origin of an address, if there is one."""
        return self._sessions.of(url)

    def is_renewed(self, session: Session, answer: Answer) -> bool:
        """Return whether to ask again for what asks for a password; see `Session.is_renewed` for what it raises."""
        return session.is_renewed(answer.access, answer.url, self._exchange, sure=True)

    def _follow(self, url: str, order: _Order) -> Answer:
        for _ in range(MAX_REDIRECTS + 1):
            answer = self._hop(url, order)
            if isinstance(answer, Answer):
                return replace(answer, url=without_session(answer.url))
            url = answer
        raise FetchError(f"more than {MAX_REDIRECTS} redirects")

    def _hop(self, url: str, order: _Order) -> Answer | str:
        """Return the answer, or the address it redirects to; where the session has ended, after that was renewed."""
        session = self._sessions.of(url)
        while True:
            began = time.monotonic()
            access = session.access(url, self._exchange) if session else _STRANGER
            order.deadline += time.monotonic() - began
            try:
                answer = self._once(url, order, session, access)
            except FetchError as error:
                refused, sure = error, error.status == 401
                if session is None or error.status not in (401, 403):
                    raise
            else:
                if isinstance(answer, Answer) or answer == url:
                    return answer
                sure = session is not None and session.logs_in(answer)
                try:
                    if sure:
                        raise NotWanted("leads to the login page", status=401)
                    order.scope(answer)
                except NotWanted as error:
                    refused = error
                    if session is None:
                        raise
                else:
                    return answer
            began = time.monotonic()
            if order.may_be_missing or not session.is_renewed(access.number, url, self._exchange, sure=sure):
                raise refused
            order.deadline += time.monotonic() - began

    def _once(self, url: str, order: _Order, session: Session | None, access: Access) -> Answer | str:
        """Return the answer, or the address it redirects to."""
        validators = order.validators(url)
        order.deadline += self.turns.wait()
        self._pool.backend.set_deadline(order.deadline)
        began = time.monotonic()
        size, failed = 0, True
        try:
            answer = self._ask(url, order, {**self._headers, **order.headers, **validators}, session, access)
            size, failed = len(answer.body) if isinstance(answer, Answer) else 0, False
        except FetchError as error:
            failed = not (order.may_be_missing and is_missing(error))
            raise
        finally:
            self._traffic.note(url, seconds=time.monotonic() - began, size=size, failed=failed)
        return answer

    def _ask(
        self, url: str, order: _Order, sent: Mapping[str, str], session: Session | None, access: Access
    ) -> Answer | str:
        with self._connected(url, sent, access) as response:
            status, headers = response.status, httpx.Headers(response.headers)
            hidden: Callable[[bytes], bytes] = bytes
            if session is not None:
                session.take(access.number, url, headers.get_list("Set-Cookie"))
                hidden = session.hidden
            has_validators = "If-None-Match" in sent or "If-Modified-Since" in sent
            if status == _NOT_MODIFIED and has_validators:
                return Answer(url, b"", "", None, kept(headers, hidden), _now(), unchanged=True, access=access.number)
            if status in REDIRECTS:
                location = hidden(headers.get("Location", "").encode()).decode("utf-8", "replace")
                target = normalise(url, location, keep_session=True)
                if target is None:
                    raise NotWanted("redirect to something that is not http or https")
                return target
            if status == 429 or status >= 500:
                pause = retry_after(headers)
                raise Unavailable(f"HTTP {status}", status=status, retry=True, pause=pause or 0.0)
            if not 200 <= status < 300:
                raise FetchError(f"HTTP {status}", status=status)
            content_type, body = self._typed_body(response, headers, url, order)
            return Answer(
                url=url,
                body=hidden(body),
                content_type=content_type,
                charset=media_type(headers.get("Content-Type", ""))[1],
                headers=kept(headers, hidden),
                fetched_at=_now(),
                access=access.number,
            )

    def _typed_body(
        self, response: httpcore.Response, headers: httpx.Headers, url: str, order: _Order
    ) -> tuple[str, bytes]:
        """Return the media type of an answer and its decoded body, or only its first bytes if it may be cut."""
        declared, _ = media_type(headers.get("Content-Type", ""))
        is_cut = order.cut_at is not None
        limit = self._limits.max_bytes if order.cut_at is None else order.cut_at
        most = max(limit, LONGEST_LIST) if order.lists is None or declared in order.lists else limit
        if order.types is None:
            return declared, b"".join(self._body(response, headers, most, order.deadline, cut=is_cut))
        names = names_of(url, headers.get("Content-Disposition", ""))
        body, is_wanted = bytearray(), declared in order.types
        for part in self._body(response, headers, most, order.deadline, cut=is_cut):
            body += part
            if not is_wanted and len(body) >= HEAD:
                is_wanted = may_be_read(declared, names, bytes(body[:HEAD]))
                if not is_wanted:
                    break
        content_type = actual_type(declared, names, bytes(body))
        if content_type not in order.types:
            raise NotWanted(f"content type {declared or 'missing'} is not read")
        if content_type not in (order.lists or ()) and len(body) > limit:
            raise FetchError(f"larger than {limit:,} bytes")
        return content_type, bytes(body)

    def _exchange(self, url: str, access: Access, form: bytes | None = None, told: str | None = None) -> Reply:
        """Send one request of a login, or to a witness; see `indexer.crawl.access.exchange.Exchange`."""
        self.turns.wait()
        began, size, failed = time.monotonic(), 0, True
        deadline = began + self._limits.timeout
        self._pool.backend.set_deadline(deadline)
        try:
            with self._connected(url, self._headers, access, form) as response:
                headers = httpx.Headers(response.headers)
                if response.status == 429 or response.status >= 500:
                    raise Unavailable(f"HTTP {response.status}", status=response.status)
                body = b"".join(self._body(response, headers, self._limits.max_bytes, deadline))
            size, failed = len(body), False
        finally:
            self._traffic.note(told or url, seconds=time.monotonic() - began, size=size, failed=failed)
        return Reply(url, response.status, headers, body)

    @contextmanager
    def _connected(
        self, url: str, sent: Mapping[str, str], access: Access, form: bytes | None = None
    ) -> Iterator[httpcore.Response]:
        """Give the answer to a request; raises what goes wrong with it as FetchError."""
        try:
            with self._pool.ask(url, {**sent, **access.headers}, self._timeouts, form, access.context) as response:
                yield response
        except httpcore.TimeoutException as error:
            raise Unavailable(f"no complete answer within {self._limits.timeout:g} s") from error
        except httpcore.ProtocolError as error:
            told = "an answer that is no HTTP" if access.number else _one_line(error)  # which may quote headers
            raise Unavailable(told, retry=not self.turns.stopped.is_set()) from error
        except _NETWORK_ERRORS as error:
            raise Unavailable(_one_line(error), retry=not self.turns.stopped.is_set()) from error
        except encodings.CutShort as error:
            raise Unavailable(str(error)) from error

    def _body(
        self, response: httpcore.Response, headers: httpx.Headers, limit: int, deadline: float, *, cut: bool = False
    ) -> Iterator[bytes]:
        """Yield the decoded body in parts, or only its first bytes if it may be cut."""
        parts = encodings.decoded(response.iter_stream(), headers.get("Content-Encoding", ""))
        if _TEXT.match(headers.get("Content-Type", "")):
            parts = encodings.without_gzip(parts)  # packed by an application whose server knows nothing of it, or twice
        size = 0
        for part in parts:
            size += len(part)
            if size > limit:
                if not cut:
                    raise FetchError(f"larger than {limit:,} bytes")
                yield part[: limit - size]
                return
            yield part
            if time.monotonic() > deadline:
                raise Unavailable(f"no complete answer within {self._limits.timeout:g} s")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text[:200] or type(error).__name__
