"""What a page says itself, by annotations that a person made: words, code blocks, and where each can be linked to.

An implementation of its own, as plain as it can be: nothing of the indexer's reading is used. Annotations are in
`tests/quality/pages`, one file a generator; they name nodes of pages and hold no text of theirs.
"""

import re
import tomllib
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup, NavigableString, Tag, XMLParsedAsHTMLWarning
from bs4.element import PreformattedString

PAGES = Path(__file__).parent / "pages"
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_SILENT = frozenset({"script", "style", "template", "noscript", "title", "svg", "select", "textarea", "iframe"})
_BREAKS = frozenset(
    "address article aside blockquote body br button caption center dd details div dl dt fieldset figcaption figure "
    "footer form h1 h2 h3 h4 h5 h6 header hr html label legend li main menu nav ol option p pre section summary table "
    "tbody td tfoot th thead tr ul".split()
)
_WORD = re.compile(r"\w+")
_EMPTY_ENDS = re.compile(r"\A(?:[^\S\n]*\n)+|(?:\n[^\S\n]*)+\Z")  # lines that show nothing, around a block
_END = object()


@dataclass(frozen=True, slots=True)
class Annotated:
    """A page, and selectors of its nodes; all CSS."""

    path: str  # below the root of its generator
    sha256: str
    body: str  # nodes that hold its own text
    interface: str  # of what is in them, what is for using the page and says nothing
    either: str  # and what may be read or left: long lists of links, lists of implementations
    code: str  # blocks whose white space counts
    lines: str  # of a block, elements that are a line each; empty where line ends are in the text
    entries: str  # what opens an entry of its own, beside headings and terms


@dataclass(frozen=True, slots=True)
class Generator:
    """Pages that one program made."""

    name: str
    half: str  # "development", or "held-out": measured only
    package: Mapping[str, str]  # where the pages come from, see tests/quality/packages.py
    root: str  # folder of its pages
    site: tuple[str, ...]  # globs of the pages that are read with them
    pages: tuple[Annotated, ...]


@dataclass(frozen=True, slots=True)
class Gold:
    """What was found on a page by its annotations."""

    own: tuple[str, ...]  # words in reading order
    order: tuple[str, ...]  # the same, with those that count neither way between them
    interface: Counter[str]  # words that are no text of the page
    either: Counter[str]  # words that count neither way
    code: tuple[tuple[str, str], ...]  # blocks with and without what may be left, without empty lines around them
    length: int  # characters of its own text
    anchors: tuple[tuple[str, int], ...]  # ids in order: name, words of `order` before it
    openings: tuple[tuple[int, int, int], ...]  # of what has an id: words before it, and anchors from … to

    def allowed(self, word: int) -> set[str | None]:
        """Ids that a passage may carry that begins with this word of `order`: the nearest heading's or a nearer."""
        before = [opening for opening in self.openings if opening[0] <= word]
        begin, first, last = before[-1] if before else (0, 0, 0)
        near = {name for name, words in self.anchors[first:] if words <= word}
        named: set[str | None] = near | {name for name, _ in self.anchors[first:last]}
        return named if begin else {None, *named}  # the top of the page is where its first heading is


def read_generators(folder: Path = PAGES) -> list[Generator]:
    """Every annotated generator, those of the development half first."""
    found = [_generator(tomllib.loads(path.read_text("utf-8"))) for path in sorted(folder.glob("*.toml"))]
    return sorted(found, key=lambda generator: generator.half)


def _generator(table: Mapping[str, Any]) -> Generator:
    common = {key: table.get(key, "") for key in ("body", "interface", "either", "lines", "entries")}
    common["code"] = table.get("code", "pre")
    pages = tuple(Annotated(**common | page) for page in table["pages"])
    return Generator(table["name"], table["half"], table["package"], table["root"], tuple(table["site"]), pages)


def words(text: str) -> list[str]:
    """Runs of letters and digits, in lower case."""
    return _WORD.findall(text.lower())


