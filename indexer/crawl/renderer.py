"""Draws the pages of one site that need it: decides which, has them drawn, and makes pages of the documents.

Their scripts load by GET, as robots.txt and the guard allow, without credentials of other origins. The browser gets no
secret and reaches no machine: requests are sent here, as all of the crawler's are.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from indexer.crawl.browser import Browser, Order, Resource, check_installed
from indexer.crawl.fetch import Fetcher, PageRequest
from indexer.crawl.http_response import PageUnavailable
from indexer.crawl.page_links import MARKUP, Links, read_links
from indexer.crawl.robots import Robots, fetch_robots
from indexer.errors import FetchError, NotWanted
from indexer.network.urls import normalise, origin
from indexer.read.document_reader import PageParts
from indexer.read.reader_process import Lend
from indexer.records import Page, Skip
from indexer.source_context import SourceContext

_SENT = {"accept": "Accept", "origin": "Origin"}  # headers of the browser that are sent on
_RETURNED = ("access-control-allow-origin", "access-control-allow-credentials")
_CACHE = 32_000_000  # bytes of scripts, which the pages of a site share
_MAX_ORIGINS = 16  # whose rules are remembered: they may be megabytes
_MAX_REFUSED = 100  # refusals that are reported


@dataclass(slots=True)
class RenderBudget:
    """The bytes that one page may still load, and a resource that it could not."""

    bytes: int
    unavailable: str = ""  # a resource that may be there at another time, and why


class Renderer:
    """Draws pages of one site; does nothing where the limits do not want it. May be used by many threads."""

    def __init__(self, context: SourceContext, browser: Browser) -> None:
        """Take a source. Raises RendererMissing: pages are to be drawn, and what it takes is not installed."""
        limits, live = context.limits, context.earlier.manifest
        self._limits, self._mode = limits, limits.render
        self._browser, self._stop, self._lock = browser, threading.Event(), threading.Lock()
        self._site = ""  # scheme://host:port; empty: nothing is drawn
        self._robots: dict[str, Robots | FetchError] = {}  # by origin
        self._scripts: dict[str, Resource] = {}  # by address, up to `_CACHE`
        self._room = _CACHE
        self._refused: dict[str, Skip] = {}  # by address, up to `_MAX_REFUSED`
        # whether other pages are drawn than before: what is known of unchanged ones says nothing then
        self.differs = False
        if live is not None:
            before = live.settings.get("crawl", {})
            own = before.get("own", {}).get(context.source, {})
            self.differs = self._mode != (own.get("render") or before.get("render") or "off")
        if self._mode != "off":
            check_installed()
            # permission to reach all private addresses is for the site alone; named networks are for all
            private = limits.allow_private if isinstance(limits.allow_private, tuple) else False
            self._others = Fetcher(replace(limits, allow_private=private))

    def enter_site(self, site: str, robots: Robots, fetcher: Fetcher, lend: Lend) -> None:
        """Take the site (`scheme://host:port`), its rules, what fetches from it, and what lends processes that read."""
        if self._mode != "off":
            self._site, self._fetcher, self._lend = site, fetcher, lend
            self._robots[site] = robots
            self._others.turns = fetcher.turns

    def close(self) -> None:
        """Stop at once, whatever is being drawn."""
        self._stop.set()
        if self._mode != "off":
            self._others.abort()
            self._others.close()

    def refused(self) -> list[Skip]:
        """Return what scripts asked for and were refused."""
        return [*self._refused.values()]

    def parts_of(self, page: Page, wanted: PageParts) -> PageParts:
        """Return which parts are read of a page that may have to be drawn."""
        if not self._site or page.content_type not in MARKUP:
            return wanted
        return PageParts() if self._mode == "on" else replace(wanted, is_drawn=_has_script(page))

    def wants(self, page: Page, links: Links) -> bool:
        """Return whether a page is to be drawn."""
        return bool(self._site) and page.content_type in MARKUP and (self._mode == "on" or links.is_drawn)

    def draw(self, page: Page, links: Links, wanted: Callable[[Page], PageParts]) -> tuple[Page, Links]:
        """Return a page, and its links, as its scripts draw it; `links` are those of the page as it was fetched.

        What comes of it depends on more than its own address, so it has no validators: the next build asks for it, and
        draws it, again. `wanted` returns which parts of the drawn page are read beside its links.

        Raises:
            Unavailable: it has no text yet, and not all that it needs was there; or it could not be drawn this time.
            FetchError: its document cannot be read, or the crawl is being stopped.
            SourceError: the browser does not start, or the site cannot be asked as its session wants it.
        """
        limits, delay, budget = self._limits, self._fetcher.turns.delay, RenderBudget(self._limits.render_bytes)
        kind = f"{page.content_type}; charset={page.charset}" if page.charset else page.content_type
        load = partial(self.load, budget)
        order = Order(page.url, kind, page.body, limits.render_timeout, delay, limits.max_bytes, load)
        began = time.monotonic()
        try:
            drawn = self._browser.draw(order, self._stop)
        except PageUnavailable:
            self._fetcher.lost += time.monotonic() - began
            raise
        if len(drawn.html) > limits.max_bytes:
            raise FetchError(f"larger than {limits.max_bytes:,} bytes once it is drawn")
        done = replace(page, body=drawn.html, content_type="text/html", charset="utf-8", content_hash="")
        done = replace(done, etag=None, last_modified=None)
        late = f"they were not done within {limits.render_timeout:g} s" if drawn.is_late else ""
        why = budget.unavailable or late
        found = read_links(done, self._lend, replace(wanted(done), is_drawn=bool(why) and _has_script(done)))
        if found.is_drawn:
            raise PageUnavailable(f"its scripts have not drawn it: {why}")
        moves = (normalise(page.url, url) for url in drawn.moves)
        there = (url for url in moves if url is not None and origin(url) == origin(page.url))
        asks = links.asks_password or found.asks_password
        return done, replace(found, urls=(*dict.fromkeys([*found.urls, *there]),), asks_password=asks)

    def load(self, budget: RenderBudget, address: str, is_script: bool, headers: Mapping[str, str]) -> Resource | None:
        """Return the resource at an address as the browser has it, or None where it is refused or cannot be fetched.

        Raises CredentialsError: a secret for the site cannot be read.
        """
        url = normalise(address, "")
        if url is None:
            return None
        resource = self._scripts.get(url) if is_script else None
        if resource is None:
            try:
                if budget.bytes <= 0:
                    raise NotWanted(f"over the limit of {self._limits.render_bytes:,} bytes that a page may load")
                resource = self._fetch(url, headers)
            except PageUnavailable as error:
                budget.unavailable = f"{url}: {error}"
                return None
            except FetchError as error:
                if error.status is not None and not isinstance(error, NotWanted):
                    return Resource(error.status, "text/plain", b"")
                if len(self._refused) < _MAX_REFUSED:
                    self._refused.setdefault(url, Skip(url, f"requested by a script: {error}"))
                return None
        with self._lock:
            budget.bytes -= len(resource.body)  # the last one may be longer than the rest
            if is_script and url not in self._scripts and len(resource.body) <= self._room:
                self._scripts[url] = resource
                self._room -= len(resource.body)
        return resource

    def _fetch(self, url: str, headers: Mapping[str, str]) -> Resource:
        """Fetch a resource. Raises FetchError, NotWanted where it may not be fetched."""
        site = origin(url)

        def check(target: str) -> None:
            if origin(target) != site:
                raise NotWanted(f"redirect to another site ({origin(target)})")
            session = self._fetcher.session(target) if site == self._site else None
            if session and (reason := session.refusal(target)):
                raise NotWanted(reason)
            if not self._rules(site).allows(target):
                raise NotWanted("robots.txt disallows it")

        check(url)
        fetcher = self._fetcher if site == self._site else self._others
        sent = {name: headers[key] for key, name in _SENT.items() if key in headers}
        answer = fetcher.get(url, PageRequest(scope=check, types=None, headers=sent))
        kind = f"{answer.content_type}; charset={answer.charset}" if answer.charset else answer.content_type
        found = {name: answer.headers[name] for name in _RETURNED if name in answer.headers}
        return Resource(200, kind, answer.body, found)

    def _rules(self, site: str) -> Robots:
        """Return the rules of an origin; raises FetchError, each time, where they cannot be read."""
        rules = self._robots.get(site)
        if rules is None:
            try:
                rules = fetch_robots(self._others, site, self._limits.user_agent)
            except FetchError as error:
                rules = error
            with self._lock:
                if len(self._robots) > _MAX_ORIGINS:
                    del self._robots[next(origin for origin in self._robots if origin != self._site)]
                self._robots[site] = rules
        if isinstance(rules, FetchError):
            raise rules
        return rules


def _has_script(page: Page) -> bool:
    return b"<script" in page.body.lower()
