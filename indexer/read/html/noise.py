"""Which elements of a page are not its text, and what it shows after a click, made plain before it is read.

That are tabs, accordions, carousels, and their titles. A panel is known by the control that names it, by the title
before it, or by the siblings that are like it; menus, dialogs, tooltips and messages are none. All looks into an
element end after a few hundred nodes.
"""

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from indexer import notes
from indexer.decoding import fold
from indexer.read.html.html_tree import HEADINGS, Element, HtmlTree

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
_WORD = re.compile(r"\w+")
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


_TITLED = HEADINGS | {"dt", "summary", "th", "legend", "caption"}  # elements whose only words may be a control
_BEFORE_PANELS = HEADINGS | {"dt", "button", "summary", "input"}
_PANELS = frozenset(
    "div section article li dd dl tr tbody ul ol table p pre figure blockquote details fieldset".split()
)
_NAMING = frozenset("button a label li summary input option".split())  # elements that may open what they name
_CONTROLS = frozenset({"a", "button", "label"})  # elements that may be controls without saying so
_NO_IDS = frozenset({"", "true", "false"})
_MARKS = frozenset(
    "hidden aria-hidden style role aria-expanded aria-controls data-toggle data-bs-toggle onclick".split()
)
_ROLES_AROUND = frozenset({"tab", "tablist", "button", "switch"})  # of elements that may hold more than a control
_EXPANDING = frozenset({"aria-expanded", "aria-controls"})
_TOGGLES = ("data-toggle", "data-bs-toggle")
_POPUPS = frozenset({"modal", "dropdown", "tooltip", "popover", "offcanvas"})  # what such a toggle opens, but no text
_POPUP = re.compile(
    r"(?:^|[\s_-])(?:modal|dialog|popup|popover|tooltip|dropdown-menu|submenu|lightbox|overlay|offcanvas|toast|cookies?|"
    r"consent|spinner|loader|loading|error|success|invalid)(?:[\s_-]|$)",
    re.IGNORECASE,
)
_FURNITURE = frozenset({"nav", "footer", "dialog", "template", "menu"})
_ROLES_OF_FURNITURE = frozenset("navigation search banner contentinfo menu menubar toolbar dialog alertdialog".split())
_PLACEHOLDER = re.compile(r"\{\{|\{%|<%|\$\{|\[\[")
_QUOTED = re.compile(r"['\"]#?([\w-]+)['\"]")  # ids in what a control runs
_TITLE_ENDS = re.compile(r"\A[\W_]++|(?<![\W_])[\W_]++\Z")
_TITLE = 200  # characters of what stands before a panel


def unfold(tree: HtmlTree) -> None:
    """Show the panels of a page, and make their titles text."""
    elements = [tag for tag in tree.elements if tag.depth < DEEP]
    marked = [tag for tag in elements if tag.name in _CONTROLS or not _MARKS.isdisjoint(tag.attributes)]
    hidden = [element for element in marked if not HIDING.isdisjoint(element.attributes) and is_folded(element)]
    if hidden:
        _show_panels(tree, hidden)
    controls = [element for element in marked if _is_opener(element)]
    for element in controls:  # a heading is no control, nor is what holds headings or panels
        inside = element.elements(LOOKED_AT) if element.get("role") in _ROLES_AROUND else ()
        is_around = any(tag.name in HEADINGS or tag.get("role") == "tabpanel" for tag in inside)
        if is_around or element.name in _TITLED:
            element.attributes = {name: value for name, value in element.attributes.items() if name != "role"}
    if controls:
        _read_titles(controls, {tag.anchor: tag for tag in reversed(elements) if "id" in tag.attributes})


def drop_trail(tree: HtmlTree) -> None:
    """Remove the trail of links that ends in the title of a page, before its first main heading."""
    heading = next((tag for tag in tree.elements if tag.name in ("h1", "h2")), None)
    title = _TITLE_ENDS.sub("", fold(heading.text())) if heading is not None else ""
    if heading is None or not title:
        return
    node = heading
    for parent in heading.parents(3):
        siblings = parent.tags
        place = siblings.index(node)
        for element in siblings[max(0, place - 4) : place]:
            texts = [*first_texts(element)] if element.short_text(300) is not None else []
            whole = "".join(text for text, _ in texts).strip()
            rest = "".join(text for text, is_link in texts if not is_link and _WORD.search(text)).strip()
            if whole.endswith(rest) and _TITLE_ENDS.sub("", fold(rest)) == title and holds(element, ("a",)):
                parent.children = [child for child in parent.children if child is not element]
                return
        node = parent


def _is_opener(element: Element) -> bool:
    attributes = element.attributes
    if element.name in ("button", "label") or "onclick" in attributes or not _EXPANDING.isdisjoint(attributes):
        return True
    href = attributes.get("href", "") if element.name == "a" else ""
    leads_nowhere = href == "#" or href.startswith("javascript:")
    return leads_nowhere or attributes.get("role") in _ROLES_AROUND or any(name in attributes for name in _TOGGLES)


