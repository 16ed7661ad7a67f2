"""Tell which elements of a page are not its text. All looks into an element end after a few hundred nodes."""

import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter

from indexer.read.html.html_tree import HEADINGS, Element, HtmlTree
from indexer.text.cleaning import fold

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
_OPERATOR = re.compile(r"\s*(?:\(|#[^\s#])")  # the name of a method, not a sign to click on
_PERMALINKS = frozenset("¶ # § 🔗".split())
_JUDGED = frozenset({"a", "ul", "ol", "header", "aside", "form", "label", "summary"})  # by what is in or around them
MAY_BE_NOISE = _NEVER | _JUDGED  # names of elements without attributes that may be noise
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
_NAMING_LINES = _TITLES | {"td", "th"}
_FLOW_LINES = frozenset({"p", "li", "dd"})
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
    return is_open and _is_brief(tag) and not holds(tag, HEADINGS | _CODE | {"div", "p", "a"})


def _is_brief(tag: Element) -> bool:
    return len((tag.short_text(_BUTTON) or "").split()) in (1, 2, 3)


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
    """Return whether an aside stands among text and says something, other than where to go or what to fill in."""
    is_note = "epub:type" in tag.attributes or tag.get("role").startswith("doc-")
    if tag.parent is not None:  # a callout between paragraphs
        is_note = is_note or sum(sibling.name == "p" for sibling in tag.parent.tags[:LOOKED_AT]) > 1
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
    if sign is None or _WORD.search(sign) or _OPERATOR.match(sign):
        return False
    return sign.strip() in _PERMALINKS or (link.get("href").startswith("#") and not holds(link, _CODE))


def _is_control(link: Element) -> bool:
    """Return whether a link is a sign or a button, or leads to the pages around."""
    attributes = link.attributes
    if "href" not in attributes:
        return "onclick" in attributes and not _is_in_sentence(link)
    href = attributes["href"]
    if href.startswith("javascript:"):
        return not (_is_in_sentence(link) or _is_alone(link))
    if href == "#" and "onclick" in attributes:
        return not _is_in_sentence(link)
    return is_permalink(link)


def _is_alone(link: Element) -> bool:
    """Return whether a link is all that a line says, and the line says more than a button, or names something."""
    line = link
    for parent in link.parents(3):
        if any(node is not line and not (isinstance(node, str) and node.isspace()) for node in parent.children):
            return False
        line = parent
        if line.name not in _IN_LINES:
            break
    return line.name in _NAMING_LINES or (line.name in _FLOW_LINES and len(_WORD.findall(link.text())) > 3)


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
        words = [place for place, node in enumerate(children) if not _is_beside(node)] or [0]
        return children[words[0] : words[-1] + 1]
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


def _is_beside(tag: Element | str) -> bool:
    """Return whether a node at an end of a title is a link in brackets, such as "[edit]", or white space."""
    if isinstance(tag, str):
        return tag.isspace()
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


POPUP = re.compile(
    r"(?:^|[\s_-])(?:modal|dialog|popup|popover|tooltip|dropdown-menu|submenu|lightbox|overlay|offcanvas|toast|cookies?|"
    r"consent|spinner|loader|loading|error|success|invalid)(?:[\s_-]|$)",
    re.IGNORECASE,
)
_TITLE_ENDS = re.compile(r"\A[\W_]++|(?<![\W_])[\W_]++\Z")
_TITLE = 200  # characters of what stands at an end of a page, apart from its text
_RELATIONS = frozenset("next prev previous up top start first last contents toc index glossary".split())  # of links
_LINKS_AT_ENDS = 6  # looked at, to see whether the same lead elsewhere at both ends of a page
_BETWEEN = re.compile(r"[\s|·•,;/\[\]«»←→–-]+(?!>)")  # links of a bar
_BAR_LENGTH = 300  # characters
_NO_BARS = _TITLES | {"body", "code", "pre", "form"}
_FILLED = frozenset({"div", "ul", "ol", "table"})  # by a script, where they have an id and no content
_FOOTER_LENGTH = 400  # characters
_FOOTER = re.compile(r"(?:^|[\s_-])footer(?:[\s_-]|$)")  # in a name
_IN_FOOTERS = frozenset({"address", "small", "font"})  # elements that may be a footer without saying so


def drop_furniture(tree: HtmlTree) -> None:
    """Empty what is furniture by its place or its neighbours: bars of links, the last line, messages of controls."""
    _drop_bars(tree)
    for element in tree.elements:
        attributes = element.attributes
        if not attributes and element.name not in _IN_FOOTERS:
            continue
        is_footer, is_popup = _kinds_named(attributes["class"]) if "class" in attributes else (False, False)
        is_footer = is_footer or ("id" in attributes and attributes["id"] == "footer")
        if is_footer or element.name in _IN_FOOTERS:
            length = _FOOTER_LENGTH if is_footer else _TITLE
            is_furniture = element.short_text(length) is not None and _ends_page(element)
        elif "aria-live" in attributes or ("role" in attributes and attributes["role"] == "status"):
            is_furniture = _is_brief(element)
        else:
            is_furniture = is_popup and bool(element.children) and _is_beside_icon(element)
        if is_furniture:
            element.children = []
        elif not element.children and element.name in _FILLED and "id" in attributes and element.parent is not None:
            for state in _states_beside(element, element.parent.tags):
                state.children = []


