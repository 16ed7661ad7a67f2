"""Recognise noise, which is not part of a page's text: navigation, controls, decoration and hidden elements."""

import re

from indexer.read.html.html_tree import HEADINGS, MAX_FIRST_NODES, MAX_SEARCH_DEPTH, Element

_ALWAYS_NOISE = frozenset(
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
_MIN_LINK_SHARE = 0.8
_METHOD_NAME = re.compile(r"\s*(?:\(|#[^\s#])")
PERMALINKS = frozenset("¶ # § 🔗".split())
_SOMETIMES_NOISE = frozenset({"a", "ul", "ol", "header", "aside", "form", "label", "summary"})
MAY_BE_NOISE = _ALWAYS_NOISE | _SOMETIMES_NOISE  # other elements are noise only if an attribute says so
TITLES = frozenset({"dt", *HEADINGS})
HEADING_CONTAINERS = TITLES | {"div", "section", "header", "summary", "details", "figure", "hgroup", "span"}
_FLOW = frozenset("p pre ul ol dl table blockquote figure".split())
FIELDS = frozenset({"input", "select", "textarea"})
PAGE_ELEMENTS = frozenset({"p", "pre", "h1", "h2", "h3", "form"})
_FOLDED_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
HIDING = frozenset({"hidden", "aria-hidden", "style"})
_NOT_IN_LABELS = HEADINGS | _FLOW
_LABELS = frozenset({"a", "span", "div", "small", "time", "em", "sup"})
_NEXT_TO_HEADINGS = _LABELS | HEADINGS | _ALWAYS_NOISE
MAX_LABEL_CHARS = 80
_SENTENCE_ENDS = (".", "!", "?", "…", ":", "。", "！", "？")
INLINE = frozenset("a abbr b bdi cite code dfn em i kbd mark q ruby s small span strong sub sup time u var wbr".split())
_MAX_BUTTON_CHARS = 30
MIN_SENTENCE_WORDS = 6
WORD = re.compile(r"\w+")
CALL = re.compile(r"\w\([^()]*\)")
LETTER = re.compile(r"[^\W\d_]")


def is_noise(tag: Element) -> bool:
    """Return whether an element is noise: it is hidden, a control, navigation or decoration."""
    name = tag.name
    if name in _ALWAYS_NOISE:
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
    if name not in _SOMETIMES_NOISE:
        return False
    if name == "a":
        return _is_control(tag)
    if name in ("ul", "ol"):
        return _is_contents(tag)
    if name == "header":
        return all(around.name not in ("main", "article", "section") for around in tag.parents())
    if name == "aside":
        return not _is_box(tag)
    if name == "form":  # a <form> with paragraphs or headings may contain the text of the whole page
        return not tag.contains(PAGE_ELEMENTS)
    if name == "label":  # a short <label> is noise, unless its control is disabled, as in task lists
        text = tag.short_text(MAX_LABEL_CHARS)
        if text is None or len(WORD.findall(text)) >= MIN_SENTENCE_WORDS:
            return False
        controls = [node for node in tag.elements() if node.name in FIELDS or node.name == "button"]
        return bool(controls or tag.get("for")) and all("disabled" not in node.attributes for node in controls)
    # a short <summary> of <details open> is a button such as "Hide", not a title
    is_open = tag.parent is not None and "open" in tag.parent.attributes
    return is_open and is_brief(tag) and not tag.contains(HEADINGS | _CODE | {"div", "p", "a"})


def is_brief(tag: Element) -> bool:
    """Return whether an element has one to three words, and at most 30 characters."""
    return len((tag.short_text(_MAX_BUTTON_CHARS) or "").split()) in (1, 2, 3)


def _is_contents(tag: Element) -> bool:
    """Return whether a list is a table of contents that links to fragments of the same page."""
    first = next((node for node in tag.elements(MAX_FIRST_NODES) if node.name == "a"), None)
    if tag.depth > MAX_SEARCH_DEPTH or first is None or not first.get("href").startswith("#"):
        return False
    links = [node for node in tag.elements() if node.name == "a"]
    if len(links) < 2 or not all(link.get("href").startswith("#") for link in links):
        return False
    return sum(len(link.text().strip()) for link in links) > _MIN_LINK_SHARE * len("".join(tag.text().split()))


def _is_box(tag: Element) -> bool:
    """Return whether an <aside> is a note of a book or within the main text, and not a menu or a form."""
    is_note = "epub:type" in tag.attributes or tag.get("role").startswith("doc-")
    is_in_main = any(around.name in ("main", "article") or around.get("role") == "main" for around in tag.parents())
    if not (is_note or is_in_main):
        return False
    text = tag.short_text(MAX_LABEL_CHARS)
    return not tag.contains(FIELDS) and not is_menu(tag, _MIN_LINK_SHARE if text is None else 0.5)


def is_menu(tag: Element, share: float = _MIN_LINK_SHARE) -> bool:
    """Return whether at least `share` of an element's letters are in links."""
    letters = linked = 0
    for text, is_link in tag.leading_texts():
        count = len(LETTER.findall(text))
        letters, linked = letters + count, linked + count * is_link
    return linked >= share * letters


def is_permalink(link: Element) -> bool:
    """Return whether a link is only a symbol, such as the "¶" with which a heading links to itself."""
    sign = link.short_text(_MAX_BUTTON_CHARS)
    if sign is None or WORD.search(sign) or _METHOD_NAME.match(sign):
        return False
    return sign.strip() in PERMALINKS or (link.get("href").startswith("#") and not link.contains(_CODE))


def _is_control(link: Element) -> bool:
    """Return whether a link is a permalink or a button."""
    attributes = link.attributes
    if "href" not in attributes:
        return "onclick" in attributes and not is_in_sentence(link)
    href = attributes["href"]
    if href.startswith("javascript:") or (href == "#" and "onclick" in attributes):
        return not is_in_sentence(link)
    return is_permalink(link)


def is_in_sentence(link: Element) -> bool:
    """Return whether words around a link belong to the same sentence, so that the link is not a button."""
    line = link.parent
    if line is not None and line.name in INLINE and len(line.children) == 1:
        link, line = line, line.parent
    if line is None or len(line.children) > 500:
        return False
    position = line.children.index(link)
    around = line.children[:position], line.children[position + 1 :]
    before, after = ("".join(node for node in nodes if isinstance(node, str)).strip() for nodes in around)
    begun = len(before) >= 12 and not before.endswith(_SENTENCE_ENDS) and line.name not in TITLES
    return LETTER.search(after) is not None or (begun and LETTER.search(before) is not None)


def content_of(tag: Element) -> list[Element | str]:
    """Return the children of an element, without edit links and badges in headings, and without labels of code."""
    children = tag.children
    if tag.name in TITLES:
        words = [position for position, node in enumerate(children) if not _is_edit_link(node)] or [0]
        return [node for place, node in enumerate(children) if words[0] <= place <= words[-1] or _is_sign(node)]
    if len(children) > 12:
        return children
    names = {node.name for node in children if isinstance(node, Element)}
    is_frame = "pre" in names or (names <= _NEXT_TO_HEADINGS and not names.isdisjoint(HEADINGS))
    if not is_frame or any(isinstance(node, str) and not node.isspace() for node in children):
        return children
    if "pre" in names:  # drop a label such as "python" if a class such as "language-python" repeats it
        near = (tag, *tag.elements(MAX_FIRST_NODES))
        languages = {name.rpartition("-")[2] for element in near for name in element.classes if "-" in name}
        return [
            node for node in children if isinstance(node, str) or node.short_text(_MAX_BUTTON_CHARS) not in languages
        ]
    return [node for node in children if isinstance(node, str) or not _is_badge(node)]


def _is_edit_link(tag: Element | str) -> bool:
    """Return whether a node in a heading is white space, a permalink, or a link in brackets such as "[edit]"."""
    if isinstance(tag, str) or _is_sign(tag):
        return not isinstance(tag, str) or tag.isspace()
    text = (tag.short_text(_MAX_BUTTON_CHARS) or "").strip()
    return text[:1] == "[" and text[-1:] == "]" and text[1:-1].isalpha() and len(text) > 4 and _has_link(tag)


def _is_sign(tag: Element | str) -> bool:
    return isinstance(tag, Element) and tag.name == "a" and is_permalink(tag)


def _is_badge(tag: Element) -> bool:
    text = tag.short_text(MAX_LABEL_CHARS) if tag.name in _LABELS else None
    if not text or text.isspace() or CALL.search(text) or tag.contains(_NOT_IN_LABELS):
        return False
    # a <div> may be a function signature with a linked type, so it is a badge only if most of its text is linked
    return not LETTER.search(text) or (is_menu(tag) if tag.name == "div" else _has_link(tag))


def _has_link(tag: Element) -> bool:
    return tag.name == "a" or tag.contains(("a",))


def has_noise_class(tag: Element) -> bool:
    """Return whether an element has a class for navigation or decoration, such as "breadcrumbs"."""
    return not tag.classes.isdisjoint(_NOISE_CLASSES)


def is_folded(tag: Element) -> bool:
    """Return whether the `hidden`, `aria-hidden` or `style` attribute hides an element."""
    attributes = tag.attributes
    if "hidden" in attributes or attributes.get("aria-hidden") == "true":
        return True
    return "style" in attributes and _FOLDED_STYLE.search(attributes["style"]) is not None