def _show_panels(tree: HtmlTree, hidden: list[Element]) -> None:
    shown = _named_by_controls(tree, {name for element in hidden for name in _ids_of(element)})
    folded = {id(element) for element in hidden}
    panels: list[Element] = []
    prose: set[int] = set()
    for parent in {id(element.parent): element.parent for element in hidden}.values():
        children = parent.tags if parent is not None else []
        open_ones = [child for child in children if id(child) not in folded]
        kinds = {kind for child in open_ones for kind in _kinds(child)}
        texts = {_beginning(child) for child in open_ones} if kinds else set()
        before: Element | None = None
        for child in children:
            if id(child) not in folded:
                before = child
                continue
            text = _beginning(child)
            words = len(_WORD.findall(text))
            if not words or _is_popup(child) or _PLACEHOLDER.search(text):
                continue
            role = child.get("role")
            is_panel = role == "tabpanel" or child.get("hidden") == "until-found"
            if not is_panel and is_menu(child):
                continue
            if words >= 20 and not is_panel:
                prose.add(id(child))
            is_panel = is_panel or (role == "region" and "aria-labelledby" in child.attributes)
            is_like_open_ones = words > 1 and text not in texts and not kinds.isdisjoint(_kinds(child))
            is_titled = before is not None and words >= 5 and _is_title(before)  # a message says less
            if is_panel or is_like_open_ones or is_titled or not shown.isdisjoint(_ids_of(child)):
                panels.append(child)
                texts.add(text)
    if not prose <= {id(panel) for panel in panels}:
        notes.add("hidden text that nothing on the page shows was left out")
    for panel in panels:
        panel.attributes = {name: value for name, value in panel.attributes.items() if name not in HIDING}


def _ids_of(panel: Element) -> set[str]:
    values = {value for key, value in panel.attributes.items() if key == "id" or key.startswith("data-")}
    return (values - _NO_IDS) | {f".{name}" for name in classes(panel)}


def _kinds(element: Element) -> set[tuple[str, str]]:
    said = classes(element) or (_NO_IDS if element.name in ("tr", "li", "dd") else ())
    return {(element.name, name) for name in said}


def _named_by_controls(tree: HtmlTree, names: set[str]) -> set[str]:
    """Return those of the names that are in a control which opens no popup."""
    shown: set[str] = set()
    for element in tree.elements if names else ():
        attributes = element.attributes
        if attributes and (element.name in _NAMING or _is_opener(element)):
            named = {name for key, value in attributes.items() for name in _ids_in(key, value)} & names
            if named and not _opens_popup(element):
                shown |= named
    return shown


def _ids_in(key: str, value: str) -> Iterable[str]:
    if key == "aria-controls" or key.startswith("data-"):
        return [part.removeprefix("#") for part in value.split()] if len(value) < _TITLE else ()
    if key == "onclick" or (key == "href" and value.startswith("javascript:")):
        return _QUOTED.findall(value)
    return (value[1:],) if key == "href" and value.startswith("#") else ()


def _opens_popup(control: Element) -> bool:
    attributes = control.attributes
    if attributes.get("aria-haspopup", "false") != "false" or any(attributes.get(key) in _POPUPS for key in _TOGGLES):
        return True
    return any(tag.name in _FURNITURE or tag.get("role") in _ROLES_OF_FURNITURE for tag in control.parents())


def _is_popup(element: Element) -> bool:
    if element.name in _FURNITURE or _POPUP.search(f"{element.get('class')} {element.get('id')}"):
        return True
    return element.get("role") in NOISE_ROLES or "aria-modal" in element.attributes


def _beginning(element: Element) -> str:
    return " ".join(" ".join(text for text, _ in first_texts(element)).split())


def _is_title(element: Element) -> bool:
    """Return whether an element is, or only holds, a heading or a control."""
    if "onclick" in element.attributes:
        return True
    inside = element.elements(NEAR) if element.short_text(_TITLE) is not None else ()
    return any(tag.name in _BEFORE_PANELS or tag.get("role") in ("button", "tab") for tag in (element, *inside))


def _read_titles(controls: Sequence[Element], ids: Mapping[str | None, Element]) -> None:
    """Make text of the controls that are all the words of a title, or that stand before panels of text like others."""
    following: dict[int, Element] = {}  # by the id of an element, the one after it
    for parent in {id(control.parent): control.parent for control in controls}.values():
        following |= {id(tag): after for tag, after in pairwise(parent.tags if parent is not None else ())}
    alike: dict[tuple[object, ...], list[Element]] = defaultdict(list)
    for control in controls:
        if control.name in _TITLED or control.get("role") == "tablist" or not _LETTER.search(_beginning(control)):
            continue
        title = next((parent for parent in control.parents() if parent.name in _TITLED), None)
        panel = following.get(id(control))
        is_opener = not _EXPANDING.isdisjoint(control.attributes)
        if is_opener:
            named = (ids.get(name) for key, value in control.attributes.items() for name in _ids_in(key, value))
            panel = next((element for element in named if element is not None), panel)
        if title is not None:
            if not any(_LETTER.search(text) for text, _ in texts(title.children, is_noise, LOOKED_AT)):
                _make_text(control, "span")  # all the words of the title
        elif control.get("role") == "tab" or _opens_popup(control):
            continue
        elif panel is not None and panel.name in _PANELS and not _is_popup(panel) and not is_menu(panel):
            alike[control.name, classes(control), panel.name, classes(panel), is_opener].append(control)
    openers = [control for key, some in alike.items() if len(some) > 1 or key[-1] for control in some]
    said = Counter(_beginning(control) for control in openers)
    for control in openers:
        if said[_beginning(control)] == 1:  # others say only what they do
            _make_text(control, "p")


def _make_text(control: Element, name: str) -> None:
    control.name = name
    control.attributes = {key: value for key, value in control.attributes.items() if key == "id"}
