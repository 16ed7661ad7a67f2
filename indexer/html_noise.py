"""Which elements of a page are not its text."""

import re
from itertools import islice

from bs4.element import PageElement, Tag

_NEVER = frozenset(
    "script style noscript template head nav footer button select option textarea input dialog svg canvas iframe "
    "object embed audio video map rp rt".split()
)
_NOISE_CLASSES = frozenset(
    "headerlink navheader navfooter toc toctree-wrapper indextable genindextable sphinxsidebar linenos breadcrumb "
    "breadcrumbs pagination skip-link sr-only visually-hidden".split()
)
_NOISE_ROLES = frozenset("navigation search banner contentinfo complementary".split())
_KEPT_ASIDES = frozenset("topic footnote footnote-list admonition note warning tip callout".split())
_HEADERS = frozenset({"header", "nav-panel"})
_LINKS = frozenset({"a"})
_NEIGHBOURS = frozenset({"next", "prev", "previous", "up", "contents", "index"})
_PERMALINKS = frozenset("¶ # § 🔗".split())
_TEXT_PARENTS = frozenset({"main", "article", "section"})
_NEAR = 20  # elements looked at above one; a limit, so that depth costs little
_PAGE_PARTS = frozenset({"p", "pre", "h1", "h2", "h3", "form"})
_SEARCHED = 5_000  # elements and strings looked at below one
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)


def classes(tag: Tag) -> set[str]:
    """The element's class names."""
    return set(str(tag.get("class") or "").split())


def holds(tag: Tag, names: frozenset[str], rels: frozenset[str] | None = None) -> bool:
    """Whether one of the first few thousand nodes below an element has one of these names, and `rel`, if any are given.

    Beautiful Soup's own search first walks down to the last descendant, which is too slow when nested without end.
    """
    todo: list[PageElement] = list(reversed(tag.contents))
    for _ in range(_SEARCHED):
        if not todo:
            return False
        node = todo.pop()
        if isinstance(node, Tag):
            if node.name in names and (rels is None or node.get("rel") in rels):
                return True
            todo.extend(reversed(node.contents))
    return False


def is_noise(tag: Tag) -> bool:
    """Whether an element and all below it is navigation, decoration, hidden, or not text at all."""
    name = tag.name
    if name in _NEVER:
        return True
    if tag.attrs and (_is_hidden(tag) or tag.get("role") in _NOISE_ROLES or _has_noise_class(tag)):
        return True
    if name == "header":  # of the site, unless it stands inside the text
        return not any(parent.name in _TEXT_PARENTS for parent in islice(tag.parents, _NEAR))
    if name == "aside":
        return not classes(tag) & _KEPT_ASIDES
    if name == "form":  # some systems wrap the whole page in one
        return not holds(tag, _PAGE_PARTS)
    return name == "a" and tag.string is not None and tag.string.strip() in _PERMALINKS


def _has_noise_class(tag: Tag) -> bool:
    names = classes(tag)
    if names & _NOISE_CLASSES:
        return True
    if names & _HEADERS and holds(tag, _LINKS, _NEIGHBOURS):  # Texinfo's line of links to the pages around
        return True
    return "contents" in names and bool(names & {"topic", "local"})  # a table of contents made by docutils


def _is_hidden(tag: Tag) -> bool:
    if "hidden" in tag.attrs or tag.get("aria-hidden") == "true":
        return True
    style = tag.get("style")
    return isinstance(style, str) and _HIDDEN_STYLE.search(style) is not None
