"""Which elements of a page are not its text."""

import re
from itertools import islice

from indexer.html_tree import Element

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


def classes(tag: Element) -> set[str]:
    """The element's class names."""
    return set(tag.get("class").split())


def holds(tag: Element, names: frozenset[str], rels: frozenset[str] | None = None) -> bool:
    """Whether one of the first few thousand nodes below an element has such a name, and `rel` if any are given."""
    return any(
        isinstance(node, Element) and node.name in names and (rels is None or node.get("rel") in rels)
        for node in islice(tag.nodes(), _SEARCHED)
    )


def is_noise(tag: Element) -> bool:
    """Whether an element and all below it is navigation, decoration, hidden, or not text at all."""
    name = tag.name
    if name in _NEVER:
        return True
    if tag.attributes and (_is_hidden(tag) or tag.get("role") in _NOISE_ROLES or _has_noise_class(tag)):
        return True
    if name == "header":  # of the site, unless it stands inside the text
        return not any(parent.name in _TEXT_PARENTS for parent in islice(tag.parents, _NEAR))
    if name == "aside":
        return not classes(tag) & _KEPT_ASIDES
    if name == "form":  # some systems wrap the whole page in one
        return not holds(tag, _PAGE_PARTS)
    return name == "a" and _is_permalink(tag)


def _is_permalink(link: Element) -> bool:
    """Whether the one text of a link, however deep, is only a sign."""
    nodes: list[Element | str] = link.children
    while len(nodes) == 1:
        if isinstance(nodes[0], str):
            return nodes[0].strip() in _PERMALINKS
        nodes = nodes[0].children
    return False


def _has_noise_class(tag: Element) -> bool:
    if "class" not in tag.attributes:
        return False
    names = classes(tag)
    if not names.isdisjoint(_NOISE_CLASSES):
        return True
    if names & _HEADERS and holds(tag, _LINKS, _NEIGHBOURS):  # Texinfo's line of links to the pages around
        return True
    return "contents" in names and bool(names & {"topic", "local"})  # a table of contents made by docutils


def _is_hidden(tag: Element) -> bool:
    attributes = tag.attributes
    if "hidden" in attributes or attributes.get("aria-hidden") == "true":
        return True
    return "style" in attributes and _HIDDEN_STYLE.search(attributes["style"]) is not None
