"""One site, breadth first. The order of the pages depends on the site alone, never on which fetch ends first.

Fetcher threads work ahead on a window of the queue; their results are taken in queue order, and links join the
queue only when their page is taken. A page that an earlier build has read is asked for on condition that it changed.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from indexer.config import CrawlLimits
from indexer.earlier import Earlier, conditions, hash_page
from indexer.errors import FetchError, NotWanted, SourceError
from indexer.fetch import Answer, Fetcher, Unavailable
from indexer.links import read_links
from indexer.records import Failure, Known, Page, Skip
from indexer.robots import Robots, fetch_robots
from indexer.urls import normalise, origin

Found = Callable[[int], None]
_AHEAD = 8  # pages fetched ahead, per fetcher thread


@dataclass(frozen=True, slots=True)
class _Queued:
    url: str
    depth: int


def crawl(
    source: str, limits: CrawlLimits, found: Found, earlier: Earlier | None = None
) -> Iterator[Page | Known | Skip | Failure]:
    """Read every page of a site that links lead to from the start page.

    Pages that may be followed but not indexed are given too, marked `noindex`.

    Args:
        source: http or https address of the start page; its scheme, host and port bound the crawl.
        limits: how far and how hard.
        found: told, whenever it grows, how many addresses are known to be due.
        earlier: what an earlier build knows; of pages that are unchanged or out of reach, its record is given.

    Raises:
        SourceError: the start page or the site's robots.txt cannot be read, or forbids reading.
    """
    start = normalise(source, "")
    if start is None:
        raise SourceError(f"{source} is not a usable http or https address; check it for typing mistakes")
    fetcher = Fetcher(limits)
    pool = ThreadPoolExecutor(limits.concurrency, thread_name_prefix="fetch")
    try:
        yield from _Crawl(source, limits, fetcher, pool, found, earlier or Earlier.nothing()).pages(start)
    finally:
        fetcher.abort()
        pool.shutdown(wait=True, cancel_futures=True)
        with fetcher:
            pass


class _Crawl:
    def __init__(
        self,
        source: str,
        limits: CrawlLimits,
        fetcher: Fetcher,
        pool: ThreadPoolExecutor,
        found: Found,
        earlier: Earlier,
    ) -> None:
        self._source = source
        self._limits = limits
        self._fetcher = fetcher
        self._pool = pool
        self._found = found
        self._earlier = earlier
        self._site = ""
        self._robots = Robots("", limits.user_agent)
        self._waiting: deque[_Queued] = deque()
        self._running: deque[tuple[_Queued, Future[Page | Known]]] = deque()
        self._seen: set[str] = set()  # addresses queued or refused
        self._taken: set[str] = set()  # addresses of pages given out
        self._contents: set[str] = set()  # hashes of pages given out
        self._requested = 0

    def pages(self, start: str) -> Iterator[Page | Known | Skip | Failure]:
        read = self._open(start)
        self._seen |= {start, read.url}
        self._requested = 1
        yield from self._take(_Queued(start, 0), read)
        while self._submit():
            queued, future = self._running.popleft()
            try:
                read = future.result()
            except NotWanted as error:
                yield Skip(queued.url, str(error))
            except FetchError as error:
                yield Failure(queued.url, str(error))
            else:
                yield from self._take(queued, read)
        for queued in self._waiting:
            yield Skip(queued.url, f"over the limit of {self._limits.max_pages:,} pages")

    def _open(self, start: str) -> Page | Known:
        """Read robots.txt and the start page; https instead of http on the same host is followed."""
        try:
            self._enter(origin(start), start)
            try:
                return self._read(start)
            except _MovedToHttps as move:
                self._enter(origin(move.url), move.url)
                return self._read(move.url)
        except FetchError as error:
            raise SourceError(f"cannot read {start}: {error}") from error

    def _enter(self, site: str, start: str) -> None:
        self._site = site
        self._robots = fetch_robots(self._fetcher, site, self._limits.user_agent)
        self._fetcher.delay = max(self._limits.delay, self._robots.delay)
        if not self._robots.allows(start):
            raise NotWanted(f"{site}/robots.txt disallows it")

    def _submit(self) -> bool:
        """Keep the fetchers busy; False when nothing is left to take."""
        ahead = self._limits.concurrency * _AHEAD
        while self._waiting and len(self._running) < ahead and self._requested < self._limits.max_pages:
            queued = self._waiting.popleft()
            self._requested += 1
            self._running.append((queued, self._pool.submit(self._read_or_keep, queued.url)))
        return bool(self._running)

    def _take(self, queued: _Queued, read: Page | Known) -> Iterator[Page | Known | Skip]:
        if read.url in self._taken:
            yield Skip(queued.url, "leads to a page already read")
            return
        self._seen.add(read.url)
        self._taken.add(read.url)
        content = read.record.content_hash if isinstance(read, Known) else hash_page(read)
        if content in self._contents:  # nor are its links followed: a site may answer any address with one page
            yield Skip(read.url, "same content as another page")
            return
        self._contents.add(content)
        links = read.record.links if isinstance(read, Known) else read.links
        yield from self._queue(links, queued.depth + 1)
        yield read

    def _queue(self, links: tuple[str, ...], depth: int) -> Iterator[Skip]:
        for url in links:
            if url in self._seen:
                continue
            self._seen.add(url)
            if depth > self._limits.max_depth:
                yield Skip(url, f"more than {self._limits.max_depth:,} links from the start")
            elif not self._robots.allows(url):
                yield Skip(url, "robots.txt disallows it")
            else:
                self._waiting.append(_Queued(url, depth))
        due = self._requested + len(self._waiting)
        self._found(min(due, self._limits.max_pages))

    def _read_or_keep(self, url: str) -> Page | Known:
        """Read one page, or take what is known of it if it is out of reach; runs in a fetcher thread."""
        try:
            return self._read(url)
        except Unavailable as error:
            record = self._earlier.page_behind(url)
            if record is None or not self._robots.allows(record.url):
                raise
            return Known(replace(record, source=self._source), kept=str(error))

    def _read(self, url: str) -> Page | Known:
        """Fetch one page and find its links, unless it is unchanged."""
        answer = self._fetcher.get(url, scope=self._check_redirect, validators=self._validators)
        record = self._earlier.unchanging_page(answer.url)
        told = {word.strip() for word in answer.headers.get("X-Robots-Tag", "").lower().split(",")}
        noindex = bool(told & {"noindex", "none"})
        if answer.unchanged and record is not None:
            return Known(replace(record, source=self._source, requested=url, noindex=noindex))
        page = _page(answer, self._source, url)
        if record is not None and record.content_hash == hash_page(page):
            return replace(page, links=record.links, noindex=noindex)
        links = read_links(page)
        return replace(page, links=links.urls, noindex=noindex or links.noindex)

    def _validators(self, url: str) -> Mapping[str, str]:
        record = self._earlier.unchanging_page(url)
        return conditions(record) if record else {}

    def _check_redirect(self, url: str) -> None:
        if origin(url) != self._site:
            here, there = urlsplit(self._site), urlsplit(url)
            if not self._taken and there.scheme == "https" and here.netloc == there.netloc:
                raise _MovedToHttps(url)
            raise NotWanted(f"redirect to another site ({origin(url)})")
        if not self._robots.allows(url):
            raise NotWanted("redirect to a page that robots.txt disallows")


class _MovedToHttps(NotWanted):
    def __init__(self, url: str) -> None:
        super().__init__(f"moved to {url}")
        self.url = url


def _page(answer: Answer, source: str, requested: str) -> Page:
    return Page(
        url=answer.url,
        source=source,
        body=answer.body,
        content_type=answer.content_type,
        charset=answer.charset,
        etag=answer.headers.get("ETag"),
        last_modified=answer.headers.get("Last-Modified"),
        fetched_at=answer.fetched_at,
        requested=requested,
    )
