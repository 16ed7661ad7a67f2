"""Convert URLs of documents to readable names, and to links if browsers can open them."""

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

# Only these URLs may become links. White space and control characters could hide another scheme.
SAFE_URL = re.compile(r"(?:(?:git\+)?https?://|(?:git\+)?file:///)[^\s\x00-\x1f\x7f]+", re.IGNORECASE)
BIDI_CONTROLS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# filter field → characters that may follow the path of a source in a filter value; "" means the end of the value
_NEXT_CHARACTERS = {"source": ("",), "path": ("", "/", "!"), "url_prefix": ("", "/", "!", "#")}


class Link(NamedTuple):
    """The readable name of a URL (`place`), and its `href`, which is None if browsers cannot open the URL."""

    href: str | None
    place: str


def is_http_url(url: str) -> bool:
    """Return whether a URL has the scheme http or https."""
    return url[:4].lower() == "http"


def readable_url(url: str) -> str:
    """Return a URL in readable form: unescaped, without scheme and fragment."""
    bare = url.partition("#")[0]
    if not SAFE_URL.fullmatch(bare):
        return url
    host, slash, path = bare.partition("://")[2].partition("/")
    return BIDI_CONTROLS.sub("", host + slash + unquote(path)).rstrip("/")


class DisplayNames:
    """Converts local paths to display names, which hide folders of the server: /srv/docs/a.md becomes docs/a.md."""

    def __init__(self, sources: Iterable[str] = ()) -> None:
        roots = {source: readable_url(source).rstrip("/") for source in sources if _is_local(source)}
        same = Counter(map(_name_of, {*roots.values()}))
        # Long paths are first, because one source may contain another. Sources with equal names also show their parent.
        self._names = {
            root: _name_of(root) if same[_name_of(root)] == 1 else "/".join(root.rsplit("/", 2)[-2:])
            for root in sorted({*roots.values()}, key=len, reverse=True)
        }
        # filter field → for each source, its display name and the path or URL that this name replaces
        self._starts: dict[str, list[tuple[str, str]]] = {field: [] for field in _NEXT_CHARACTERS}
        for source, root in roots.items():
            name = self._names[root]
            self._starts["source"].append((name, source))
            if source[0] == "/":
                uri = Path(root).as_uri()
                self._starts["url_prefix"].append((name, uri))
                self._starts["path"].append((name, uri.removeprefix("file://")))

    def of(self, url: str) -> str:
        """Return the display name of the URL of a document or of a source."""
        place = readable_url(url)
        return self._shortened(place) if _is_local(url) else place

    def of_folder(self, path: str) -> str:
        """Return the display name of a folder, which is a local path or a path on a website."""
        is_inside = any(f"{root}/".startswith(f"{path}/") or path.startswith(f"{root}/") for root in self._names)
        return self._shortened(path) if is_inside else path

    def link_to(self, url: str) -> Link:
        """Return the display name of a URL, with a link if the URL is http or https."""
        return Link(url if SAFE_URL.fullmatch(url) and is_http_url(url) else None, self.of(url))

    def display_value(self, field: str, value: str) -> str:
        """Return the display form of a filter value, with the name of a source instead of its path."""
        return _replaced(field, value, [(start, name) for name, start in self._starts.get(field, ())])

    def index_values(self, parameters: Mapping[str, list[str]]) -> dict[str, list[str]]:
        """Convert the filter values in query parameters back from their display form (see `display_value`)."""
        return {
            field: [_replaced(field, value, self._starts.get(field, ())) for value in values]
            for field, values in parameters.items()
        }

    def within(self, text: str) -> str:
        """Replace the paths of sources in a text with the names of the sources."""
        for root, name in self._names.items():
            text = text.replace(root, name)
        return text

    def _shortened(self, path: str) -> str:
        for root, name in self._names.items():
            if path == root or path.startswith((f"{root}/", f"{root}!")):
                return name + path[len(root) :]
        return _name_of(path.rstrip("/"))


def display_names(*collections: str) -> DisplayNames:
    """Return the display names for the sources of these collections. Ignores collections outside the caller's scope."""
    sources: list[str] = []
    for name in filter(caller().scope.has, collections):
        with suppress(NotReady, NotThere):
            sources += current_app.extensions["retriever"].describe(name)["sources"]
    return DisplayNames(sources)


def _replaced(field: str, value: str, starts: Iterable[tuple[str, str]]) -> str:
    for old, new in starts:
        if value.startswith(old) and value[len(old) : len(old) + 1] in _NEXT_CHARACTERS[field]:
            return new + value[len(old) :]
    return value


def _name_of(path: str) -> str:
    return path.rpartition("/")[2]


def _is_local(url: str) -> bool:
    return url.startswith(("/", "file:", "git+file:"))
