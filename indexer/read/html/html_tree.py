"""Parse HTML with libxml2 to a tree of our own, because the nesting of libxml2's tree is limited to 2,048 levels."""

import re
import sys
import weakref
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import islice
from types import SimpleNamespace

from lxml import etree

from indexer.errors import ParseError
from indexer.read.extraction import refresh_in

HEADINGS = frozenset(f"h{level}" for level in range(1, 7))
MAX_ELEMENTS = 1_000_000
MAX_NODES = 300
MAX_FIRST_NODES = 20
MAX_SEARCH_DEPTH = 60
_MAX_SHORT_TEXT_NODES = 200
_MAX_DEPTH = 200_000
_SHADOW_ROOT = re.compile("shadowrootmode", re.IGNORECASE)
_HEADING_TAG = re.compile(r"<(/?)h([1-6])\b", re.IGNORECASE)
NOT_TEXT = frozenset({"script", "style", "template"})
# elements that may be in <head>; libxml2 does not know that newer elements, such as <main>, end a head without </head>
_IN_HEAD = frozenset("base basefont bgsound link meta noframes noscript script style template title body".split())
_NO_ATTRIBUTES: Mapping[str, str] = {}  # faster than the empty mapping of lxml


class Element:
    """An HTML element. Its reference to its parent is weak, so that a tree is freed without the garbage collector."""

    __slots__ = ("__weakref__", "_parent", "attributes", "children", "depth", "name")

    def __init__(self, name: str, attributes: Mapping[str, str], parent: "Element | None") -> None:
        self.name = name
        self.attributes = attributes
        self.children: list[Element | str] = []
        self._parent = weakref.ref(parent) if parent is not None else None
        self.depth: int = parent.depth + 1 if parent is not None else 0

    @property
    def parent(self) -> "Element | None":
        """Return the parent element, or None for the root."""
        return self._parent() if self._parent is not None else None

    def parents(self, limit: int = 20) -> Iterator["Element"]:
        """Yield up to `limit` ancestors, the nearest first."""
        parent = self.parent
        while parent is not None and limit > 0:
            yield parent
            parent, limit = parent.parent, limit - 1

    @property
    def tags(self) -> "list[Element]":
        """Return the child elements."""
        return [node for node in self.children if isinstance(node, Element)]

    def get(self, name: str) -> str:
        """Return the value of an attribute, or "" if it is missing."""
        return self.attributes.get(name, "")

    @property
    def anchor(self) -> str | None:
        """Return the fragment that links to this element: its id, or the `name` of an <a> without id, or None."""
        attributes = self.attributes
        if "id" in attributes and (anchor := attributes["id"].strip()):
            return anchor
        return attributes["name"].strip() or None if self.name == "a" and "name" in attributes else None

    @property
    def classes(self) -> frozenset[str]:
        """Return the class names."""
        return _class_names(self.get("class"))

    def nodes(self, excluded_names: Collection[str] = ()) -> Iterator["Element | str"]:
        """Yield the descendants in document order. Skip elements with an excluded name, and everything in them."""
        todo = self.children[::-1]
        while todo:
            node = todo.pop()
            if isinstance(node, str):
                yield node
            elif node.name not in excluded_names:
                yield node
                todo += reversed(node.children)

    def elements(self, limit: int | None = None) -> Iterator["Element"]:
        """Yield descendant elements in document order. Visit at most `limit` nodes, including texts."""
        return (node for node in islice(self.nodes(), limit) if isinstance(node, Element))

    def first_elements(self) -> Iterator["Element"]:
        """Yield the elements among the first 5,000 descendants, or the first 20 if this element is deeply nested."""
        return self.elements(5_000 if self.depth < MAX_SEARCH_DEPTH else MAX_FIRST_NODES)

    def contains(self, names: Collection[str]) -> bool:
        """Return whether `first_elements` yields an element with one of these tag names."""
        return any(node.name in names for node in self.first_elements())

    def leading_texts(self) -> Iterator[tuple[str, bool]]:
        """Yield `(text, is_in_link)` for each text among the first 300 descendants."""
        return texts([self], lambda node: node.name in NOT_TEXT, MAX_NODES)

    def fill(self, children: Sequence["Element | str"]) -> None:
        """Replace the children. Elements that are no longer in the tree, and their descendants, lose their parent."""
        before, self.children = self.children, [*children]
        ids = set(map(id, children))
        for node in before:
            if isinstance(node, Element) and id(node) not in ids and node.parent is self:
                for tag in (node, *node.elements()):
                    tag._parent = None
        reference = weakref.ref(self)
        for node in children:
            if isinstance(node, Element):
                node._parent = reference

    def remove(self, ids: Collection[int]) -> None:
        """Remove the children whose Python `id()` is in `ids`."""
        self.fill([node for node in self.children if id(node) not in ids])

    def text(self) -> str:
        """Return the text of all descendants with its white space, without scripts and styles."""
        return "".join([node for node in self.nodes(NOT_TEXT) if isinstance(node, str)])

    def short_text(self, limit: int) -> str | None:
        """Return the result of `text()`, or None if there are more than `limit` characters or 200 descendants."""
        pieces: list[str] = []
        todo, count = self.children[::-1], 0
        while todo:
            node = todo.pop()
            if isinstance(node, str):
                pieces.append(node)
                limit -= len(node.strip())
            elif node.name in NOT_TEXT:
                continue
            else:
                todo += reversed(node.children)
            count += 1
            if limit < 0 or count > _MAX_SHORT_TEXT_NODES + 1:
                return None
        return "".join(pieces)


