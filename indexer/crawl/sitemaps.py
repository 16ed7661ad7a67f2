"""Sitemaps, feeds, llms.txt and other lists of pages."""

from collections import deque
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from indexer.crawl.fetch import Fetcher, PageRequest
from indexer.crawl.http_response import PageUnavailable, is_list
from indexer.crawl.page_links import read_links
from indexer.crawl.robots import Robots
from indexer.errors import FetchError, NotWanted, ParseError
from indexer.network.urls import normalise, origin
from indexer.read.formats import LISTING, MOST_LISTED
from indexer.read.reader_process import Lend, borrowed
from indexer.records import Failure, Page, Skip

_LLMS = "/llms.txt"
TYPES = frozenset(  # media types that a list may have, beside text/plain and text/markdown for llms.txt
    "application/xml text/xml application/rss+xml application/atom+xml application/rdf+xml "
    "application/gzip application/x-gzip application/octet-stream".split()
)
WELL_KNOWN = ("/sitemap.xml", "/sitemap_index.xml", "/sitemap.txt")
MOST_FILES = 1_000  # sitemaps that one index leads to


@dataclass(frozen=True, slots=True)
class Lists:
    """The addresses of several lists and those they lead to."""

    pages: tuple[str, ...]  # on their own site
    notes: tuple[Skip | Failure, ...]  # lists that were left out or failed, and pages on other sites
    out_of_reach: PageUnavailable | None  # of the first list that is for now, so that it is not known what is gone


@dataclass(frozen=True, slots=True)
class ListReader:
    """Reads the lists of one site."""

    site: str  # scheme://host:port
    robots: Robots
    fetcher: Fetcher
    max_pages: int = 0  # pages after which no further list is read, if that is more than one list may have
    lend: Lend = borrowed  # gives the processes that read them

    def read(self, urls: Iterable[str], first: Page | None = None) -> Lists:
        """Read lists, and the lists that they lead to; `first` is there already, and comes before the others.

        Raises:
            FetchError: the first cannot be read.
            Unavailable: there is a first, and one that it leads to is out of reach for now.
        """
        due, known, pages = deque(urls), set[str](), dict[str, None]()
        notes, out_of_reach = list[Skip | Failure](), None
        most = max(MOST_LISTED, self.max_pages)
        if first is not None:
            due.appendleft(first.url)
        while due:
            url = self._here(due.popleft())
            if url in known:
                continue
            if len(known) >= MOST_FILES or len(pages) >= most:
                limit = f"{MOST_FILES:,} sitemaps" if len(known) >= MOST_FILES else f"{most:,} pages in sitemaps"
                notes.append(Skip(url, f"over the limit of {limit}"))
                continue
            is_first = first is not None and not known
            known.add(url)
            try:
                page = first if is_first and first else self._fetch(url)
                listed, sitemaps = read_listing(page, self.lend)
            except FetchError as error:
                if is_first or (first is not None and isinstance(error, PageUnavailable)):
                    raise
                kind = Skip if isinstance(error, NotWanted) else Failure
                notes.append(kind(url, str(error)))
                if isinstance(error, PageUnavailable):
                    out_of_reach = out_of_reach or error
            else:
                pages.update(dict.fromkeys(map(self._here, listed)))
                due.extend(sitemaps)
        notes += [Skip(url, "on another site") for url in pages if origin(url) != self.site]
        return Lists(tuple(url for url in pages if origin(url) == self.site), tuple(notes), out_of_reach)

    def _here(self, url: str) -> str:
        """Return an address with the scheme of the site if it is on its host: lists mix http and https."""
        (scheme, host, *_), (_, site, *_) = urlsplit(url), urlsplit(self.site)
        return self.site + url[len(f"{scheme}://{host}") :] if host == site else url

    def _fetch(self, url: str) -> Page:
        self._check(url)
        return self.fetcher.get(url, PageRequest(scope=self._check, types=None, lists=None)).as_page("", url)

    def _check(self, url: str) -> None:
        if origin(url) != self.site:
            raise NotWanted("on another site")
        if not self.robots.allows(url):
            raise NotWanted("robots.txt disallows it")


def is_listing(page: Page) -> bool:
    """Return whether a page, by its media type, name or first bytes, is a list of pages."""
    return page.content_type in TYPES or page.url.endswith(_LLMS) or is_list(page.body)


def read_listing(page: Page, lend: Lend = borrowed) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the pages and the sitemaps that a list leads to: normalised addresses in order, each once, on any site.

    Raises FetchError: it is none of the known kinds, is damaged, too large, or defines entities.
    """
    if page.url.endswith(_LLMS):
        return read_links(replace(page, content_type="text/markdown"), lend).urls, ()
    pages: dict[str, None] = {}
    sitemaps: dict[str, None] = {}
    try:
        with lend() as process, closing(process.ask(LISTING, None, page.body)) as answers:
            [(answer, _)] = answers
        for parent, address in answer["addresses"]:
            url = normalise(page.url, address)
            if url is not None:
                (sitemaps if parent == "sitemap" else pages)[url] = None
    except ParseError as error:
        raise FetchError(str(error)) from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FetchError("the reader process returned invalid data") from error
    return tuple(pages), tuple(sitemaps)
