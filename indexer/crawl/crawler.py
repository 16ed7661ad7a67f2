"""One site, breadth first. The order of the pages depends on the site alone, never on which fetch ends first.

Fetcher threads work ahead on a window of the frontier; links join it only when their page is taken, in its order.
"""

from collections import deque
from collections.abc import Generator, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from threading import Lock
from typing import NamedTuple

from indexer import memory
from indexer.crawl.browser import Browser
from indexer.crawl.http_response import PageUnavailable
from indexer.crawl.page_links import MARKUP
from indexer.crawl.page_reader import Moved, PageReader, Visit
from indexer.crawl.same_text import SiteTexts, is_within
from indexer.crawl.sitemaps import TYPES, WELL_KNOWN, is_listing
from indexer.errors import FetchError, NotWanted, SourceError
from indexer.network.credentials import Session
from indexer.network.urls import normalise
from indexer.read.formats import CONTENT_TYPES
from indexer.records import Failure, Item, Known, Page, Skip
from indexer.source_context import SourceContext

_ADDRESSES, _ADDRESSES_PER_PAGE = 100_000, 4  # addresses remembered of a site, and more for each page of `max_pages`
_AHEAD = 8  # pages fetched ahead, per fetcher thread
_MAX_MOVES = 3  # sites that start pages redirect to
_COLLECTION = "/llms-full.txt"  # read last: it may repeat all pages
_VIEW = "another view of a page that is read"
_MISTAKEN = "its canonical address has another text, or cannot be read: indexed under its own"


