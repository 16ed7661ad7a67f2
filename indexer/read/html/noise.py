"""Which elements of a page are not its text."""

import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache

from indexer.read.html.html_tree import HEADINGS, Element

_NEVER = frozenset(
    "script style noscript template head nav footer button select option textarea input dialog svg canvas iframe "
    "object embed audio video map rp rt".split()
)
_NOISE_CLASSES = frozenset(
    "headerlink navheader navfooter toc toctree-wrapper indextable genindextable sphinxsidebar linenos breadcrumb "
    "breadcrumbs pagination skip-link sr-only visually-hidden".split()
)
NOISE_ROLES = frozenset(
    "navigation search searchbox banner contentinfo complementary button tab tablist toolbar menu menubar menuitem "
    "dialog alertdialog tooltip switch checkbox radio slider progressbar log timer doc-toc doc-pagelist".split()
)
_CODE = frozenset({"code", "kbd", "samp"})
_LINKED = 0.8  # of its text is inside links
_PERMALINKS = frozenset("¶ # § 🔗".split())
_JUDGED = frozenset({"a", "ul", "ol", "header", "aside", "form", "label", "summary"})  # by what is in or around them
_TITLES = frozenset({"dt", *HEADINGS})
AROUND = _TITLES | {"div", "section", "header", "summary", "details", "figure", "hgroup", "span"}
_FLOW = frozenset("p pre ul ol dl table blockquote figure".split())
_FIELDS = frozenset({"input", "select", "textarea"})
LOOKED_AT = 300  # nodes below an element
NEAR = 20  # elements in or around one
DEEP = 60  # elements around one, from which on little is looked at what is in it
_PAGE_PARTS = frozenset({"p", "pre", "h1", "h2", "h3", "form"})
_NO_NAMES: frozenset[str] = frozenset()
_FOLDED_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
HIDING = frozenset({"hidden", "aria-hidden", "style"})  # attributes
_IN_LABELS = HEADINGS | _FLOW  # say more than a label does
_LABELS = frozenset({"a", "span", "div", "small", "time", "em", "sup"})  # elements that may be a button or a badge
_FRAMED = _LABELS | HEADINGS | _NEVER  # all that an element has which is only a frame around a heading
_LABEL = 80  # characters of what stands beside a heading, such as a version and a link to the source
_ENDS = (".", "!", "?", "…", ":", "。", "！", "？")
_IN_LINES = frozenset(
    "a abbr b bdi cite code dfn em i kbd mark q ruby s small span strong sub sup time u var wbr".split()
)
_BUTTON = 30  # characters of a button
_WORD = re.compile(r"\w")
_LETTER = re.compile(r"[^\W\d_]")


def classes(tag: Element) -> frozenset[str]:
    """Return the class names of an element."""
    return _names(tag.attributes["class"]) if "class" in tag.attributes else _NO_NAMES


@lru_cache(maxsize=4_096)  # a page repeats a few all over
def _names(value: str) -> frozenset[str]:
    return frozenset(value.split())


def holds(tag: Element, names: Collection[str]) -> bool:
    """Return whether one of the first few thousand nodes below an element has such a name; of a deep one, fewer."""
    return any(node.name in names for node in tag.elements(5_000 if tag.depth < DEEP else NEAR))


def is_noise(tag: Element) -> bool:
    """Return whether an element and all below it is navigation, decoration, hidden, or not text at all."""
    name = tag.name
    if name in _NEVER:
        parent = tag.parent if name == "footer" else None
        return parent is None or parent.name not in ("blockquote", "figure")
    attributes = tag.attributes
    if "class" in attributes and has_noise_class(tag):
        return True
    if "role" in attributes:
        role = attributes["role"]
        if role in NOISE_ROLES and (role != "complementary" or not _is_box(tag)):
            return True
    if "popover" in attributes or (not HIDING.isdisjoint(attributes) and is_folded(tag)):
        return True
    if name not in _JUDGED:
        return False
    if name == "a":
        return _is_control(tag)
    if name in ("ul", "ol"):
        return _is_contents(tag)
    if name == "header":  # of the site, unless it stands inside the text
        return not any(around.name in ("main", "article", "section") for around in tag.parents())
    if name == "aside":
        return not _is_box(tag)
    if name == "form":  # some systems wrap the whole page in one
        return not holds(tag, _PAGE_PARTS)
    if name == "label":  # of something to set or choose; a box in a list of tasks can only be looked at
        if tag.short_text(_LABEL) is None:
            return False
        controls = [node for node in tag.elements() if node.name in _FIELDS or node.name == "button"]
        return bool(controls or tag.get("for")) and all("disabled" not in node.attributes for node in controls)
    # a summary that opens and closes a part of the page, which is open already, and says only that
    is_open = tag.parent is not None and "open" in tag.parent.attributes
    is_brief = len((tag.short_text(_BUTTON) or "").split()) in (1, 2, 3)
    return is_open and is_brief and not holds(tag, HEADINGS | _CODE | {"div", "p", "a"})


def _is_contents(tag: Element) -> bool:
    """Return whether a list has hardly anything but links to places of the page."""
    first = next((node for node in tag.elements(NEAR) if node.name == "a"), None)
    if tag.depth > DEEP or first is None or not first.get("href").startswith("#"):
        return False
    links = [node for node in tag.elements() if node.name == "a"]
    if len(links) < 2 or not all(link.get("href").startswith("#") for link in links):
        return False
    return sum(len(link.text().strip()) for link in links) > _LINKED * len("".join(tag.text().split()))


