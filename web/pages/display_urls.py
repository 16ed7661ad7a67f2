"""Addresses as people read them, which may be ones to follow."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from flask import current_app

from rag.errors import NotReady, NotThere

# anything else, javascript: above all, is shown as text; white space and controls can hide a scheme
SAFE_URL = re.compile(r"(?:(?:git\+)?https?://|(?:git\+)?file:///)[^\s\x00-\x1f\x7f]+", re.IGNORECASE)
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
        roots = {place_of(source) for source in sources if _is_local(source)}
        self._roots = sorted((root.rstrip("/") for root in roots), key=len, reverse=True)

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

    def within(self, text: str) -> str:
        """Return a text in which sources are named as readers see them."""
        for root in self._roots:
            text = text.replace(root, self._shortened(root))
        return text

    def _shortened(self, path: str) -> str:
        for root in self._roots:
            if path == root or path.startswith((f"{root}/", f"{root}!")):
                return root.rpartition("/")[2] + path[len(root) :]
        return path.rstrip("/").rpartition("/")[2]


def places(collection: str) -> Places:
    """Return how files of a collection are named; without its sources, by their own names alone."""
    try:
        return Places(current_app.extensions["retriever"].describe(collection)["sources"])
    except (NotReady, NotThere):
        return Places()


def distinct(names: Sequence[str], values: Sequence[str]) -> list[str]:
    """Return names, those that are not the only ones of their kind with more of the path that each stands for."""
    return [
        "/".join(value.rstrip("/").rsplit("/", 2)[-2:]) if names.count(name) > 1 else name
        for name, value in zip(names, values, strict=True)
    ]


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
