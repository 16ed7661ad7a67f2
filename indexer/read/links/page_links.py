"""Links of a page as they are written there; runs in the process that reads documents."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from lxml import etree

from indexer.decoding import decode_named
from indexer.errors import ParseError
from indexer.read.html.html_tree import MOST_ELEMENTS
from indexer.read.links.leading_on import Leads, may_be_listing
from indexer.read.markup.markdown import render
from indexer.web_encodings import escape_query

MARKDOWN = "markdown"  # in place of a charset before a colon: `markdown:utf-8`
_MOST = 20_000  # different links
_LONGEST = 2_000  # characters; longer ones are traps or data, not pages
_LONGEST_DIRECTIVES = 1_000  # characters
_MOST_FRAMES = 100
_MOST_STRANGERS = 2  # links of a listing
_OF_FOLDER = re.compile(r"(?:\.{1,2}/)*(?:\.\.|[^/?#:]*/?)(?:\?.*)?|/[^?#]*")


def find(body: bytes, argument: str | None) -> dict[str, Any]:
    """Return links and robots directives of a page, JSON-ready; `argument` is its charset, or `markdown:` and that.

    Raises:
        ParseError: the markup cannot be read, or has too much in it.
    """
    kind, _, charset = (argument or "").partition(":")
    html, encoding = decode_named(body, charset or None, markup=kind != MARKDOWN)
    if kind == MARKDOWN:
        html = render(html).html
    tags, leads = _Tags(), Leads()
    _parse(html, tags)
    if tags.may_lead_on or (tags.strangers <= _MOST_STRANGERS and may_be_listing(html)):
        _parse(html, leads)
    hrefs = [*tags.hrefs, *tags.frames]
    if (entries := leads.entries()) is not None:
        hrefs = entries
    elif not leads.has_text:
        hrefs += [*tags.inner_frames, *(leads.targets if not tags.hrefs else ())]
    if leads.refresh is not None and leads.redirect is None:
        hrefs.append(leads.refresh[1])
    return {
        "base": tags.base,
        "canonical": tags.canonical,
        "hrefs": [escape_query(href, encoding) for href in dict.fromkeys(hrefs)],
        "directives": sorted(tags.directives),
        "asks_password": tags.asks_password,
        "refresh": leads.redirect and escape_query(leads.redirect, encoding),
        "leads_on": "a listing of a folder" if entries is not None else "a set of frames" if tags.frames else "",
        "nofollow": tags.nofollow,
        "is_blank": bool(tags.may_lead_on) and not leads.has_text and not hrefs,
        "has_script": tags.has_script,
    }


def _parse(html: str, target: Any) -> None:
    # Events rather than a tree: a tree stops at a depth of 2,000, and takes for ever over 100,000 attributes.
    try:
        etree.fromstring(html, etree.HTMLParser(target=target, huge_tree=True, no_network=True))
    except (etree.LxmlError, ValueError) as error:
        raise ParseError(f"markup that cannot be read: {' '.join(str(error).split())[:100]}") from error


@dataclass(slots=True)
class _Tags:
    """Receives the parser's events."""

    elements: int = 0
    base: str | None = None
    canonical: str | None = None
    hrefs: dict[str, None] = field(default_factory=dict)  # without fragments
    directives: set[str] = field(default_factory=set)
    asks_password: bool = False
    frames: list[str] = field(default_factory=list)  # addresses
    inner_frames: list[str] = field(default_factory=list)
    strangers: int = 0  # links that are none to the page's folder, in another order, or to what is in it or above it
    nofollow: int = 0  # links that are not to be followed
    has_refresh: bool = False
    has_script: bool = False

    @property
    def may_lead_on(self) -> bool:
        """Whether the page may be there to lead on rather than to be read."""
        return self.has_refresh or bool(self.inner_frames) or not self.hrefs

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Take note of one opening tag."""
        self.elements += 1
        if self.elements > MOST_ELEMENTS:
            raise ParseError(f"more than {MOST_ELEMENTS:,} elements")
        if tag in ("a", "area"):
            href = attributes.get("href", "").partition("#")[0]
            if "nofollow" in attributes.get("rel", "").lower().split():
                self.nofollow += 1
            elif href and len(href) <= _LONGEST:
                self.hrefs[href] = None
                if self.strangers <= _MOST_STRANGERS:
                    self.strangers += _OF_FOLDER.fullmatch(href) is None
                if len(self.hrefs) > _MOST:
                    raise ParseError(f"more than {_MOST:,} links")
        elif tag in ("frame", "iframe"):
            src, known = attributes.get("src", "").strip(), self.frames if tag == "frame" else self.inner_frames
            if src and len(src) <= _LONGEST and len(known) < _MOST_FRAMES:
                known.append(src.partition("#")[0])
        elif tag == "script":
            self.has_script = True
        elif tag == "input":
            self.asks_password |= attributes.get("type", "").strip().lower() == "password"
        elif tag == "base":
            self.base = self.base or attributes.get("href")
        elif tag == "link" and "canonical" in attributes.get("rel", "").lower().split():
            self.canonical = self.canonical or attributes.get("href", "").partition("#")[0]
        elif tag == "meta" and attributes.get("http-equiv", "").strip().lower() == "refresh":
            self.has_refresh = True
        elif tag == "meta" and attributes.get("name", "").lower() in ("robots", "pilotlight"):
            self.directives |= {
                word.strip() for word in attributes.get("content", "")[:_LONGEST_DIRECTIVES].lower().split(",")
            }

    def close(self) -> Self:
        """End of the page."""
        return self