@lru_cache(maxsize=4_096)
def _kinds_named(names: str) -> tuple[bool, bool]:
    """Return whether names are those of a footer, and those of a popup."""
    return _FOOTER.search(names) is not None, POPUP.search(names) is not None


def _drop_bars(tree: HtmlTree) -> None:
    """Empty short lines of links of which several are marked as navigation, or which stand at both ends of the page."""
    links = [tag for tag in tree.named("a") if "href" in tag.attributes and tag.depth < DEEP]
    marked = {link.get("href") for link in (*tree.named("link"), *links) if _is_relation(link)} - {""}
    first, last = links[:_LINKS_AT_ENDS], links[-_LINKS_AT_ENDS:]
    twice = {link.get("href") for link in first} & {link.get("href") for link in last}
    leading = [link for link in links if link.get("href") in marked] if marked else []
    leading += [link for link in (*first, *last) if link.get("href") in twice] if len(twice) > 1 else []
    around = {id(link.parent): link for link in leading}.values()
    bars: dict[int, Element] = {}  # by id
    larger = set[int]()  # ids of elements around one that is no bar
    shared = {id(tag): tag for link in around for tag in link.parents(6) if len(tag.children) > 1}
    for tag in sorted(shared.values(), key=attrgetter("depth"), reverse=True):
        if id(tag) not in larger and _is_bar(tag):
            bars[id(tag)] = tag
        else:
            larger.update(map(id, tag.parents(6)))
    bars = {key: bar for key, bar in bars.items() if bars.keys().isdisjoint(map(id, bar.parents(6)))}
    targets = {key: {tag.get("href") for tag in bar.elements() if tag.name == "a"} for key, bar in bars.items()}
    targets = {key: hrefs for key, hrefs in targets.items() if len(hrefs) > 1}
    for key, hrefs in targets.items():
        others = (targets[other] for other in targets if other != key)
        if len(hrefs & marked) > 1 or _is_repeated(bars[key], hrefs, others):
            bars[key].children = []


def _is_repeated(bar: Element, targets: Collection[str], others: Iterable[Collection[str]]) -> bool:
    """Return whether a bar has only links, of which another bar has most too."""
    pages = {target for target in targets if not target.startswith("#")}
    repeats = max((len(pages.intersection(other)) for other in others), default=0)
    if repeats < 2 or 2 * repeats < len(pages):
        return False
    return not any(_BETWEEN.sub("", text) for text, is_link in first_texts(bar) if not is_link)


def _is_relation(link: Element) -> bool:
    attributes = link.attributes
    return "accesskey" in attributes or ("rel" in attributes and not _RELATIONS.isdisjoint(attributes["rel"].split()))


def _is_bar(tag: Element) -> bool:
    """Return whether a short element has nothing but links, and a word at most before each."""
    if tag.name in _NO_BARS:
        return False
    length, word_count, link_count = 0, 0, 0
    todo = [(node, False) for node in tag.children]
    for _ in range(LOOKED_AT):
        if not todo:
            return word_count <= link_count
        node, is_link = todo.pop()
        if isinstance(node, str):
            length += len(node.strip())
            word_count += 0 if is_link else len(_WORD.findall(node))
            if length > _BAR_LENGTH:
                return False
        elif node.name in _NO_BARS:
            return False
        elif node.name not in ("script", "style", "template"):
            link_count += node.name == "a"
            todo += [(child, is_link or node.name == "a") for child in node.children]
    return False


def _ends_page(tag: Element) -> bool:
    """Return whether no words follow an element, and it stands outside of the main part."""
    for around in (tag, *tag.parents()):
        parent = around.parent
        if around.name in ("main", "article", "section", "td", "li"):
            return False
        siblings = parent.children if parent is not None else []
        for node in reversed(siblings):
            if node is around:
                break
            if _LETTER.search(node if isinstance(node, str) else node.text()):
                return False
    return True


def _is_beside_icon(tag: Element) -> bool:
    """Return whether an element is a few words that begin with, or stand after, an element without any."""
    if tag.short_text(_LABEL) is None or holds(tag, ("a", *_PAGE_PARTS)) or tag.parent is None:
        return False
    before = next((other for other, node in pairwise(tag.parent.tags) if node is tag), None)
    first = next((node for node in tag.children if not isinstance(node, str) or not node.isspace()), None)
    return any(isinstance(node, Element) and not node.text().strip() for node in (before, first))


def _states_beside(place: Element, siblings: Sequence[Element]) -> list[Element]:
    """Return the siblings of an empty element of which a script shows one: with ids, like each other, of few words."""
    others = [tag for tag in siblings if tag is not place]
    alike = len({(tag.name, classes(tag)) for tag in others}) == 1 and all("id" in tag.attributes for tag in others)
    is_state = alike and len(others) in (2, 3, 4) and all(map(_is_brief, others))
    return others if is_state and not any(holds(tag, ("a",)) for tag in others) else []


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