def parsed(body: bytes) -> BeautifulSoup:
    """A page as a tree."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", XMLParsedAsHTMLWarning)
        # it takes many spaces for one, save in elements of these names
        return BeautifulSoup(body, "lxml", preserve_whitespace_tags={"html", "pre", "textarea"})


def gold(body: bytes, page: Annotated) -> Gold:
    """What a page says by its annotations; raises ValueError where these find nothing on it."""
    soup = parsed(body)
    chosen = {key: _chosen(soup, getattr(page, key)) for key in ("body", "interface", "either", "entries")}
    if not chosen["body"]:
        raise ValueError(f"{page.path}: {page.body!r} is not on the page")
    chosen["around"] = {id(above) for tag in soup.select(page.body) for above in tag.parents}
    chosen["links"] = {id(link) for tag in soup.select(page.body) for link in tag.find_all("a")}
    reader = _Reader(chosen)
    reader.read(soup)
    return Gold(
        tuple(reader.own),
        tuple(reader.order),
        Counter(reader.interface),
        Counter(reader.either),
        tuple(_blocks(soup, page, chosen)),
        reader.length,
        tuple(reader.anchors),
        tuple(reader.openings),
    )


def _chosen(soup: BeautifulSoup, selector: str) -> set[int]:
    return {id(tag) for tag in soup.select(selector)} if selector else set()


class _Reader:
    """Gathers words and ids in the order of the page."""

    def __init__(self, chosen: Mapping[str, set[int]]) -> None:
        self.own: list[str] = []
        self.order: list[str] = []
        self.interface: list[str] = []
        self.either: list[str] = []
        self.anchors: list[tuple[str, int]] = []
        self.openings: list[tuple[int, int, int]] = []
        self.length = 0
        self._chosen = chosen
        self._leads_here = chosen["around"] | chosen["links"]  # a link to a heading may have the id of the heading
        self._text: list[str] = []  # of words that are not ended yet

    def read(self, soup: BeautifulSoup) -> None:
        state = self.interface
        states: list[list[str]] = []
        opened: list[tuple[int, int] | None] = []
        todo: list[object] = [soup]
        while todo:
            node = todo.pop()
            if node is _END:
                self._flush(state)
                if (opening := opened.pop()) is not None:
                    self._open(*opening)
                state = states.pop()
            elif isinstance(node, NavigableString):
                if not isinstance(node, PreformattedString):
                    self._text.append(node)
                    self.length += len(node.strip()) if state is self.own else 0
            elif isinstance(node, Tag) and node.name not in _SILENT:
                following = self._state(node, state)
                anchor = node.get("id") or (node.get("name") if node.name == "a" else None)
                is_entry = following is not self.interface and (
                    node.name in (*HEADINGS, "dt") or id(node) in self._chosen["entries"]
                )
                breaks = node.name in _BREAKS or following is not state or bool(anchor) or is_entry
                if breaks:
                    self._flush(state)
                opened_here = (len(self.order), len(self.anchors)) if is_entry else None
                if anchor and (following is not self.interface or id(node) in self._leads_here):
                    self.anchors.append((str(anchor), len(self.order)))
                if breaks:
                    states.append(state)
                    opened.append(opened_here)
                    todo.append(_END)
                    state = following
                todo += reversed(node.contents)
        self._flush(state)

    def _state(self, node: Tag, state: list[str]) -> list[str]:
        """Interface inside the body stays it; so does what may be read or left, but for interface in it."""
        if id(node) in self._chosen["interface"]:
            return self.interface
        within = self.own if id(node) in self._chosen["body"] else state
        return self.either if within is self.own and id(node) in self._chosen["either"] else within

    def _open(self, before: int, anchors: int) -> None:
        """A heading ended: its ids are those in it, and those since the last word before it."""
        while anchors and self.anchors[anchors - 1][1] == before:
            anchors -= 1
        if len(self.order) > before and len(self.anchors) > anchors:
            self.openings.append((before, anchors, len(self.anchors)))

    def _flush(self, state: list[str]) -> None:
        found = words("".join(self._text))
        state += found
        if state is not self.interface:
            self.order += found
        self._text.clear()


def _blocks(soup: BeautifulSoup, page: Annotated, chosen: Mapping[str, set[int]]) -> Iterator[tuple[str, str]]:
    left = chosen["interface"] | chosen["either"]
    for tag in soup.select(page.code):
        above = {id(tag), *map(id, tag.parents)}
        if above & chosen["body"] and not above & left and tag.find_parent("pre") is None:
            lines = (tag.select(page.lines) if page.lines else None) or [tag]
            block = ("\n".join(_plain(line, without) for line in lines) for without in (chosen["interface"], left))
            whole, least = (_EMPTY_ENDS.sub("", text) for text in block)
            if least.strip():
                yield whole, least


def _plain(tag: Tag, left: set[int]) -> str:
    """Text as it stands; a line break is a line end."""
    parts: list[str] = []
    for node in tag.descendants:
        if isinstance(node, Tag) and node.name == "br":
            parts.append("\n")
        elif type(node) is NavigableString and not any(id(parent) in left for parent in node.parents):
            parts.append(node)
    return "".join(parts)
