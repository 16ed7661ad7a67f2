"""Addresses as people read them, which may be ones to follow."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from flask import current_app

from rag.errors import NotReady, NotThere

# anything else, javascript: above all, is shown as text; white space and controls can hide a scheme
SAFE_URL = re.compile(r"(?:(?:git\+)?https?://|(?:git\+)?file:///)[^\s\x00-\x1f\x7f]+", re.IGNORECASE)
_AFTER = {"source": ("",), "path": ("", "/", "!"), "url_prefix": ("", "/", "!", "#")}  # a name, in fields of a filter
BIDI_CONTROLS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")  # they let a url read backwards


@dataclass(frozen=True, slots=True)
class Link:
    """An address as people read it, which may be one to follow."""

    href: str | None  # None where it is not
    place: str


def link_to(url: str) -> Link:
    """Make a link of an address that a browser follows from a page, and text of any other: `file:` is blocked there."""
    is_followed = SAFE_URL.fullmatch(url) and is_of_web(url)
    return Link(url if is_followed else None, place_of(url))


class Places:
    """Names files as readers see them: by the folder that is a source, and never by where that lies on the server."""

    def __init__(self, sources: Iterable[str] = ()) -> None:
        """Take the sources of a collection."""
        roots = {source: place_of(source).rstrip("/") for source in sources if _is_local(source)}
        self._roots = sorted({*roots.values()}, key=len, reverse=True)
        names = Counter(_name_of(root) for root in roots.values())
        self._named = {_name_of(root): (source, root) for source, root in roots.items() if names[_name_of(root)] == 1}

    def of(self, url: str) -> str:
        """Return an address, a source or the path of a file or folder as people read it."""
        place = place_of(url)
        return self._shortened(place) if _is_local(url) else place

    def of_folder(self, path: str) -> str:
        """Return the path of a folder, which may be one on a site too, as people read it."""
        is_inside = any(f"{root}/".startswith(f"{path}/") or path.startswith(f"{root}/") for root in self._roots)
        return self._shortened(path) if is_inside else path

    def link_to(self, url: str) -> Link:
        """Make a link of an address, as the function of this name does."""
        return Link(link_to(url).href, self.of(url))

    def display_value(self, field: str, value: str) -> str:
        """Return a value of a field of a filter with the name of its source in place of the path on the server."""
        for name in self._named:
            start = self._start(field, name)
            if start and value.startswith(start) and value[len(start) : len(start) + 1] in _AFTER[field]:
                return name + value[len(start) :]
        return value

    def index_value(self, field: str, value: str) -> str:
        """Return the value that `display_value` was made of, as the index has it; any other as it is."""
        for name in self._named:
            start = self._start(field, name)
            if start and value.startswith(name) and value[len(name) : len(name) + 1] in _AFTER[field]:
                return start + value[len(name) :]
        return value

    def index_values(self, parameters: Mapping[str, list[str]]) -> dict[str, list[str]]:
        """Return the parameters of a page's address with values as the index has them."""
        return {name: [self.index_value(name, value) for value in values] for name, values in parameters.items()}

    def _start(self, field: str, name: str) -> str:
        """How a value begins that is of the source with this name; empty where it does not matter."""
        source, root = self._named[name]
        if field == "source":
            return source
        if source[0] != "/" or field not in _AFTER:
            return ""
        return Path(root).as_uri()[0 if field == "url_prefix" else len("file://") :]

    def within(self, text: str) -> str:
        """Return a text in which sources are named as readers see them."""
        for root in self._roots:
            text = text.replace(root, self._shortened(root))
        return text

    def _shortened(self, path: str) -> str:
        for root in self._roots:
            if path == root or path.startswith((f"{root}/", f"{root}!")):
                return _name_of(root) + path[len(root) :]
        return _name_of(path.rstrip("/"))


NO_SOURCES = Places()


def places(collection: str) -> Places:
    """Return how files of a collection are named; without its sources, by their own names alone."""
    try:
        return Places(current_app.extensions["retriever"].describe(collection)["sources"])
    except (NotReady, NotThere):
        return NO_SOURCES


def distinct(names: Sequence[str], values: Sequence[str]) -> list[str]:
    """Return names, those that are not the only ones of their kind with more of the path that each stands for."""
    return [
        "/".join(value.rstrip("/").rsplit("/", 2)[-2:]) if names.count(name) > 1 else name
        for name, value in zip(names, values, strict=True)
    ]


def _name_of(path: str) -> str:
    return path.rpartition("/")[2]


def _is_local(url: str) -> bool:
    return url.startswith(("/", "file:", "git+file:"))


def is_of_web(url: str) -> bool:
    """Return whether an address is one that browsers know, unlike that of a file or of what is in a repository."""
    return url[:4].lower() == "http"


def is_file(url: str) -> bool:
    """Return whether an address is that of a file, or of something in one."""
    return url[:5].lower() == "file:"


def file_of(url: str) -> str:
    """Return the name of the file at an address; of what is in an archive or comes with an e-mail, of that one."""
    return place_of(url.partition("!/")[0]).rpartition("/")[2]


def place_of(url: str) -> str:
    """Return an address as people read it: without scheme and anchor, unescaped."""
    bare = url.partition("#")[0]
    if not SAFE_URL.fullmatch(bare):
        return url
    host, slash, path = bare.partition("://")[2].partition("/")
    return BIDI_CONTROLS.sub("", host + slash + unquote(path)).rstrip("/")
