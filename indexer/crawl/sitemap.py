"""Pages that list pages: sitemaps and their indexes, RSS and Atom feeds, lists of text, llms.txt."""

from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from indexer.crawl.answers import Unavailable, is_list
from indexer.crawl.fetch import Fetcher, Request
from indexer.crawl.links import read_links
from indexer.crawl.robots import Robots
from indexer.errors import FetchError, NotWanted, ParseError
from indexer.read.formats import LISTING, MOST_LISTED
from indexer.read.reader_process import Lend, borrowed
from indexer.records import Failure, Page, Skip
from indexer.urls import normalise, origin, place_refusal

TYPES = frozenset(  # media types that a list may have, beside text/plain and text/markdown for llms.txt
    "application/xml text/xml application/rss+xml application/atom+xml application/rdf+xml "
    "application/gzip application/x-gzip application/octet-stream".split()
)
WELL_KNOWN = ("/sitemap.xml", "/sitemap_index.xml", "/sitemap.txt")
MOST_FILES = 1_000  # sitemaps that one index leads to


@dataclass(frozen=True, slots=True)
class Listing:
    """Addresses in their order, normalised, each once; on any site."""

    pages: tuple[str, ...]
    sitemaps: tuple[str, ...] = ()


def is_listing(page: Page) -> bool:
    """Return whether a page, by its media type, name or first bytes, is a list of pages."""
    return page.content_type in TYPES or _is_llms(page) or is_list(page.body)


def _is_llms(page: Page) -> bool:
    return urlsplit(page.url).path.endswith("/llms.txt")


@dataclass(frozen=True, slots=True)
class Lists:
    """The addresses of several lists and those they lead to."""

    pages: tuple[str, ...]  # on their own site
    notes: tuple[Skip | Failure, ...]  # lists that were left out or failed, and pages on other sites
    out_of_reach: Unavailable | None  # of the first list that is for now, so that it is not known what is gone


class ListReader:
    """Reads the lists of one site."""

    def __init__(
        self,
        site: str,
        robots: Robots,
        fetcher: Fetcher,
        *,
        within: Sequence[str] = (),
        max_pages: int,
        lend: Lend = borrowed,
    ) -> None:
        """Take what a site (`scheme://host:port`) allows; lists are read until they have given `max_pages`.

        `within` are the places that they may be in, if not anywhere on it; `lend` gives the processes that read them.
        """
        self._within = within
        self._lend = lend
        self._site = site
        self._robots = robots
        self._fetcher = fetcher
        self._most = max(MOST_LISTED, max_pages)

    def read(self, urls: Iterable[str], first: Page | None = None) -> Lists:
        """Read lists, and the lists that they lead to; `first` is there already, and comes before the others.

        Raises:
            FetchError: the first cannot be read.
            Unavailable: there is a first, and one that it leads to is out of reach for now.
        """
        due, known = deque(urls), set[str]()
        pages: dict[str, None] = {}
        notes: list[Skip | Failure] = []
        out_of_reach = None
        if first is not None:
            listing = read_listing(first, self._lend)
            known.add(first.url)
            pages.update(dict.fromkeys(listing.pages))
            due.extend(listing.sitemaps)
        while due:
            url = self._here(due.popleft())
            if url in known:
                continue
            if len(known) >= MOST_FILES or len(pages) >= self._most:
                limit = f"{MOST_FILES:,} sitemaps" if len(known) >= MOST_FILES else f"{self._most:,} pages in sitemaps"
                notes.append(Skip(url, f"over the limit of {limit}"))
                continue
            known.add(url)
            try:
                listing = read_listing(self._fetch(url), self._lend)
            except NotWanted as error:
                notes.append(Skip(url, str(error)))
            except FetchError as error:
                notes.append(Failure(url, str(error)))
                if isinstance(error, Unavailable):
                    if first is not None:
                        raise
                    out_of_reach = out_of_reach or error
            else:
                pages.update(dict.fromkeys(listing.pages))
                due.extend(listing.sitemaps)
        here = dict.fromkeys(map(self._here, pages))
        notes += [Skip(url, "on another site") for url in here if origin(url) != self._site]
        return Lists(tuple(url for url in here if origin(url) == self._site), tuple(notes), out_of_reach)

    def _here(self, url: str) -> str:
        """Return an address with the scheme of the site if it is on its host: lists mix http and https."""
        (scheme, host, *_), (_, site, *_) = urlsplit(url), urlsplit(self._site)
        return self._site + url[len(f"{scheme}://{host}") :] if host == site else url

    def _fetch(self, url: str) -> Page:
        self._check(url)
        return self._fetcher.get(url, Request(scope=self._check, types=None, lists=None)).as_page("", url)

    def _check(self, url: str) -> None:
        if origin(url) != self._site:
            raise NotWanted("on another site")
        if not self._robots.allows(url):
            raise NotWanted("robots.txt disallows it")
        if refusal := place_refusal(url, self._within):
            raise NotWanted(refusal)


def read_listing(page: Page, lend: Lend = borrowed) -> Listing:
    """Read what a list of pages leads to.

    Args:
        page: any, whatever its media type is.
        lend: gives the process that reads it.

    Raises:
        FetchError: it is none of the known kinds, is damaged, too large, or defines entities.
    """
    if _is_llms(page):
        return Listing(read_links(replace(page, content_type="text/markdown"), lend).urls)
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
    return Listing(tuple(pages), tuple(sitemaps))
