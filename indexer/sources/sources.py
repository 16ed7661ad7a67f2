"""Source strings to pages: sites side by side, folders and files one after the other, each page once."""

import re
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from indexer.config import CrawlLimits
from indexer.crawl.crawler import crawl
from indexer.crawl.journal import Journal
from indexer.crawl.traffic import Traffic
from indexer.errors import SourceError
from indexer.generation.earlier import Earlier, content_of
from indexer.read.formats import content_type_of
from indexer.records import Failure, Known, Page, Skip
from indexer.sources.folder import read_path
from indexer.sources.templates import Templates
from indexer.urls import normalise

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_HOST = re.compile(r"(?P<name>localhost|[a-z0-9-]+(\.[a-z0-9-]+)+)(?P<port>:\d+)?(?P<path>/.*)?$", re.IGNORECASE)
_Items = Generator[Page | Known | Skip | Failure, None, None]
_Lane = Generator[Page | Known | Skip | Failure | None, None, None]  # None where nothing is ready to be given


def full_name(source: str) -> str:
    """A source as it can be read again from anywhere: paths are made absolute, addresses stay as they are."""
    if _SCHEME.match(source) or not source.strip():
        return source
    try:
        return str(Path(source).expanduser().absolute())
    except RuntimeError:  # no such user
        return source


def refuse_bare_host(source: str) -> None:
    """Raise SourceError for what is no file or folder, and reads like the address of a site without its scheme."""
    found = _HOST.match(source)
    if found is None or Path(source).exists() or (not found["path"] and content_type_of(source)):
        return
    scheme = "http" if found["port"] or found["name"] in ("localhost", "127.0.0.1") else "https"
    raise SourceError(f"there is no file or folder {source}; for the site, write {scheme}://{source}")


def read_sources(
    sources: Sequence[str],
    limits: CrawlLimits,
    found: Callable[[int], None],
    earlier: Earlier | None = None,
    traffic: Traffic | None = None,
    journal: Journal | None = None,
    templates: Templates | None = None,
) -> _Items:
    """Read every source; of pages with the same address or the same content only the first is given.

    Sites are read at the same time, up to `limits.sites` of them, and give an item each in turn, so that the order
    depends on what they hold and not on how fast they are. Sources on one host, and paths, are read one after another.

    Args:
        sources: http or https addresses, folders or files.
        limits: for sites; `max_bytes` for files too.
        found: told how many pages are due in all, as far as is known.
        earlier: what an earlier build knows, if there was one; unchanged pages of a site are not read again.
        traffic: told of every request to a site.
        journal: pages that an interrupted build has fetched, and that this one will have.
        templates: give pages the templates of their sites.

    Raises:
        SourceError: a source cannot be read at all.
    """
    due: dict[str, int] = {}

    def read(names: Iterable[str]) -> _Lane:
        for source in names:

            def tell(pages: int, source: str = source) -> None:
                due[source] = pages
                found(sum(due.values()))

            items = _read_one(source, limits, tell, earlier, traffic, journal, templates)
            yield from templates.over(source, items) if templates is not None else items

    lanes: dict[str, list[str]] = {}
    for source in sources:
        lanes.setdefault(_host(source), []).append(source)
    urls: set[str] = set()
    contents: set[str] = set()
    with closing(_in_turn([read(names) for names in lanes.values()], limits.sites)) as items:
        for item in items:
            if isinstance(item, Skip | Failure):
                yield item
            elif item.url in urls:
                yield Skip(item.url, "already read")
            elif (content := content_of(item)) in contents:
                yield Skip(item.url, "same content as another page")
            else:
                urls.add(item.url)
                contents.add(content)
                yield item


def _in_turn(lanes: Sequence[_Lane], most: int) -> _Items:
    """An item of each lane in turn, of so many lanes at the same time; the next one begins when one has ended."""
    waiting, running = deque(lanes), deque[_Lane]()
    try:
        while waiting or running:
            lane = waiting.popleft() if waiting and len(running) < most else running.popleft()
            for item in lane:
                running.append(lane)
                if item is not None:
                    yield item
                break
    finally:
        for lane in lanes:
            lane.close()


def _host(source: str) -> str:
    """Host and port of a site, empty for a path."""
    return urlsplit(normalise(source, "") or "").netloc


def _read_one(
    source: str,
    limits: CrawlLimits,
    found: Callable[[int], None],
    earlier: Earlier | None,
    traffic: Traffic | None,
    journal: Journal | None,
    templates: Templates | None,
) -> _Items:
    limits = limits.of(source)
    scheme = _SCHEME.match(source)
    if scheme is None:
        if not source.strip():
            raise SourceError("empty source; name a site, folder or file")
        study = partial(templates.study, source) if templates is not None else None
        return read_path(source, limits.max_bytes, found, earlier, limits.within.get(source, ()), study)
    if scheme[1].lower() not in ("http", "https"):
        raise SourceError(f"{source}: cannot index this scheme; name an http or https address, a folder or a file")
    return crawl(source, limits, found, earlier, traffic, journal)
