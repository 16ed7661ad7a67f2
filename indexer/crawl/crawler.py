"""Crawl one site, breadth first. The order of the pages depends only on the site, never on the timing of fetches.

The frontier is the queue of addresses to fetch. Threads fetch several pages at once, but process pages in the order of
the frontier. The links of a page are added to the frontier when the page is processed.
"""

from collections import deque
from collections.abc import Collection, Generator, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from typing import NamedTuple

from indexer import memory
from indexer.crawl.browser import Browser
from indexer.crawl.http_response import MARKUP, PageUnavailable
from indexer.crawl.page_reader import Moved, PageReader, Visit
from indexer.crawl.same_text import SiteTexts, is_within
from indexer.crawl.site_files import SITEMAP_TYPES, WELL_KNOWN_SITEMAPS, is_sitemap
from indexer.errors import FetchError, NotWanted, SourceError
from indexer.network.credentials import Session
from indexer.network.urls import normalise
from indexer.read.formats import CONTENT_TYPES
from indexer.records import Failure, Item, Page, PageRecord, Skip
from indexer.source_context import SourceContext

_MIN_ADDRESS_LIMIT, _ADDRESSES_PER_PAGE = 100_000, 4
_PAGES_AHEAD_PER_THREAD = 8
_MAX_MOVES = 3
_COLLECTION = "/llms-full.txt"  # read last, because it may repeat the text of all pages
_VIEW = "only another view of an indexed page, such as its source or print version"
_MISTAKEN = "the page at its canonical address has different text or cannot be read: indexed under its own address"


class _QueuedAddress(NamedTuple):
    url: str
    depth: int  # links from the start page
    referrer: str  # address of the page with the link, or empty


@dataclass(frozen=True, slots=True)
class _Result:
    """The pages read for one address. `alias` is the requested page if only its canonical page is indexed."""

    visits: tuple[Visit, ...]
    alias: Page | None = None


