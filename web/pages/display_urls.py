"""Addresses as people read them, which may be ones to follow."""

import re
from dataclasses import dataclass
from urllib.parse import unquote

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
