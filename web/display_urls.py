"""Addresses as people read them, which may be ones to follow."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from flask import current_app

from rag.errors import NotReady, NotThere
from web.guards.caller import caller

# anything else, javascript: above all, is shown as text; white space and controls can hide a scheme
SAFE_URL = re.compile(r"(?:(?:git\+)?https?://|(?:git\+)?file:///)[^\s\x00-\x1f\x7f]+", re.IGNORECASE)
BIDI_CONTROLS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")  # they let a url read backwards
_AFTER = {"source": ("",), "path": ("", "/", "!"), "url_prefix": ("", "/", "!", "#")}  # a name, in fields of a filter


class Link(NamedTuple):
    """An address as people read it, which may be one to follow."""

    href: str | None  # None where it is not
    place: str


def is_of_web(url: str) -> bool:
    """Return whether an address is one that browsers know, unlike that of a file or of what is in a repository."""
    return url[:4].lower() == "http"


def place_of(url: str) -> str:
    """Return an address as people read it: without scheme and anchor, unescaped."""
    bare = url.partition("#")[0]
    if not SAFE_URL.fullmatch(bare):
        return url
    host, slash, path = bare.partition("://")[2].partition("/")
    return BIDI_CONTROLS.sub("", host + slash + unquote(path)).rstrip("/")


class Places:
    """Names files as readers see them: by the folder that is a source, and never by where that lies on the server."""

    def __init__(self, sources: Iterable[str] = ()) -> None:
        """Take the sources of a collection."""
        roots = {source: place_of(source).rstrip("/") for source in sources if _is_local(source)}
        same = Counter(map(_name_of, {*roots.values()}))
        self._names = {  # of folders, the longest first, each with the folder it is in where others are called the same
            root: _name_of(root) if same[_name_of(root)] == 1 else "/".join(root.rsplit("/", 2)[-2:])
            for root in sorted({*roots.values()}, key=len, reverse=True)
        }
        self._starts: list[tuple[str, str, str]] = []  # field of a filter, name, and how values of that source begin
        for source, root in roots.items():
            name = self._names[root]
            self._starts.append(("source", name, source))
            if source[0] == "/":
                uri = Path(root).as_uri()
                self._starts += [("url_prefix", name, uri), ("path", name, uri.removeprefix("file://"))]

    def of(self, url: str) -> str:
        """Return an address, a source or the path of a file or folder as people read it."""
        place = place_of(url)
        return self._shortened(place) if _is_local(url) else place

    def of_folder(self, path: str) -> str:
        """Return the path of a folder, which may be one on a site too, as people read it."""
        is_inside = any(f"{root}/".startswith(f"{path}/") or path.startswith(f"{root}/") for root in self._names)
        return self._shortened(path) if is_inside else path

    def link_to(self, url: str) -> Link:
        """Make a link of an address that a browser follows from a page, and text of any other: `file:` is blocked."""
        return Link(url if SAFE_URL.fullmatch(url) and is_of_web(url) else None, self.of(url))

    def display_value(self, field: str, value: str) -> str:
        """Return a value of a field of a filter with the name of its source in place of the path on the server."""
        return _replaced(field, value, [(start, name) for known, name, start in self._starts if known == field])

    def index_values(self, parameters: Mapping[str, list[str]]) -> dict[str, list[str]]:
        """Return the parameters of a page's address with values as the index has them, undoing `display_value`."""
        starts = {field: [(name, start) for known, name, start in self._starts if known == field] for field in _AFTER}
        return {
            field: [_replaced(field, value, starts.get(field, ())) for value in values]
            for field, values in parameters.items()
        }

    def within(self, text: str) -> str:
        """Return a text in which sources are named as readers see them."""
        for root, name in self._names.items():
            text = text.replace(root, name)
        return text

    def _shortened(self, path: str) -> str:
        for root, name in self._names.items():
            if path == root or path.startswith((f"{root}/", f"{root}!")):
                return name + path[len(root) :]
        return _name_of(path.rstrip("/"))


def places(*collections: str) -> Places:
    """Return how files of those collections are named of which the caller sees something."""
    sources: list[str] = []
    for name in filter(caller().scope.has, collections):
        with suppress(NotReady, NotThere):
            sources += current_app.extensions["retriever"].describe(name)["sources"]
    return Places(sources)


def _replaced(field: str, value: str, starts: Iterable[tuple[str, str]]) -> str:
    for old, new in starts:
        if value.startswith(old) and value[len(old) : len(old) + 1] in _AFTER[field]:
            return new + value[len(old) :]
    return value


def _name_of(path: str) -> str:
    return path.rpartition("/")[2]


def _is_local(url: str) -> bool:
    return url.startswith(("/", "file:", "git+file:"))
