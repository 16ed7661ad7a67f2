"""Links of a page as they are written there; runs in the process that reads documents."""

import re
from collections import Counter
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from html import unescape
from typing import Any, Self
from urllib.parse import unquote

from lxml import etree

from indexer.decoding import decode, decode_named, escape_query
from indexer.errors import ParseError
from indexer.read.container import unpacked
from indexer.read.formats import GZIP
from indexer.read.html import template
from indexer.read.html.html_tree import MOST_ELEMENTS
from indexer.read.html.main_content import is_drawn as drawn_by_scripts
from indexer.read.markup.markdown import render

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
        """Return whether the page may be there to lead on rather than to be read."""
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


_LITTLE = 500  # characters of text of a page that says that it has moved
_HARDLY = 100  # characters of text of a page around a frame, or that scripts draw
_LONGEST_SCRIPT = 20_000  # characters of a script that are looked at
_MOST_TARGETS = 3  # of scripts
_MOST_LINKS = 20_000  # that a listing may have
_UNSEEN = frozenset({"script", "style", "title", "template", "noframes", "iframe"})
_GOES_TO = re.compile(
    r"""\blocation(?:\.href)?\s{0,9}(?:=(?!=)|\.(?:replace|assign)\s{0,9}\()\s{0,9}(["'])([^"'\s]+)\1\s{0,9}(?=[;)}]|$|\n)"""
)
# 2026-01-31, 31-Jan-2026, 1/31/2026, Jan 31, 2026, 31 Jan 2026, 2026-Jan-31
_DATE = re.compile(
    r"\b(?:\d{4}[-/](?:\d\d|[A-Z][a-z]{2})[-/]\d\d|\d{1,2}[-/. ](?:\d\d?|[A-Z][a-z]{2})[-/. ]\d{4}"
    r"|[A-Z][a-z]{2} \d{1,2}, \d{4})\b"
)
_YEAR = re.compile(r"\d{4}")  # which every date has, and is found in a third of the time
_AROUND_YEAR = 12  # characters of a date on either side of its year, and one more
_PATH = re.compile(r"(?:^|[\s\[])(?:/\S{0,2000}|\S{1,2000}/)\s*$")  # at the end of a title
_TITLE = re.compile(r"<title>([^<]{0,2000})<", re.IGNORECASE)
_LOOKED_AT = 20_000  # characters of a page that may be a listing
_CUT_OFF = ("..>", "...", "…", "..")
_MUCH = 120  # characters between two entries of a listing
_PROSE = 300  # characters of a page that has more to say than what a folder contains


