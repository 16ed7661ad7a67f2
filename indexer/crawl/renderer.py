"""Decide which pages of a site need rendering, render them in the browser, and read the rendered documents.

The browser has no secrets and no network access, so the crawler sends the requests of scripts: only GET requests that
robots.txt and the limits permit. It sends credentials only to the site itself.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from indexer.crawl.browser import Browser, RenderJob, Resource, check_installed
from indexer.crawl.fetch import Fetcher, PageRequest
from indexer.crawl.http_response import MARKUP, HttpResponse, Links, PageUnavailable, read_links
from indexer.crawl.site_files import Robots, fetch_robots
from indexer.errors import FetchError, NotWanted
from indexer.network.urls import normalise, origin
from indexer.read.document_reader import PageParts
from indexer.read.reader_process import Lend
from indexer.records import Page, Skip
from indexer.source_context import SourceContext

_REQUEST_HEADERS = {"accept": "Accept", "origin": "Origin"}
_RESPONSE_HEADERS = ("access-control-allow-origin", "access-control-allow-credentials")
_SCRIPT_CACHE_BYTES = 32_000_000
_MAX_ORIGINS = 16
_MAX_REFUSED = 100


@dataclass(slots=True)
class RenderBudget:
    """The number of bytes that a page may still load. `unavailable` is the error of the last resource that failed."""

    bytes: int
    unavailable: str = ""


class Renderer:
    """Renders pages of one site according to its `render` setting. Safe to share between threads."""

    def __init__(self, context: SourceContext, browser: Browser) -> None:
        """Prepare to render pages. Raises RendererMissing if rendering is not off and no browser is installed."""
        limits, live = context.limits, context.earlier.manifest
        self._limits, self._mode, self._parts_of = limits, limits.render, context.parts_of
        self._browser, self._stop, self._lock = browser, threading.Event(), threading.Lock()
        self._site = ""  # scheme://host:port; empty if rendering is off
        self._robots: dict[str, Robots | FetchError] = {}
        self._scripts: dict[str, Resource] = {}
        self._cache_left = _SCRIPT_CACHE_BYTES
        self._refused: dict[str, Skip] = {}
        self.mode_changed = False  # True if `render` differs from the previous build
        if live is not None:
            before = live.settings.get("crawl", {})
            own_settings = before.get("own", {}).get(context.source, {})
            self.mode_changed = self._mode != (own_settings.get("render") or before.get("render") or "off")
        if self._mode != "off":
            check_installed()
            # on other sites, private addresses are permitted only in networks that the user lists
            private = limits.allow_private if isinstance(limits.allow_private, tuple) else False
            self._resource_fetcher = Fetcher(replace(limits, allow_private=private))

    def enter_site(self, site: str, robots: Robots, fetcher: Fetcher, lend: Lend) -> None:
        """Set the site (`scheme://host:port`), its robots rules, its fetcher, and the pool of reader processes."""
        if self._mode != "off":
            self._site, self._fetcher, self._lend = site, fetcher, lend
            self._robots[site] = robots
            self._resource_fetcher.pacer = fetcher.pacer

    def close(self) -> None:
        """Stop all rendering immediately."""
        self._stop.set()
        if self._mode != "off":
            self._resource_fetcher.abort()
            self._resource_fetcher.close()

    def refused_requests(self) -> list[Skip]:
        """Return a Skip for each refused request of a script."""
        return [*self._refused.values()]

    def parts_of(self, page: Page) -> PageParts:
        """Return the parts of a page to read before rendering. If every page is rendered, these are only its links."""
        if not self._site or page.content_type not in MARKUP:
            return self._parts_of(page)
        return PageParts() if self._mode == "on" else replace(self._parts_of(page), needs_rendering=_has_script(page))

    def render_if_needed(self, page: Page, links: Links) -> tuple[Page, Links]:
        """Render a page if necessary, and return the page and its links.

        A rendered page has no ETag and Last-Modified, because it depends on other resources. So the next build renders
        it again.

        Raises:
            PageUnavailable: the browser failed, or the page has no text because a resource was unavailable.
            FetchError: the rendered document cannot be read or is too long, or the crawl is being stopped.
            SourceError: the browser does not start, or the session with the site has ended.
        """
        if not (self._site and page.content_type in MARKUP and (self._mode == "on" or links.needs_rendering)):
            return page, links
        limits, delay, budget = self._limits, self._fetcher.pacer.delay, RenderBudget(self._limits.render_bytes)
        load = partial(self.load, budget)
        job = RenderJob(page.url, _content_type(page), page.body, limits.render_timeout, delay, limits.max_bytes, load)
        began = time.monotonic()
        try:
            document = self._browser.render(job, self._stop)
        except PageUnavailable:
            self._fetcher.failed_seconds += time.monotonic() - began
            raise
        if len(document.html) > limits.max_bytes:
            raise FetchError(f"larger than {limits.max_bytes:,} bytes after rendering")
        rendered = replace(page, body=document.html, content_type="text/html", charset="utf-8", content_hash="")
        rendered = replace(rendered, etag=None, last_modified=None)
        timeout = f"they took longer than {limits.render_timeout:g} s" if document.timed_out else ""
        reason = budget.unavailable or timeout
        requested = replace(self._parts_of(rendered), needs_rendering=bool(reason) and _has_script(rendered))
        rendered_links = read_links(rendered, self._lend, requested)
        if rendered_links.needs_rendering:
            raise PageUnavailable(f"its scripts have not rendered it: {reason}")
        targets = (normalise(page.url, url) for url in document.navigations)
        targets_on_site = (url for url in targets if url is not None and origin(url) == origin(page.url))
        urls = tuple(dict.fromkeys([*rendered_links.urls, *targets_on_site]))
        asks_password = links.asks_password or rendered_links.asks_password
        return rendered, replace(rendered_links, urls=urls, asks_password=asks_password)

    def load(self, budget: RenderBudget, address: str, is_script: bool, headers: Mapping[str, str]) -> Resource | None:
        """Fetch a resource for the browser, or return None if this fails. Raises CredentialsError for a bad secret."""
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
            budget.bytes -= len(resource.body)
            if is_script and url not in self._scripts and len(resource.body) <= self._cache_left:
                self._scripts[url] = resource
                self._cache_left -= len(resource.body)
        return resource

    def _fetch(self, url: str, headers: Mapping[str, str]) -> Resource:
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
        fetcher = self._fetcher if site == self._site else self._resource_fetcher
        forwarded = {name: headers[key] for key, name in _REQUEST_HEADERS.items() if key in headers}
        response = fetcher.get(url, PageRequest(check, types=None, headers=forwarded))
        returned = {name: response.headers[name] for name in _RESPONSE_HEADERS if name in response.headers}
        return Resource(200, _content_type(response), response.body, returned)

    def _rules(self, site: str) -> Robots:
        rules = self._robots.get(site)
        if rules is None:
            try:
                rules = fetch_robots(self._resource_fetcher, site, self._limits.user_agent)
            except FetchError as error:
                rules = error
            with self._lock:
                if len(self._robots) > _MAX_ORIGINS:
                    del self._robots[next(origin for origin in self._robots if origin != self._site)]
                self._robots[site] = rules
        if isinstance(rules, FetchError):
            raise rules
        return rules


def _content_type(content: Page | HttpResponse) -> str:
    return f"{content.content_type}; charset={content.charset}" if content.charset else content.content_type


def _has_script(page: Page) -> bool:
    return b"<script" in page.body.lower()
