"""One site, breadth first. The order of the pages depends on the site alone, never on which fetch ends first.

Fetcher threads work ahead on a window of the frontier; links join it only when their page is taken, in its order.
"""

from collections import deque
from collections.abc import Collection, Generator, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from urllib.parse import urlsplit

from indexer import memory
from indexer.crawl.answers import Answer, Unavailable, refresh_of, robots_directives
from indexer.crawl.browser import Browser
from indexer.crawl.fetch import MAX_REDIRECTS, Fetcher, Request
from indexer.crawl.links import (
    ONLY_LINKS,
    TYPES,
    WELL_KNOWN,
    ListReader,
    fetch_robots,
    is_listing,
    read_links,
    robots_of,
)
from indexer.crawl.renderer import Renderer
from indexer.credentials import Session
from indexer.errors import FetchError, NotWanted, SessionEnded, SourceError
from indexer.generation.previous import conditions
from indexer.read.formats import CONTENT_TYPES
from indexer.read.reader_process import ReaderPool
from indexer.records import Failure, Item, Known, Page, PageRecord, Skip
from indexer.source_context import SourceContext
from indexer.urls import normalise, origin

_ADDRESSES, _ADDRESSES_PER_PAGE = 100_000, 4  # addresses remembered of a site, and more for each page of `max_pages`
_AHEAD = 8  # pages fetched ahead, per fetcher thread
Read = tuple[Page | Known, Page | None]  # a page, and the one that named it as its canonical address


class _RedirectRefused(NotWanted):
    """A redirect that is not followed."""


class _MovedToHttps(_RedirectRefused):
    """The start page is at the same place under https: `url`."""

    def __init__(self, url: str) -> None:
        super().__init__(f"moved to {url}")
        self.url = url


def crawl(
    context: SourceContext, sessions: Mapping[str, Session] | None = None, browser: Browser | None = None
) -> Generator[Item, None, None]:
    """Read every page of a site that links lead to from the start page, or that a sitemap, feed or llms.txt lists.

    The source of the context is the address of the start page; its scheme, host and port bound the crawl. The browser
    is started with the first page that is to be drawn. Pages that
    may be followed but not indexed are yielded too, marked `noindex`, and so are pages of the same content; of these
    the links of one are followed. Of pages that are unchanged or out of reach, the records are yielded.

    Raises:
        SourceError: the start page or the site's robots.txt cannot be read, or forbids reading.
        RendererMissing: pages are to be drawn, and the package or the browser for it is missing.
        CredentialsError, SessionEnded: the site cannot be read with its credentials.
    """
    start = normalise(context.source, "")
    if start is None:
        raise SourceError(f"{context.source} is not a valid http or https address; check the spelling")
    with closing(_Crawl(context, sessions or {}, browser or Browser())) as site:
        yield from site.explain([*site.fetch_start(start), *site.enqueue_sitemaps()])
        while site.submit_fetches():
            yield from site.next_items()
        yield from site.leftovers()


