"""Find the text of a page that is read alone, and remove the furniture around and within it."""

import re
from collections import Counter, deque
from dataclasses import dataclass
from itertools import takewhile

from indexer.read.html.html_tree import HEADINGS, Element, HtmlTree
from indexer.read.html.names import is_text, kind_named, kind_of
from indexer.read.html.noise import DEEP, LOOKED_AT, classes, holds, is_noise
from indexer.text.cleaning import fold

_MAIN_SHARE = 1 / 3  # of the page's text outside links; a smaller <main> is a bar
_BLOCKS = frozenset(
    "address article aside blockquote body button caption center dd details dialog div dl dt fieldset figcaption "
    "figure footer form h1 h2 h3 h4 h5 h6 header hgroup html iframe label legend li main menu nav noscript ol option "
    "p pre section select summary table tbody td textarea tfoot th thead tr ul".split()
)
_CONTAINERS = frozenset("article center div form main section table tbody td tr".split())
_LINK_BOXES = _CONTAINERS | {"aside", "nav", "ol", "ul"}
_CAPTIONS = HEADINGS | {"div", "figcaption", "figure", "p", "section", "span"}
_NO_TEXT = frozenset("script style template svg head select textarea iframe object".split())
_SENTENCE = 80  # characters of a block that is prose
_LINKED = 0.5  # share of the text of a block inside links above which it is no prose
_MOST = 0.5  # share of the prose of a page above which a box is no furniture
_REST = 0.5  # share of the prose of a page that is not comments
_MENU_LINKS = 3  # links
_ALL_LINKED = 0.8  # of the text of a box
_TEASER_LENGTH = 400  # characters
_TITLE_LENGTH = 20  # characters
_CAPTION_LENGTH = 40  # characters
_RECENT = 12  # blocks
_LEGAL_LENGTH = 1_000  # characters
_BOX_LENGTH = 600  # characters
_SHOWN = frozenset({"pre", "code", "table", "dl", "ul", "ol"})
_FIELDS = frozenset({"input", "textarea", "select"})
_COPYRIGHT = re.compile(r"©|\ball rights reserved\b", re.IGNORECASE)
_ENDS = frozenset("nav footer dialog navigation contentinfo alertdialog".split())  # names and roles


@dataclass(slots=True)
class Size:
    """Characters of text in an element, how many are inside links, and how many are prose."""

    text: int = 0
    linked: int = 0
    prose: int = 0
    own: int = 0  # outside of blocks within it
    own_linked: int = 0
    has_prose: bool = False  # outside of blocks within it
    is_titled: bool = False  # whether it holds a main heading

    @property
    def bare(self) -> int:
        """Return the characters outside of links."""
        return self.text - self.linked


Sizes = dict[int, Size]  # by the id of an element


def measure(root: Element, *, with_noise: bool = True) -> Sizes:
    """Measure an element and all below it."""
    order: list[tuple[Element, Size, Size | None]] = []  # each element with its size, and that of the one around it
    todo: list[tuple[Element, Size | None]] = [(root, None)]
    sizes: Sizes = {}
    while todo:
        element, around = todo.pop()
        size = sizes[id(element)] = Size()
        order.append((element, size, around))
        own = 0
        for node in element.children:
            if isinstance(node, str):
                own += len(node) if len(node) < 3 else len(node.strip())
            elif node.name not in _NO_TEXT and (with_noise or not is_noise(node)):
                todo.append((node, size))
        size.text = size.own = own
    for element, size, around in reversed(order):
        name = element.name
        if name == "a" and "href" in element.attributes:
            size.linked, size.own_linked, size.prose = size.text, size.own, 0
        is_block = name in _BLOCKS
        if is_block and size.own - size.own_linked >= _SENTENCE and size.own_linked <= _LINKED * size.own:
            size.prose += size.own
            size.has_prose = True
        if around is None:
            continue
        if name == "h1" or size.is_titled:
            around.is_titled = True
        if not size.text:
            continue
        around.text += size.text
        around.linked += size.linked
        around.prose += size.prose
        if not is_block:
            around.own += size.own
            around.own_linked += size.own_linked
    return sizes


