"""HTML to a tree of plain objects, however deep: that of libxml2 ends at a depth of 2,048, its events do not."""

import weakref
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from types import SimpleNamespace

from lxml import etree

from indexer.errors import ParseError
from indexer.read.extraction import refresh_in

HEADINGS = frozenset(f"h{level}" for level in range(1, 7))
MOST_ELEMENTS = 1_000_000
_FEW = 200  # nodes
_DEEPEST = 200_000  # elements within elements; browsers stop at 512
_NOT_TEXT = frozenset({"script", "style", "template"})
_NONE: Mapping[str, str] = {}  # lxml's own mapping without anything in it is slow to ask


class Element:
    """One element. It does not keep its parent alive, so that a tree is gone as soon as nobody uses it."""

    __slots__ = ("__weakref__", "_parent", "attributes", "children", "depth", "name")

    def __init__(self, name: str, attributes: Mapping[str, str], parent: "Element | None") -> None:
        self.name = name  # in lower case
        self.attributes = attributes
        self.children: list[Element | str] = []  # neighbouring texts are one, unless a comment stands between them
        self._parent = weakref.ref(parent) if parent is not None else None
        self.depth: int = parent.depth + 1 if parent is not None else 0

    @property
    def parent(self) -> "Element | None":
        """Return the element around this one."""
        return self._parent() if self._parent is not None else None

    def parents(self, most: int = 20) -> Iterator["Element"]:
        """Yield the elements around this one, from the nearest; a limit, so that depth costs little."""
        parent = self.parent
        while parent is not None and most > 0:
            yield parent
            parent, most = parent.parent, most - 1

    @property
    def tags(self) -> "list[Element]":
        """Return the elements among the children."""
        return [node for node in self.children if isinstance(node, Element)]

    def get(self, name: str) -> str:
        """Return the value of an attribute; empty if there is none."""
        return self.attributes.get(name, "")

    @property
    def anchor(self) -> str | None:
        """Return the id, which a browser can go to."""
        attributes = self.attributes
        if "id" in attributes and (found := attributes["id"].strip()):
            return found
        return attributes["name"].strip() or None if self.name == "a" and "name" in attributes else None

    def nodes(self, without: Collection[str] = ()) -> Iterator["Element | str"]:
        """Yield everything below, in document order, but elements of some names and what is in them."""
        todo = self.children[::-1]
        while todo:
            node = todo.pop()
            if isinstance(node, str):
                yield node
            elif node.name not in without:
                yield node
                todo += reversed(node.children)

    def elements(self, most: int | None = None) -> Iterator["Element"]:
        """Yield the elements below, in document order; those among the first `most` nodes."""
        return (node for node in islice(self.nodes(), most) if isinstance(node, Element))

    def text(self) -> str:
        """Return all text below, as it is written; that of scripts and styles is left out unless this is one."""
        return "".join([node for node in self.nodes(_NOT_TEXT) if isinstance(node, str)])

    def short_text(self, most: int) -> str | None:
        """Return all text below, if it has so many characters at most, white space around it apart, in few nodes."""
        pieces: list[str] = []
        for place, node in enumerate(self.nodes(_NOT_TEXT)):
            if place > _FEW:
                return None
            if isinstance(node, str):
                pieces.append(node)
                most -= len(node.strip())
                if most < 0:
                    return None
        return "".join(pieces)


class HtmlTree:
    """A page."""

    def __init__(self) -> None:
        self.root = Element("", {}, None)
        self.elements: list[Element] = []  # in document order
        self.by_name: dict[str, list[Element]] = defaultdict(list)  # as they were parsed
        self.characters = 0  # of all text, scripts included, as it was parsed

    def named(self, name: str) -> list[Element]:
        """Return the elements that were parsed with a name and still have it, in document order."""
        return [element for element in self.by_name[name] if element.name == name]

    def first(self, name: str) -> Element | None:
        """Return the first element of a name."""
        return next((element for element in self.by_name[name] if element.name == name), None)

    @property
    def body(self) -> Element:
        """Return what is shown of the page."""
        return self.first("body") or self.root

    @property
    def redirects(self) -> bool:
        """Return whether a browser goes on to another page at once, so that nobody sees this one."""
        metas = (tag.get("content") for tag in self.named("meta") if tag.get("http-equiv").lower() == "refresh")
        return (refresh_in(next(metas, "")) or (1, ""))[0] == 0


def _show_shadow_roots(elements: Sequence[Element]) -> None:
    """Put what is in declarative shadow roots in the place of their hosts' children, and these into its slots."""
    for root in reversed(elements):  # the innermost first
        host = root.parent
        if root.name != "template" or "shadowrootmode" not in root.attributes or host is None:
            continue
        light = [node for node in host.children if node is not root]
        for slot in root.elements():
            if slot.name == "slot":
                name = slot.get("name")
                nodes = [node for node in light if name == (node.get("slot") if isinstance(node, Element) else "")]
                is_filled = any(isinstance(node, Element) or not node.isspace() for node in nodes)
                slot.name, slot.children = "span", nodes if is_filled else slot.children
        root.name, root.attributes, host.children = "div", {}, [root]


def parse_html(markup: str) -> HtmlTree:
    """Parse HTML as it comes, broken or not; text without any markup is a page too.

    Raises:
        lxml.etree.LxmlError, ValueError: it cannot be read at all.
        ParseError: it has too many elements, or they are nested too deep.
    """
    if not markup.strip():
        return HtmlTree()
    tree = HtmlTree()
    elements, by_name, within, pieces = tree.elements, tree.by_name, [tree.root], list[str]()

    def end_text(_comment: str = "") -> None:
        if pieces:
            text = pieces[0] if len(pieces) == 1 else "".join(pieces)
            within[-1].children.append(text)
            tree.characters += len(text)
            pieces.clear()

    def start(name: str, attributes: Mapping[str, str]) -> None:
        if pieces:
            end_text()
        if len(elements) >= MOST_ELEMENTS:
            raise ParseError(f"more than {MOST_ELEMENTS:,} elements")
        if len(within) > _DEEPEST:
            raise ParseError(f"more than {_DEEPEST:,} elements within each other")
        parent = within[-1]
        element = Element(name, attributes or _NONE, parent)
        parent.children.append(element)
        within.append(element)
        elements.append(element)
        by_name[name].append(element)

    def end(name: str) -> None:
        """Close an element, which is the innermost one unless the parser is confused."""
        if pieces:
            end_text()
        if within[-1].name == name:
            within.pop()

    target = SimpleNamespace(start=start, end=end, data=pieces.append, comment=end_text, close=end_text)
    # "huge" lifts limits of depth and of length: both are those of the page, whose size is limited already
    parser = etree.HTMLParser(target=target, huge_tree=True, no_network=True, encoding="utf-8")
    try:
        etree.fromstring(markup.encode("utf-8", "replace"), parser)
        if "shadowrootmode" in markup:
            _show_shadow_roots(elements)
        return tree
    finally:  # the parser and its target, which live until the garbage collector comes, keep nothing of the page
        tree, elements, by_name, within = HtmlTree(), [], {}, []