@lru_cache(maxsize=4_096)
def _class_names(value: str) -> frozenset[str]:
    return frozenset(value.split())


def texts(
    nodes: Sequence[Element | str], is_excluded: Callable[[Element], bool], limit: int = sys.maxsize
) -> Iterator[tuple[str, bool]]:
    """Yield `(text, is_in_link)` for each text in `nodes`, except in excluded elements. Visit at most `limit` nodes."""
    todo = [(node, False) for node in reversed(nodes)]
    while todo and limit > 0:
        node, is_link = todo.pop()
        limit -= 1
        if isinstance(node, str):
            yield node, is_link
        elif not is_excluded(node):
            is_link = is_link or node.name == "a"
            todo += [(child, is_link) for child in reversed(node.children[:limit])]


class HtmlTree:
    """A parsed page. `text_length` is the number of characters of its text, including scripts."""

    def __init__(self) -> None:
        self.root = Element("", {}, None)
        self.parsed: list[Element] = []
        self.text_length = 0

    @property
    def elements(self) -> Iterator[Element]:
        """Yield the elements that have not been removed, in document order."""
        return (element for element in self.parsed if element._parent is not None)

    @cached_property
    def _by_name(self) -> dict[str, list[Element]]:
        by_name: dict[str, list[Element]] = defaultdict(list)
        for element in self.elements:
            by_name[element.name].append(element)
        return by_name

    def find_all(self, name: str) -> list[Element]:
        """Return the elements with a name in document order. Elements renamed after the first call may be missing."""
        return [tag for tag in self._by_name[name] if tag.name == name and tag._parent is not None]

    def first(self, name: str) -> Element | None:
        """Return the first element that `find_all` returns, or None."""
        return next(iter(self.find_all(name)), None)

    @property
    def body(self) -> Element:
        """Return the body, or the root of a page without a body."""
        return self.first("body") or self.root

    @property
    def redirects(self) -> bool:
        """Return whether <meta http-equiv="refresh"> without a delay redirects browsers to another page."""
        metas = (tag.get("content") for tag in self.find_all("meta") if tag.get("http-equiv").lower() == "refresh")
        return (refresh_in(next(metas, "")) or (1, ""))[0] == 0