def main_part(tree: HtmlTree, *, is_article: bool) -> Element:
    """Remove the furniture of a page, and return the element that holds its text.

    Boxes within the text are removed only of a page that declares itself an article: a list of links is the text of
    other pages.
    """
    body = tree.body
    sizes = measure(body)
    unwrap(body, sizes)
    _remove_boxes(body, sizes)
    sizes = measure(body, with_noise=False)
    start = find_container(tree, sizes) or body
    if is_article and _remove_other_articles(start, sizes):
        sizes = measure(body, with_noise=False)
    named = _named_part(start, sizes) if is_article else start
    leads = _leads(named, start, sizes)
    part, core = _trim(named, sizes, is_article)
    if is_article:
        _remove_teasers(core, sizes)
        _remove_repeats(part, sizes)
    part.children[:0] = leads
    return part


def _named_part(start: Element, sizes: Sizes) -> Element:
    """Return the innermost element named as the text of a page; `start` if there is none with enough of it."""
    total = sizes[id(start)]
    named: list[Element] = []
    times = Counter[str]()
    for element in [start, *start.elements()]:
        size = sizes.get(id(element))
        if size is None or not size.prose or element.name not in _BLOCKS:
            continue
        times[element.get("class")] += 1
        is_enough = size.prose >= max(1, 0.5 * total.prose) and size.bare >= 0.3 * total.bare
        if is_enough and is_text(element):
            named.append(element)
    return next((tag for tag in reversed(named) if times[tag.get("class")] == 1 or not tag.get("class")), start)


def _trim(start: Element, sizes: Sizes, is_article: bool) -> tuple[Element, Element]:
    """Remove the furniture around the prose of an element; return two elements within it.

    The first holds all other text, the second most of the prose.
    """
    part = inner = start
    is_alone = True  # whether nothing but furniture stands around `inner`
    while True:
        half = max(1, 0.5 * sizes[id(inner)].prose)
        blocks = [tag for tag in inner.tags if id(tag) in sizes and sizes[id(tag)].text]
        cores = (tag for tag in blocks if tag.name in _CONTAINERS and sizes[id(tag)].prose >= half)
        core = next((tag for tag in cores if not (is_article and _teases(tag))), None)
        if core is None:
            return part, inner
        place = blocks.index(core)
        for box in blocks[:place]:
            _clean_title(box, sizes, is_article=is_article)
        around = blocks[:place] + blocks[place + 1 :]
        gone = {id(tag) for tag in around if _is_furniture(tag, sizes, is_article=is_article)}
        gone |= {id(tag) for tag in blocks[place + 1 :] if _is_legal(tag, sizes)}
        inner.children = [node for node in inner.children if id(node) not in gone]
        is_alone = is_alone and len(gone) == len(blocks) - 1
        inner = core
        if is_alone:
            part = inner


def _is_furniture(element: Element, sizes: Sizes, *, is_article: bool) -> bool:
    """Return whether an element next to the prose of a page leads elsewhere, and does nothing else."""
    size = sizes[id(element)]
    if size.is_titled or element.name in HEADINGS:
        return False
    is_named = not size.prose and kind_of(element)
    is_form = (element.name == "form" or holds(element, ("form",))) and holds(element, _FIELDS)
    if size.text < _BOX_LENGTH and (is_named or is_form) and not holds(element, _SHOWN):
        return True
    if is_article:
        return size.linked > _LINKED * size.text or _teases(element)
    links = sum(tag.name == "a" for tag in element.elements())  # a signature has a few links, to its types
    return size.linked > _ALL_LINKED * size.text and links >= _MENU_LINKS


def _clean_title(box: Element, sizes: Sizes, *, is_article: bool) -> None:
    """Remove the furniture around the main heading in a box."""
    while id(box) in sizes and sizes[id(box)].is_titled:
        blocks = [tag for tag in box.tags if id(tag) in sizes and sizes[id(tag)].text]
        gone = {id(tag) for tag in blocks if _is_furniture(tag, sizes, is_article=is_article)}
        box.children = [node for node in box.children if id(node) not in gone]
        box = next((tag for tag in blocks if sizes[id(tag)].is_titled), box.tags[0])


def _is_legal(element: Element, sizes: Sizes) -> bool:
    """Return whether an element is a notice of copyright."""
    return sizes[id(element)].text < _LEGAL_LENGTH and _COPYRIGHT.search(element.text()) is not None


