"""Read the files that guide crawlers through a site: robots.txt (RFC 9309), sitemaps, feeds and llms.txt."""

import re
from collections import deque
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from urllib.parse import quote, urlsplit

from indexer.config import matches
from indexer.crawl.fetch import Fetcher, PageRequest
from indexer.crawl.http_response import LLMS, PageUnavailable, looks_like_sitemap, product_token, read_links
from indexer.errors import FetchError, NotWanted, ParseError
from indexer.network.urls import normalise, normalise_escapes, origin
from indexer.read.formats import LISTING, MAX_ENTRIES
from indexer.read.reader_process import Lend, borrowed
from indexer.records import Failure, Page, Skip

_ROBOTS_BYTES = 500 * 1024  # maximum by RFC 9309, section 2.5
_MAX_DELAY_SECONDS = 60.0
_MAX_WILDCARDS = 300
_LINE = re.compile(r"(user[ -]agent|crawl[ -]delay|[\w-]+)\s*:?\s*(.*)", re.IGNORECASE)
_DISALLOW = frozenset("disallow dissallow dissalow disalow diasllow disallaw".split())  # includes common misspellings
_OTHER_RULES = frozenset({"crawl-delay", "request-rate", "visit-time"})
_UNESCAPED = "!$%&'()*+,-./:;=?@[\\]^_|~"


class Robots:
    """The rules of a robots.txt file for one crawler. Parsing takes memory and time linear in the file's length."""

    def __init__(self, text: str, user_agent: str) -> None:
        rules, sitemaps = _rules_for(product_token(user_agent), text)
        self.sitemaps = tuple(sitemaps)
        self.delay = 0.0
        self._allowed_by_prefix: dict[str, bool] = {}
        self._patterns: list[tuple[int, bool, str]] = []  # (length, whether it allows, pattern)
        wildcards_left = _MAX_WILDCARDS
        for key, value in rules:
            if key == "crawl-delay" and re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value):
                self.delay = max(self.delay, min(float(value), _MAX_DELAY_SECONDS))
            if key in _OTHER_RULES or not value:
                continue
            pattern, allows = re.sub(r"\*+", "*", normalise_escapes(quote(value, safe=_UNESCAPED))), key == "allow"
            wildcards = pattern.count("*") + pattern.endswith("$")
            wildcards_left -= wildcards
            if not wildcards:
                self._allowed_by_prefix[pattern] = allows or self._allowed_by_prefix.get(pattern, False)
            elif wildcards_left >= 0:
                self._patterns.append((len(pattern), allows, pattern))
            elif not allows:  # too many wildcards, so disallow the prefix before the first wildcard
                self._allowed_by_prefix.setdefault(pattern.removesuffix("$").partition("*")[0], False)
        self._lengths = sorted({*map(len, self._allowed_by_prefix)}, reverse=True)
        self._patterns.sort(reverse=True)

    def allows(self, url: str) -> bool:
        """Return whether an address may be fetched. The longest matching rule decides, and `allow` wins a tie."""
        url_parts = urlsplit(url)
        path = normalise_escapes(f"{url_parts.path}?{url_parts.query}" if url_parts.query else url_parts.path)
        length = next((n for n in self._lengths if n <= len(path) and path[:n] in self._allowed_by_prefix), 0)
        is_allowed = self._allowed_by_prefix[path[:length]] if length else True
        for pattern_length, allows, pattern in self._patterns:
            if pattern_length < length:
                break
            if (pattern_length > length or allows) and matches(pattern, path):
                return allows
        return is_allowed


def _rules_for(name: str | None, text: str) -> tuple[list[tuple[str, str]], Iterable[str]]:
    """Return the rules for the user agent `name`, or for `*` if `name` has none, and the addresses of sitemaps."""
    groups: dict[str | None, list[tuple[str, str]]] = {}
    sitemaps: dict[str, None] = {}
    current, in_agents = set[str | None](), False
    for line in text.splitlines():
        if (match := _LINE.match(line.partition("#")[0].strip())) is None:
            continue
        key, value = match[1].lower().replace(" ", "-"), match[2]
        if key == "user-agent":
            current = current if in_agents else set()
            in_agents = True
            current |= {name, "*"}.intersection(map(product_token, re.split("[,&]", value)))
            groups |= {agent: groups.get(agent, []) for agent in current}
        elif key == "allow" or key in _DISALLOW or key in _OTHER_RULES:
            in_agents = False
            for agent in current:
                groups[agent].append((key, value))
        elif key in ("sitemap", "site-map", "sitemaps"):
            sitemaps[value] = None
    return groups.get(name, groups.get("*", [])), sitemaps


