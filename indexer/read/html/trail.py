"""The line above a page's title that says where the page is, such as "Home / Guide / Title"."""

import re
from itertools import islice

from indexer.read.html.html_tree import Element, HtmlTree, fold

_TITLES = frozenset({"h1", "h2"})
_ABOVE = 3  # elements around the title, before which a trail may stand
_BEFORE = 4  # elements before each of them
_LONGEST = 300  # characters
_ENDS = re.compile(r"\A[\W_]+|[\W_]+\Z")
_WORD = re.compile(r"\w")


def drop_trail(tree: HtmlTree) -> None:
    """Remove the trail that ends in the title of a page, before its first main heading."""
    heading = next((tag for tag in tree.elements if tag.name in _TITLES), None)
    title = _ENDS.sub("", fold(heading.text())) if heading is not None else ""
    node, parent = heading, heading.parent if heading is not None else None
    for _ in range(_ABOVE):
        if node is None or parent is None or not title:
            return
        place = next(place for place, child in enumerate(parent.children) if child is node)
        before = (child for child in reversed(parent.children[:place]) if isinstance(child, Element))
        for element in islice(before, _BEFORE):
            if _is_trail(element, title):
                parent.children = [child for child in parent.children if child is not element]
                return
        node, parent = parent, parent.parent


def _is_trail(element: Element, title: str) -> bool:
    """Whether an element has links, at least one, and after the last one the title, and no other words."""
    if element.short_text(_LONGEST) is None:
        return False
    links = 0
    last = ""  # what was said outside of links
    todo: list[Element | str] = [element]
    while todo:
        node = todo.pop()
        if isinstance(node, Element) and node.name == "a" and "href" in node.attributes:
            if last:
                return False
            links += 1
        elif isinstance(node, Element):
            todo += reversed(node.children)
        elif _WORD.search(node):
            last += node
    return links > 0 and _ENDS.sub("", fold(last)) == title
