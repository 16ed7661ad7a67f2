"""Read one page of a site, by its redirects, refreshes, scripts, session and robots directives."""

import secrets
import threading
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from indexer.crawl.browser import Browser
from indexer.crawl.fetch import MAX_REDIRECTS, Fetcher, PageRequest
from indexer.crawl.http_response import HttpResponse, refresh_of, robots_directives
from indexer.crawl.page_links import ONLY_LINKS, Links, read_links, robots_of
from indexer.crawl.renderer import Renderer
from indexer.crawl.robots import fetch_robots
from indexer.crawl.same_text import answer_of, is_same_answer, shingles, text_of
from indexer.crawl.sitemaps import TYPES, ListReader
from indexer.errors import FetchError, NotWanted, SessionEnded
from indexer.generation.previous import conditions
from indexer.network.credentials import Session
from indexer.network.urls import normalise, origin
from indexer.read.formats import CONTENT_TYPES
from indexer.read.reader_process import ReaderPool
from indexer.records import Known, Page, PageRecord, Skip
from indexer.source_context import SourceContext

SOFT_404 = "the site gives the same answer, with HTTP 200, for an address that does not exist"


class RedirectRefused(NotWanted):
    """A redirect that is not followed."""


class Moved(RedirectRefused):
    """The start page is on another site: `url`."""

    def __init__(self, url: str) -> None:
        super().__init__(f"moved to {url}")
        self.url = url


@dataclass(frozen=True, slots=True)
class Visit:
    """One page as it was read."""

    page: Page | Known
    canonical: str | None = None  # canonical address on the same site; None if it is the page's own
    text: frozenset[int] = frozenset()  # shingles of its text; empty if it was not read

    def of(self, url: str) -> "Visit":
        """Return the visit of a page that was requested at an address, and led to by a refresh or canonical link."""
        page = self.page
        if isinstance(page, Known):
            return replace(self, page=Known(replace(page.record, requested=url)))
        return replace(self, page=replace(page, requested=url))