def _teases(box: Element) -> bool:
    """Return whether a box announces other pages: its headings, or the first words of its items, are links to them."""
    if box.name not in _LINK_BOXES:
        return False
    headings = [tag for tag in box.elements() if tag.name in HEADINGS and not tag.text().isspace()]
    leading = sum(any(map(_leads_elsewhere, (*tag.parents(4), *tag.tags))) for tag in headings)
    if leading >= 2 and leading >= len(headings) - 1:  # the box may have a title
        return box.short_text(_TEASER_LENGTH * leading) is not None
    items = [tag for tag in box.tags if tag.name not in HEADINGS]
    return len(items) >= 3 and all(map(_is_teaser, items)) and len({tag.name for tag in items}) == 1


def _is_teaser(item: Element) -> bool:
    """Return whether an item begins with the title of another page, and says little more."""
    link = next((tag for tag in item.elements() if tag.name == "a" and not tag.text().isspace()), None)
    text = item.short_text(_TEASER_LENGTH)
    if link is None or text is None or not _leads_elsewhere(link) or holds(item, ("pre", "code", "table")):
        return False
    title = link.text().strip()
    return len(title) >= _TITLE_LENGTH and text.strip().startswith(title)


def _leads_elsewhere(element: Element) -> bool:
    return element.name == "a" and element.get("href")[:1] not in ("", "#")


def _remove_other_articles(start: Element, sizes: Sizes) -> bool:
    """Remove further posts from the page of one, which has the main heading; return whether there were any."""
    articles = [tag for tag in start.elements() if tag.name == "article" and id(tag) in sizes]
    titled = [tag for tag in articles if sizes[id(tag)].is_titled and sizes[id(tag)].prose]
    if len(titled) != 1 or len(articles) < 3:
        return False
    kept = {id(tag) for tag in (titled[0], *titled[0].parents(), *titled[0].elements())}
    gone = {id(tag) for tag in articles} - kept
    posts = (tag for tag in articles if id(tag) in gone and not holds(tag, ("article",)))
    if any(sizes[id(tag)].prose > sizes[id(titled[0])].prose for tag in posts):
        return False
    for parent in [tag.parent for tag in articles if id(tag) in gone]:
        if parent is not None:
            parent.children = [node for node in parent.children if id(node) not in gone]
    return bool(gone)


def _remove_teasers(start: Element, sizes: Sizes) -> None:
    """Remove boxes within an article of which nearly all is links, or that announce other pages, but not most of it."""
    half = 0.5 * sizes[id(start)].text
    todo = [start]
    while todo:
        element = todo.pop()
        gone: set[int] = set()
        for node in element.tags:
            size = sizes.get(id(node))
            if size is None or not size.text or node.name not in _LINK_BOXES:
                continue
            if size.text < half and (size.linked > _ALL_LINKED * size.text or _teases(node)):
                gone.add(id(node))
            else:
                todo.append(node)
        element.children = [node for node in element.children if id(node) not in gone]


def _remove_repeats(start: Element, sizes: Sizes) -> None:
    """Remove blocks that repeat one of the last few, such as captions of a gallery for each size of screen."""
    recent = deque[tuple[str, Element | None]](maxlen=_RECENT)
    todo: list[Element] = [start]
    while todo:
        element = todo.pop()
        if element.name == "img":
            text = fold(element.get("alt"))
            if any(text == other for other, _ in recent):
                element.attributes = {}
        elif id(element) not in sizes:
            continue
        elif any(tag.name in _BLOCKS or tag.name == "img" for tag in element.tags) or element.name not in _CAPTIONS:
            todo += reversed(element.tags)
            continue
        else:
            text = fold(element.text())
            is_repeat = any(text == other and parent is not element.parent for other, parent in recent)
            if is_repeat and len(text) >= _CAPTION_LENGTH:
                element.children = []
        recent.append((text, element.parent))


def unwrap(body: Element, sizes: Sizes) -> None:
    """Make plain divisions of elements that look like furniture but hold nearly all of a page."""
    around = body
    for _ in range(DEEP):
        whole = sizes[id(around)]
        for node in around.tags:
            part = sizes.get(id(node))
            if part and (part.prose >= 0.75 * whole.prose if whole.prose else part.text >= 0.95 * whole.text > 0):
                around = node
                break
        else:
            return
        is_end = around.name in _ENDS or around.get("role") in _ENDS
        if (not is_end or part.is_titled) and is_noise(around):
            around.name = "div"
            around.attributes = {"id": around.get("id")}


