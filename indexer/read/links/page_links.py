"""Links of a page as they are written there; runs in the process that reads documents."""

import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from html import unescape
from typing import Any
from urllib.parse import unquote

from indexer.decoding import decode_named, escape_query
from indexer.errors import ParseError
from indexer.read.container import unpacked
from indexer.read.formats import GZIP, HTML
from indexer.read.html import main_content, template
from indexer.read.html.html_tree import HtmlTree, parse_html
from indexer.read.markup import markdown
from indexer.records import Extraction

_MOST = 20_000  # different links
_LONGEST = 2_000  # characters; longer ones are traps or data, not pages
_LONGEST_DIRECTIVES = 1_000  # characters
_MOST_FRAMES = 100
_MOST_STRANGERS = 2  # links of a listing
_OF_FOLDER = re.compile(r"(?:\.{1,2}/)*(?:\.\.|[^/?#:]*/?)(?:\?.*)?|/[^?#]*")


def parts(body: bytes, wanted: Mapping[str, Any]) -> Generator[tuple[dict[str, Any], bytes], None, Extraction | None]:
    """Yield a page's `links`, whether it `is_drawn`, and its `blocks`, JSON-ready, as far as wanted; return its text.

    Nothing comes after the links of a page that only leads on or is not to be indexed, nor after the news that scripts
    draw it. `wanted` has the fields of `indexer.read.parsing.Wanted`, and the page's `charset` and `reader`.

    Raises:
        ParseError, lxml.etree.LxmlError, ValueError: the page cannot be read, or has too much in it.
    """
    is_html, charset = wanted["reader"] == HTML, wanted["charset"]
    if body.startswith(GZIP):
        body = unpacked(body)
    html, encoding = decode_named(body, charset, markup=is_html)
    tree = HtmlTree()
    if is_html or wanted["links"] or wanted["is_drawn"]:
        tree = parse_html(html if is_html else markdown.render(html).html)
    if wanted["links"]:
        links = find(tree, html, encoding)
        yield {"links": links}, b""
        if links["refresh"] or links["leads_on"] or not {"noindex", "none"}.isdisjoint(links["directives"]):
            return None
    if wanted["is_drawn"]:
        is_drawn = main_content.is_drawn(tree)
        yield {"is_drawn": is_drawn}, b""
        if is_drawn:
            return None
    if is_html and (wanted["blocks"] or wanted["text"]):
        main_content.prepare(tree, html)
    if wanted["blocks"]:
        yield {"blocks": template.find(tree)}, b""
    if not wanted["text"]:
        return None
    if not is_html:
        return markdown.read(body, charset) if wanted["reader"] == "markdown" else markdown.read_mdx(body, charset)
    site = template.read_template(wanted["template"]) if wanted["template"] else None
    return main_content.extract(html, site, tree=tree, is_page=True)


def find(tree: HtmlTree, html: str, encoding: str) -> dict[str, Any]:
    """Return links and robots directives of a page, JSON-ready; raises ParseError if it has too many links."""
    found: dict[str, Any] = {
        "base": None,
        "canonical": None,
        "asks_password": False,
        "nofollow": 0,
        "has_script": False,
    }
    hrefs: dict[str, None] = {}  # without fragments
    frames: dict[str, list[str]] = {"frame": [], "iframe": []}
    directives: set[str] = set()
    strangers = 0  # links that are none to the page's folder, in another order, or to what is in it or above it
    has_refresh = False
    for element in tree.elements:
        name, attributes = element.name, element.attributes
        if name == "script":
            found["has_script"] = True
        elif not attributes:
            continue
        elif name in ("a", "area"):
            href = attributes.get("href", "").partition("#")[0]
            if "nofollow" in attributes.get("rel", "").lower().split():
                found["nofollow"] += 1
            elif href and len(href) <= _LONGEST:
                hrefs[href] = None
                if strangers <= _MOST_STRANGERS:
                    strangers += _OF_FOLDER.fullmatch(href) is None
                if len(hrefs) > _MOST:
                    raise ParseError(f"more than {_MOST:,} links")
        elif name in frames:
            src = attributes.get("src", "").strip()
            if src and len(src) <= _LONGEST and len(frames[name]) < _MOST_FRAMES:
                frames[name].append(src.partition("#")[0])
        elif name == "input":
            found["asks_password"] |= attributes.get("type", "").strip().lower() == "password"
        elif name == "base":
            found["base"] = found["base"] or attributes.get("href")
        elif name == "link" and "canonical" in attributes.get("rel", "").lower().split():
            found["canonical"] = found["canonical"] or attributes.get("href", "").partition("#")[0]
        elif name == "meta":
            has_refresh |= attributes.get("http-equiv", "").strip().lower() == "refresh"
            if attributes.get("name", "").lower() in ("robots", "pilotlight"):
                words = attributes.get("content", "")[:_LONGEST_DIRECTIVES].lower().split(",")
                directives |= {word.strip() for word in words}
    # whether the page may be there to lead on rather than to be read
    may_lead_on = has_refresh or bool(frames["iframe"]) or not hrefs
    leads = Leads()
    if may_lead_on or (strangers <= _MOST_STRANGERS and may_be_listing(html)):
        leads.read(tree)
    entries = leads.entries()
    every = [*hrefs, *frames["frame"]] if entries is None else entries
    if entries is None and may_lead_on and not leads.has_text:
        every += [*frames["iframe"], *(leads.targets if not hrefs else ())]
    if leads.refresh is not None and leads.redirect is None:
        every.append(leads.refresh[1])
    return found | {
        "hrefs": [escape_query(href, encoding) for href in dict.fromkeys(every)],
        "directives": sorted(directives),
        "refresh": leads.redirect and escape_query(leads.redirect, encoding),
        "leads_on": "a listing of a folder" if entries is not None else "a set of frames" if frames["frame"] else "",
        "is_blank": may_lead_on and not leads.has_text and not every,
    }


