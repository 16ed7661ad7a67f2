"""Addresses as readers see them, some of them as links."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from flask import current_app

from rag.errors import NotReady, NotThere
from web.guards.access import caller

# anything else, javascript: above all, is shown as text; white space and controls can hide a scheme
SAFE_URL = re.compile(r"(?:(?:git\+)?https?://|(?:git\+)?file:///)[^\s\x00-\x1f\x7f]+", re.IGNORECASE)
BIDI_CONTROLS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_AFTER = {"source": ("",), "path": ("", "/", "!"), "url_prefix": ("", "/", "!", "#")}  # a name, in fields of a filter


class Link(NamedTuple):
    """An address as readers see it."""

    href: str | None
    place: str


def is_of_web(url: str) -> bool:
    """Return whether browsers open an address: http or https."""
    return url[:4].lower() == "http"


def place_of(url: str) -> str:
    """Return an address without scheme and anchor, unescaped."""
    bare = url.partition("#")[0]
    if not SAFE_URL.fullmatch(bare):
        return url
    host, slash, path = bare.partition("://")[2].partition("/")
    return BIDI_CONTROLS.sub("", host + slash + unquote(path)).rstrip("/")


class Places:
    """Names of files for readers: relative to a source, never the path on the server."""

    def __init__(self, sources: Iterable[str] = ()) -> None:
        """Take the sources of a collection."""
        roots = {source: place_of(source).rstrip("/") for source in sources if _is_local(source)}
        same = Counter(map(_name_of, {*roots.values()}))
        # The longest folder comes first. Folders that share a name are shown with their parents.
        self._names = {
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
        """Return the name of an address, a source, a file or a folder for readers."""
        place = place_of(url)
        return self._shortened(place) if _is_local(url) else place

    def of_folder(self, path: str) -> str:
        """Return the name of a folder, local or on a site, for readers."""
        is_inside = any(f"{root}/".startswith(f"{path}/") or path.startswith(f"{root}/") for root in self._names)
        return self._shortened(path) if is_inside else path

    def link_to(self, url: str) -> Link:
        """Return a link if browsers open the address from a page, else text."""
        return Link(url if SAFE_URL.fullmatch(url) and is_of_web(url) else None, self.of(url))

    def display_value(self, field: str, value: str) -> str:
        """Return a value of a field of a filter with the name of its source in place of the path on the server."""
        return _replaced(
            field, value, [(start, name) for start_field, name, start in self._starts if start_field == field]
        )

    def index_values(self, parameters: Mapping[str, list[str]]) -> dict[str, list[str]]:
        """Return the parameters of a page's address with values as the index has them, undoing `display_value`."""
        starts = {
            field: [(name, start) for start_field, name, start in self._starts if start_field == field]
            for field in _AFTER
        }
        return {
            field: [_replaced(field, value, starts.get(field, ())) for value in values]
            for field, values in parameters.items()
        }

    def within(self, text: str) -> str:
        """Replace the paths of sources in a text by their names."""
        for root, name in self._names.items():
            text = text.replace(root, name)
        return text

    def _shortened(self, path: str) -> str:
        for root, name in self._names.items():
            if path == root or path.startswith((f"{root}/", f"{root}!")):
                return name + path[len(root) :]
        return _name_of(path.rstrip("/"))


def places(*collections: str) -> Places:
    """Return the names of files of collections in the caller's scope."""
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
