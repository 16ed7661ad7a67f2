"""Links of a page as they are written there; runs in the process that reads documents."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from lxml import etree

from indexer.decoding import decode_named
from indexer.errors import ParseError
from indexer.read.html.html_tree import MOST_ELEMENTS
from indexer.read.markup.markdown import render
from indexer.web_encodings import escape_query

MARKDOWN = "markdown"  # in place of a charset before a colon: `markdown:utf-8`
_MOST = 20_000  # different links
_LONGEST = 2_000  # characters; longer ones are traps or data, not pages
_LONGEST_DIRECTIVES = 1_000  # characters


def find(body: bytes, argument: str | None) -> dict[str, Any]:
    """Return links and robots directives of a page, JSON-ready; `argument` is its charset, or `markdown:` and that.

    Raises:
        ParseError: the markup cannot be read, or has too much in it.
    """
    kind, _, charset = (argument or "").partition(":")
    html, encoding = decode_named(body, charset or None, markup=kind != MARKDOWN)
    if kind == MARKDOWN:
        html = render(html).html
    tags = _Tags()
    # Events rather than a tree: a tree stops at a depth of 2,000, and takes for ever over 100,000 attributes.
    parser = etree.HTMLParser(target=tags, huge_tree=True, no_network=True)
    try:
        etree.fromstring(html, parser)
    except (etree.LxmlError, ValueError) as error:
        raise ParseError(f"markup that cannot be read: {' '.join(str(error).split())[:100]}") from error
    return {
        "base": tags.base,
        "canonical": tags.canonical,
        "hrefs": [escape_query(href, encoding) for href in tags.hrefs],
        "directives": sorted(tags.directives),
        "asks_password": tags.asks_password,
    }


@dataclass(slots=True)
class _Tags:
    """Receives the parser's events."""

    elements: int = 0
    base: str | None = None
    canonical: str | None = None
    hrefs: dict[str, None] = field(default_factory=dict)  # without fragments
    directives: set[str] = field(default_factory=set)
    asks_password: bool = False

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Take note of one opening tag."""
        self.elements += 1
        if self.elements > MOST_ELEMENTS:
            raise ParseError(f"more than {MOST_ELEMENTS:,} elements")
        if tag in ("a", "area"):
            href = attributes.get("href", "").partition("#")[0]
            if href and len(href) <= _LONGEST and "nofollow" not in attributes.get("rel", "").lower().split():
                self.hrefs[href] = None
                if len(self.hrefs) > _MOST:
                    raise ParseError(f"more than {_MOST:,} links")
        elif tag == "input":
            self.asks_password |= attributes.get("type", "").strip().lower() == "password"
        elif tag == "base":
            self.base = self.base or attributes.get("href")
        elif tag == "link" and "canonical" in attributes.get("rel", "").lower().split():
            self.canonical = self.canonical or attributes.get("href", "").partition("#")[0]
        elif tag == "meta" and attributes.get("name", "").lower() in ("robots", "pilotlight"):
            self.directives |= {
                word.strip() for word in attributes.get("content", "")[:_LONGEST_DIRECTIVES].lower().split(",")
            }

    def close(self) -> Self:
        """End of the page."""
        return self
