"""The links of a page to its own site, and its directives for robots."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from indexer.crawl.http_response import MARKDOWN
from indexer.errors import FetchError, ParseError
from indexer.network.urls import normalise, on_site, origin
from indexer.read.document_reader import PageParts, read_page_parts
from indexer.read.reader_process import Lend, borrowed
from indexer.records import Page, PageReading
from indexer.text.cleaning import one_line

MARKUP = frozenset({"text/html", "application/xhtml+xml"})
LLMS = "/llms.txt"
ONLY_LINKS = PageParts(links=True)
_MAX_KIND_LENGTH = 50


@dataclass(frozen=True, slots=True)
class Links:
    """The links of one page, in order and without duplicates; all addresses are normalised and on the page's site.

    `refresh` is the target of an immediate redirect in the page. `leads_on` is the kind of a page that is only
    followed, not indexed, such as a frameset. It is empty for other pages.
    """

    urls: tuple[str, ...]
    noindex: bool = False
    canonical: str | None = None
    asks_password: bool = False
    refresh: str | None = None
    leads_on: str = ""
    why_no_links: str = ""
    needs_rendering: bool = False
    reading: PageReading | None = None


def read_links(page: Page, lend: Lend = borrowed, requested: PageParts = ONLY_LINKS) -> Links:
    """Read the links of a page and the other parts that are requested.

    Raises FetchError: the markup cannot be read, or takes too much time or memory.
    """
    if page.content_type not in MARKUP | MARKDOWN:
        return Links(())
    try:
        with lend() as process:
            fields, needs_rendering, reading = read_page_parts(page, replace(requested, links=True), process)
        return replace(_checked_links(page, fields), needs_rendering=needs_rendering, reading=reading)
    except ParseError as error:
        raise FetchError(f"its links cannot be read: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FetchError("its links cannot be read: the reader process returned invalid data") from error


def _checked_links(page: Page, fields: Mapping[str, Any]) -> Links:
    noindex, nofollow = indexing_rules({str(word) for word in fields["directives"]})
    base = normalise(page.url, fields["base"] or "") or page.url
    site = origin(page.url)

    def absolute(href: str) -> str | None:
        url = normalise(base, href)
        return None if url is None else on_site(url, site)

    canonical = absolute(fields["canonical"]) if fields["canonical"] else None
    if canonical is not None and (canonical == page.url or origin(canonical) != site):
        canonical = None
    is_listing = bool(fields["is_listing"])
    below = normalise(base, ".") or base if is_listing else f"{site}/"
    absolute_urls = (url for url in map(absolute, fields["hrefs"]) if url is not None and url.startswith(below))
    urls = dict.fromkeys(url for url in absolute_urls if not (is_listing and "?" in url))
    refresh = absolute(str(fields["refresh"])) if fields["refresh"] else None
    kind = one_line(str(fields["leads_on"]))[:_MAX_KIND_LENGTH] or "a list of pages" * page.url.endswith(LLMS)
    return Links(
        () if nofollow else tuple(urls),
        noindex or bool(kind),
        canonical,
        asks_password=bool(fields["asks_password"]),
        refresh=refresh if refresh != page.url else None,
        leads_on=kind,
        why_no_links=_why_no_links(fields, has_links=bool(urls), nofollow=nofollow),
    )


def indexing_rules(directives: set[str]) -> tuple[bool, bool]:
    """Return whether robots directives include `noindex`, and whether they include `nofollow`."""
    return bool(directives & {"noindex", "none"}), bool(directives & {"nofollow", "none"})


def _why_no_links(fields: Mapping[str, Any], *, has_links: bool, nofollow: bool) -> str:
    if (nofollow and fields["hrefs"]) or (fields["nofollow"] and not fields["hrefs"]):
        return "all its links are nofollow"
    if has_links:
        return ""
    if fields["hrefs"]:
        return "it has only links to other hosts"
    if fields["is_blank"] and fields["has_script"]:
        return "it has no links and hardly any text: its content is rendered by scripts, try --render"
    return "it has no links"