def _leads(part: Element, start: Element, sizes: Sizes) -> list[Element]:
    """Find the title, code and prose that stand before a part, such as the lead of an article."""
    found: list[Element] = []
    inner = part
    for around in part.parents(3):
        if inner is start or id(around) not in sizes:
            break
        leads: list[Element] = []
        for block in takewhile(lambda node: node is not inner, around.children):  # noqa: B023 - used at once
            for node in [block, *block.elements()] if isinstance(block, Element) and id(block) in sizes else ():
                size = sizes.get(id(node))
                if size is None:
                    continue
                is_prose = size.has_prose and size.own == size.text and not kind_of(node)
                if node.name == "pre" or (not size.linked if node.name == "h1" else is_prose):
                    leads.append(node)
        found[:0] = leads
        inner = around
    return found


def _remove_boxes(start: Element, sizes: Sizes) -> None:
    """Remove boxes whose names say that they are furniture, but none that hold most of the page, alone or together."""
    total = left = sizes[id(start)].bare
    prose = sizes[id(start)].prose
    boxes: list[tuple[Element, Element, str, int]] = []  # what a box is in, the box, its name, its text outside links
    weights = Counter[str]()  # by name
    todo = [start]
    while todo:
        element = todo.pop()
        for node in reversed(element.tags):
            size = sizes.get(id(node)) if node.name not in _NO_TEXT else None
            if size is None:
                continue
            kind = "" if size.is_titled else kind_of(node)
            is_poster = kind == "poster" and (not size.prose or size.text < 200)
            is_furniture = kind == "strong" or is_poster or size.linked > _LINKED * size.text
            if kind == "strong" and prose - size.prose >= _REST * prose and _is_thread(node):
                element.children = [child for child in element.children if child is not node]
            elif kind and is_furniture and total - size.bare >= _MOST * total:
                name = node.get("class") or node.get("id")
                boxes.append((element, node, name, size.bare))
                weights[name] += size.bare
            else:
                todo.append(node)
    gone: dict[int, Element] = {}  # by the id of a box, what it is in
    for parent, box, name, weight in boxes:
        if total - weights[name] >= _MOST * total and left - weight >= _MOST * total:
            gone[id(box)] = parent
            left -= weight
    for parent in {id(parent): parent for parent in gone.values()}.values():
        parent.children = [node for node in parent.children if id(node) not in gone]


def _inner(part: Element, sizes: Sizes) -> Element | None:
    """Return the element that holds nearly all of a part."""
    whole = sizes[id(part)]
    for node in part.tags:
        inner = sizes.get(id(node)) if node.name in _CONTAINERS else None
        if inner is not None and inner.prose and inner.prose >= 0.85 * whole.prose:
            return node if inner.bare >= 0.75 * whole.bare else None
    return None


def _is_thread(box: Element) -> bool:
    """Return whether a box begins with a heading of its own, below which several items have one form."""
    inside = [tag for tag in box.elements(LOOKED_AT) if tag.name in HEADINGS or classes(tag)]
    forms = Counter((tag.name, tag.get("class")) for tag in inside if kind_named(tag.get("class")))
    return bool(inside) and inside[0].name in HEADINGS and max(forms.values(), default=0) > 1


def layout_cell(tree: HtmlTree) -> Element | None:
    """Return the cell that holds the text of a page laid out as a table with menus around it."""
    first = tree.first("p") or tree.first("br")
    if first is None or all(around.name != "td" for around in first.parents(12)):
        return None
    part: Element | None = tree.body
    cell, sizes = None, measure(tree.body)
    while part is not None:
        cell = part if part.name == "td" else cell
        part = _inner(part, sizes)
    return cell


def find_container(tree: HtmlTree, sizes: Sizes | None = None) -> Element | None:
    """Return the element that holds the page's own text: of a kind that occurs once, and with enough of the prose."""
    found = {"main": tree.named("main"), "role": [], "article": tree.named("article"), "id": []}
    for element in tree.elements:
        attributes = element.attributes
        if "role" in attributes and attributes["role"] == "main":
            found["role"].append(element)
        if "id" in attributes and attributes["id"] in ("main-content", "content"):
            found["id"].append(element)
    unique = {kind: elements[0] for kind, elements in found.items() if len(elements) == 1}
    if sizes is None:
        return next(iter(unique.values()), None)
    prose = max(size.prose for size in sizes.values())
    bare = max(size.bare for size in sizes.values())
    for kind, element in unique.items():
        size = sizes.get(id(element))
        is_marked = kind in ("main", "role")
        if size is not None and (size.bare >= _MAIN_SHARE * bare if is_marked else size.prose >= 0.5 * prose):
            return element
    return None