class _Crawl:
    """One site: its frontier, and the fetches that are under way."""

    def __init__(self, context: SourceContext, sessions: Mapping[str, Session], browser: Browser) -> None:
        limits = context.limits
        self._context, self._limits, self._earlier = context, limits, context.earlier
        self._source = context.source
        self._renderer = Renderer(context, browser)
        self._fetcher = Fetcher(limits, sessions)
        self._pool = ThreadPoolExecutor(limits.concurrency, thread_name_prefix="fetch")
        self._readers = ReaderPool()
        self._site, self._is_open = "", False  # scheme://host:port, and whether the start page has been read
        self._why_nowhere: str | None = None  # why the start page has no links; empty if it has; None: it was not read
        self._follows = True  # whether links of pages are followed
        self._frontier: deque[tuple[str, int]] = deque()  # addresses, and links from the start
        self._fetches: deque[tuple[str, int, Future[Read]]] = deque()
        self._max_seen = _ADDRESSES + _ADDRESSES_PER_PAGE * limits.max_pages
        self._seen: set[str] = set()  # addresses enqueued or refused
        self._yielded: set[str] = set()  # addresses of pages
        self._followed: set[str] = set()  # hashes of pages whose links are enqueued
        self._doubted: set[str] = set()  # addresses of pages that are yielded though they name another
        self._requested = self._bytes = 0  # pages fetched, and bytes of those yielded

    def close(self) -> None:
        """Stop all that is being fetched or read."""
        self._fetcher.abort()
        self._renderer.close()
        self._readers.close()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._fetcher.close()

    def fetch_start(self, start: str) -> list[Item]:
        """Read robots.txt and the start page; if it is a list of pages, only those that it lists are read."""
        try:
            try:
                self._enter_site(start)
                page, alias = self._read(start, CONTENT_TYPES | TYPES)
            except _MovedToHttps as move:
                self._enter_site(move.url)
                page, alias = self._read(move.url, CONTENT_TYPES | TYPES)
        except FetchError as error:
            raise SourceError(f"cannot read {start}: {error}") from error
        self._is_open = True
        self._seen |= {start, page.url}
        self._requested = 1
        if isinstance(page, Page) and is_listing(page):
            self._follows = False
            try:
                lists = self._lists.read((), page)
            except FetchError as error:
                raise SourceError(f"cannot read {page.url}: {error}") from error
            if not lists.pages:
                raise SourceError(f"{page.url} lists no page of {self._site}")
            return [*lists.notes, *self._enqueue(lists.pages, 0)]
        if (refusal := self._refusal(page.url)) is not None:
            return [Skip(page.url, refusal), *self._enqueue(page.links, 1)]
        return self._accept(start, 0, page, alias)

    def _enter_site(self, start: str) -> None:
        """Read the rules of a site. Raises FetchError."""
        site = self._site = origin(start)
        self._robots = fetch_robots(self._fetcher, site, self._limits.user_agent)
        self._fetcher.turns.delay = max(self._limits.delay, self._robots.delay)
        pages, lend = self._limits.max_pages, self._readers.borrowed
        self._renderer.enter_site(site, self._robots, self._fetcher, lend)
        self._lists = ListReader(site, self._robots, self._fetcher, pages, lend)
        if not self._robots.allows(start):
            raise NotWanted(f"{site}/robots.txt disallows it")

    def enqueue_sitemaps(self) -> list[Item]:
        """Enqueue what sitemaps list: those of robots.txt, or a well-known one if the start page leads nowhere."""
        if not self._follows or not self._limits.max_depth:
            return []
        lists = self._lists.read(url for name in self._robots.sitemaps if (url := normalise(self._site, name)))
        for place in () if self._robots.sitemaps or self._frontier or self._fetches else WELL_KNOWN:
            guess = self._lists.read([f"{self._site}{place}"])
            if guess.pages or guess.out_of_reach is not None:
                lists = guess
                break
        skips = self._enqueue(lists.pages, 1)
        if lists.out_of_reach is not None:  # what it listed last time is asked for, or would be taken for gone
            skips += self._enqueue(self._earlier.requested(self._source, f"{self._site}/"), 1)
        return [*lists.notes, *skips]

    def explain(self, items: list[Item]) -> list[Item]:
        """Add a note to the start page if neither it nor the sitemaps, which gave these items, lead anywhere."""
        if self._frontier or self._fetches or not self._limits.max_depth or self._why_nowhere is None:
            return items
        note = f"the start page leads nowhere: {self._why_nowhere or 'its links are left out, or lead only to itself'}"
        return [replace(item, note=note) if isinstance(item, Page) else item for item in items]

    def submit_fetches(self) -> bool:
        """Keep the fetcher threads busy; return False when no fetch is under way or due."""
        ahead = memory.share(self._limits.concurrency * _AHEAD)
        while self._frontier and len(self._fetches) < ahead and not self._over_limit():
            url, depth = self._frontier.popleft()
            self._requested += 1
            self._fetches.append((url, depth, self._pool.submit(self._read_or_known, url)))
        return bool(self._fetches)

    def next_items(self) -> list[Item]:
        """Wait for the fetch that was submitted first, and return its items."""
        url, depth, future = self._fetches.popleft()
        try:
            return self._accept(url, depth, *future.result())
        except NotWanted as error:
            return [Skip(url, str(error))]
        except FetchError as error:
            return [Failure(url, str(error))]

    def leftovers(self) -> list[Item]:
        """Return skips for requests of scripts that were refused, and for addresses over a limit."""
        return [*self._renderer.refused(), *(Skip(url, self._over_limit()) for url, _ in self._frontier)]

    def _over_limit(self) -> str:
        """Return which limit of the crawl is reached; empty if none is."""
        if self._bytes >= self._limits.max_total_bytes:
            return f"over the limit of {self._limits.max_total_bytes:,} bytes"
        full = self._requested >= self._limits.max_pages
        return f"over the limit of {self._limits.max_pages:,} pages" if full else ""

    def _accept(self, url: str, depth: int, page: Page | Known, alias: Page | None) -> list[Item]:
        """Return the skips of a page's links, and the page; several pages may have the same content."""
        items = list[Item]()
        if alias is not None:  # maybe one of many that name one address; only its links count
            self._bytes += len(alias.body)
            items += self._follow(alias, depth + 1)
        if page.url in self._yielded:
            return [*items, Skip(url, "leads to a page already read")]
        self._seen.add(page.url)
        self._yielded.add(page.url)
        self._bytes += len(page.body) if isinstance(page, Page) else 0
        items += self._follow(page, depth + 1)
        self.submit_fetches()  # so that fetching goes on while others use this page
        return [*items, page]

    def _follow(self, page: Page | Known, depth: int) -> list[Skip]:
        """Enqueue the links of a page, unless those of the same content were: a site may answer anything with one."""
        if page.content_hash in self._followed:
            return []
        self._followed.add(page.content_hash)
        return self._enqueue(page.links, depth)

    def _enqueue(self, links: Iterable[str], depth: int) -> list[Skip]:
        """Add new addresses to the frontier; return those that are left out."""
        skips: list[Skip] = []
        for url in links if self._follows or depth == 0 else ():
            if url in self._seen:
                continue
            if len(self._seen) >= self._max_seen:
                skips.append(Skip(url, f"over the limit of {self._max_seen:,} addresses of a site"))
                continue
            self._seen.add(url)
            if (refusal := self._refusal(url)) is not None:
                skips.append(Skip(url, refusal))
            elif depth > self._limits.max_depth:
                skips.append(Skip(url, f"more than {self._limits.max_depth:,} links from the start"))
            elif not self._robots.allows(url):
                skips.append(Skip(url, "robots.txt disallows it"))
            else:
                self._frontier.append((url, depth))
        self._context.report_due(min(self._requested + len(self._frontier), self._limits.max_pages))
        return skips

    def _read_or_known(self, url: str) -> Read:
        """Read one page, or return its record if it is out of reach; runs in a fetcher thread."""
        try:
            return self._read(url)
        except Unavailable as error:
            record = self._earlier.page_behind(url)
            if record is None or not self._robots.allows(record.url):
                raise
            return Known(replace(record, source=self._source), kept=str(error)), None

    def _read(self, url: str, types: Collection[str] = CONTENT_TYPES) -> Read:
        """Read one page, or the one at its canonical address if that is there and names no other."""
        page, canonical = self._fetch(url, types)
        if canonical is None or isinstance(page, Known):
            return page, None
        if not self._robots.allows(canonical) or self._refusal(canonical) is not None:
            return page, None
        if canonical in self._yielded and canonical not in self._doubted:  # only its address counts then
            return replace(page, url=canonical), page
        try:
            named, further = self._fetch(canonical, CONTENT_TYPES)
        except FetchError:
            return page, None
        if named.url != canonical or further is not None:
            self._doubted.add(page.url)  # before it is yielded, so that a page that names it in turn stays too
            return page, None
        return _requested_as(named, url), page

    def _fetch(self, url: str, types: Collection[str], hops: tuple[str, ...] = ()) -> tuple[Page | Known, str | None]:
        """Fetch one page and find its links; return its canonical address if it is another.

        A refresh to another page is followed like a redirect; `hops` are the pages that led here.
        """
        answer = self._answer(url, types)
        record, session = self._unchanging(answer.url), self._fetcher.session(answer.url)
        noindex, nofollow = robots_of(robots_directives(answer.headers))
        if answer.is_unchanged and record is not None:
            if session:
                session.add_witness(answer.url)
            return Known(replace(record, source=self._source, requested=url, noindex=noindex)), None
        page = answer.as_page(self._source, url)
        if record is not None and record.content_hash == page.content_hash and session is None:
            return replace(page, links=record.links, noindex=noindex), None
        wanted = ONLY_LINKS if noindex else self._renderer.wanted(page, self._context.wanted(page))
        links = read_links(page, self._readers.borrowed, wanted)
        target = links.refresh or refresh_of(page.url, answer.headers)
        if target is not None and target not in hops and len(hops) < MAX_REDIRECTS:
            try:
                self._check_redirect(target)
            except _MovedToHttps:
                raise
            except NotWanted as error:
                links = replace(links, noindex=True, leads_on=str(error))
            else:
                found, canonical = self._fetch(target, types, (*hops, page.url))
                return _requested_as(found, url), canonical
        if not (noindex or links.noindex) and self._renderer.wants(page, links):
            page, links = self._renderer.draw(page, links, self._context.wanted)
        if session and session.kinds and links.asks_password:  # the login page, or one like it
            self._check_session(session, answer.url, is_certain=True)
            raise NotWanted("asks for a password")
        if session:
            session.add_witness(answer.url)
        if not self._is_open:
            self._why_nowhere = "an X-Robots-Tag header says nofollow" if nofollow else links.leads_nowhere
        page = replace(
            page,
            links=() if nofollow else links.urls,
            noindex=noindex or links.noindex,
            left_out=links.leads_on or page.left_out,
            reading=links.reading,
        )
        return page, links.canonical

    def _answer(self, url: str, types: Collection[str]) -> Answer:
        """Fetch an address."""

        def validators(hop: str) -> Mapping[str, str]:
            record = self._unchanging(hop)
            return conditions(record) if record else {}

        request = Request(scope=self._check_redirect, types=types, validators=validators, lists=TYPES)
        try:
            return self._fetcher.get(url, request)
        except FetchError as error:
            session = self._fetcher.session(url)
            if session and session.kinds and (error.status in (401, 403) or isinstance(error, _RedirectRefused)):
                self._check_session(session, url, is_certain=error.status == 401)
            raise

    def _unchanging(self, url: str) -> PageRecord | None:
        """Return the record of a page, unless all are read again as others are drawn than before."""
        return None if self._renderer.differs else self._earlier.unchanging_page(url)

    def _check_session(self, session: Session, url: str, *, is_certain: bool) -> None:
        """Raise SessionEnded if the session has ended, as the answer of an address suggests."""

        def refuse(target: str) -> None:
            raise _RedirectRefused("a redirect")

        def is_refused(witness: str, as_stranger: bool) -> bool:
            """Return whether a page that was read before is now answered by a login. Raises FetchError."""
            try:
                answer = self._fetcher.get(witness, Request(scope=refuse, as_stranger=as_stranger))
            except FetchError as error:
                if error.status in (401, 403) or isinstance(error, _RedirectRefused):
                    return True
                raise
            return read_links(answer.as_page(self._source, witness), self._readers.borrowed).asks_password

        is_alive = session.is_alive(is_refused)
        if is_alive is False or (is_alive is None and is_certain):
            kinds = ", ".join(session.kinds)
            raise SessionEnded(f"{self._site} asks to log in at {url}: its {kinds} must be renewed")

    def _check_redirect(self, url: str) -> None:
        if origin(url) != self._site:
            here, there = urlsplit(self._site), urlsplit(url)
            if not self._is_open and there.scheme == "https" and here.netloc == there.netloc:
                raise _MovedToHttps(url)
            raise _RedirectRefused(f"redirect to another site ({origin(url)})")
        if not self._robots.allows(url):
            raise _RedirectRefused("redirect to a page that robots.txt disallows")
        if self._is_open and (refusal := self._refusal(url)):
            raise _RedirectRefused(f"redirect to a page that is {refusal}")

    def _refusal(self, url: str) -> str | None:
        """Return why an address of the site is left out, or None."""
        refusal = self._limits.scope.refusal(url)
        session = self._fetcher.session(url)
        return refusal or (session.refusal(url) if session else None)


def _requested_as(page: Page | Known, url: str) -> Page | Known:
    """Return a page with the address that it was requested at."""
    return Known(replace(page.record, requested=url)) if isinstance(page, Known) else replace(page, requested=url)
