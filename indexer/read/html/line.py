"""Inline text while it is gathered, until a block begins or ends."""

from indexer.read.html.html_tree import Element, fold
from indexer.read.html.links import Link, around_links

BREAK = "\x00"  # stands for <br>


class Line:
    """The text of a line, its links, and what is known of the line that was taken last."""

    __slots__ = ("anchor", "bare", "defines", "length", "linked", "links", "names_versions", "pieces", "tails")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.links: list[Link] = []
        self.length = 0  # characters of text
        self.linked = 0  # of these, characters inside links
        self.anchor: str | None = None  # the nearest id before it, or of what it defines
        self.defines = False
        self.bare = ""  # of the last line, what was around its links
        self.tails: tuple[Link, ...] = ()  # and the links that ended it
        self.names_versions = False  # whether they lead to the page in other languages

    def open_link(self, tag: Element) -> None:
        """Begin a link."""
        link = Link(tag.attributes["href"], len(self.pieces))
        link.is_version = "hreflang" in tag.attributes and "alternate" in tag.get("rel")
        self.links.append(link)

    def close_link(self) -> None:
        """End the last link."""
        if self.links:
            self.links[-1].end = len(self.pieces)

    def take(self) -> tuple[str, int, int]:
        """End the line; return its text, its characters, and those of them inside links."""
        text = "".join(self.pieces)
        self.bare, self.tails = around_links(self.pieces, self.links) if self.links else ("", ())
        self.names_versions = any(link.is_version for link in self.links)
        self.drop()
        self.defines = False
        length, linked, self.length, self.linked = self.length, self.linked, 0, 0
        shown = fold(text) if BREAK not in text else "\n".join(filter(None, map(fold, text.split(BREAK))))
        return shown, length, linked

    def drop(self) -> None:
        """Forget the pieces of a line, such as white space between blocks."""
        self.links.clear()
        self.pieces.clear()
