"""Whether the text of a page is still to be drawn by its scripts; runs in the process that reads documents."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from indexer.decoding import decode
from indexer.read.html.html_tree import Element, HtmlTree, fold, parse_html
from indexer.read.html.noise import is_noise

_JAVASCRIPT = frozenset({"", "module", "text/javascript", "application/javascript", "text/ecmascript", "text/babel"})
_ENOUGH = 400  # characters of text of a page that has been written, whatever else stands in it
_HARDLY = 100  # characters of a page that has little more than its name, or says that it is loading
_SAYS = 20  # characters of a message to those without scripts
_MAIN_IDS = frozenset({"main-content", "content", "main"})
_MOUNTS = frozenset({"div", "main", "section", "article"})
_BLOCKS = frozenset("h1 h2 h3 h4 h5 h6 p li dd td th pre blockquote".split())
_NOT_EMPTY = frozenset(
    "img picture svg canvas video audio iframe object embed input select textarea button form".split()
)


def find(body: bytes, argument: str | None) -> dict[str, Any]:
    """Return whether scripts draw a page, JSON-ready; `argument` is its charset. Raises as `parse_html` does."""
    return {"is_drawn": is_drawn(decode(body, argument or None, markup=True))}


def is_drawn(markup: str) -> bool:
    """Return whether a page loads scripts and has no text worth indexing without them.

    It has none if its main part is empty; if there are hardly any words outside of navigation and the like; or if there
    is little, and a message to those without scripts, or an empty element for scripts to fill and no paragraph, heading
    or list beside it. Short pages are drawn in vain rather than lost.
    """
    tree = parse_html(markup)
    if not any(map(_runs, tree.named("script"))):
        return False
    if any(not _has_content(main) for main in _main_parts(tree)):
        return True
    body = tree.first("body") or tree.root
    seen = _look(body)
    if seen.length >= _ENOUGH:
        return False
    return seen.length < _HARDLY or (seen.has_mount and not seen.has_block) or _says_so(body)


def _runs(script: Element) -> bool:
    kind = script.get("type").partition(";")[0].strip().lower()
    return kind in _JAVASCRIPT and (bool(script.get("src")) or bool(script.text().strip()))


def _main_parts(tree: HtmlTree) -> Iterable[Element]:
    """The element that holds the page's own text, if it has one and says so."""
    found = [element for element in tree.elements if element.name == "main" or element.get("role") == "main"]
    found = found or [element for element in tree.elements if element.get("id") in _MAIN_IDS]
    return found if len(found) == 1 else ()


@dataclass(slots=True)
class _Seen:
    """What stands in a page outside of navigation and the like."""

    length: int = 0  # characters of text, up to enough
    has_block: bool = False  # whether some stand in a block of text
    has_mount: bool = False  # whether an element is there for a script to fill


def _look(body: Element) -> _Seen:
    seen = _Seen()
    todo: list[tuple[Element | str, bool]] = [(node, False) for node in reversed(body.children)]
    while todo and seen.length < _ENOUGH:
        node, within = todo.pop()
        if isinstance(node, str):
            size = len(fold(node))
            seen.length += size
            seen.has_block |= within and size > 0
        elif not is_noise(node):
            seen.has_mount = seen.has_mount or _is_mount(node)
            within = within or node.name in _BLOCKS
            todo += ((child, within) for child in reversed(node.children))
    return seen


def _has_content(element: Element) -> bool:
    """Whether it has text, or something that is none and stands for itself."""
    return any(
        bool(node.strip()) if isinstance(node, str) else node.name in _NOT_EMPTY for node in _without_scripts(element)
    )


def _without_scripts(element: Element) -> Iterable[Element | str]:
    todo: list[Element | str] = element.children[::-1]
    while todo:
        node = todo.pop()
        if isinstance(node, str) or node.name not in ("script", "style", "template", "noscript"):
            yield node
            if isinstance(node, Element):
                todo += reversed(node.children)


def _is_mount(element: Element) -> bool:
    """Whether it is for a script to fill: named, or of a kind that only scripts know, and empty."""
    named = "-" in element.name or (element.name in _MOUNTS and bool(element.get("id")))
    return named and not _has_content(element)


def _says_so(body: Element) -> bool:
    """Whether it has a message to those without scripts."""
    return any(len(fold(element.text())) >= _SAYS for element in body.elements() if element.name == "noscript")
