"""Read a page of a site: follow redirects and refreshes, render it, check the session, and obey robots directives."""

import secrets
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import urlsplit

from indexer.crawl.browser import Browser
from indexer.crawl.fetch import MAX_REDIRECTS, Fetcher, PageRequest
from indexer.crawl.http_response import (
    ONLY_LINKS,
    HttpResponse,
    Links,
    indexing_rules,
    read_links,
    refresh_target,
    x_robots_directives,
)
from indexer.crawl.renderer import Renderer
from indexer.crawl.same_text import is_same_answer, shingles, shingles_without_address, text_of
from indexer.crawl.site_files import SITEMAP_TYPES, SitemapReader, fetch_robots
from indexer.errors import FetchError, NotWanted, SessionEnded
from indexer.generation.previous import conditions
from indexer.network.credentials import Session
from indexer.network.urls import normalise, origin
from indexer.read.formats import CONTENT_TYPES
from indexer.read.reader_process import ReaderPool
from indexer.records import Page, PageRecord
from indexer.source_context import SourceContext

_REFUSED_STATUSES = (401, 403)
_SHORT_PAGE_SHINGLES = 100
_MAX_SOFT_404_FOLDERS = 10
SOFT_404 = "the site returns the same page, with HTTP 200, for an address that does not exist"


class RedirectRefused(NotWanted):
    """The target of a redirect may not be fetched."""


class Moved(RedirectRefused):
    """The start page redirects to `url`, which is on another site."""

    def __init__(self, url: str) -> None:
        super().__init__(f"moved to {url}")
        self.url = url


@dataclass(frozen=True, slots=True)
class Visit:
    """A page that was read, and the shingles of its text (hashes of all runs of three words)."""

    page: Page | PageRecord
    canonical: str | None = None  # None if missing, or if it is the address of the page
    shingles: frozenset[int] = frozenset()


class LoginCheck:
    """Detects whether a site has ended the login session of the crawler."""

    def __init__(self, fetcher: Fetcher, source: str, read_links: Callable[[Page], Links]) -> None:
        self._fetcher, self._source, self._read_links = fetcher, source, read_links

    def check_page(self, url: str, links: Links) -> None:
        """Check that a page does not ask for a password, and store its address for later checks of the session.

        Raises:
            SessionEnded: the page asks for a password, and the session has ended.
            NotWanted: the page asks for a password although the session is valid.
        """
        session = self._fetcher.session(url)
        if session and session.kinds and links.asks_password:
            self._check_session(session, url, is_certain=True)
            raise NotWanted("asks for a password")
        if session:
            session.add_witness(url)

    def check_error(self, url: str, error: FetchError) -> None:
        """Raise SessionEnded if a failed request shows that the session has ended."""
        session = self._fetcher.session(url)
        if session and session.kinds and (error.status in _REFUSED_STATUSES or isinstance(error, RedirectRefused)):
            self._check_session(session, url, is_certain=error.status == 401)

    def _check_session(self, session: Session, url: str, *, is_certain: bool) -> None:
        is_alive = session.is_alive(self._is_refused)
        if is_alive is False or (is_alive is None and is_certain):
            kinds = ", ".join(session.kinds)
            raise SessionEnded(f"{origin(url)} asks to log in at {url}: its {kinds} must be renewed")

    def _is_refused(self, url: str, is_anonymous: bool) -> bool:
        """Return whether the site refuses or redirects a request, or asks for a password. Raises other FetchErrors."""

        def refuse(_: str) -> None:
            raise RedirectRefused("a redirect")

        try:
            response = self._fetcher.get(url, PageRequest(refuse, is_anonymous=is_anonymous))
        except FetchError as error:
            if error.status in _REFUSED_STATUSES or isinstance(error, RedirectRefused):
                return True
            raise
        return self._read_links(response.as_page(self._source, url)).asks_password


