"""Resources that the scripts of a site's pages load: by GET, as robots.txt and the guard allow, without credentials of
other origins. The browser gets no secret and reaches no machine: requests are sent here, as all of the crawler's are.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from indexer.config import CrawlLimits
from indexer.crawl.answers import Unavailable
from indexer.crawl.fetch import Fetcher, Request, Traffic, Turns
from indexer.crawl.robots import Robots, fetch_robots
from indexer.crawl.sessions import Sessions
from indexer.errors import FetchError, NotWanted
from indexer.records import Skip
from indexer.urls import normalise, origin, place_refusal

MAX_REQUESTS = 200  # of one document
_SENT = {"accept": "Accept", "origin": "Origin"}  # headers of the browser that are sent on
_RETURNED = ("access-control-allow-origin", "access-control-allow-credentials")
_CACHE = 32_000_000  # bytes of scripts, which the pages of a site share
_MAX_REFUSED = 100  # refusals that are reported


@dataclass(frozen=True, slots=True)
class ScriptRequest:
    """A request of a document's scripts."""

    url: str  # as the browser has it
    is_script: bool  # else it is data
    headers: Mapping[str, str]  # by name in lower case


@dataclass(frozen=True, slots=True)
class Resource:
    """The answer to a request of a script."""

    status: int
    content_type: str
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Order:
    """A document to be drawn."""

    url: str
    content_type: str  # with its charset, if there is one
    body: bytes = field(repr=False)
    seconds: float  # time limit
    delay: float  # seconds more for each request, which the crawler waits
    max_length: int  # characters of the drawn document
    load: Callable[[ScriptRequest], Resource | None]  # fetches a resource, None to refuse it; called in other threads


@dataclass(frozen=True, slots=True)
class Drawn:
    """A document as its scripts made it."""

    html: bytes = field(repr=False)  # in UTF-8
    moves: tuple[str, ...]  # addresses that a script wanted to lead to instead
    is_late: bool  # whether it was taken because its time was up


@dataclass(slots=True)
class Budget:
    """The bytes that one page may still load, and a resource that it could not."""

    bytes: int
    unavailable: str = ""  # a resource that may be there at another time, and why
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, size: int) -> None:
        """Subtract the size of an answer; the last one may be longer than the rest."""
        with self.lock:
            self.bytes -= size


class Resources:
    """Fetches resources for the pages of one site. Safe to share between threads."""

    def __init__(
        self,
        site: str,
        robots: Robots,
        limits: CrawlLimits,
        turns: Turns,
        within: tuple[str, ...] = (),
        traffic: Traffic | None = None,
        sessions: Sessions | None = None,
    ) -> None:
        """Take a site (`scheme://host:port`); all resources must be below the places `within`, if there are any."""
        self._site, self._limits, self._within = site, limits, within
        self._sessions = sessions or Sessions()
        self._own = Fetcher(limits, traffic, sessions)
        # permission to reach all private addresses is for the site alone; named networks are for all
        private = limits.allow_private if isinstance(limits.allow_private, tuple) else False
        self._others = Fetcher(replace(limits, allow_private=private), traffic)
        self._own.turns = self._others.turns = turns
        self._lock = threading.Lock()
        self._robots: dict[str, Robots | FetchError] = {site: robots}
        self._cache: OrderedDict[str, Resource] = OrderedDict()
        self._cached_bytes = 0
        self._refused: dict[str, Skip] = {}

    def close(self) -> None:
        """End every request that is under way, and close the connections."""
        for fetcher in (self._own, self._others):
            fetcher.abort()
            fetcher.close()

    def refused(self) -> list[Skip]:
        """Return skips for requests that were refused since the last call, each address once."""
        with self._lock:
            skips = [skip for skip in self._refused.values() if skip.reason]
            self._refused |= {skip.url: Skip(skip.url, "") for skip in skips}
        return skips

    def load(self, request: ScriptRequest, budget: Budget) -> Resource | None:
        """Return the resource at an address, or None where it is refused or cannot be fetched.

        Raises:
            CredentialsError: a secret for the site cannot be read.
        """
        url = normalise(request.url, "")
        if url is None:
            return None
        with self._lock:
            cached = self._cache.get(url) if request.is_script else None
        if cached is not None:
            budget.take(len(cached.body))
            return cached
        try:
            if budget.bytes <= 0:
                raise NotWanted(f"over the limit of {self._limits.render_bytes:,} bytes that a page may load")
            resource = self._fetch(url, request.headers)
        except NotWanted as error:
            self._refuse(url, str(error))
            return None
        except Unavailable as error:
            budget.unavailable = f"{url}: {error}"
            return None
        except FetchError as error:
            if error.status is not None:
                return Resource(error.status, "text/plain", b"")
            self._refuse(url, str(error))
            return None
        budget.take(len(resource.body))
        if request.is_script and resource.status == 200:
            self._keep(url, resource)
        return resource

    def _fetch(self, url: str, headers: Mapping[str, str]) -> Resource:
        self._check(url)
        here = origin(url)
        fetcher = self._own if here == self._site else self._others
        sent = {name: headers[key] for key, name in _SENT.items() if key in headers}
        scope = partial(self._stays, here)
        answer = fetcher.get(url, Request(scope=scope, types=None, headers=sent, may_be_missing=True))
        kind = f"{answer.content_type}; charset={answer.charset}" if answer.charset else answer.content_type
        found = {name: answer.headers[name] for name in _RETURNED if name in answer.headers}
        return Resource(200, kind, answer.body, found)

    def _check(self, url: str) -> None:
        """Raise NotWanted unless an address may be fetched."""
        if reason := place_refusal(url, self._within):
            raise NotWanted(reason)
        session = self._sessions.of(url) if origin(url) == self._site else None
        if session is not None and (reason := session.refusal(url)):
            raise NotWanted(reason)
        if not self._rules(origin(url)).allows(url):
            raise NotWanted("robots.txt disallows it")

    def _stays(self, here: str, url: str) -> None:
        if origin(url) != here:
            raise NotWanted(f"redirect to another site ({origin(url)})")
        self._check(url)

    def _rules(self, site: str) -> Robots:
        """Return the rules of an origin; raises FetchError, each time, where they cannot be read."""
        with self._lock:
            known = self._robots.get(site)
        if known is None:
            try:
                known = fetch_robots(self._others, site, self._limits.user_agent)
            except FetchError as error:
                known = error
            with self._lock:
                self._robots[site] = known
        if isinstance(known, FetchError):
            raise known
        return known

    def _keep(self, url: str, script: Resource) -> None:
        with self._lock:
            if url in self._cache or len(script.body) > _CACHE:
                return
            self._cache[url] = script
            self._cached_bytes += len(script.body)
            while self._cached_bytes > _CACHE:
                _, oldest = self._cache.popitem(last=False)
                self._cached_bytes -= len(oldest.body)

    def _refuse(self, url: str, reason: str) -> None:
        with self._lock:
            if len(self._refused) < _MAX_REFUSED:
                self._refused.setdefault(url, Skip(url, f"asked for by a script: {reason}"))