def _show_shadow_roots(elements: Sequence[Element]) -> None:
    """Show shadow DOM as browsers do: put the children of each shadow host into the slots of its shadow root."""
    roots = {id(tag): tag for tag in elements if tag.name == "template" and "shadowrootmode" in tag.attributes}
    slots: dict[int, list[Element]] = defaultdict(list)  # keys are Python ids of shadow roots
    for slot in elements:
        if slot.name == "slot":
            root = next((around for around in slot.parents(MAX_SEARCH_DEPTH) if id(around) in roots), None)
            slots[id(root)].append(slot)
    hosts = {id(root.parent): root for root in reversed(roots.values())}  # only the first root of a host is valid
    for root in hosts.values():
        host = root.parent
        if host is None:
            continue
        light: dict[str, list[Element | str]] = defaultdict(list)
        for node in host.children:
            if node is not root:
                light[node.get("slot") if isinstance(node, Element) else ""].append(node)
        for slot in slots[id(root)]:
            slot.name, nodes = "span", light.pop(slot.get("name"), [])
            if any(isinstance(node, Element) or not node.isspace() for node in nodes):
                slot.fill(nodes)
        root.name, root.attributes = "div", {}
        host.fill([root])


def _close_headings(markup: str) -> str:
    """Replace `<h2>…</h3>` by `<h2>…</h2>`. HTML5 accepts an end tag of another level, but libxml2 does not."""
    open_level = ""

    def match_level(tag: re.Match[str]) -> str:
        nonlocal open_level
        level, open_level = (open_level or tag[2], "") if tag[1] else (tag[2], tag[2])
        return f"<{tag[1]}h{level}"

    return _HEADING_TAG.sub(match_level, markup)


def parse_html(markup: str) -> HtmlTree:
    """Parse HTML, even if it is malformed or only plain text.

    Raises:
        lxml.etree.LxmlError, ValueError: the markup cannot be parsed.
        ParseError: there are too many elements, or they are nested too deeply.
    """
    if not markup.strip():
        return HtmlTree()
    tree = HtmlTree()
    elements, open_elements, pieces = tree.parsed, [tree.root], list[str]()

    def end_text(_comment: str = "") -> None:
        if pieces:
            text = "".join(pieces)
            open_elements[-1].children.append(text)
            tree.text_length += len(text)
            pieces.clear()

    def start(name: str, attributes: Mapping[str, str]) -> None:
        if pieces:
            end_text()
        if len(elements) >= MAX_ELEMENTS:
            raise ParseError(f"more than {MAX_ELEMENTS:,} elements")
        if len(open_elements) > _MAX_DEPTH:
            raise ParseError(f"elements nested more than {_MAX_DEPTH:,} levels deep")
        parent = open_elements[-1]
        if parent.name == "head" and name not in _IN_HEAD:
            open_elements.pop()
            start("body", _NO_ATTRIBUTES)
            parent = open_elements[-1]
        element = Element(name, attributes or _NO_ATTRIBUTES, parent)
        parent.children.append(element)
        open_elements.append(element)
        elements.append(element)

    def end(name: str) -> None:
        """Close the innermost open element if it has this name."""
        if pieces:
            end_text()
        if open_elements[-1].name == name:
            open_elements.pop()

    target = SimpleNamespace(start=start, end=end, data=pieces.append, comment=end_text, close=end_text)
    # `huge_tree` disables limits of libxml2 that are not needed, because the size of a page is already limited
    parser = etree.HTMLParser(target=target, huge_tree=True, no_network=True, encoding="utf-8")
    try:
        etree.fromstring(_close_headings(markup).encode("utf-8", "replace"), parser)
        if _SHADOW_ROOT.search(markup):
            _show_shadow_roots(elements)
        return tree
    finally:  # break the reference cycle between parser and target, which would keep the page in memory
        tree, elements, open_elements = HtmlTree(), [], []
