"""Sitemaps, feeds, llms.txt and other lists of pages."""

from collections import deque
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from indexer.crawl.fetch import Fetcher, PageRequest
from indexer.crawl.http_response import PageUnavailable, looks_like_sitemap
from indexer.crawl.page_links import LLMS, read_links
from indexer.crawl.robots import Robots
from indexer.errors import FetchError, NotWanted, ParseError
from indexer.network.urls import normalise, origin
from indexer.read.formats import LISTING, MAX_ENTRIES
from indexer.read.reader_process import Lend, borrowed
from indexer.records import Failure, Page, Skip

SITEMAP_TYPES = frozenset(
    "application/xml text/xml application/rss+xml application/atom+xml application/rdf+xml "
    "application/gzip application/x-gzip application/octet-stream".split()
)
WELL_KNOWN_SITEMAPS = ("/sitemap.xml", "/sitemap_index.xml", "/sitemap.txt")
MAX_SITEMAPS = 1_000


@dataclass(frozen=True, slots=True)
class SitemapPages:
    """The addresses in several sitemaps, and the sitemaps and pages that were left out."""

    urls: tuple[str, ...]
    notes: tuple[Skip | Failure, ...]
    unavailable: PageUnavailable | None  # the first error, if any; some addresses are then missing


@dataclass(frozen=True, slots=True)
class SitemapReader:
    """Reads the sitemaps of one site (`scheme://host:port`), up to `max_pages` but at least one whole sitemap."""

    site: str
    robots: Robots
    fetcher: Fetcher
    max_pages: int = 0
    lend: Lend = borrowed

    def read(self, urls: Iterable[str], first: Page | None = None) -> SitemapPages:
        """Read sitemaps, and the sitemaps in them.

        Args:
            urls: addresses of sitemaps.
            first: a sitemap that is already fetched, and is read before the others.

        Raises:
            FetchError: `first` cannot be read.
            PageUnavailable: a sitemap that `first` refers to is unavailable.
        """
        due, visited, pages = deque(urls), set[str](), dict[str, None]()
        notes, unavailable = list[Skip | Failure](), None
        max_pages = max(MAX_ENTRIES, self.max_pages)
        if first is not None:
            due.appendleft(first.url)
        while due:
            url = self._with_site_scheme(due.popleft())
            if url in visited:
                continue
            if len(visited) >= MAX_SITEMAPS or len(pages) >= max_pages:
                is_full = len(visited) >= MAX_SITEMAPS
                limit = f"{MAX_SITEMAPS:,} sitemaps" if is_full else f"{max_pages:,} pages in sitemaps"
                notes.append(Skip(url, f"over the limit of {limit}"))
                continue
            is_first = first is not None and not visited
            visited.add(url)
            try:
                page_urls, sitemap_urls = read_sitemap(first if is_first and first else self._fetch(url), self.lend)
            except FetchError as error:
                if is_first or (first is not None and isinstance(error, PageUnavailable)):
                    raise
                notes.append((Skip if isinstance(error, NotWanted) else Failure)(url, str(error)))
                if isinstance(error, PageUnavailable):
                    unavailable = unavailable or error
            else:
                pages.update(dict.fromkeys(map(self._with_site_scheme, page_urls)))
                due.extend(sitemap_urls)
        notes += [Skip(url, "on another site") for url in pages if origin(url) != self.site]
        return SitemapPages(tuple(url for url in pages if origin(url) == self.site), tuple(notes), unavailable)

    def _with_site_scheme(self, url: str) -> str:
        """Change an address on the site's host to the site's scheme, because sitemaps mix http and https."""
        (scheme, host, *_), (_, site_host, *_) = urlsplit(url), urlsplit(self.site)
        return self.site + url[len(f"{scheme}://{host}") :] if host == site_host else url

    def _fetch(self, url: str) -> Page:
        self._check(url)
        return self.fetcher.get(url, PageRequest(self._check, types=None, long_types=None)).as_page("", url)

    def _check(self, url: str) -> None:
        if origin(url) != self.site:
            raise NotWanted("on another site")
        if not self.robots.allows(url):
            raise NotWanted("robots.txt disallows it")


def is_sitemap(page: Page) -> bool:
    """Return whether a page is a list of pages by its media type, name or first bytes."""
    return page.content_type in SITEMAP_TYPES or page.url.endswith(LLMS) or looks_like_sitemap(page.body)


def read_sitemap(page: Page, lend: Lend = borrowed) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the normalised addresses of the pages and of the sitemaps in a sitemap, on any site.

    Raises FetchError: the sitemap is damaged or too large, has an unknown format, or defines entities.
    """
    if page.url.endswith(LLMS):
        return read_links(replace(page, content_type="text/markdown"), lend).urls, ()
    pages: dict[str, None] = {}
    sitemaps: dict[str, None] = {}
    try:
        with lend() as process, closing(process.ask(LISTING, None, page.body)) as answers:
            [(answer, _)] = answers
        for element, address in answer["addresses"]:
            url = normalise(page.url, address)
            if url is not None:
                (sitemaps if element == "sitemap" else pages)[url] = None
    except ParseError as error:
        raise FetchError(str(error)) from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FetchError("the reader process returned invalid data") from error
    return tuple(pages), tuple(sitemaps)
