"""The links of a page, and whether it may be indexed and its links followed."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from indexer.decoding import one_line
from indexer.errors import FetchError, ParseError, counted
from indexer.read.parsing import Wanted, read_parts
from indexer.read.reader_process import Lend, borrowed
from indexer.records import Page, PageReading
from indexer.urls import normalise, origin

MARKUP = frozenset({"text/html", "application/xhtml+xml"})
_MARKDOWN = frozenset({"text/markdown", "text/mdx"})
# Links that are the same from every page of a folder; others may depend on the page's own name. Only these are worth
# caching, and long ones are not, or a page of them would fill the memory.
_OF_THE_FOLDER = re.compile(r"https?://\w|/(?![/\t\r\n])|[\w.][^:]*$")
_LONGEST_CACHED = 300  # characters
_LONGEST_NAME = 50  # characters
ONLY_LINKS = Wanted(links=True)
_from_folder = lru_cache(maxsize=10_000)(normalise)  # pages have most of their links in common with their neighbours


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
    is_named_markdown = page.content_type == "text/plain" and page.url.lower().endswith((".md", ".markdown"))
    if page.content_type not in MARKUP | _MARKDOWN and not is_named_markdown:
        return Links(())
    try:
        with lend() as process:
            parts = read_parts(page, replace(wanted, links=True), process)
        return replace(_links(page, parts.links), is_drawn=parts.is_drawn, reading=parts.reading)
    except ParseError as error:
        raise FetchError(f"its links cannot be read: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FetchError("its links cannot be read: the reader process returned invalid data") from error


def _links(page: Page, answer: Mapping[str, Any]) -> Links:
    """Return the links in the answer of a reader, which is not trusted: it has parsed a stranger's page."""
    noindex, nofollow = robots_of({str(word) for word in answer["directives"]})
    base = normalise(page.url, answer["base"] or "") or page.url
    canonical = normalise(base, answer["canonical"]) if answer["canonical"] else None
    if canonical is None or canonical == page.url or origin(canonical) != origin(page.url):
        canonical = None
    site, folder = origin(page.url) + "/", normalise(base, ".") or base
    urls: dict[str, None] = {}
    for href in answer["hrefs"]:
        is_cached = len(href) <= _LONGEST_CACHED and _OF_THE_FOLDER.match(href)
        url = _from_folder(folder, href) if is_cached else normalise(base, href)
        if url is not None and url.startswith(site):
            urls[url] = None
    refresh = normalise(base, str(answer["refresh"])) if answer["refresh"] else None
    leads_on = one_line(str(answer["leads_on"]))[:_LONGEST_NAME]
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
    total, refused = len(answer["hrefs"]), int(answer["nofollow"])
    if nofollow and total:
        return f"all its {counted(total + refused, 'link')} are nofollow"
    if found:
        return ""
    if total:
        return "it has only links to other hosts"
    if refused:
        return f"all its {counted(refused, 'link')} are nofollow"
    if answer["is_blank"] and answer["has_script"]:
        return "it has no links and hardly any text: its content is drawn by scripts, try --render"
    return "it has no links and hardly any text" if answer["is_blank"] else "it has no links"
