"""Which elements of a page are not its text."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice

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
    "dialog alertdialog tooltip switch checkbox radio slider progressbar status log timer doc-toc doc-pagelist".split()
)
_KEPT_ASIDES = frozenset("topic footnote footnote-list admonition note warning tip callout".split())
_BOXES = frozenset("note tip warning caution important danger info admonition callout".split())
_HEADERS = frozenset({"header", "nav-panel"})
_LINKS = frozenset({"a"})
_NEIGHBOURS = frozenset({"next", "prev", "previous", "up", "contents", "index"})
_CODE = frozenset({"code", "kbd", "samp"})
_TELLING = HEADINGS | _CODE | {"div", "p", "a"}
_LINKED = 0.8  # of its text is inside links
_PERMALINKS = frozenset("¶ # § 🔗".split())
_JUDGED = frozenset({"a", "ul", "ol", "header", "aside", "label", "form", "summary"})  # by what is in or around them
_TITLES = frozenset({"dt", *HEADINGS})
_HEADED = HEADINGS | {"pre"}
AROUND = _TITLES | {"div", "section", "header", "summary", "details", "figure", "hgroup", "span"}
_FLOW = frozenset("p pre ul ol dl table blockquote figure".split())
_FIELDS = frozenset({"input", "select", "textarea"})
_LOOKED_AT = 300  # nodes below an element
_NEAR = 20  # elements looked at above one; a limit, so that depth costs little
_PAGE_PARTS = frozenset({"p", "pre", "h1", "h2", "h3", "form"})
_NO_NAMES: frozenset[str] = frozenset()
_FOLDED_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_UNSELECTABLE = re.compile(r"user-select\s*:\s*none", re.IGNORECASE)
_HIDING = frozenset({"hidden", "aria-hidden", "style", "popover"})  # attributes
_IN_LABELS = HEADINGS | frozenset("p pre table ul ol dl blockquote figure".split())  # say more than a label does
_CONTROLS = _FIELDS | {"button"}
_LABELS = frozenset({"a", "span", "div", "small", "time", "em", "sup"})  # elements that may be a button or a badge
_FRAMED = _LABELS | HEADINGS | _NEVER  # all that an element has which is only a frame around a heading
_LABEL = 80  # characters of what stands beside a heading, such as a version and a link to the source
_ENDS = (".", "!", "?", "…", ":", "。", "！", "？")
_IN_LINES = frozenset(
    "a abbr b bdi cite code dfn em i kbd mark q ruby s small span strong sub sup time u var wbr".split()
)
_BUTTON = 30  # characters of what stands beside a block of code, such as "Run"
_TOGGLE = 3  # words of what opens and closes a part of a page that is open already
_BUBBLE = re.compile(r"tooltip[-_]?(?:text|content|inner|box)")
_WORD = re.compile(r"\w")
_LETTER = re.compile(r"[^\W\d_]")
_ATTACHED = re.compile(r"[^\w\s]$")  # at the end of what stands before: an operator, an opening bracket


def classes(tag: Element) -> frozenset[str]:
    """Return the class names of an element."""
    return _names(tag.attributes["class"]) if "class" in tag.attributes else _NO_NAMES


@lru_cache(maxsize=4_096)  # a page repeats a few all over
def _names(value: str) -> frozenset[str]:
    return frozenset(value.split())


def holds(tag: Element, names: frozenset[str], rels: frozenset[str] | None = None) -> bool:
    """Return whether one of the first few thousand nodes below an element has such a name, and the `rel` if given."""
    return any(
        isinstance(node, Element) and node.name in names and (rels is None or node.get("rel") in rels)
        for node in islice(tag.nodes(), 5_000)
    )


def is_noise(tag: Element) -> bool:
    """Return whether an element and all below it is navigation, decoration, hidden, or not text at all."""
    name = tag.name
    if name in _NEVER:
        return name != "footer" or tag.parent is None or tag.parent.name not in ("blockquote", "figure")
    attributes = tag.attributes
    if "class" in attributes and has_noise_class(tag):
        return True
    if "role" in attributes and _has_noise_role(tag):
        return True
    if not _HIDING.isdisjoint(attributes) and (is_folded(tag) or "popover" in attributes):
        return True
    if "style" in attributes and _UNSELECTABLE.search(attributes["style"]):
        return True
    if name not in _JUDGED:
        return False
    if name == "a":
        return _is_control(tag)
    if name in ("ul", "ol"):
        first = next(
            (node for node in islice(tag.nodes(), _NEAR) if isinstance(node, Element) and node.name == "a"), None
        )
        if first is None or not first.get("href").startswith("#"):
            return False
        links = [node for node in tag.elements() if node.name == "a"]
        if len(links) < 2 or not all(link.get("href").startswith("#") for link in links):
            return False
        linked = sum(len(link.text().strip()) for link in links)
        return linked > _LINKED * len("".join(tag.text().split()))
    if name == "header":  # of the site, unless it stands inside the text
        return not any(parent.name in ("main", "article", "section") for parent in islice(tag.parents, _NEAR))
    if name == "aside":
        return not (classes(tag) & _KEPT_ASIDES or _is_box(tag))
    if name == "label":
        return _is_of_a_control(tag)
    if name == "form":  # some systems wrap the whole page in one
        return not holds(tag, _PAGE_PARTS)
    return name == "summary" and _only_toggles(tag)


def _is_box(tag: Element) -> bool:
    """Return whether an aside stands among the text and says something, other than where to go or what to fill in."""
    if not ("epub:type" in tag.attributes or tag.get("role").startswith("doc-") or _is_among_text(tag)):
        return False
    return not holds(tag, _FIELDS) and not is_menu(tag, 0.5 if tag.short_text(_LABEL) is not None else _LINKED)


def _is_among_text(tag: Element) -> bool:
    """Return whether an element is in the main part, or follows text."""
    if any(parent.name in ("main", "article") or parent.get("role") == "main" for parent in islice(tag.parents, _NEAR)):
        return True
    before = None
    for node in tag.parent.children[:_LOOKED_AT] if tag.parent is not None else ():
        if node is tag:
            return before in _FLOW
        before = node.name if isinstance(node, Element) else before
    return False


def is_menu(tag: Element, share: float = _LINKED) -> bool:
    """Return whether this share of the words in the first nodes of an element are links, or there are none."""
    letters = linked = 0
    for text, is_link in first_texts(tag):
        count = len(_LETTER.findall(text))
        letters, linked = letters + count, linked + count * is_link
    return linked >= share * letters


def first_texts(tag: Element) -> Iterator[tuple[str, bool]]:
    """Yield the texts among the first few hundred nodes below an element, and whether each is in a link."""
    todo: list[tuple[Element | str, bool]] = [(tag, False)]
    for _ in range(_LOOKED_AT):
        if not todo:
            return
        node, is_link = todo.pop()
        if isinstance(node, str):
            yield node, is_link
        elif node.name not in ("script", "style", "template"):
            is_link = is_link or node.name == "a"
            todo += [(child, is_link) for child in reversed(node.children[:_LOOKED_AT])]


def _has_noise_role(tag: Element) -> bool:
    role = tag.get("role")
    if (role == "complementary" or (role == "status" and tag.short_text(_LABEL) is None)) and _is_box(tag):
        return False
    return role in NOISE_ROLES or (role == "doc-backlink" and (tag.parent is None or tag.parent.name not in HEADINGS))


def is_permalink(link: Element) -> bool:
    """Return whether a link into the page has no words, and so leads to where it stands."""
    sign = None if _WORD.search(link.first_text()) else link.short_text(_BUTTON)
    if sign is None or _WORD.search(sign):
        return False
    return sign.strip() in _PERMALINKS or (link.get("href").startswith("#") and not holds(link, _CODE))


def _is_control(link: Element) -> bool:
    """Return whether a link is a sign or a button, or leads to the pages around."""
    attributes = link.attributes
    if "href" not in attributes:
        return "onclick" in attributes and not _is_in_sentence(link)
    href = attributes["href"]
    if href.startswith("javascript:") or (href == "#" and ("onclick" in attributes or _is_handled(link))):
        return not _is_in_sentence(link)
    if "rel" in attributes and not _NEIGHBOURS.isdisjoint(attributes["rel"].lower().split()):
        return True
    return is_permalink(link)


def _is_in_sentence(link: Element) -> bool:
    """Return whether a link is among words of its line rather than a button beside it."""
    line = link.parent
    if line is not None and line.name in _IN_LINES and len(line.children) == 1:
        link, line = line, line.parent
    if line is None or len(line.children) > 500:
        return False
    place = next(place for place, node in enumerate(line.children) if node is link)
    before = "".join(reversed([*_bare_words(reversed(line.children[:place]))])).strip()
    after = "".join(_bare_words(line.children[place + 1 :]))
    begun = len(before) >= 12 and not before.endswith(_ENDS) and line.name not in _TITLES
    return _LETTER.search(after) is not None or (begun and _LETTER.search(before) is not None)


def _bare_words(nodes: Iterable[Element | str]) -> Iterator[str]:
    """Yield the texts of a line, as far as it goes, outside of elements."""
    for node in nodes:
        if isinstance(node, str):
            yield node
        elif node.name not in _IN_LINES:
            return


def _is_handled(link: Element) -> bool:
    """Return whether a short link that leads nowhere has a name by which a script may find it."""
    if "class" not in link.attributes and "id" not in link.attributes:
        return False
    text = link.short_text(_BUTTON)
    return text is not None and len(text.split()) <= _TOGGLE


def text_within(tag: Element) -> list[Element | str]:
    """Return the children of one of `AROUND`, without the short links and badges beside a heading or code."""
    children = tag.children
    if tag.name in _TITLES:
        return [node for place, node in enumerate(children) if isinstance(node, str) or not _is_beside(tag, place)]
    if len(children) > 12:
        return children
    names = {node.name for node in children if isinstance(node, Element)}
    if names.isdisjoint(_HEADED) or any(isinstance(node, str) and not node.isspace() for node in children):
        return children
    if "pre" in names:
        return [node for node in children if isinstance(node, str) or not (_is_button(node) or _says_class(node, tag))]
    return [n for n in children if isinstance(n, str) or not _is_badge(n)] if names <= _FRAMED else children


def _is_beside(title: Element, place: int) -> bool:
    """Return whether a child is a link in brackets beside the words of a title, and not one of them, such as a type."""
    node = title.children[place]
    if isinstance(node, str) or node.name not in _LABELS or not node.first_text().lstrip().startswith("["):
        return False
    text = node.short_text(_BUTTON)
    if text is None or not text.rstrip().endswith("]") or not _has_link(node):
        return False
    before = title.children[place - 1] if place else ""
    after = [node for node in title.children[place + 1 :] if isinstance(node, str)]
    if any("code" in name.split("-") for name in classes(title)) or any(map(_WORD.search, after)):
        return False
    if isinstance(before, str) and _ATTACHED.search(before):
        return False
    return not after or after[0][:1].isspace() or isinstance(title.children[place + 1], Element)


def _is_button(tag: Element) -> bool:
    return tag.name == "a" and "href" in tag.attributes and tag.short_text(_BUTTON) is not None


def _says_class(tag: Element, frame: Element) -> bool:
    """Return whether what stands beside a block of code is the name of its language, which a class has too."""
    text = tag.short_text(_BUTTON) if tag.name in _LABELS else None
    word = text.strip().lower() if text else ""
    if not word or not word.isprintable() or " " in word:
        return False
    code = (node for node in islice(frame.elements(), _NEAR) if node.name in ("pre", "code"))
    return any(name.lower().endswith(f"-{word}") for element in (frame, *code) for name in classes(element))


def _is_badge(tag: Element) -> bool:
    text = tag.short_text(_LABEL) if tag.name in _LABELS else None
    if not text or text.isspace() or holds(tag, _IN_LABELS):
        return False
    letters = len(_LETTER.findall(text))
    if not letters or tag.name != "div":
        return not letters or _has_link(tag)
    linked = sum(len(_LETTER.findall(link.text())) for link in tag.elements() if link.name == "a")
    return linked >= _LINKED * letters  # a signature has types that are links, and more


def _has_link(tag: Element) -> bool:
    return tag.name == "a" or holds(tag, _LINKS)


def _is_of_a_control(label: Element) -> bool:
    """Return whether it is the label of something to set or choose; a box in a list of tasks can only be looked at."""
    if label.short_text(_LABEL) is None:
        return False
    controls = [node for node in label.elements() if node.name in _CONTROLS]
    return all("disabled" not in control.attributes for control in controls) and bool(controls or label.get("for"))


def _only_toggles(summary: Element) -> bool:
    """Return whether what opens and closes a part of the page, which is open already, says only that."""
    parent = summary.parent
    if parent is None or "open" not in parent.attributes or holds(summary, _TELLING):
        return False
    text = summary.short_text(_BUTTON)
    return text is not None and len(text.split()) <= _TOGGLE


def has_noise_class(tag: Element) -> bool:
    """Return whether a class says that an element is no text."""
    if "class" not in tag.attributes:
        return False
    said = _said_by(tag.attributes["class"])
    if said is not None:
        return said
    names = classes(tag)
    if names & _HEADERS and holds(tag, _LINKS, _NEIGHBOURS):  # Texinfo's line of links to the pages around
        return True
    if not any("tooltip" in name for name in names):
        return False
    # what a pointer opens, or the sign that it opens by; not the words that it explains
    first = next((node for node in islice(tag.nodes(), _NEAR) if isinstance(node, str) and not node.isspace()), "")
    return not _WORD.search(first) or any(_BUBBLE.search(name) for name in names)


@lru_cache(maxsize=4_096)
def _said_by(value: str) -> bool | None:
    """Return whether classes say that an element is no text; None where what is in it decides."""
    names = _names(value)
    if not names.isdisjoint(_NOISE_CLASSES):
        return True
    if "contents" in names and names & {"topic", "local"}:  # a table of contents made by docutils
        return True
    return None if names & _HEADERS or "tooltip" in value else False


def is_folded(tag: Element) -> bool:
    """Return whether an element is hidden until something shows it, or for good."""
    attributes = tag.attributes
    if "hidden" in attributes or attributes.get("aria-hidden") == "true":
        return True
    return "style" in attributes and _FOLDED_STYLE.search(attributes["style"]) is not None


def titles_a_box(heading: Element) -> bool:
    """Return whether a heading only says "Note" or "Warning" above a box, and opens no section."""
    return heading.parent is not None and bool(classes(heading.parent) & _BOXES)
