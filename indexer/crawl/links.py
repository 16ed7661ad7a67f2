"""What leads from page to page: links, the rules of a robots.txt, and sitemaps, feeds and other lists of pages."""

import re
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlsplit

from indexer.config import matches
from indexer.crawl.answers import PageUnavailable, is_list, product_token
from indexer.crawl.fetch import Fetcher, PageRequest
from indexer.decoding import one_line
from indexer.errors import FetchError, NotWanted, ParseError
from indexer.read.formats import LISTING, MOST_LISTED
from indexer.read.parsing import Wanted, read_parts
from indexer.read.reader_process import Lend, borrowed
from indexer.records import Failure, Page, PageReading, Skip
from indexer.urls import normalise, on_site, one_spelling, origin

MARKUP = frozenset({"text/html", "application/xhtml+xml"})
_MARKDOWN = frozenset({"text/markdown", "text/mdx"})
_LLMS = "/llms.txt"
_LONGEST_NAME = 50  # characters
ONLY_LINKS = Wanted(links=True)

_MAX_ROBOTS = 500 * 1024  # bytes read of a robots.txt; RFC 9309, 2.5
_MAX_DELAY = 60.0  # seconds
_MAX_WILDCARDS = 300  # of rules that are tried for each address; further ones hold for all that begins like them
_LINE = re.compile(r"(user[ -]agent|crawl[ -]delay|[\w-]+)\s*:?\s*(.*)", re.IGNORECASE)
_DISALLOW = frozenset("disallow dissallow dissalow disalow diasllow disallaw".split())  # as it is spelt
_OTHER_RULES = frozenset({"crawl-delay", "request-rate", "visit-time"})  # which end a list of agents, too
_IN_PATTERN = "!$%&'()*+,-./:;=?@[\\]^_|~"  # characters that need no escape

TYPES = frozenset(  # media types that a list may have, beside text/plain and text/markdown for llms.txt
    "application/xml text/xml application/rss+xml application/atom+xml application/rdf+xml "
    "application/gzip application/x-gzip application/octet-stream".split()
)
WELL_KNOWN = ("/sitemap.xml", "/sitemap_index.xml", "/sitemap.txt")
MOST_FILES = 1_000  # sitemaps that one index leads to


@dataclass(frozen=True, slots=True)
class Links:
    """Links of one page, in order, each once."""

    urls: tuple[str, ...]  # normalised, on the page's own site
    noindex: bool = False
    canonical: str | None = None  # canonical address on the same site; None if it is the page's own
    asks_password: bool = False  # whether it has a field for one
    refresh: str | None = None  # normalised address that it sends readers to before they have read it
    leads_on: str = ""  # kind of a page whose links are followed and which is not indexed, such as a frameset
    leads_nowhere: str = ""  # why it has no links
    is_drawn: bool = False  # whether scripts draw it
    reading: PageReading | None = None  # its text, if that is wanted


