"""Source strings to pages: sites side by side, folders and files one after the other, each page once."""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from urllib.parse import urlsplit

from indexer.config import CrawlLimits
from indexer.crawl.crawler import crawl
from indexer.crawl.fetch import Traffic
from indexer.crawl.journal import Journal
from indexer.crawl.links import ONLY_LINKS
from indexer.crawl.render.browser import Browser
from indexer.crawl.sessions import Sessions
from indexer.errors import SourceError
from indexer.generation.previous import PreviousGeneration
from indexer.read.formats import OCR_OFF
from indexer.read.parsing import Wanted
from indexer.records import Item, Page
from indexer.sources.duplicates import Duplicates
from indexer.sources.folders.folder import read_path
from indexer.sources.git.address import is_repository
from indexer.sources.git.mirror import Mirrors
from indexer.sources.git.repository import read_repository
from indexer.sources.names import SCHEME
from indexer.sources.objects.address import is_bucket
from indexer.sources.objects.objects import read_objects
from indexer.sources.pushed import read_pushed
from indexer.sources.pushed_store import SOURCE, PushedReader
from indexer.sources.templates import Items, Templates
from indexer.urls import normalise


class _Lane:
    """Sources that are read one after another, and what was read of them and has not been given yet."""

    def __init__(self, sources: Iterable[str], start: Callable[[str], Items], templates: Templates | None) -> None:
        self.ready: deque[Item] = deque()
        self._waiting = deque(sources)
        self._start = start
        self._templates = templates
        self._items: Items | None = None  # of the source that is being read
        self._source = ""

    def advance(self) -> bool:
        """Read an item unless some are ready; what is read may have to wait. False where all have been given."""
        while not self.ready and (self._items is not None or self._waiting):
            if self._items is None:
                self._source = self._waiting.popleft()
                self._items = self._start(self._source)
            item, templates = next(self._items, None), self._templates
            if item is not None:
                self.ready.extend([item] if templates is None else templates.take(self._source, item))
                return True
            self.ready.extend(() if templates is None else templates.end(self._source))
            self._items = None
        return bool(self.ready)

    def close(self) -> None:
        if self._items is not None:
            self._items.close()


def read_sources(
    sources: Sequence[str],
    limits: CrawlLimits,
    found: Callable[[int], None],
    earlier: PreviousGeneration | None = None,
    traffic: Traffic | None = None,
    journal: Journal | None = None,
    templates: Templates | None = None,
    rested: Collection[str] = (),
    sessions: Sessions | None = None,
    pushed: PushedReader | None = None,
    mirrors: Mirrors | None = None,
    no_images: str = OCR_OFF,
) -> Items:
    """Read every source; of pages with the same address or the same content only the first is given.

    What was pushed comes first, so that it stands for its address whatever a site has there.

    Sites are read at the same time, up to `limits.sites` of them, and give an item each in turn, so that the order
    depends on what they hold and not on how fast they are. Sources on one host, and paths, are read one after another.
    A site whose template is to be learnt gives nothing in its first turns.

    Args:
        sources: http or https addresses, repositories, buckets, folders or files, and `pushed_store.SOURCE`.
        limits: for sites; `max_bytes` for files too.
        found: told how many pages are due in all, as far as is known.
        earlier: what an earlier build knows, if there was one; unchanged pages of a site are not read again.
        traffic: told of every request to a site.
        journal: pages that an interrupted build has fetched, and that this one will have.
        templates: give pages the templates of their sites.
        rested: addresses of pages that other sources have already led to.
        sessions: what origins are asked with.
        pushed: documents that were sent.
        mirrors: copies of remote repositories; without them, only local ones are read.
        no_images: why images are not read, if they are not.

    Raises:
        SourceError: a source cannot be read at all.
    """
    due: dict[str, int] = {}
    duplicates = Duplicates(rested)
    browser = Browser()  # started only for a page that is to be drawn

    def told(source: str) -> Callable[[int], None]:
        def tell(pages: int) -> None:
            due[source] = pages
            found(sum(due.values()))

        return tell

    def start(source: str) -> Items:
        study = partial(templates.study, source) if templates is not None else None
        own, due = limits.of(source), told(source)
        wanted = partial(templates.wanted, source) if templates is not None else lambda _: ONLY_LINKS
        lane = (source, own, due, earlier, traffic, journal, study, sessions, mirrors, browser, no_images, wanted)
        return _read_one(*lane)

    if SOURCE in sources and pushed is not None:
        known = earlier or PreviousGeneration.nothing()
        for item in read_pushed(pushed, limits.max_bytes, told(SOURCE), known, no_images):
            yield duplicates.left_out(item)
    hosts: dict[str, list[str]] = {}
    for source in sources:
        if source == SOURCE:
            continue
        hosts.setdefault(_host(source), []).append(source)
    waiting = deque(_Lane(names, start, templates) for names in hosts.values())
    running: deque[_Lane] = deque()
    try:
        while waiting or running:
            lane = waiting.popleft() if waiting and len(running) < limits.sites else running.popleft()
            running.append(lane)
            if not lane.advance():
                running.pop()
            elif lane.ready:
                yield duplicates.left_out(lane.ready.popleft())
    finally:
        for lane in running:
            lane.close()
        browser.close()


def _host(source: str) -> str:
    """Host and port of a site, empty for a path."""
    return urlsplit(normalise(source, "") or "").netloc


def _read_one(
    source: str,
    limits: CrawlLimits,
    found: Callable[[int], None],
    earlier: PreviousGeneration | None,
    traffic: Traffic | None,
    journal: Journal | None,
    study: Callable[[Iterable[Item]], None] | None,
    sessions: Sessions | None,
    mirrors: Mirrors | None,
    browser: Browser,
    no_images: str,
    wanted: Callable[[Page], Wanted],
) -> Items:
    scheme = SCHEME.match(source)
    if scheme is None:
        if not source.strip():
            raise SourceError("empty source; name a site, folder or file")
        return read_path(source, limits.max_bytes, found, earlier, limits.within.get(source, ()), study, no_images)
    if is_repository(source):
        return read_repository(source, limits, found, mirrors, earlier, study, no_images)
    if is_bucket(source):
        return read_objects(source, limits, found, earlier, study, no_images)
    if scheme[1].lower() not in ("http", "https"):
        raise SourceError(
            f"{source}: cannot index this scheme; name an http or https address, git+https:// or git+file:// and a "
            "repository, s3://, gs:// or az:// and a bucket, a folder or a file"
        )
    return crawl(source, limits, found, earlier, traffic, journal, sessions, browser, wanted)