def crawl(
    context: SourceContext, sessions: Mapping[str, Session] | None = None, browser: Browser | None = None
) -> Generator[Item, None, None]:
    """Crawl a site: yield the pages that links from its start page lead to, and the pages in its sitemaps and feeds.

    `context.source` is the address of the start page. The crawl stays on its scheme, host and port. If the links of a
    page are followed but its text is not indexed, the page is yielded with `noindex`. If several pages have the same
    content, all are yielded, but only the links of the first are followed. If a page is unchanged or unavailable, its
    record from the previous build is yielded.

    Args:
        sessions: login sessions by origin (`scheme://host:port`).
        browser: renders pages if the setting `render` requires it. None starts a new one for this site.

    Raises:
        SourceError: the start page or robots.txt cannot be read, or robots.txt disallows the start page.
        RendererMissing: the setting `render` is not off, and Playwright or Chromium is missing or does not start.
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


class _Frontier:
    def __init__(self, context: SourceContext, reader: PageReader) -> None:
        self._context, self._reader = context, reader
        self.queue: deque[_QueuedAddress] = deque()
        self._collections: deque[_QueuedAddress] = deque()
        self.visited: set[str] = set()
        self._max_visited = _MIN_ADDRESS_LIMIT + _ADDRESSES_PER_PAGE * context.limits.max_pages
        self.follows_links = True
        self.requested = 0

    def pop(self, *, is_idle: bool) -> _QueuedAddress | None:
        """Remove and return the next address, or None. Returns llms-full.txt last, when no fetch is running."""
        if is_idle and not self.queue:
            self.queue, self._collections = self._collections, self.queue
        return self.queue.popleft() if self.queue else None

    def remaining(self) -> list[str]:
        return [due.url for due in (*self.queue, *self._collections)]

    def enqueue(self, links: Iterable[str], depth: int, referrer: str = "") -> list[Skip]:
        """Queue the links that may be fetched, and return a Skip for each refused link. Ignores known addresses."""
        limits, skips = self._context.limits, list[Skip]()
        for url in links if self.follows_links or depth == 0 else ():
            if url in self.visited:
                continue
            if len(self.visited) >= self._max_visited:
                skips.append(Skip(url, f"over the limit of {self._max_visited:,} addresses per site"))
                continue
            self.visited.add(url)
            if (refusal := self._reader.refusal(url)) is not None:
                skips.append(Skip(url, refusal))
            elif depth > limits.max_depth:
                skips.append(Skip(url, f"more than {limits.max_depth:,} links from the start"))
            elif not self._reader.robots.allows(url):
                skips.append(Skip(url, "robots.txt disallows it"))
            else:
                queue = self._collections if url.endswith(_COLLECTION) and referrer else self.queue
                queue.append(_QueuedAddress(url, depth, referrer))
        due_count = self.requested + len(self.queue) + len(self._collections)
        self._context.report_due(min(due_count, limits.max_pages))
        return skips


class _CanonicalReader:
    """Reads pages at their canonical addresses. Threads share results, so each canonical address is fetched once."""

    def __init__(self, reader: PageReader, texts: SiteTexts, yielded: Collection[str]) -> None:
        self._reader, self._texts, self._yielded_urls = reader, texts, yielded
        self._doubted: set[str] = set()  # addresses of pages whose canonical link was ignored
        self._visits: dict[str, Future[Visit]] = {}

    def read(self, url: str, types: Collection[str] = CONTENT_TYPES) -> _Result:
        """Read a page. If its canonical address has a page with the same text, return that page instead."""
        visit = self._reader.read(url, types)
        page, canonical = visit.page, visit.canonical
        if canonical is None or isinstance(page, PageRecord):
            return _Result((visit,))
        if not self._reader.robots.allows(canonical) or self._reader.refusal(canonical) is not None:
            return _Result((visit,))
        mistaken = replace(visit, page=replace(page, note=_MISTAKEN))
        if canonical in self._yielded_urls and (visit.shingles or canonical not in self._doubted):
            if not self._texts.has_text(canonical, visit.shingles):
                return _Result((mistaken,))
            return _Result((replace(visit, page=replace(page, url=canonical)),), page)
        try:
            target = self._read_once(canonical)
        except FetchError:
            return _Result((mistaken,))
        if target.page.url != canonical or target.canonical is not None:
            self._doubted.add(page.url)
            self.forget(canonical)
            return _Result((visit,))
        text = visit.shingles
        if not (is_within(text, target.shingles) if target.shingles else self._texts.has_text(canonical, text)):
            return _Result((mistaken, target))
        return _Result((replace(target, page=replace(target.page, requested=url)),), page)

    def forget(self, url: str) -> None:
        self._visits.pop(url, None)

    def _read_once(self, url: str) -> Visit:
        new = Future[Visit]()
        future = self._visits.setdefault(url, new)  # only the thread whose future is stored reads the page
        if future is new:
            try:
                new.set_result(self._reader.read(url))
            except BaseException as error:  # noqa: BLE001 - raised again in every waiting thread
                new.set_exception(error)
        return future.result()


class _Crawl:
    def __init__(self, context: SourceContext, sessions: Mapping[str, Session], browser: Browser) -> None:
        self._context, self._limits, self._earlier = context, context.limits, context.earlier
        self._reader = PageReader(context, sessions, browser)
        self._frontier = _Frontier(context, self._reader)
        self._texts = SiteTexts(context.earlier)
        self._yielded_urls: set[str] = set()
        self._canonicals = _CanonicalReader(self._reader, self._texts, self._yielded_urls)
        self._pool = ThreadPoolExecutor(context.limits.concurrency, thread_name_prefix="fetch")
        self._fetches: deque[tuple[_QueuedAddress, Future[_Result]]] = deque()
        self._unread_views: list[Skip] = []
        self._followed_hashes: set[str] = set()
        self._bytes = 0

    def close(self) -> None:
        self._reader.abort()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._reader.close()

    def fetch_start(self, start: str) -> list[Item]:
        """Read robots.txt and the start page. If the start page is a sitemap, crawl only the pages that it lists."""
        reader, url, moves = self._reader, start, 0
        try:
            while True:
                try:
                    reader.enter_site(url)
                    result = self._canonicals.read(url, CONTENT_TYPES | SITEMAP_TYPES)
                    break
                except Moved as move:
                    if (moves := moves + 1) > _MAX_MOVES:
                        raise
                    url = move.url
        except FetchError as error:
            raise SourceError(f"cannot read {start}: {error}") from error
        reader.has_read_start, self._frontier.requested = True, 1
        page = result.visits[0].page
        self._frontier.visited.update((start, url, page.url))
        if isinstance(page, Page) and is_sitemap(page):
            self._frontier.follows_links = False
            try:
                listed = reader.sitemaps.read((), page)
            except FetchError as error:
                raise SourceError(f"cannot read {page.url}: {error}") from error
            if not listed.urls:
                raise SourceError(f"{page.url} lists no pages of {reader.site}")
            return [*listed.notes, *self._frontier.enqueue(listed.urls, 0)]
        if (refusal := reader.refusal(page.url)) is not None:
            return [Skip(page.url, refusal), *self._frontier.enqueue(page.links, 1)]
        return self._process_result(_QueuedAddress(url, 0, ""), result)

    def enqueue_sitemaps(self) -> list[Item]:
        """Enqueue the pages in sitemaps. Try usual sitemap addresses if robots.txt names none and no page is queued."""
        if not self._frontier.follows_links or not self._limits.max_depth:
            return []
        reader = self._reader
        site, sitemaps = reader.site, reader.robots.sitemaps
        listed = reader.sitemaps.read(url for name in sitemaps if (url := normalise(site, name)))
        for path in () if sitemaps or self._frontier.queue or self._fetches else WELL_KNOWN_SITEMAPS:
            guess = reader.sitemaps.read([f"{site}{path}"])
            if guess.urls or guess.unavailable is not None:
                listed = guess
                break
        skips = self._frontier.enqueue(listed.urls, 1)
        if listed.unavailable is not None:  # use pages of the previous build, which may still exist
            skips += self._frontier.enqueue(self._earlier.requested(self._context.source, f"{site}/"), 1)
        return [*listed.notes, *skips]

    def explain(self, items: list[Item]) -> list[Item]:
        """Add a note to the start page if it redirects to another site or has no links to follow."""
        reader, notes = self._reader, []
        if reader.moved_from:
            notes.append(f"{reader.moved_from} redirects to {reader.site}, which was read instead")
        is_alone = not (self._frontier.queue or self._fetches) and self._limits.max_depth > 0
        if is_alone and (reason := reader.why_no_links) is not None:
            notes.append(f"the start page leads to no other page: {reason or 'its links are excluded or point to it'}")
        if not notes:
            return items
        return [replace(item, note="; ".join(notes)) if isinstance(item, Page) else item for item in items]

    def submit_fetches(self) -> bool:
        """Submit queued addresses to the fetcher threads. Returns whether any fetch is submitted or running."""
        window = memory.share(self._limits.concurrency * _PAGES_AHEAD_PER_THREAD)
        while len(self._fetches) < window and not self._limit_reached():
            due = self._frontier.pop(is_idle=not self._fetches)
            if due is None:
                break
            if due.referrer and self._texts.has_view_address(due.url, due.referrer):
                self._unread_views.append(Skip(due.url, _VIEW))
                continue
            self._frontier.requested += 1
            self._fetches.append((due, self._pool.submit(self._read_or_known, due.url)))
        return bool(self._fetches)

    def next_items(self) -> list[Item]:
        """Wait for the oldest submitted fetch, and return its pages, skips or failure."""
        due, future = self._fetches.popleft()
        try:
            return self._process_result(due, future.result())
        except FetchError as error:
            return [(Skip if isinstance(error, NotWanted) else Failure)(due.url, str(error))]

    def leftovers(self) -> list[Item]:
        """Return a Skip for each unread page (over a limit, or a print version) and for each refused resource."""
        limit = self._limit_reached()
        rest = (Skip(url, limit) for url in self._frontier.remaining())
        return [*self._reader.refused_requests(), *self._unread_views, *rest]

    def _limit_reached(self) -> str:
        if self._bytes >= self._limits.max_total_bytes:
            return f"over the limit of {self._limits.max_total_bytes:,} bytes"
        is_full = self._frontier.requested >= self._limits.max_pages
        return f"over the limit of {self._limits.max_pages:,} pages" if is_full else ""

    def _process_result(self, due: _QueuedAddress, result: _Result) -> list[Item]:
        """Enqueue the links of fetched pages. Return the pages, and a Skip for each refused link or repeated page."""
        items = list[Item]()
        self._frontier.visited.update(visit.page.url for visit in result.visits)
        if result.alias is not None:
            self._bytes += len(result.alias.body)
            items += self._follow(result.alias, due)
        for visit in result.visits:
            page = visit.page
            self._canonicals.forget(page.url)
            if page.url in self._yielded_urls:
                items += [Skip(due.url, "leads to a page already read")] if visit is result.visits[0] else []
                continue
            if isinstance(page, Page) and (reason := self._repeat_reason(due, visit, page)):
                items += [*self._follow(page, due)] if page.content_type in MARKUP else []
                items.append(Skip(page.url, reason))
                continue
            if not (isinstance(page, Page) and page.noindex):
                self._texts.add(page, visit.shingles)
            self._yielded_urls.add(page.url)
            self._bytes += len(page.body) if isinstance(page, Page) else 0
            items += [*self._follow(page, due), page]
        self.submit_fetches()
        return items

    def _repeat_reason(self, due: _QueuedAddress, visit: Visit, page: Page) -> str:
        """Return the reason to skip a page that repeats the text of other pages, or an empty string."""
        if page.noindex or page.content_hash in self._followed_hashes:
            return ""
        if page.url.endswith(_COLLECTION) and self._texts.is_collection(visit.shingles):
            return "repeats the text of other pages"
        return _VIEW if self._texts.is_view(page, visit.shingles, due.referrer) else ""

    def _follow(self, page: Page | PageRecord, due: _QueuedAddress) -> list[Skip]:
        """Enqueue the links of a page, unless another page had the same content. Return a Skip per refused link."""
        if page.content_hash in self._followed_hashes:
            return []  # otherwise a site that serves this page at all addresses would be crawled forever
        self._followed_hashes.add(page.content_hash)
        return self._frontier.enqueue(page.links, due.depth + 1, page.url)

    def _read_or_known(self, url: str) -> _Result:
        """Read a page. If it is unavailable, return its record from the previous build. Runs in a fetcher thread."""
        try:
            return self._canonicals.read(url)
        except PageUnavailable as error:
            record = self._earlier.page_behind(url)
            if record is None or not self._reader.robots.allows(record.url):
                raise
            return _Result((Visit(replace(record, source=self._context.source, failure=str(error))),))
