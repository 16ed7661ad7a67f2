"""Pages that are there to lead on: refreshes, frames, scripts that go elsewhere, and listings of folders."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import unescape
from typing import Self
from urllib.parse import unquote

from indexer.read.links.refresh import refresh_in

_LITTLE = 500  # characters of text of a page that says that it has moved
_HARDLY = 100  # characters of text of a page around a frame, or that scripts draw
_LONGEST = 2_000  # characters of an address
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
        """Whether there is more text than on a page that scripts draw, or around a frame."""
        return self.length >= _HARDLY

    @property
    def redirect(self) -> str | None:
        """Where readers are sent before they have read anything, or from a page that says no more than that."""
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
