"""One site, breadth first. The order of the pages depends on the site alone, never on which fetch ends first.

Fetcher threads work ahead on a window of the queue; their results are taken in queue order, and links join the
queue only when their page is taken. A page that an earlier build has read is asked for on condition that it changed.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from urllib.parse import urlsplit

from indexer import memory
from indexer.config import CrawlLimits
from indexer.crawl.answers import Answer, Unavailable, canonical_of, refresh_of, robots_directives
from indexer.crawl.fetch import MAX_REDIRECTS, Fetcher, Request, Traffic
from indexer.crawl.journal import Journal
from indexer.crawl.links import ONLY_LINKS, read_links
from indexer.crawl.render.browser import Browser
from indexer.crawl.render.renderer import Renderer
from indexer.crawl.robots import Robots, fetch_robots
from indexer.crawl.sessions import Session, Sessions
from indexer.crawl.sitemap import TYPES, WELL_KNOWN, ListReader, is_listing
from indexer.crawl.visits import MovedToHttps, Queued, Visit, requested_as
from indexer.errors import FetchError, NotWanted, SessionEnded, SourceError, counted
from indexer.generation.previous import PreviousGeneration, conditions
from indexer.read import allowed_places
from indexer.read.formats import CONTENT_TYPES
from indexer.read.parsing import Wanted
from indexer.read.reader_process import ReaderPool
from indexer.records import Failure, Item, Known, Page, PageRecord, Skip
from indexer.urls import normalise, origin

Found = Callable[[int], None]
_ADDRESSES, _FOR_EACH_PAGE = 100_000, 4  # addresses remembered of a site, and for each page that may be read
_AHEAD = 8  # pages fetched ahead, per fetcher thread


def crawl(
    source: str,
    limits: CrawlLimits,
    found: Found,
    earlier: PreviousGeneration | None = None,
    traffic: Traffic | None = None,
    journal: Journal | None = None,
    sessions: Sessions | None = None,
    browser: Browser | None = None,
    wanted: Callable[[Page], Wanted] = lambda _: ONLY_LINKS,
) -> Generator[Item, None, None]:
    """Read every page of a site that links lead to from the start page, or that a sitemap, feed or llms.txt lists.

    Pages that may be followed but not indexed are given too, marked `noindex`, and so are pages of the same content;
    of these the links of one are followed.

    Args:
        source: http or https address of the start page; its scheme, host and port bound the crawl.
        limits: how far and how hard.
        found: told, whenever it grows, how many addresses are known to be due.
        earlier: what an earlier build knows; of pages that are unchanged or out of reach, its record is given.
        traffic: told of every request.
        journal: where pages are looked for before they are fetched, and kept until the build ends.
        sessions: what origins are asked with; shared by the sources of a build.
        browser: draws pages where the limits want it; shared by the sources of a build, and needed only there.
        wanted: returns which parts of a page are read beside its links; called in fetcher threads.

    Raises:
        SourceError: the start page or the site's robots.txt cannot be read, or forbids reading.
        RendererMissing: pages are to be drawn, and what that needs is not there.
        CredentialsError, SessionEnded: the site cannot be read with its credentials.
    """
    start = normalise(source, "")
    if start is None:
        raise SourceError(f"{source} is not a valid http or https address; check the spelling")
    known = earlier or PreviousGeneration.nothing()
    renderer = Renderer(source, limits, known.manifest, browser, traffic, sessions)
    fetching = Fetcher(limits, traffic, sessions)
    with fetching as fetcher, closing(_Crawl(source, limits, fetcher, found, known, journal, renderer, wanted)) as site:
        yield from site.explained(start, [*site.enter(start), *site.map()])
        while site.ask():
            yield from site.take()
        yield from site.rest()


class _Crawl:
    def __init__(
        self,
        source: str,
        limits: CrawlLimits,
        fetcher: Fetcher,
        found: Found,
        earlier: PreviousGeneration,
        journal: Journal | None,
        renderer: Renderer,
        wanted: Callable[[Page], Wanted],
    ) -> None:
        self._journal = journal
        self._wanted = wanted
        self._renderer = renderer
        self._source = source
        self._limits = limits
        self._fetcher = fetcher
        self._pool = ThreadPoolExecutor(limits.concurrency, thread_name_prefix="fetch")
        self._lender = ReaderPool()
        self._found = found
        self._earlier = earlier
        self._within = limits.within.get(source, ())
        self._site = ""
        self._is_open = False  # whether the start page has been read
        self._why_nowhere: str | None = None  # why the start page has no links; empty if it has; None: it was not read
        self._follows = True  # whether links of pages are
        self._robots = Robots("", limits.user_agent)
        self._waiting: deque[Queued] = deque()
        self._running: deque[tuple[Queued, Future[Visit]]] = deque()
        self._seen: set[str] = set()  # addresses queued or refused
        self._most_seen = _ADDRESSES + _FOR_EACH_PAGE * limits.max_pages
        self._taken: set[str] = set()  # addresses of pages given out
        self._followed: set[str] = set()  # hashes of pages whose links are queued
        self._doubted: set[str] = set()  # addresses of pages that are given though they name another
        self._requested = self._bytes = 0  # pages asked for, and what those taken have

    def close(self) -> None:
        """Stop at once, whatever is being fetched or read."""
        self._fetcher.abort()
        self._renderer.close()
        self._lender.close()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def enter(self, start: str) -> list[Item]:
        """Read the start page; if it is a list of pages, those that it leads to are all there is."""
        read = self._open(start)
        page, self._is_open = read.page, True
        self._seen |= {start, page.url}
        self._requested = 1
        if isinstance(page, Page) and is_listing(page):
            return self._list(page)
        if (refusal := self._refusal(page.url)) is not None:
            return [Skip(page.url, refusal), *self._queue(page.links, 1)]
        return self._give(Queued(start, 0), read)

    def map(self) -> list[Item]:
        """Queue the pages of the site's sitemaps, as if the start page had links to them.

        They are those that robots.txt names, or at a well-known place if the start page leads nowhere.
        """
        if not self._follows or not self._limits.max_depth:
            return []
        lists = self._lists.read(url for name in self._robots.sitemaps if (url := normalise(self._site, name)))
        for place in () if self._robots.sitemaps or self._waiting or self._running else WELL_KNOWN:
            guess = self._lists.read([f"{self._site}{place}"])
            if guess.pages or guess.out_of_reach is not None:
                lists = guess
                break
        skips = self._queue(lists.pages, 1)
        if lists.out_of_reach is not None:  # what it listed last time is asked for, or would be taken for gone
            skips += self._queue(self._earlier.requested(self._source, f"{self._site}/"), 1)
        return [*lists.notes, *skips]

    def explained(self, start: str, items: list[Item]) -> list[Item]:
        """Say of the start page why it leads nowhere, if neither it nor the sitemaps, which gave these items, do."""
        refused = [item.reason for item in items if isinstance(item, Skip) and item.url != start]
        if self._waiting or self._running or not self._limits.max_depth or (self._why_nowhere is None and not refused):
            return items
        why = self._why_nowhere or "its links lead only to itself"
        if refused:
            (reason, count), *_ = Counter(refused).most_common()
            why = f"{count:,} of its {counted(len(refused), 'link')} left out ({reason})"
        note = f"the start page leads nowhere: {why}"
        return [replace(item, note=note) if isinstance(item, Page) else item for item in items]

    def ask(self) -> bool:
        """Keep the fetchers busy; False when nothing is left to take."""
        ahead = memory.share(self._limits.concurrency * _AHEAD)
        while self._waiting and len(self._running) < ahead and not self._over:
            queued = self._waiting.popleft()
            self._requested += 1
            self._running.append((queued, self._pool.submit(self._read_or_keep, queued.url)))
        return bool(self._running)

    def take(self) -> list[Item]:
        """Wait for what was asked for first."""
        queued, future = self._running.popleft()
        try:
            return self._give(queued, future.result())
        except NotWanted as error:
            return [Skip(queued.url, str(error))]
        except FetchError as error:
            return [Failure(queued.url, str(error))]

    def rest(self) -> list[Item]:
        """Say of what was never asked for why, and what scripts were refused."""
        return [*self._renderer.refused(), *(Skip(queued.url, self._over) for queued in self._waiting)]

    @property
    def _over(self) -> str:
        if self._bytes >= self._limits.max_total_bytes:
            return f"over the limit of {self._limits.max_total_bytes:,} bytes"
        full = self._requested >= self._limits.max_pages
        return f"over the limit of {self._limits.max_pages:,} pages" if full else ""

    def _list(self, page: Page) -> list[Item]:
        """Queue the pages of a list, and those of the lists that it leads to."""
        self._follows = False
        try:
            lists = self._lists.read((), page)
        except FetchError as error:
            raise SourceError(f"cannot read {page.url}: {error}") from error
        if not lists.pages:
            raise SourceError(f"{page.url} lists no page of {self._site}")
        return [*lists.notes, *self._queue(lists.pages, 0)]

    @property
    def _lists(self) -> ListReader:
        fetching = (self._robots, self._fetcher, self._within)
        return ListReader(self._site, *fetching, most_pages=self._limits.max_pages, lend=self._lender.borrowed)

    def _open(self, start: str) -> Visit:
        """Read robots.txt and the start page; https instead of http on the same host is followed."""
        try:
            self._enter(origin(start), start)
            try:
                return self._read(start, CONTENT_TYPES | TYPES)
            except MovedToHttps as move:
                self._enter(origin(move.url), move.url)
                return self._read(move.url, CONTENT_TYPES | TYPES)
        except FetchError as error:
            raise SourceError(f"cannot read {start}: {error}") from error

    def _enter(self, site: str, start: str) -> None:
        self._site = site
        self._robots = fetch_robots(self._fetcher, site, self._limits.user_agent)
        self._fetcher.turns.delay = max(self._limits.delay, self._robots.delay)
        self._renderer.enter(site, self._robots, self._fetcher.turns, self._lender.borrowed)
        if not self._robots.allows(start):
            raise NotWanted(f"{site}/robots.txt disallows it")

    def _give(self, queued: Queued, read: Visit) -> list[Item]:
        """Give a page, after what is left out of its links; of the same content many may be given."""
        page, items = read.page, list[Item]()
        if read.alias is not None:  # one of many, maybe, that name one address; only its links count
            self._bytes += len(read.alias.body)
            items += self._follow(read.alias, queued.depth + 1)
        if page.url in self._taken:
            return [*items, Skip(queued.url, "leads to a page already read")]
        self._seen.add(page.url)
        self._taken.add(page.url)
        self._bytes += len(page.body) if isinstance(page, Page) else 0
        items += self._follow(page, queued.depth + 1)
        self.ask()  # so that fetching goes on while others use this page
        return [*items, page]

    def _follow(self, page: Page | Known, depth: int) -> list[Skip]:
        """Queue the links of a page, unless those of the same content were: a site may answer anything with one."""
        if page.content_hash in self._followed:
            return []
        self._followed.add(page.content_hash)
        return self._queue(page.links, depth)

    def _queue(self, links: Iterable[str], depth: int) -> list[Skip]:
        """Queue addresses that are not known yet; return those that are left out."""
        skips: list[Skip] = []
        for url in links if self._follows or depth == 0 else ():
            if url in self._seen:
                continue
            if len(self._seen) >= self._most_seen:
                skips.append(Skip(url, f"over the limit of {self._most_seen:,} addresses of a site"))
                continue
            self._seen.add(url)
            if (refusal := self._refusal(url)) is not None:
                skips.append(Skip(url, refusal))
            elif depth > self._limits.max_depth:
                skips.append(Skip(url, f"more than {self._limits.max_depth:,} links from the start"))
            elif not self._robots.allows(url):
                skips.append(Skip(url, "robots.txt disallows it"))
            else:
                self._waiting.append(Queued(url, depth))
        due = self._requested + len(self._waiting)
        self._found(min(due, self._limits.max_pages))
        return skips

    def _read_or_keep(self, url: str) -> Visit:
        """Read one page, or take what is known of it if it is out of reach; runs in a fetcher thread."""
        try:
            return self._read(url)
        except Unavailable as error:
            record = self._earlier.page_behind(url)
            if record is None or not self._robots.allows(record.url):
                raise
            return Visit(Known(replace(record, source=self._source), kept=str(error)))

    def _read(self, url: str, types: Collection[str] = CONTENT_TYPES) -> Visit:
        """Read one page, or the one that it names as its canonical address if that is there and names no other."""
        page, canonical = self._fetch(url, types)
        if canonical is None or isinstance(page, Known) or not self._wants(canonical):
            return Visit(page)
        if canonical in self._taken and canonical not in self._doubted:  # the address is all that counts of it then
            return Visit(replace(page, url=canonical), page)
        try:
            named, further = self._fetch(canonical, CONTENT_TYPES)
        except FetchError:
            return Visit(page)
        if named.url != canonical or further is not None:
            self._doubted.add(page.url)  # before it is taken, so that one that names it in turn is always kept too
            return Visit(page)
        return Visit(requested_as(named, url), page)

    def _wants(self, url: str) -> bool:
        return self._robots.allows(url) and self._refusal(url) is None

    def _fetch(self, url: str, types: Collection[str], hops: tuple[str, ...] = ()) -> tuple[Page | Known, str | None]:
        """Fetch one page and find its links, unless it is unchanged; and the canonical address if it is another.

        A page that refreshes to another is followed like a redirect; `hops` are those that led here.
        """
        answer = self._ask(url, types)
        record, session = self._unchanging(answer.url), self._fetcher.session(answer.url)
        directives = robots_directives(answer.headers)
        noindex, nofollow = bool(directives & {"noindex", "none"}), bool(directives & {"nofollow", "none"})
        if answer.is_unchanged and record is not None:
            if session:
                session.add_witness(answer.url)
            return Known(replace(record, source=self._source, requested=url, noindex=noindex)), None
        page = answer.as_page(self._source, url)
        if record is not None and record.content_hash == page.content_hash and session is None:
            return replace(page, links=record.links, noindex=noindex), None
        wanted = ONLY_LINKS if noindex else self._renderer.wanted(page, self._wanted(page))
        links = read_links(page, self._lender.borrowed, wanted)
        target = links.refresh or refresh_of(page.url, answer.headers)
        if target is not None and target not in hops and len(hops) < MAX_REDIRECTS:
            try:
                self._check_redirect(target)
            except MovedToHttps:
                raise
            except NotWanted as error:
                links = replace(links, noindex=True, leads_on=str(error))
            else:
                found, canonical = self._fetch(target, types, (*hops, page.url))
                return requested_as(found, url), canonical
        if not (noindex or links.noindex) and self._renderer.wants(page, links):
            page, links = self._renderer.draw(page, links, self._wanted)
        if session and session.kinds and links.asks_password:  # the login page, or one like it
            if self._journal:
                self._journal.forget(url)
            if not answer.is_fresh:
                return self._fetch(url, types)
            self._check_session(session, answer.url, is_certain=True)
            raise NotWanted("asks for a password")
        if session and answer.is_fresh:
            session.add_witness(answer.url)
        if not self._is_open:
            self._why_nowhere = "an X-Robots-Tag header says nofollow" if nofollow else links.leads_nowhere
        urls = () if nofollow else links.urls
        page = replace(page, links=urls, noindex=noindex or links.noindex, reading=links.reading)
        if links.leads_on:
            page = replace(page, left_out=links.leads_on)
        return page, links.canonical or canonical_of(page.url, answer.headers.get_list("Link"))

    def _ask(self, url: str, types: Collection[str]) -> Answer:
        """Fetch an address, unless an interrupted crawl has."""
        kept = self._journal.get(url) if self._journal else None
        if kept is not None and len(kept.body) <= self._limits.max_bytes:
            if kept.url != url:
                self._check_redirect(kept.url)
            return kept
        request = Request(scope=self._check_redirect, types=types, validators=self._validators, lists=TYPES)
        try:
            answer = self._fetcher.get(url, request)
        except FetchError as error:
            session = self._fetcher.session(url)
            if session and session.kinds and (error.status in (401, 403) or isinstance(error, _RedirectRefused)):
                self._check_session(session, url, is_certain=error.status == 401)
            raise
        if self._journal and not answer.is_unchanged and answer.content_type in CONTENT_TYPES:
            self._journal.put(url, answer)
        return answer

    def _check_session(self, session: Session, url: str, *, is_certain: bool) -> None:
        """Raise SessionEnded if the session has ended, as the answer of an address suggests."""
        is_alive = session.is_alive(self._is_refused)
        if is_alive is False or (is_alive is None and is_certain):
            kinds = ", ".join(session.kinds)
            raise SessionEnded(f"{self._site} asks to log in at {url}: its {kinds} must be renewed")

    def _is_refused(self, url: str, as_stranger: bool) -> bool:
        """Return whether a page that was read before is now answered by a login. Raises FetchError."""
        try:
            answer = self._fetcher.get(url, Request(scope=_refuse_redirect, as_stranger=as_stranger))
        except FetchError as error:
            if error.status in (401, 403) or isinstance(error, _RedirectRefused):
                return True
            raise
        return read_links(answer.as_page(self._source, url), self._lender.borrowed).asks_password

    def _validators(self, url: str) -> Mapping[str, str]:
        record = self._unchanging(url)
        return conditions(record) if record else {}

    def _unchanging(self, url: str) -> PageRecord | None:
        """What is known of a page, unless it has to be read anew as others are drawn than before."""
        return None if self._renderer.differs else self._earlier.unchanging_page(url)

    def _check_redirect(self, url: str) -> None:
        if origin(url) != self._site:
            here, there = urlsplit(self._site), urlsplit(url)
            if not self._is_open and not self._within and there.scheme == "https" and here.netloc == there.netloc:
                raise MovedToHttps(url)
            raise _RedirectRefused(f"redirect to another site ({origin(url)})")
        if not self._robots.allows(url):
            raise _RedirectRefused("redirect to a page that robots.txt disallows")
        refusal = self._refusal(url) if self._is_open else allowed_places.refusal(url, self._within)
        if refusal is not None:
            raise _RedirectRefused(f"redirect to a page that is {refusal}")

    def _refusal(self, url: str) -> str | None:
        session = self._fetcher.session(url)
        return (
            allowed_places.refusal(url, self._within)
            or self._limits.scope.refusal(url)
            or (session.refusal(url) if session else None)
        )


class _RedirectRefused(NotWanted):
    """A redirect that is not followed."""


def _refuse_redirect(url: str) -> None:
    raise _RedirectRefused("a redirect")