class _Due(NamedTuple):
    url: str
    depth: int  # links from the start
    referrer: str  # page that links to it; empty for lists


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The pages that one address led to."""

    visits: tuple[Visit, ...]
    alias: Page | None = None  # page that named the first as its canonical address, of which only the links count


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
        self._reader = PageReader(context, sessions, browser)
        self._texts = SiteTexts(context.earlier)
        self._pool = ThreadPoolExecutor(limits.concurrency, thread_name_prefix="fetch")
        self._follows = True  # whether links of pages are followed
        self._frontier: deque[_Due] = deque()
        self._collections: deque[_Due] = deque()  # read once the frontier is empty
        self._fetches: deque[tuple[_Due, Future[_Outcome]]] = deque()
        self._unread: list[Skip] = []  # views of pages, by their addresses
        self._max_seen = _ADDRESSES + _ADDRESSES_PER_PAGE * limits.max_pages
        self._seen: set[str] = set()  # addresses enqueued or refused
        self._yielded: set[str] = set()  # addresses of pages
        self._followed: set[str] = set()  # hashes of pages whose links are enqueued
        self._doubted: set[str] = set()  # addresses of pages that are yielded though they name another
        self._canonicals: dict[str, Future[Visit]] = {}  # under way, or not yet yielded
        self._canonicals_lock = Lock()
        self._requested = self._bytes = 0  # pages fetched, and bytes of those yielded

    def close(self) -> None:
        """Stop all that is being fetched or read."""
        self._reader.abort()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._reader.close()

    def fetch_start(self, start: str) -> list[Item]:
        """Read robots.txt and the start page; if it is a list of pages, only those that it lists are read."""
        reader, url, moves = self._reader, start, 0
        try:
            while True:
                try:
                    reader.enter_site(url)
                    outcome = self._read(url, is_start=True)
                    break
                except Moved as move:
                    if (moves := moves + 1) > _MAX_MOVES:
                        raise
                    url = move.url
        except FetchError as error:
            raise SourceError(f"cannot read {start}: {error}") from error
        reader.is_open, self._requested = True, 1
        page = outcome.visits[0].page
        self._seen |= {start, url, page.url}
        if isinstance(page, Page) and is_listing(page):
            self._follows = False
            try:
                lists = reader.lists.read((), page)
            except FetchError as error:
                raise SourceError(f"cannot read {page.url}: {error}") from error
            if not lists.pages:
                raise SourceError(f"{page.url} lists no page of {reader.site}")
            return [*lists.notes, *self._enqueue(lists.pages, 0)]
        if (refusal := reader.refusal(page.url)) is not None:
            return [Skip(page.url, refusal), *self._enqueue(page.links, 1)]
        return self._accept(_Due(url, 0, ""), outcome)

    def enqueue_sitemaps(self) -> list[Item]:
        """Enqueue what sitemaps list: those of robots.txt, or a well-known one if the start page leads nowhere."""
        if not self._follows or not self._limits.max_depth:
            return []
        reader = self._reader
        site, named = reader.site, reader.robots.sitemaps
        lists = reader.lists.read(url for name in named if (url := normalise(site, name)))
        for place in () if named or self._frontier or self._fetches else WELL_KNOWN:
            guess = reader.lists.read([f"{site}{place}"])
            if guess.pages or guess.out_of_reach is not None:
                lists = guess
                break
        skips = self._enqueue(lists.pages, 1)
        if lists.out_of_reach is not None:  # what it listed last time is asked for, or would be taken for gone
            skips += self._enqueue(self._earlier.requested(self._context.source, f"{site}/"), 1)
        return [*lists.notes, *skips]

    def explain(self, items: list[Item]) -> list[Item]:
        """Add notes to the start page: if it is on another host, and if neither it nor the sitemaps lead anywhere."""
        reader, notes = self._reader, []
        if reader.moved_from:
            notes.append(f"{reader.moved_from} redirects to {reader.site}, which was read")
        is_bare = not (self._frontier or self._fetches) and self._limits.max_depth > 0
        if is_bare and (why := reader.why_nowhere) is not None:
            notes.append(f"the start page leads nowhere: {why or 'its links are left out, or lead only to itself'}")
        if not notes:
            return items
        return [replace(item, note="; ".join(notes)) if isinstance(item, Page) else item for item in items]

    def submit_fetches(self) -> bool:
        """Keep the fetcher threads busy; return False when no fetch is under way or due."""
        ahead = memory.share(self._limits.concurrency * _AHEAD)
        if not (self._frontier or self._fetches):
            self._frontier, self._collections = self._collections, self._frontier
        while self._frontier and len(self._fetches) < ahead and not self._over_limit():
            due = self._frontier.popleft()
            if due.referrer and self._texts.has_view_address(due.url, due.referrer):
                self._unread.append(Skip(due.url, _VIEW))
                continue
            self._requested += 1
            self._fetches.append((due, self._pool.submit(self._read_or_known, due.url)))
        return bool(self._fetches)

    def next_items(self) -> list[Item]:
        """Wait for the fetch that was submitted first, and return its items."""
        due, future = self._fetches.popleft()
        try:
            return self._accept(due, future.result())
        except NotWanted as error:
            return [Skip(due.url, str(error))]
        except FetchError as error:
            return [Failure(due.url, str(error))]

    def leftovers(self) -> list[Item]:
        """Return skips of refused requests of scripts, of views of pages, and of addresses over a limit."""
        rest = (Skip(due.url, self._over_limit()) for due in (*self._frontier, *self._collections))
        return [*self._reader.refused_requests(), *self._unread, *rest]

    def _over_limit(self) -> str:
        """Return which limit of the crawl is reached; empty if none is."""
        if self._bytes >= self._limits.max_total_bytes:
            return f"over the limit of {self._limits.max_total_bytes:,} bytes"
        full = self._requested >= self._limits.max_pages
        return f"over the limit of {self._limits.max_pages:,} pages" if full else ""

    def _accept(self, due: _Due, outcome: _Outcome) -> list[Item]:
        """Return the pages, and the skips of their links; several pages may have the same content."""
        items = list[Item]()
        self._seen.update(visit.page.url for visit in outcome.visits)
        if outcome.alias is not None:  # maybe one of many that name one address; only its links count
            self._bytes += len(outcome.alias.body)
            items += self._follow(outcome.alias, due)
        for visit in outcome.visits:
            page = visit.page
            with self._canonicals_lock:
                self._canonicals.pop(page.url, None)
            if page.url in self._yielded:
                items += [Skip(due.url, "leads to a page already read")] if visit is outcome.visits[0] else []
                continue
            if isinstance(page, Page) and (reason := self._repeats(due, visit, page)):
                items += [*self._follow(page, due)] if page.content_type in MARKUP else []
                items.append(Skip(page.url, reason))
                continue
            if not (isinstance(page, Page) and page.noindex):
                self._texts.add(page.url, visit.text, page.links)
            self._yielded.add(page.url)
            self._bytes += len(page.body) if isinstance(page, Page) else 0
            items += [*self._follow(page, due), page]
        self.submit_fetches()  # so that fetching goes on while others use this page
        return items

    def _repeats(self, due: _Due, visit: Visit, page: Page) -> str:
        """Return why a page is left out that has only text of others; empty if it does not."""
        if page.noindex or page.content_hash in self._followed:
            return ""
        if page.url.endswith(_COLLECTION) and self._texts.is_collection(visit.text):
            return "the text of the other pages again"
        return _VIEW if self._texts.is_view(page, visit.text, due.referrer) else ""

    def _follow(self, page: Page | Known, due: _Due) -> list[Skip]:
        """Enqueue the links of a page, unless those of the same content were: a site may answer anything with one."""
        if page.content_hash in self._followed:
            return []
        self._followed.add(page.content_hash)
        return self._enqueue(page.links, due.depth + 1, page.url)

    def _enqueue(self, links: Iterable[str], depth: int, referrer: str = "") -> list[Skip]:
        """Add new addresses to the frontier; return those that are left out."""
        skips: list[Skip] = []
        for url in links if self._follows or depth == 0 else ():
            if url in self._seen:
                continue
            if len(self._seen) >= self._max_seen:
                skips.append(Skip(url, f"over the limit of {self._max_seen:,} addresses of a site"))
                continue
            self._seen.add(url)
            if (refusal := self._reader.refusal(url)) is not None:
                skips.append(Skip(url, refusal))
            elif depth > self._limits.max_depth:
                skips.append(Skip(url, f"more than {self._limits.max_depth:,} links from the start"))
            elif not self._reader.robots.allows(url):
                skips.append(Skip(url, "robots.txt disallows it"))
            else:
                queue = self._collections if url.endswith(_COLLECTION) and referrer else self._frontier
                queue.append(_Due(url, depth, referrer))
        due = self._requested + len(self._frontier) + len(self._collections)
        self._context.report_due(min(due, self._limits.max_pages))
        return skips

    def _read_or_known(self, url: str) -> _Outcome:
        """Read one page, or return its record if it is out of reach; runs in a fetcher thread."""
        try:
            return self._read(url)
        except PageUnavailable as error:
            record = self._earlier.page_behind(url)
            if record is None or not self._reader.robots.allows(record.url):
                raise
            return _Outcome((Visit(Known(replace(record, source=self._context.source), kept=str(error))),))

    def _read(self, url: str, *, is_start: bool = False) -> _Outcome:
        """Read one page, or the one at its canonical address if that has its text and names no other."""
        visit = self._reader.read(url, CONTENT_TYPES | TYPES if is_start else CONTENT_TYPES)
        page, canonical = visit.page, visit.canonical
        if canonical is None or isinstance(page, Known):
            return _Outcome((visit,))
        if not self._reader.robots.allows(canonical) or self._reader.refusal(canonical) is not None:
            return _Outcome((visit,))
        mistaken = replace(visit, page=replace(page, note=_MISTAKEN))
        if canonical in self._yielded and (visit.text or canonical not in self._doubted):
            if not self._texts.has(canonical, visit.text):
                return _Outcome((mistaken,))
            return _Outcome((replace(visit, page=replace(page, url=canonical)),), page)
        try:
            named = self._read_canonical(canonical)
        except FetchError:
            return _Outcome((mistaken,))
        if named.page.url != canonical or named.canonical is not None:
            self._doubted.add(page.url)  # before it is yielded, so that a page that names it in turn stays too
            self._canonicals.pop(canonical, None)
            return _Outcome((visit,))
        if not (is_within(visit.text, named.text) if named.text else self._texts.has(canonical, visit.text)):
            return _Outcome((mistaken, named))
        return _Outcome((named.of(url),), page)

    def _read_canonical(self, url: str) -> Visit:
        """Read the page at a canonical address, once for all threads that need it at the same time."""
        with self._canonicals_lock:
            future = self._canonicals.get(url)
            is_first = future is None
            if future is None:
                future = self._canonicals[url] = Future()
        if is_first:
            try:
                future.set_result(self._reader.read(url))
            except BaseException as error:  # noqa: BLE001 - raised in every thread that waits
                future.set_exception(error)
        return future.result()