def _is_box(tag: Element) -> bool:
    """Return whether an aside stands in the main part and says something, other than where to go or what to fill in."""
    is_note = "epub:type" in tag.attributes or tag.get("role").startswith("doc-")
    if not is_note and all(
        around.name not in ("main", "article") and around.get("role") != "main" for around in tag.parents()
    ):
        return False
    return not holds(tag, _FIELDS) and not is_menu(tag, 0.5 if tag.short_text(_LABEL) is not None else _LINKED)


def is_menu(tag: Element, share: float = _LINKED) -> bool:
    """Return whether this share of the words in the first nodes of an element are links, or there are none."""
    letters = linked = 0
    for text, is_link in first_texts(tag):
        count = len(_LETTER.findall(text))
        letters, linked = letters + count, linked + count * is_link
    return linked >= share * letters


def first_texts(tag: Element) -> Iterator[tuple[str, bool]]:
    """Yield the texts among the first few hundred nodes below an element, and whether each is in a link."""
    return texts([tag], lambda node: node.name in ("script", "style", "template"), LOOKED_AT)


def texts(
    nodes: Sequence[Element | str], is_left_out: Callable[[Element], bool], most: int = sys.maxsize
) -> Iterator[tuple[str, bool]]:
    """Yield the texts among so many nodes, in order, and whether each is in a link."""
    todo = [(node, False) for node in reversed(nodes)]
    while todo and most > 0:
        node, is_link = todo.pop()
        most -= 1
        if isinstance(node, str):
            yield node, is_link
        elif not is_left_out(node):
            is_link = is_link or node.name == "a"
            todo += [(child, is_link) for child in reversed(node.children[:most])]


def is_permalink(link: Element) -> bool:
    """Return whether a link into the page has no words, and so leads to where it stands."""
    sign = link.short_text(_BUTTON)
    if sign is None or _WORD.search(sign):
        return False
    return sign.strip() in _PERMALINKS or (link.get("href").startswith("#") and not holds(link, _CODE))


def _is_control(link: Element) -> bool:
    """Return whether a link is a sign or a button, or leads to the pages around."""
    attributes = link.attributes
    if "href" not in attributes:
        return "onclick" in attributes and not _is_in_sentence(link)
    href = attributes["href"]
    if href.startswith("javascript:") or (href == "#" and "onclick" in attributes):
        return not _is_in_sentence(link)
    return is_permalink(link)


def _is_in_sentence(link: Element) -> bool:
    """Return whether a link is among words of its line rather than a button beside it."""
    line = link.parent
    if line is not None and line.name in _IN_LINES and len(line.children) == 1:
        link, line = line, line.parent
    if line is None or len(line.children) > 500:
        return False
    place = next(place for place, node in enumerate(line.children) if node is link)
    around = line.children[:place], line.children[place + 1 :]
    before, after = ("".join(node for node in nodes if isinstance(node, str)).strip() for nodes in around)
    begun = len(before) >= 12 and not before.endswith(_ENDS) and line.name not in _TITLES
    return _LETTER.search(after) is not None or (begun and _LETTER.search(before) is not None)


def text_within(tag: Element) -> list[Element | str]:
    """Return the children of one of `AROUND`, without the short links and badges beside a heading or code."""
    children = tag.children
    if tag.name in _TITLES:
        return [node for node in children if isinstance(node, str) or not _is_beside(node)]
    if len(children) > 12:
        return children
    names = {node.name for node in children if isinstance(node, Element)}
    is_frame = "pre" in names or (names <= _FRAMED and not names.isdisjoint(HEADINGS))
    if not is_frame or any(isinstance(node, str) and not node.isspace() for node in children):
        return children
    if "pre" in names:  # beside which the name of its language may stand, which a class has too
        said = (name for element in (tag, *tag.elements(NEAR)) for name in classes(element) if "-" in name)
        languages = {name.rpartition("-")[2] for name in said}
        return [node for node in children if isinstance(node, str) or node.short_text(_BUTTON) not in languages]
    return [node for node in children if isinstance(node, str) or not _is_badge(node)]


def _is_beside(tag: Element) -> bool:
    """Return whether an element of a title is a link in brackets beside its words, such as "[edit]"."""
    text = (tag.short_text(_BUTTON) or "").strip()
    return text[:1] == "[" and text[-1:] == "]" and text[1:-1].isalpha() and len(text) > 4 and _has_link(tag)


def _is_badge(tag: Element) -> bool:
    text = tag.short_text(_LABEL) if tag.name in _LABELS else None
    if not text or text.isspace() or holds(tag, _IN_LABELS):
        return False
    # a signature has types that are links, and more
    return not _LETTER.search(text) or (is_menu(tag) if tag.name == "div" else _has_link(tag))


def _has_link(tag: Element) -> bool:
    return tag.name == "a" or holds(tag, ("a",))


def has_noise_class(tag: Element) -> bool:
    """Return whether a class says that an element is no text."""
    return not classes(tag).isdisjoint(_NOISE_CLASSES)


def is_folded(tag: Element) -> bool:
    """Return whether an element is hidden until something shows it, or for good."""
    attributes = tag.attributes
    if "hidden" in attributes or attributes.get("aria-hidden") == "true":
        return True
    return "style" in attributes and _FOLDED_STYLE.search(attributes["style"]) is not None