@dataclass(slots=True)
class Leads:
    """Receives the parser's events of a page that may be there to lead on."""

    length: int = 0  # characters of text outside links
    title: str = ""
    refresh: tuple[int, str] | None = None
    is_for_all: bool = False  # whether the refresh is for readers with scripts too
    targets: list[str] = field(default_factory=list)  # of scripts
    links: list[list[str]] = field(default_factory=list)  # address, text in it, text after it
    before: str = ""  # text before the first link
    is_preformatted: bool = False
    _open: Counter[str] = field(default_factory=Counter)  # elements that matter and are open
    _is_in_link: bool = False
    _script: str = ""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Take note of one opening tag."""
        if tag == "meta" and attributes.get("http-equiv", "").strip().lower() == "refresh" and self.refresh is None:
            self.refresh = refresh_in(attributes.get("content", ""))
            self.is_for_all = not self._open["noscript"]
        elif tag == "a" and attributes.get("href") and len(self.links) < _MOST_LINKS:
            self._is_in_link = True
            self.links.append([attributes["href"].partition("#")[0], "", ""])
        elif tag == "body":
            self._find_targets(attributes.get("onload", ""))
        elif tag == "pre":
            self.is_preformatted = True
        elif tag in _UNSEEN or tag == "noscript":
            self._open[tag] += 1

    def end(self, tag: str) -> None:
        """Take note of one closing tag."""
        if tag == "a":
            self._is_in_link = False
        elif self._open[tag]:
            self._open[tag] -= 1
            if tag == "script":
                self._find_targets(self._script)
                self._script = ""

    def data(self, text: str) -> None:
        """Take note of some text."""
        if self._open["script"]:
            self._script += text[: _LONGEST_SCRIPT - len(self._script)]
        elif self._open["title"]:
            self.title = (self.title + text)[:_LONGEST]
        elif not any(self._open[tag] for tag in _UNSEEN):
            self.length += 0 if self._is_in_link else len(text.strip())
            if not self.links:
                self.before = (self.before + text)[:_LONGEST]
            else:
                place = 1 if self._is_in_link else 2
                self.links[-1][place] = (self.links[-1][place] + text)[:_LONGEST]

    def close(self) -> Self:
        """End of the page."""
        return self

    @property
    def has_text(self) -> bool:
        """Return whether there is more text than on a page that scripts draw, or around a frame."""
        return self.length >= _HARDLY

    @property
    def redirect(self) -> str | None:
        """Return the address that readers are sent to at once, or by a page that says nothing else."""
        if self.refresh is None:
            return None
        seconds, address = self.refresh
        return address if (seconds == 0 and self.is_for_all) or self.length < _LITTLE else None

    def entries(self) -> list[str] | None:
        """Return the addresses of what is in a folder, if the page is a web server's listing of it, or None.

        Every link of such a page is named like the file or folder right below it, but for those upwards and those that
        sort; and its title ends with a path, its rows have dates, or there is nothing else on it.
        """
        named, others = list[tuple[str, str]](), set[str]()  # each named address with its folder
        for address, text, _ in self.links:
            name = text.strip()
            folder, _, file = address.rstrip("/").removeprefix("./").rpartition("/")
            if "?" not in address and ":" not in folder and file.strip(".") and _is_name_of(name, unquote(file)):
                named.append((address, folder))
            elif name:
                others.add(address)
        folder = max((folder for _, folder in named), key=len, default="")
        rest = others.union(address for address, place in named if place != folder)
        above = {address for address in rest if _leads_up(address, folder)}
        entries = [address for address, place in named if place == folder]
        if len(rest - above) > 1 or not (entries or above):
            return None
        texts = [self.before, *(after for *_, after in self.links)]
        dates = sum(len(_DATE.findall(text)) for text in texts)
        prose = sum(max(0, len(" ".join(text.split())) - _MUCH) for text in texts)
        is_bare = self.is_preformatted and not (self.length or rest)
        is_listing = is_bare or _PATH.search(self.title) is not None or dates * 2 >= max(2, len(entries))
        return entries if is_listing and prose < _PROSE else None

    def _find_targets(self, script: str) -> None:
        found = [address for _, address in _GOES_TO.findall(script[:_LONGEST_SCRIPT]) if len(address) <= _LONGEST]
        self.targets = [*self.targets, *found][:_MOST_TARGETS]


def may_be_listing(markup: str) -> bool:
    """Return whether a page is worth a closer look: it has dates, or its title is missing
    or ends with a path."""
    head = markup[:_LOOKED_AT]
    title = _TITLE.search(head)
    return title is None or _PATH.search(unescape(title[1])) is not None or _has_date(head)


def _has_date(text: str) -> bool:
    years = (year.span() for year in _YEAR.finditer(text))
    return any(_DATE.search(text, max(0, start - _AROUND_YEAR), end + _AROUND_YEAR) for start, end in years)


def _is_name_of(text: str, name: str) -> bool:
    """Return whether a link is named like its file; servers cut long names off, and mark folders and links."""
    shown = text.removesuffix("@").rstrip("/").strip()
    cut = next((end for end in _CUT_OFF if shown.endswith(end)), None)
    return shown == name or (cut is not None and len(shown) > len(cut) and name.startswith(shown.removesuffix(cut)))


def _leads_up(address: str, folder: str) -> bool:
    """Return whether a link of a listing leads to the folder itself, in another order, or to one above it."""
    path = address.partition("?")[0].removeprefix("./")
    return not path.strip("./") or f"{folder}/".startswith(path)


LONGEST_DELAY = 60  # seconds; pages that send on later are made to be read, or wait for something
_LONGEST_REFRESH = 3_000  # characters of a value
# seconds, of which fractions do not count, a separator, url=, an address in quotes or without
_REFRESH = re.compile(r"(\d{0,9})[\d.]*[\s;,]*(url\s*=\s*)?(.*)", re.IGNORECASE | re.DOTALL)


def refresh_in(value: str) -> tuple[int, str] | None:
    """Return the seconds and the address of a refresh, or None if it leads nowhere, or late."""
    found = _REFRESH.match(value[:_LONGEST_REFRESH].strip())
    if found is None or not (found[1] or found[2]):
        return None
    seconds, address = int(found[1] or 0), found[3].strip()
    if address[:1] in ("'", '"'):
        address = address[1:].partition(address[0])[0].strip()
    return (seconds, address) if address and seconds <= LONGEST_DELAY else None


Part = tuple[dict[str, Any], bytes]


def parts(body: bytes, wanted: Mapping[str, Any]) -> Generator[Part, None, tuple[str, str | None] | None]:
    """Yield the parts of a page, JSON-ready, in messages of their own, but for its text.

    These are its `links`, then whether it `is_drawn` by scripts, then its `blocks`. Nothing comes after the links of a
    page that only leads on or is not to be indexed, nor after the news that scripts draw it.

    Args:
        body: the page.
        wanted: fields of `indexer.read.page.Wanted`, and the page's `charset` and `reader`.

    Returns:
        The reader of the text and its argument, or None where the text is not to be read.

    Raises:
        ParseError, lxml.etree.LxmlError, ValueError: the links cannot be read, or whether scripts draw the page.
    """
    charset, is_markdown = wanted["charset"], wanted["reader"] != "html"
    if wanted["links"]:
        links = find(body, f"{'markdown' if is_markdown else 'html'}:{charset or ''}")
        yield {"links": links}, b""
        if links["refresh"] or links["leads_on"] or not {"noindex", "none"}.isdisjoint(links["directives"]):
            return None
    elif body.startswith(GZIP):
        body = unpacked(body)
    if wanted["is_drawn"]:
        is_drawn = drawn_by_scripts(decode(body, charset, markup=True))
        yield {"is_drawn": is_drawn}, b""
        if is_drawn:
            return None
    if wanted["blocks"]:
        try:
            blocks = template.find(body, charset)
        except Exception:  # noqa: BLE001 - who reads the text says what is wrong with it
            blocks = None
        yield {"blocks": blocks}, b""
    if not wanted["text"]:
        return None
    site = wanted["template"]
    return wanted["reader"], f"{charset or ''}\n{site}" if site else charset
