"""What the scripts of a site's pages may load: by GET, what robots.txt and the guard allow, of other origins as anyone.

The browser knows no secret and no address of a machine: requests are made here, as all of the crawler's are.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from indexer.config import CrawlLimits
from indexer.crawl.answers import Unavailable
from indexer.crawl.fetch import Fetcher, Request, Traffic, Turns
from indexer.crawl.render.drawing import Ask, Given
from indexer.crawl.robots import Robots, fetch_robots
from indexer.crawl.sessions import Sessions
from indexer.errors import FetchError, NotWanted
from indexer.read import allowed_places
from indexer.records import Skip
from indexer.urls import normalise, origin

_SENT = {"accept": "Accept", "origin": "Origin"}  # headers of the browser that are sent on
_RETURNED = ("access-control-allow-origin", "access-control-allow-credentials")
_KEPT_BYTES = 32_000_000  # of scripts, which the pages of a site share
_MOST_TOLD = 100  # refusals that are told


@dataclass(slots=True)
class Budget:
    """What one page may still load, and what it could not."""

    bytes: int
    unavailable: str = ""  # why something may be there at another time
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, size: int) -> None:
        """Use some of it; the last answer may be longer than what is left."""
        with self.lock:
            self.bytes -= size


class Resources:
    """Fetches what the pages of one site ask for. May be used by many threads."""

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
        """Take the site (`scheme://host:port`), what it allows, and with what and how often it is asked.

        `within` are the places that nothing may be loaded from outside of, if there are any.
        """
        self._site, self._limits, self._within = site, limits, within
        self._sessions = sessions or Sessions()
        self._own = Fetcher(limits, traffic, sessions)
        # leave to reach all private addresses is for the site alone; networks that are named are meant for all
        private = limits.allow_private if isinstance(limits.allow_private, tuple) else False
        self._others = Fetcher(replace(limits, allow_private=private), traffic)
        self._own.turns = self._others.turns = turns
        self._lock = threading.Lock()
        self._robots: dict[str, Robots | FetchError] = {site: robots}
        self._kept: OrderedDict[str, Given] = OrderedDict()
        self._kept_bytes = 0
        self._refused: dict[str, Skip] = {}

    def close(self) -> None:
        """End every request that is under way, and close the connections."""
        for fetcher in (self._own, self._others):
            fetcher.abort()
            fetcher.__exit__(None, None, None)

    def refused(self) -> list[Skip]:
        """Return what was refused since the last time, each address once."""
        with self._lock:
            told = [skip for skip in self._refused.values() if skip.reason]
            self._refused |= {skip.url: Skip(skip.url, "") for skip in told}
        return told

    def load(self, ask: Ask, budget: Budget) -> Given | None:
        """Return what is at an address, or None where that is refused or cannot be got.

        Raises:
            SourceError: the site cannot be asked as its session wants it.
        """
        url = normalise(ask.url, "")
        if url is None:
            return None
        with self._lock:
            kept = self._kept.get(url) if ask.is_script else None
        if kept is not None:
            budget.take(len(kept.body))
            return kept
        try:
            if budget.bytes <= 0:
                raise NotWanted(f"over the limit of {self._limits.render_bytes:,} bytes that a page may load")
            given = self._fetch(url, ask.headers)
        except NotWanted as error:
            self._refuse(url, str(error))
            return None
        except Unavailable as error:
            budget.unavailable = f"{url}: {error}"
            return None
        except FetchError as error:
            if error.status is not None:
                return Given(error.status, "text/plain", b"")
            self._refuse(url, str(error))
            return None
        budget.take(len(given.body))
        if ask.is_script and given.status == 200:
            self._keep(url, given)
        return given

    def _fetch(self, url: str, headers: Mapping[str, str]) -> Given:
        self._check(url)
        here = origin(url)
        fetcher = self._own if here == self._site else self._others
        sent = {name: headers[key] for key, name in _SENT.items() if key in headers}
        request = Request(scope=partial(self._stays, here), types=None, headers=sent, may_be_missing=True)
        answer = fetcher.get(url, request)
        kind = f"{answer.content_type}; charset={answer.charset}" if answer.charset else answer.content_type
        found = {name: answer.headers[name] for name in _RETURNED if name in answer.headers}
        return Given(200, kind, answer.body, found)

    def _check(self, url: str) -> None:
        """Raise NotWanted unless an address may be asked for, whatever for."""
        if reason := allowed_places.refusal(url, self._within):
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

    def _keep(self, url: str, given: Given) -> None:
        with self._lock:
            if url in self._kept or len(given.body) > _KEPT_BYTES:
                return
            self._kept[url] = given
            self._kept_bytes += len(given.body)
            while self._kept_bytes > _KEPT_BYTES:
                _, oldest = self._kept.popitem(last=False)
                self._kept_bytes -= len(oldest.body)

    def _refuse(self, url: str, reason: str) -> None:
        with self._lock:
            if len(self._refused) < _MOST_TOLD:
                self._refused.setdefault(url, Skip(url, f"asked for by a script: {reason}"))