def read_links(page: Page, lend: Lend = borrowed, wanted: Wanted = ONLY_LINKS) -> Links:
    """Find the links of a page to its own site (same scheme, host and port), and its robots directives.

    Raises FetchError: the markup cannot be read, or takes too much time or memory.
    """
    if page.content_type not in MARKUP | _MARKDOWN:
        return Links(())
    try:
        with lend() as process:
            links, is_drawn, reading = read_parts(page, replace(wanted, links=True), process)
        return replace(_links(page, links), is_drawn=is_drawn, reading=reading)
    except ParseError as error:
        raise FetchError(f"its links cannot be read: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FetchError("its links cannot be read: the reader process returned invalid data") from error


def _links(page: Page, answer: Mapping[str, Any]) -> Links:
    """Return the links in the answer of a reader, which is not trusted: it has parsed a stranger's page."""
    noindex, nofollow = robots_of({str(word) for word in answer["directives"]})
    base = normalise(page.url, answer["base"] or "") or page.url
    site = origin(page.url)

    def absolute(href: str) -> str | None:
        url = normalise(base, href)
        return None if url is None else on_site(url, site)

    canonical = absolute(answer["canonical"]) if answer["canonical"] else None
    if canonical is None or canonical == page.url or origin(canonical) != site:
        canonical = None
    is_listing = bool(answer["is_listing"])
    below = normalise(base, ".") or base if is_listing else f"{site}/"
    linked = (url for url in map(absolute, answer["hrefs"]) if url is not None and url.startswith(below))
    urls = dict.fromkeys(url for url in linked if not (is_listing and "?" in url))
    refresh = absolute(str(answer["refresh"])) if answer["refresh"] else None
    leads_on = one_line(str(answer["leads_on"]))[:_LONGEST_NAME] or "a list of pages" * page.url.endswith(_LLMS)
    return Links(
        () if nofollow else tuple(urls),
        noindex or bool(leads_on),
        canonical,
        asks_password=bool(answer["asks_password"]),
        refresh=refresh if refresh != page.url else None,
        leads_on=leads_on,
        leads_nowhere=_why_nowhere(answer, len(urls), nofollow=nofollow),
    )


def robots_of(directives: set[str]) -> tuple[bool, bool]:
    """Return whether robots directives say `noindex`, and whether they say `nofollow`."""
    return bool(directives & {"noindex", "none"}), bool(directives & {"nofollow", "none"})


def _why_nowhere(answer: Mapping[str, Any], found: int, *, nofollow: bool) -> str:
    """Return why a page with so many links to its own site leads nowhere; empty if it leads somewhere."""
    if (nofollow and answer["hrefs"]) or (answer["nofollow"] and not answer["hrefs"]):
        return "all its links are nofollow"
    if found:
        return ""
    if answer["hrefs"]:
        return "it has only links to other hosts"
    if answer["is_blank"] and answer["has_script"]:
        return "it has no links and hardly any text: its content is drawn by scripts, try --render"
    return "it has no links"


class Robots:
    """The rules that a robots.txt (RFC 9309) gives to one crawler, in memory and time that are linear in its length."""

    def __init__(self, text: str, user_agent: str) -> None:
        rules, sitemaps = _rules_for(product_token(user_agent), text)
        self.sitemaps = tuple(sitemaps)  # as they are written there
        self.delay = 0.0  # seconds between requests
        self._plain: dict[str, bool] = {}  # by the beginning of a path, whether it is allowed
        self._wild: list[tuple[int, bool, str]] = []  # length, whether it allows, pattern
        room = _MAX_WILDCARDS
        for key, value in rules:
            if key == "crawl-delay" and re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value):
                self.delay = max(self.delay, min(float(value), _MAX_DELAY))
            if key in _OTHER_RULES or not value:
                continue
            pattern, allows = re.sub(r"\*+", "*", one_spelling(quote(value, safe=_IN_PATTERN))), key == "allow"
            wildcards = pattern.count("*") + pattern.endswith("$")
            room -= wildcards
            if not wildcards:
                self._plain[pattern] = allows or self._plain.get(pattern, False)
            elif room >= 0:
                self._wild.append((len(pattern), allows, pattern))
            elif not allows:
                self._plain.setdefault(pattern.removesuffix("$").partition("*")[0], False)
        self._lengths = sorted({*map(len, self._plain)}, reverse=True)
        self._wild.sort(reverse=True)

    def allows(self, url: str) -> bool:
        """Return whether the address may be fetched: the longest rule holds, and of two the one that allows."""
        parts = urlsplit(url)
        path = one_spelling(f"{parts.path}?{parts.query}" if parts.query else parts.path)
        length = next((n for n in self._lengths if n <= len(path) and path[:n] in self._plain), 0)
        is_allowed = self._plain[path[:length]] if length else True
        for longest, allows, pattern in self._wild:
            if longest < length:
                break
            if (longest > length or allows) and matches(pattern, path):
                return allows
        return is_allowed


def _rules_for(name: str | None, text: str) -> tuple[list[tuple[str, str]], Iterable[str]]:
    """Return the rules of all groups that name a crawler or, if none does, of all groups for `*`; and the sitemaps."""
    groups: dict[str | None, list[tuple[str, str]]] = {}
    sitemaps: dict[str, None] = {}
    current, in_agents = set[str | None](), False  # which of `groups` the rules belong to
    for line in text.splitlines():
        if (found := _LINE.match(line.partition("#")[0].strip())) is None:
            continue
        key, value = found[1].lower().replace(" ", "-"), found[2]
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
    """Read the rules of a site (`scheme://host:port`).

    Raises FetchError: it cannot be reached, fails on robots.txt, or has it elsewhere, so nothing may be fetched.
    """

    def check_redirect(url: str) -> None:
        here, there = urlsplit(site), urlsplit(url)
        is_elsewhere = there.path != here.path + "/robots.txt" or (here.scheme, there.scheme) == ("https", "http")
        if origin(url) != site and is_elsewhere and not (there.scheme == "https" and there.netloc == here.netloc):
            raise NotWanted(f"robots.txt redirects to another site ({origin(url)})")

    try:
        request = PageRequest(scope=check_redirect, types=None, cut_at=_MAX_ROBOTS)
        answer = fetcher.get(f"{site}/robots.txt", request)
    except FetchError as error:
        if error.status is not None and 400 <= error.status < 500:
            return Robots("", user_agent)
        if error.status is not None and not isinstance(error, NotWanted):
            raise FetchError(f"robots.txt answers {error}, which forbids crawling until the site repairs it") from error
        raise
    text = answer.body.decode("utf-8-sig", "replace")
    if len(answer.body) == _MAX_ROBOTS:  # the beginning of a rule forbids more than the rule
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1]
    return Robots(text, user_agent)


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