def fetch_robots(fetcher: Fetcher, site: str, user_agent: str) -> Robots:
    """Fetch robots.txt of a site (`scheme://host:port`). Raises FetchError if the site may not be crawled."""

    def check_redirect(url: str) -> None:
        source, target = urlsplit(site), urlsplit(url)
        is_upgrade = target.scheme == "https" and target.netloc == source.netloc
        is_same_file = target.path == "/robots.txt" and (target.scheme == "https" or source.scheme == "http")
        if origin(url) != site and not (is_upgrade or is_same_file):
            raise NotWanted(f"robots.txt redirects to another site ({origin(url)})")

    try:
        response = fetcher.get(f"{site}/robots.txt", PageRequest(check_redirect, types=None, max_length=_ROBOTS_BYTES))
    except FetchError as error:
        if error.status is not None and 400 <= error.status < 500:
            return Robots("", user_agent)
        if error.status is not None and not isinstance(error, NotWanted):
            raise FetchError(f"robots.txt returns {error}: crawling is not allowed until it is available") from error
        raise
    text = response.body.decode("utf-8-sig", "replace")
    if len(response.body) == _ROBOTS_BYTES:  # a truncated path could disallow too much
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1]
    return Robots(text, user_agent)


SITEMAP_TYPES = frozenset(
    "application/xml text/xml application/rss+xml application/atom+xml application/rdf+xml "
    "application/gzip application/x-gzip application/octet-stream".split()
)
WELL_KNOWN_SITEMAPS = ("/sitemap.xml", "/sitemap_index.xml", "/sitemap.txt")
MAX_SITEMAPS = 1_000


@dataclass(frozen=True, slots=True)
class SitemapPages:
    """The pages that sitemaps list. `notes` has a Skip or Failure for each sitemap or page that was left out."""

    urls: tuple[str, ...]
    notes: tuple[Skip | Failure, ...]
    unavailable: PageUnavailable | None  # the first error, which makes `urls` incomplete


@dataclass(frozen=True, slots=True)
class SitemapReader:
    """Reads sitemaps of a site until they have listed `max_pages` pages, or `MAX_ENTRIES` pages if that is more."""

    site: str  # scheme://host:port
    robots: Robots
    fetcher: Fetcher
    max_pages: int = 0
    lend: Lend = borrowed
    former_site: str = ""

    def read(self, urls: Iterable[str], first: Page | None = None) -> SitemapPages:
        """Read sitemaps, and the sitemaps that they list.

        Args:
            first: a sitemap that has already been fetched. It is read before `urls`.

        Raises:
            FetchError: `first` cannot be read.
            PageUnavailable: `first` is passed, and a sitemap that it lists is unavailable.
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
        """Move an address on the host of `site` or `former_site` to `site`, for http addresses of an https site."""
        hosts = (urlsplit(self.site).netloc, urlsplit(self.former_site).netloc)
        return self.site + url.removeprefix(origin(url)) if urlsplit(url).netloc in hosts else url

    def _fetch(self, url: str) -> Page:
        self._check(url)
        return self.fetcher.get(url, PageRequest(self._check, types=None, long_types=None)).as_page("", url)

    def _check(self, url: str) -> None:
        if origin(url) != self.site:
            raise NotWanted("on another site")
        if not self.robots.allows(url):
            raise NotWanted("robots.txt disallows it")


def is_sitemap(page: Page) -> bool:
    """Return whether the media type, name or first bytes of a page show that it is a list of pages."""
    return page.content_type in SITEMAP_TYPES or page.url.endswith(LLMS) or looks_like_sitemap(page.body)


def read_sitemap(page: Page, lend: Lend = borrowed) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the addresses of pages and of other sitemaps in a sitemap. Raises FetchError if it is not valid."""
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