class PageReader:
    """Reads pages of one site; may be used by many threads once `enter_site` has been called."""

    def __init__(self, context: SourceContext, sessions: Mapping[str, Session], browser: Browser) -> None:
        """Take a source. Raises RendererMissing."""
        self._context, self._limits, self._earlier = context, context.limits, context.earlier
        self._renderer = Renderer(context, browser)
        self._fetcher = Fetcher(context.limits, sessions)
        self._readers = ReaderPool()
        self.site = ""  # scheme://host:port
        self.moved_from = ""  # site of the source, if its start page redirects to another host
        self.is_open = False  # whether the start page has been read
        self.why_nowhere: str | None = None  # why the start page has no links; empty: it has some; None: it is not read
        self._missing: frozenset[int] | None = None  # shingles of the answer for an address that does not exist
        self._missing_lock = threading.Lock()

    def abort(self) -> None:
        """Stop all fetchers and readers."""
        self._fetcher.abort()
        self._renderer.close()
        self._readers.close()

    def close(self) -> None:
        """Close the connections, once no thread uses them."""
        self._fetcher.close()

    def enter_site(self, start: str) -> None:
        """Read the rules of the site of a start page, which another one may have redirected to. Raises FetchError."""
        if self.site and urlsplit(self.site).hostname != urlsplit(start).hostname:
            self.moved_from = self.moved_from or self.site
            self._fetcher.follow(self.site)
        self._start, site = start, origin(start)
        self.site = site
        self.robots = fetch_robots(self._fetcher, site, self._limits.user_agent)
        self._fetcher.turns.delay = max(self._limits.delay, self.robots.delay)
        self._renderer.enter_site(site, self.robots, self._fetcher, self._readers.borrowed)
        self.lists = ListReader(site, self.robots, self._fetcher, self._limits.max_pages, self._readers.borrowed)
        if not self.robots.allows(start):
            raise NotWanted(f"{site}/robots.txt disallows it")

    def refused_requests(self) -> list[Skip]:
        """Return the requests of scripts that were refused."""
        return self._renderer.refused()

    def refusal(self, url: str) -> str | None:
        """Return why an address of the site is left out, or None."""
        refusal = self._limits.scope.refusal(url)
        session = self._fetcher.session(url)
        return refusal or (session.refusal(url) if session else None)

    def read(self, url: str, types: Collection[str] = CONTENT_TYPES, hops: tuple[str, ...] = ()) -> Visit:
        """Fetch one page, and find its links and text.

        A refresh to another page is followed like a redirect; `hops` are the pages that led here.

        Raises:
            NotWanted: it is left out.
            FetchError: it cannot be read; Unavailable, this time.
            SourceError: nothing of the site can be read any more.
        """
        response = self._fetch(url, types)
        noindex, nofollow = robots_of(robots_directives(response.headers))
        record, session = self._unchanging(response.url), self._fetcher.session(response.url)
        if response.is_unchanged and record is not None:
            if session:
                session.add_witness(response.url)
            return Visit(Known(replace(record, source=self._context.source, requested=url, noindex=noindex)))
        page = response.as_page(self._context.source, url)
        if record is not None and record.content_hash == page.content_hash and session is None:
            return Visit(replace(page, links=record.links, noindex=noindex))
        wanted = ONLY_LINKS if noindex else self._renderer.parts_of(page, self._context.parts_of(page))
        links = read_links(page, self._readers.borrowed, wanted)
        target = links.refresh or refresh_of(page.url, response.headers)
        if target is not None and target not in hops and len(hops) < MAX_REDIRECTS:
            if (refusal := self._refresh_refusal(target)) is None:
                return self.read(target, types, (*hops, page.url)).of(url)
            links = replace(links, noindex=True, leads_on=refusal)
        if not (noindex or links.noindex) and self._renderer.wants(page, links):
            page, links = self._renderer.draw(page, links, self._context.parts_of)
        self._check_login(session, links, response.url)
        if not self.is_open:
            self.why_nowhere = "an X-Robots-Tag header says nofollow" if nofollow else links.leads_nowhere
        page = replace(
            page,
            links=() if nofollow else links.urls,
            noindex=noindex or links.noindex,
            left_out=links.leads_on or page.left_out,
            reading=links.reading,
        )
        text = frozenset[int]() if page.noindex else shingles(text_of(page))
        if self.is_open and text and (missing := self._missing_answer()) and is_same_answer(answer_of(page), missing):
            raise NotWanted(SOFT_404)
        return Visit(page, links.canonical, text)

    def _fetch(self, url: str, types: Collection[str]) -> HttpResponse:
        """Fetch an address, unless it has not changed. Raises FetchError, SessionEnded."""

        def validators(hop: str) -> Mapping[str, str]:
            record = self._unchanging(hop)
            return conditions(record) if record else {}

        request = PageRequest(scope=self._check_redirect, types=types, validators=validators, lists=TYPES)
        try:
            return self._fetcher.get(url, request)
        except FetchError as error:
            session = self._fetcher.session(url)
            if session and session.kinds and (error.status in (401, 403) or isinstance(error, RedirectRefused)):
                self._check_session(session, url, is_certain=error.status == 401)
            raise

    def _unchanging(self, url: str) -> PageRecord | None:
        """Return the record of a page, unless all are read again as others are rendered than before."""
        return None if self._renderer.differs else self._earlier.unchanging_page(url)

    def _missing_answer(self) -> frozenset[int]:
        """Return the shingles of the answer for an address that does not exist; none if that is an error, or empty.

        The site is asked once, when its first page has been read.
        """
        with self._missing_lock:
            if self._missing is None:
                self._missing = frozenset()
                url = normalise(self._start, f"pilotlight-{secrets.token_hex(8)}") or ""
                if self.robots.allows(url) and not self.refusal(url):
                    with suppress(FetchError):
                        response = self._fetcher.get(url, PageRequest(scope=self._check_redirect))
                        page = response.as_page(self._context.source, url)
                        wanted = self._renderer.parts_of(page, self._context.parts_of(page))
                        links = read_links(page, self._readers.borrowed, wanted)
                        if self._renderer.wants(page, links):
                            page, links = self._renderer.draw(page, links, self._context.parts_of)
                        self._missing = answer_of(replace(page, reading=links.reading))
            return self._missing

    def _check_login(self, session: Session | None, links: Links, url: str) -> None:
        """Raise SessionEnded or NotWanted for a page that asks for a password where none should be needed."""
        if session and session.kinds and links.asks_password:  # the login page, or one like it
            self._check_session(session, url, is_certain=True)
            raise NotWanted("asks for a password")
        if links.asks_password and not self.is_open and self.moved_from:
            raise NotWanted(f"redirect to another site ({self.site}), which asks for a password")
        if session:
            session.add_witness(url)

    def _check_session(self, session: Session, url: str, *, is_certain: bool) -> None:
        """Raise SessionEnded if the session has ended, as the answer of an address suggests."""

        def refuse(target: str) -> None:
            raise RedirectRefused("a redirect")

        def is_refused(witness: str, as_stranger: bool) -> bool:
            """Return whether a page that was read before is now answered by a login. Raises FetchError."""
            try:
                response = self._fetcher.get(witness, PageRequest(scope=refuse, as_stranger=as_stranger))
            except FetchError as error:
                if error.status in (401, 403) or isinstance(error, RedirectRefused):
                    return True
                raise
            return read_links(response.as_page(self._context.source, witness), self._readers.borrowed).asks_password

        is_alive = session.is_alive(is_refused)
        if is_alive is False or (is_alive is None and is_certain):
            kinds = ", ".join(session.kinds)
            raise SessionEnded(f"{self.site} asks to log in at {url}: its {kinds} must be renewed")

    def _check_redirect(self, url: str, *, is_refresh: bool = False) -> None:
        """Raise Moved if the crawl may go on at the target of a redirect, on another site, else RedirectRefused."""
        if origin(url) != self.site:
            here, there, session = urlsplit(self.site), urlsplit(url), self._fetcher.session(self.site)
            is_upgrade = there.scheme == "https" and here.netloc == there.netloc
            has_secrets = session is not None and bool(session.kinds)
            is_followed = not (is_refresh or has_secrets) and (there.scheme == "https" or here.scheme == "http")
            if not self.is_open and (is_upgrade or is_followed):
                raise Moved(url)
            raise RedirectRefused(f"redirect to another site ({origin(url)})")
        if not self.robots.allows(url):
            raise RedirectRefused("redirect to a page that robots.txt disallows")
        if self.is_open and (refusal := self.refusal(url)):
            raise RedirectRefused(f"redirect to a page that is {refusal}")

    def _refresh_refusal(self, url: str) -> str | None:
        """Return why a refresh to another page is not followed, or None. Raises Moved."""
        try:
            self._check_redirect(url, is_refresh=True)
        except Moved:
            raise
        except NotWanted as error:
            return str(error)
        return None
