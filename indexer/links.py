"""What a crawler takes from a page besides its text: links, and whether it may use them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Self
from urllib.parse import urljoin

from lxml import etree

from indexer.decoding import decode
from indexer.errors import FetchError
from indexer.markdown import is_markdown, render
from indexer.records import Page
from indexer.urls import normalise, origin

_MARKUP = frozenset({"text/html", "application/xhtml+xml"})
# Links that are the same from every page of a folder; others may depend on the page's own name. Only these are worth
# keeping, and long ones are not, or a page of them would fill the memory.
_OF_THE_FOLDER = re.compile(r"https?://\w|/(?![/\t\r\n])|[\w.][^:]*$")
_LONGEST_KEPT = 300  # characters
_WITH_VALUES = frozenset({"max-snippet", "max-image-preview", "max-video-preview", "unavailable_after"})


@dataclass(frozen=True, slots=True)
class Links:
    """Links of one page, in order, each once."""

    urls: tuple[str, ...]  # normalised, on the page's own site
    noindex: bool = False
    canonical: str | None = None  # where the page says it belongs, on its own site; None if here


def read_links(page: Page) -> Links:
    """Find the links of a page to its own site (same scheme, host and port), and its robots directives.

    Raises:
        FetchError: the markup cannot be read.
    """
    if is_markdown(page):
        html = render(decode(page.body, page.charset, markup=False)).html
    elif page.content_type not in _MARKUP:
        return Links(())
    else:
        html = decode(page.body, page.charset, markup=True)
    tags = _Tags()
    # Events rather than a tree: a tree stops at a depth of 2,000, and takes for ever over 100,000 attributes.
    parser = etree.HTMLParser(target=tags, huge_tree=True, no_network=True)
    try:
        etree.fromstring(html, parser)
    except (etree.LxmlError, ValueError) as error:
        raise FetchError(f"markup that cannot be read: {' '.join(str(error).split())[:100]}") from error
    noindex = bool(tags.directives & {"noindex", "none"})
    nofollow = bool(tags.directives & {"nofollow", "none"})
    base = normalise(page.url, tags.base or "") or page.url
    canonical = normalise(base, tags.canonical) if tags.canonical else None
    if canonical is None or canonical == page.url or origin(canonical) != origin(page.url):
        canonical = None
    return Links(() if nofollow else tuple(_urls(tags, base, page.url)), noindex, canonical)


def header_directives(values: Iterable[str]) -> set[str]:
    """What X-Robots-Tag headers say to this crawler, in lower case; what they say to others by name is left out."""
    found: set[str] = set()
    for value in values:
        words = [word.strip() for word in value.lower().split(",")]
        agent, colon, first = words[0].partition(":")
        if colon and agent not in _WITH_VALUES:
            if agent.strip() != "pilotlight":
                continue
            words[0] = first.strip()
        found.update(words)
    return found


@dataclass(slots=True)
class _Tags:
    """Receives the parser's events."""

    base: str | None = None
    canonical: str | None = None
    hrefs: dict[str, None] = field(default_factory=dict)  # without fragments
    directives: set[str] = field(default_factory=set)

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Take note of one opening tag."""
        if tag in ("a", "area"):
            href = attributes.get("href", "").partition("#")[0]
            if href and "nofollow" not in attributes.get("rel", "").lower().split():
                self.hrefs[href] = None
        elif tag == "base":
            self.base = self.base or attributes.get("href")
        elif tag == "link" and "canonical" in attributes.get("rel", "").lower().split():
            self.canonical = self.canonical or attributes.get("href", "").partition("#")[0]
        elif tag == "meta" and attributes.get("name", "").lower() in ("robots", "pilotlight"):
            self.directives |= {word.strip() for word in attributes.get("content", "").lower().split(",")}

    def close(self) -> Self:
        """End of the page."""
        return self


def _urls(tags: _Tags, base: str, page_url: str) -> dict[str, None]:
    site = origin(page_url) + "/"
    folder = urljoin(base, ".")
    found = (
        _from_folder(folder, href)
        if len(href) <= _LONGEST_KEPT and _OF_THE_FOLDER.match(href)
        else normalise(base, href)
        for href in tags.hrefs
    )
    return dict.fromkeys(url for url in found if url is not None and url.startswith(site))


# pages have most of their links in common with the others of their folder
_from_folder = lru_cache(maxsize=10_000)(normalise)