_LITTLE = 500  # characters of text of a page that says that it has moved
_HARDLY = 100  # characters of text of a page around a frame, or that scripts draw
_LONGEST_SCRIPT = 20_000  # characters of a script that are looked at
_MOST_TARGETS = 3  # of scripts
_MOST_LINKS = 20_000  # that a listing may have
_UNSEEN = frozenset({"style", "template", "noframes", "iframe"})
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
    """What a page that may be there to lead on says."""

    length: int = 0  # characters of text outside links
    title: str = ""
    refresh: tuple[int, str] | None = None
    is_for_all: bool = False  # whether the refresh is for readers with scripts too
    targets: list[str] = field(default_factory=list)  # of scripts
    links: list[list[str]] = field(default_factory=list)  # address, text in it, text after it
    before: str = ""  # text before the first link
    is_preformatted: bool = False

    def read(self, tree: HtmlTree) -> None:
        """Walk over a page."""
        todo: list[tuple[Any, bool, bool]] = [(tree.root, False, False)]  # whether it is in a link, and in <noscript>
        while todo:
            node, is_in_link, is_fallback = todo.pop()
            if isinstance(node, str):
                self.length += 0 if is_in_link else len(node.strip())
                if self.links:
                    place = 1 if is_in_link else 2
                    self.links[-1][place] = (self.links[-1][place] + node)[:_LONGEST]
                else:
                    self.before = (self.before + node)[:_LONGEST]
                continue
            name = node.name
            if name in _UNSEEN:
                continue
            if name in ("script", "body"):
                script = node.text() if name == "script" else node.get("onload")
                found = [address for _, address in _GOES_TO.findall(script[:_LONGEST_SCRIPT])]
                self.targets += [address for address in found if len(address) <= _LONGEST]
                self.targets = self.targets[:_MOST_TARGETS]
            elif name == "meta" and node.get("http-equiv").strip().lower() == "refresh" and self.refresh is None:
                self.refresh = refresh_in(node.get("content"))
                self.is_for_all = not is_fallback
            elif name == "a" and node.get("href") and len(self.links) < _MOST_LINKS:
                is_in_link = True
                self.links.append([node.get("href").partition("#")[0], "", ""])
            self.is_preformatted |= name == "pre"
            if name == "title":
                self.title = (self.title + node.text())[:_LONGEST]
            elif name != "script":
                is_fallback = is_fallback or name == "noscript"
                todo += [(child, is_in_link, is_fallback) for child in reversed(node.children)]

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

        Its links are named like what is right below it, but for those upwards and those that sort; and its title ends
        with a path, its rows have dates, or there is nothing else on it.
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
        # to the folder itself, in another order, or to one above it
        paths = {address: address.partition("?")[0].removeprefix("./") for address in rest}
        above = {address for address, path in paths.items() if not path.strip("./") or f"{folder}/".startswith(path)}
        entries = [address for address, place in named if place == folder]
        if len(rest - above) > 1 or not (entries or above):
            return None
        texts = [self.before, *(after for *_, after in self.links)]
        dates = sum(len(_DATE.findall(text)) for text in texts)
        prose = sum(max(0, len(" ".join(text.split())) - _MUCH) for text in texts)
        is_bare = self.is_preformatted and not (self.length or rest)
        is_listing = is_bare or _PATH.search(self.title) is not None or dates * 2 >= max(2, len(entries))
        return entries if is_listing and prose < _PROSE else None


def may_be_listing(markup: str) -> bool:
    """Return whether a page is worth a closer look: it has dates, or its title is missing or ends with a path."""
    head = markup[:_LOOKED_AT]
    title = _TITLE.search(head)
    if title is None or _PATH.search(unescape(title[1])):
        return True
    years = (year.span() for year in _YEAR.finditer(head))
    return any(_DATE.search(head, max(0, start - _AROUND_YEAR), end + _AROUND_YEAR) for start, end in years)


def _is_name_of(text: str, name: str) -> bool:
    """Return whether a link is named like its file; servers cut long names off, and mark folders and links."""
    shown = text.removesuffix("@").rstrip("/").strip()
    cut = next((end for end in _CUT_OFF if shown.endswith(end)), None)
    return shown == name or (cut is not None and len(shown) > len(cut) and name.startswith(shown.removesuffix(cut)))


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
