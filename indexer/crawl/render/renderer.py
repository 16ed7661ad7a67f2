"""Draws the pages of one site that need it: decides which, has them drawn, and makes pages of the documents."""

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from indexer.crawl.answers import Unavailable
from indexer.crawl.fetch import Traffic, Turns
from indexer.crawl.links import Links, read_links
from indexer.crawl.render.browser import Browser, check_installed
from indexer.crawl.render.resources import Budget, Drawn, Order, Resources
from indexer.crawl.robots import Robots
from indexer.crawl.sessions import Sessions
from indexer.errors import FetchError
from indexer.generation.manifest import Manifest
from indexer.read.parsing import Wanted
from indexer.read.reader_process import Lend, borrowed
from indexer.records import Page, Skip
from indexer.source_context import SourceContext
from indexer.urls import normalise, origin

_MARKUP = frozenset({"text/html", "application/xhtml+xml"})
_OFF = "off"


class Renderer:
    """Draws pages of one site; does nothing where the limits do not want it. May be used by many threads."""

    def __init__(self, context: SourceContext, browser: Browser | None, traffic: Traffic, sessions: Sessions) -> None:
        """Take a source; without a browser, the renderer starts its own.

        Raises RendererMissing: pages are to be drawn, and the package or the browser for it is missing.
        """
        limits, live = context.limits, context.earlier.manifest
        self._limits, self._traffic, self._sessions = limits, traffic, sessions
        self._within = context.within
        self._stop = threading.Event()
        self._resources: Resources | None = None
        self._delay = 0.0
        self._lend: Lend = borrowed
        self._browser = self._own_browser = None
        # whether other pages are drawn than before: what is known of unchanged ones says nothing then
        self.differs = live is not None and limits.render != _mode_of(live, context.source)
        if limits.render != _OFF:
            check_installed()
            self._own_browser = None if browser else Browser()
            self._browser = browser or self._own_browser

    def enter_site(self, site: str, robots: Robots, turns: Turns, lend: Lend) -> None:
        """Take the site (`scheme://host:port`), its rules, its turns, and what gives the processes that read pages."""
        if self._browser is None:
            return
        if self._resources is not None:
            self._resources.close()
        self._delay, self._lend = turns.delay, lend
        limits, within = self._limits, self._within
        self._resources = Resources(site, robots, limits, turns, within, self._traffic, self._sessions)

    def close(self) -> None:
        """Stop at once, whatever is being drawn."""
        self._stop.set()
        if self._browser is not None:
            self._browser.wake()
        if self._resources is not None:
            self._resources.close()
        if self._own_browser is not None:
            self._own_browser.close()

    def refused(self) -> list[Skip]:
        """Return what scripts asked for and were refused since the last time."""
        return self._resources.refused() if self._resources is not None else []

    def wanted(self, page: Page, wanted: Wanted) -> Wanted:
        """Return which parts are read of a page that may have to be drawn."""
        if self._resources is None or page.content_type not in _MARKUP:
            return wanted
        if self._limits.render == "on":
            return Wanted()
        return replace(wanted, is_drawn=_has_script(page))

    def wants(self, page: Page, links: Links) -> bool:
        """Return whether a page is to be drawn."""
        if self._resources is None or page.content_type not in _MARKUP:
            return False
        return self._limits.render == "on" or links.is_drawn

    def draw(self, page: Page, links: Links, wanted: Callable[[Page], Wanted]) -> tuple[Page, Links]:
        """Return a page, and its links, as its scripts draw it; `links` are those of the page as it was fetched.

        `wanted` returns which parts of the drawn page are read beside its links.

        What comes of it depends on more than its own address, so it has no validators: the next build asks for it, and
        draws it, again.

        Raises:
            Unavailable: it has no text yet, and not all that it needs was there; or it could not be drawn this time.
            FetchError: its document cannot be read, or the crawl is being stopped.
            SourceError: the browser does not start, or the site cannot be asked as its session wants it.
        """
        assert self._browser is not None and self._resources is not None  # noqa: S101, PT018 - `wants` said so
        budget = Budget(self._limits.render_bytes)
        kind = f"{page.content_type}; charset={page.charset}" if page.charset else page.content_type
        drawn = self._browser.draw(
            Order(
                url=page.url,
                content_type=kind,
                body=page.body,
                seconds=self._limits.render_timeout,
                delay=self._delay,
                max_length=self._limits.max_bytes,
                load=partial(self._resources.load, budget=budget),
            ),
            self._stop,
        )
        done = self._page(page, drawn)
        why = self._missing(drawn, budget)
        found = read_links(done, self._lend, replace(wanted(done), is_drawn=bool(why) and _has_script(done)))
        if found.is_drawn:
            raise Unavailable(f"its scripts have not drawn it: {why}")
        moves = (normalise(page.url, url) for url in drawn.moves)
        there = (url for url in moves if url is not None and origin(url) == origin(page.url))
        asks = links.asks_password or found.asks_password
        return done, replace(found, urls=(*dict.fromkeys([*found.urls, *there]),), asks_password=asks)

    def _page(self, page: Page, drawn: Drawn) -> Page:
        if len(drawn.html) > self._limits.max_bytes:
            raise FetchError(f"larger than {self._limits.max_bytes:,} bytes once it is drawn")
        return replace(
            page,
            body=drawn.html,
            content_type="text/html",
            charset="utf-8",
            etag=None,
            last_modified=None,
            content_hash="",  # taken anew
        )

    def _missing(self, drawn: Drawn, budget: Budget) -> str:
        late = f"they were not done within {self._limits.render_timeout:g} s" if drawn.is_late else ""
        return budget.unavailable or late


def _has_script(page: Page) -> bool:
    return b"<script" in page.body.lower()


def _mode_of(live: Manifest, source: str) -> str:
    """Return which pages of a source were drawn in the build of a generation."""
    crawl = live.settings.get("crawl", {})
    mode = crawl.get("own", {}).get(source, {}).get("render") or crawl.get("render") or _OFF
    return str(mode)