class PageReader:
    """Reads pages of one site. Threads can share it after `enter_site` was called."""

    def __init__(self, context: SourceContext, sessions: Mapping[str, Session], browser: Browser) -> None:
        """Prepare to read pages of a source. Raises RendererMissing if the browser for rendering is not installed."""
        self._context, self._limits, self._earlier = context, context.limits, context.earlier
        self._renderer = Renderer(context, browser)
        self.refused_requests = self._renderer.refused_requests
        self._fetcher = Fetcher(context.limits, sessions)
        self.close = self._fetcher.close  # call `close` after all threads have stopped
        self._readers = ReaderPool()
        self._logins = LoginCheck(self._fetcher, context.source, partial(read_links, lend=self._readers.borrowed))
        self.site = ""  # scheme://host:port
        self.moved_from = ""
        self.has_read_start = False
        self.why_no_links: str | None = None  # empty if the start page has links; None before the page is read
        self._soft_404: dict[str, frozenset[int]] = {}  # shingles of the response for a missing page, by folder
        self._soft_404_lock = threading.Lock()

    def abort(self) -> None:
        """Abort all requests, and stop the browser and the reader processes."""
        self._fetcher.abort()
        self._renderer.close()
        self._readers.close()

    def enter_site(self, start: str) -> None:
        """Fetch robots.txt for the address `start`. Raises FetchError if the file or `start` may not be fetched."""
        if self.site and urlsplit(self.site).hostname != urlsplit(start).hostname:
            self.moved_from = self.moved_from or self.site
            self._fetcher.leave_site(self.site)
        site = origin(start)
        self._start, self.site = start, site
        self.robots = fetch_robots(self._fetcher, site, self._limits.user_agent)
        self._fetcher.pacer.delay = max(self._limits.delay, self.robots.delay)
        self._renderer.enter_site(site, self.robots, self._fetcher, self._readers.borrowed)
        max_pages, lend = self._limits.max_pages, self._readers.borrowed
        self.sitemaps = SitemapReader(site, self.robots, self._fetcher, max_pages, lend, self.moved_from)
        if not self.robots.allows(start):
            raise NotWanted(f"{site}/robots.txt disallows it")

    def refusal(self, url: str) -> str | None:
        """Return the reason to skip an address of the site, or None. Does not check robots.txt."""
        refusal = self._limits.scope.refusal(url)
        session = self._fetcher.session(url)
        return refusal or (session.refusal(url) if session else None)

    def read(self, url: str, types: Collection[str] = CONTENT_TYPES) -> Visit:
        """Fetch one page, and read its links and text. A refresh to another page is followed like a redirect.

        Raises:
            NotWanted: the page is excluded by its type, its address or robots.txt.
            PageUnavailable: the page cannot be read now, but maybe later.
            FetchError: the page cannot be read for another reason.
            SourceError: no page of the site can be read, for example because the session has ended.
        """
        target, hops = url, list[str]()
        while True:
            response = self._fetch(target, types)
            result = self._unchanged_visit(response, url) or self._read_changed(response, url, hops)
            if isinstance(result, Visit):
                return result
            target = result

    def _fetch(self, url: str, types: Collection[str]) -> HttpResponse:
        def validators(hop: str) -> Mapping[str, str]:
            record = self._reusable_record(hop)
            return conditions(record) if record else {}

        request = PageRequest(self._check_redirect, types=types, validators=validators, long_types=SITEMAP_TYPES)
        try:
            return self._fetcher.get(url, request)
        except FetchError as error:
            self._logins.check_error(url, error)
            raise

    def _unchanged_visit(self, response: HttpResponse, requested: str) -> Visit | None:
        """Return the page as a `Visit` if it is the same as in the previous build, or None if it must be read again."""
        noindex, _ = indexing_rules(x_robots_directives(response.headers))
        record, session = self._reusable_record(response.url), self._fetcher.session(response.url)
        if record is None:
            return None
        source = self._context.source
        if response.is_unchanged:
            if session:
                session.add_witness(response.url)
            return Visit(replace(record, source=source, requested=requested, noindex=noindex))
        page = response.as_page(source, requested)
        is_same = record.content_hash == page.content_hash and session is None
        return Visit(replace(page, links=record.links, noindex=noindex)) if is_same else None

    def _read_changed(self, response: HttpResponse, requested: str, hops: list[str]) -> Visit | str:
        """Read the page in a response. If the page refreshes to another page, return the address of that page."""
        noindex, nofollow = indexing_rules(x_robots_directives(response.headers))
        page = response.as_page(self._context.source, requested)
        selection = ONLY_LINKS if noindex else self._renderer.parts_of(page)
        links = read_links(page, self._readers.borrowed, selection, former_site=self.moved_from)
        target = links.refresh or refresh_target(page.url, response.headers)
        if target is not None and target not in hops and len(hops) < MAX_REDIRECTS:
            try:
                self._check_redirect(target, is_refresh=True)
            except Moved:
                raise
            except NotWanted as error:
                links = replace(links, noindex=True, followed_kind=str(error))
            else:
                hops.append(page.url)
                return target
        if not (noindex or links.noindex):
            page, links = self._renderer.render_if_needed(page, links)
        self._logins.check_page(response.url, links)
        if links.asks_password and not self.has_read_start and self.moved_from:
            raise NotWanted(f"redirect to another site ({self.site}), which asks for a password")
        if not self.has_read_start:
            self.why_no_links = "an X-Robots-Tag header says nofollow" if nofollow else links.why_no_links
        page = replace(
            page,
            links=() if nofollow else links.urls,
            noindex=noindex or links.noindex,
            skip_reason=links.followed_kind or page.skip_reason,
            reading=links.reading,
        )
        text = frozenset[int]() if page.noindex else shingles(text_of(page))
        if self.has_read_start and text and self._is_soft_404(page):
            raise NotWanted(SOFT_404)
        return Visit(page, links.canonical, text)

    def _reusable_record(self, url: str) -> PageRecord | None:
        """Return the record of a page from the previous build. None if there is none or the rendering mode changed."""
        return None if self._renderer.mode_changed else self._earlier.reusable_page(url)

    def _is_soft_404(self, page: Page) -> bool:
        """Return whether a page is almost the same as the site's response for a random address that does not exist.

        A short page is also compared with the response for a random address in its top folder, because the site may
        have another error page there.
        """
        text = shingles_without_address(page)
        top, _, rest = urlsplit(page.requested).path[1:].partition("/")
        is_short = len(text) <= _SHORT_PAGE_SHINGLES
        folders = [self._start, f"{self.site}/{top}/"] if rest and is_short else [self._start]
        with self._soft_404_lock:
            for folder in folders:
                if folder not in self._soft_404 and len(self._soft_404) < _MAX_SOFT_404_FOLDERS:
                    self._soft_404[folder] = frozenset()
                    url = normalise(folder, f"pilotlight-{secrets.token_hex(8)}") or ""
                    if self.robots.allows(url) and not self.refusal(url):
                        with suppress(FetchError):
                            self._soft_404[folder] = self._read_soft_404(url)
            answers = [self._soft_404.get(folder) for folder in folders]
        return any(is_same_answer(text, answer) for answer in answers if answer)

    def _read_soft_404(self, url: str) -> frozenset[int]:
        response = self._fetcher.get(url, PageRequest(self._check_redirect))
        page = response.as_page(self._context.source, url)
        links = read_links(page, self._readers.borrowed, self._renderer.parts_of(page))
        page, links = self._renderer.render_if_needed(page, links)
        return shingles_without_address(replace(page, reading=links.reading))

    def _check_redirect(self, url: str, *, is_refresh: bool = False) -> None:
        """Check the target of a redirect or refresh.

        Raises:
            Moved: the start page redirects to another site, and the crawl may continue there.
            RedirectRefused: the target may not be fetched.
        """
        if origin(url) != self.site:
            source, target, session = urlsplit(self.site), urlsplit(url), self._fetcher.session(self.site)
            is_upgrade = target.scheme == "https" and source.netloc == target.netloc
            has_secrets = session is not None and bool(session.kinds)
            is_followed = not (is_refresh or has_secrets) and (target.scheme == "https" or source.scheme == "http")
            if not self.has_read_start and (is_upgrade or is_followed):
                raise Moved(url)
            raise RedirectRefused(f"redirect to another site ({origin(url)})")
        if not self.robots.allows(url):
            raise RedirectRefused("redirect to a page that robots.txt disallows")
        if self.has_read_start and (refusal := self.refusal(url)):
            raise RedirectRefused(f"redirect to a page that is {refusal}")
