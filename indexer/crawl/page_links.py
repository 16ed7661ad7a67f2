"""The links of a page to its own site, with its directives for robots."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from indexer.errors import FetchError, ParseError
from indexer.network.urls import normalise, on_site, origin
from indexer.read.document_reader import PageParts, read_page_parts
from indexer.read.reader_process import Lend, borrowed
from indexer.records import Page, PageReading
from indexer.text.cleaning import one_line

MARKUP = frozenset({"text/html", "application/xhtml+xml"})
_MARKDOWN = frozenset({"text/markdown", "text/mdx"})
_LLMS = "/llms.txt"
_LONGEST_NAME = 50  # characters
ONLY_LINKS = PageParts(links=True)


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


def read_links(page: Page, lend: Lend = borrowed, wanted: PageParts = ONLY_LINKS) -> Links:
    """Find the links of a page to its own site (same scheme, host and port), and its robots directives.

    Raises FetchError: the markup cannot be read, or takes too much time or memory.
    """
    if page.content_type not in MARKUP | _MARKDOWN:
        return Links(())
    try:
        with lend() as process:
            links, is_drawn, reading = read_page_parts(page, replace(wanted, links=True), process)
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
