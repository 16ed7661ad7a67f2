"""Find the main text of a page whose site has no known template, and remove boilerplate around and within the text."""

import re
from collections import Counter
from dataclasses import dataclass
from itertools import takewhile

from indexer.read.html.class_names import is_text, kind_named, kind_of
from indexer.read.html.html_tree import HEADINGS, MAX_NODES, MAX_SEARCH_DEPTH, Element, HtmlTree
from indexer.read.html.noise import FIELDS, is_noise
from indexer.text.cleaning import fold

_MIN_MAIN_SHARE = 1 / 3
_BLOCKS = frozenset(
    "address article aside blockquote body button caption center dd details dialog div dl dt fieldset figcaption "
    "figure footer form h1 h2 h3 h4 h5 h6 header hgroup html iframe label legend li main menu nav noscript ol option "
    "p pre section select summary table tbody td textarea tfoot th thead tr ul".split()
)
_CONTAINERS = frozenset("article center div form main section table tbody td tr".split())
_LINK_BOXES = _CONTAINERS | {"aside", "nav", "ol", "ul"}
_TABLE_PARTS = frozenset("tbody td tr".split())
_CAPTIONS = HEADINGS | {"div", "figcaption", "figure", "p", "section", "span"}
_VALUES = frozenset("td th li dd dt".split())
_NO_TEXT = frozenset("script style template svg head select textarea iframe object".split())
_MIN_PROSE_CHARS = 80
_MAX_LINK_SHARE = 0.5
_MIN_REMAINING_SHARE = 0.5
_MIN_TITLED_SHARE = 0.75
_MIN_POST_CHARS = 300
_MIN_MENU_LINKS = 3
_LINK_BOX_SHARE = 0.8
_MAX_TEASER_CHARS = 400
_MIN_TITLE_CHARS = 20
_MIN_CAPTION_CHARS = 40
_MAX_LEGAL_CHARS = 1_000
_MAX_BOX_CHARS = 600
_CONTENT = frozenset({"pre", "code", "table", "dl", "ul", "ol"})
_COPYRIGHT = re.compile(r"©|\ball rights reserved\b", re.IGNORECASE)
_PAGE_ENDS = frozenset("nav footer dialog navigation contentinfo alertdialog".split())


@dataclass(slots=True)
class Size:
    """Numbers of characters in an element: all text, linked text and prose.

    Prose is the text of blocks that have at least 80 characters outside links, and at most half of their text in links.
    `direct`, `direct_linked` and `has_prose` ignore the text of nested blocks.
    """

    text: int = 0
    linked: int = 0
    prose: int = 0
    direct: int = 0
    direct_linked: int = 0
    has_prose: bool = False
    has_h1: bool = False

    @property
    def bare(self) -> int:
        """Return the number of characters outside links."""
        return self.text - self.linked


Sizes = dict[int, Size]  # keys are Python ids of elements


def measure(root: Element, *, with_noise: bool = True) -> Sizes:
    """Return the size of an element and of each descendant. If `with_noise` is false, skip navigation and controls."""
    order: list[tuple[Element, Size, Size | None]] = []
    todo: list[tuple[Element, Size | None]] = [(root, None)]
    sizes: Sizes = {}
    while todo:
        element, size_around = todo.pop()
        size = sizes[id(element)] = Size()
        order.append((element, size, size_around))
        direct = 0
        for node in element.children:
            if isinstance(node, str):
                direct += len(node) if len(node) < 3 else len(node.strip())
            elif node.name not in _NO_TEXT and (with_noise or not is_noise(node)):
                todo.append((node, size))
        size.text = size.direct = direct
    for element, size, around in reversed(order):
        name = element.name
        if name == "a" and "href" in element.attributes:
            size.linked, size.direct_linked, size.prose = size.text, size.direct, 0
        is_block = name in _BLOCKS
        is_long = size.direct - size.direct_linked >= _MIN_PROSE_CHARS
        if is_block and is_long and size.direct_linked <= _MAX_LINK_SHARE * size.direct:
            size.prose += size.direct
            size.has_prose = True
        if around is None:
            continue
        if name == "h1" or size.has_h1:
            around.has_h1 = True
        if not size.text:
            continue
        around.text += size.text
        around.linked += size.linked
        around.prose += size.prose
        if not is_block:
            around.direct += size.direct
            around.direct_linked += size.direct_linked
    return sizes


def main_part(tree: HtmlTree, *, is_article: bool) -> Element:
    """Remove the boilerplate of a page, and return the element that contains the main text.

    Boxes of links within the main text are removed only if `is_article`, because other pages may consist of links.
    """
    body = tree.body
    sizes = measure(body)
    unwrap(body, sizes)
    _remove_boxes(body, sizes, is_article=is_article)
    sizes = measure(body, with_noise=False)
    start = find_container(tree, sizes) or body
    if is_article and _remove_other_articles(start, sizes):
        sizes = measure(body, with_noise=False)
    text_element = _named_element(start, sizes) if is_article else start
    leads = _find_leads(text_element, start, sizes)
    outer, core = _trim(text_element, sizes, is_article)
    if is_article:
        _remove_teasers(core, sizes)
        _mark_decoration(outer, sizes)
        _remove_repeats(outer, sizes)
    outer.fill([*leads, *outer.children])
    return outer


def _named_element(start: Element, sizes: Sizes) -> Element:
    """Return the innermost element with most of the text and a class or id such as "post-body", or else `start`."""
    total = sizes[id(start)]
    text_elements: list[Element] = []
    times = Counter[str]()
    for element in [start, *start.elements()]:
        size = sizes.get(id(element))
        if size is None or not size.prose or element.name not in _BLOCKS:
            continue
        times[element.get("class")] += 1
        if size.prose >= 0.5 * total.prose and is_text(element):
            text_elements.append(element)
    return next((tag for tag in reversed(text_elements) if times[tag.get("class")] == 1 or not tag.get("class")), start)


def _trim(start: Element, sizes: Sizes, is_article: bool) -> tuple[Element, Element]:
    """Remove the boilerplate around the prose of an element.

    Returns: (an element with all remaining text, the innermost element with most of the prose).
    """
    outer = inner = start
    only_boilerplate_around = True
    while True:
        blocks = [tag for tag in inner.tags if id(tag) in sizes and sizes[id(tag)].text]
        texts = [tag for tag in blocks if not (is_article and _is_teaser_box(tag, sizes))]
        total, prose = sizes[id(inner)].prose, sum(sizes[id(tag)].prose for tag in texts)
        half = max(1, 0.5 * (prose if prose >= _MIN_MAIN_SHARE * total else total))
        core = next((tag for tag in texts if tag.name in _CONTAINERS and sizes[id(tag)].prose >= half), None)
        if core is None:
            classes = {tag.get("class") for tag in blocks if sizes[id(tag)].prose} - {""}
            # keep a short box with the same class as a box of prose, because it may be a short post in a thread
            boxes = [tag for tag in blocks if tag.name in _CONTAINERS and tag.get("class") not in classes]
            boxes = [tag for tag in boxes if _is_short_box(tag, sizes, is_article=True)]
            if is_article and sum(sizes[id(tag)].text for tag in boxes) < 0.5 * sizes[id(inner)].text:
                inner.remove(set(map(id, boxes)))
            return outer, inner
        place = blocks.index(core)
        for box in blocks[:place]:
            _clean_title(box, sizes, is_article=is_article)
        around = blocks[:place] + blocks[place + 1 :]
        removed = {id(tag) for tag in around if _is_boilerplate(tag, sizes, is_article=is_article)}
        removed |= {id(tag) for tag in blocks[place + 1 :] if _is_legal(tag, sizes)}
        inner.remove(removed)
        only_boilerplate_around = only_boilerplate_around and len(removed) == len(blocks) - 1
        inner = core
        size = sizes[id(core)]
        has_title = is_article and size.has_h1 and size.bare >= _MIN_TITLED_SHARE * sizes[id(start)].bare
        if only_boilerplate_around or has_title:
            outer = inner


def _is_boilerplate(element: Element, sizes: Sizes, *, is_article: bool) -> bool:
    """Return whether an element next to the prose is a menu, a form, or a box of links."""
    size = sizes[id(element)]
    if element.name in HEADINGS or (size.has_h1 and not (is_article and _is_teaser_box(element, sizes))):
        return False
    if _is_short_box(element, sizes, is_article=is_article):
        return True
    if is_article:
        return size.linked > _MAX_LINK_SHARE * size.text or _is_teaser_box(element, sizes)
    links = sum(tag.name == "a" for tag in element.elements())  # few in a function signature, many in a menu
    return size.linked > _LINK_BOX_SHARE * size.text and links >= _MIN_MENU_LINKS


def _is_short_box(element: Element, sizes: Sizes, *, is_article: bool) -> bool:
    """Return whether an element is short, has a form or a class of boilerplate, and has no code, list or table."""
    size = sizes[id(element)]
    kind = "" if size.prose else kind_of(element)
    is_named = kind if is_article or size.linked else kind == "strong"  # a weak class such as "date" may belong to text
    is_form = (element.name == "form" or element.contains(("form",))) and element.contains(FIELDS)
    is_short = size.text < _MAX_BOX_CHARS and not size.has_h1
    return is_short and bool(is_named or is_form) and not element.contains(_CONTENT)


def _clean_title(box: Element | None, sizes: Sizes, *, is_article: bool) -> None:
    """Remove the boilerplate around the <h1> in a box, such as a date."""
    while box is not None and id(box) in sizes and sizes[id(box)].has_h1:
        blocks = [tag for tag in box.tags if id(tag) in sizes and sizes[id(tag)].text]
        removed = {id(tag) for tag in blocks if _is_boilerplate(tag, sizes, is_article=is_article)}
        box.remove(removed)
        box = next((tag for tag in blocks if sizes[id(tag)].has_h1), None)


def _is_legal(element: Element, sizes: Sizes) -> bool:
    """Return whether an element is a short copyright notice."""
    return sizes[id(element)].text < _MAX_LEGAL_CHARS and _COPYRIGHT.search(element.text()) is not None


def _is_teaser_box(box: Element, sizes: Sizes) -> bool:
    """Return whether a box is a list of teasers: its headings or its items begin with links to other pages."""
    if box.name not in _LINK_BOXES or not sizes[id(box)].linked:
        return False
    headings = [tag for tag in box.elements() if tag.name in HEADINGS and not tag.text().isspace()]
    leading = sum(any(map(_leads_elsewhere, (*tag.parents(4), *tag.tags))) for tag in headings)
    if leading >= 2 and leading >= len(headings) - 1:  # one heading may be the title of the box
        return sizes[id(box)].text <= _MAX_TEASER_CHARS * leading
    items = [tag for tag in box.tags if tag.name not in HEADINGS]
    return len(items) >= 3 and all(map(_is_teaser, items)) and len({tag.name for tag in items}) == 1


def _is_teaser(item: Element) -> bool:
    """Return whether an item begins with a linked title and has only a few other words."""
    link = next((tag for tag in item.elements() if tag.name == "a" and not tag.text().isspace()), None)
    text = item.short_text(_MAX_TEASER_CHARS)
    if link is None or text is None or not _leads_elsewhere(link) or item.contains(("pre", "code", "table")):
        return False
    title = link.text().strip()
    return len(title) >= _MIN_TITLE_CHARS and text.strip().startswith(title)


def _is_linked_title(line: Element, size: Size) -> bool:
    is_title = line.name == "p" and size.text >= _MIN_TITLE_CHARS and size.linked > _LINK_BOX_SHARE * size.text
    return is_title and any(map(_leads_elsewhere, line.elements()))


def _leads_elsewhere(element: Element) -> bool:
    return element.name == "a" and element.get("href")[:1] not in ("", "#")


def _remove_other_articles(start: Element, sizes: Sizes) -> bool:
    """Remove all <article> elements except the one with the <h1>. Return whether any were removed."""
    articles = [tag for tag in start.elements() if tag.name == "article" and id(tag) in sizes]
    titled = [tag for tag in articles if sizes[id(tag)].has_h1 and sizes[id(tag)].prose]
    if len(titled) != 1 or len(articles) < 3:
        return False
    ids_of_post = {id(tag) for tag in (titled[0], *titled[0].parents(), *titled[0].elements())}
    removed = {id(tag) for tag in articles} - ids_of_post
    posts = (tag for tag in articles if id(tag) in removed and not tag.contains(("article",)))
    if any(sizes[id(tag)].prose > sizes[id(titled[0])].prose for tag in posts):
        return False
    for parent in [tag.parent for tag in articles if id(tag) in removed]:
        if parent is not None:
            parent.remove(removed)
    return bool(removed)


def _remove_teasers(start: Element, sizes: Sizes) -> None:
    """Remove boxes of links and teasers from an article, unless they contain most of its text."""
    limit = (1 - _MIN_MAIN_SHARE) * sizes[id(start)].text
    todo = [start]
    while todo:
        element = todo.pop()
        removed: set[int] = set()
        for node in element.tags:
            size = sizes.get(id(node))
            if size is None or not size.text or not (node.name in _LINK_BOXES or _is_linked_title(node, size)):
                continue
            is_box = node.name not in _TABLE_PARTS and size.text < limit
            if is_box and (size.linked > _LINK_BOX_SHARE * size.text or _is_teaser_box(node, sizes)):
                removed.add(id(node))
            else:
                todo.append(node)
        element.remove(removed)


def _remove_repeats(start: Element, sizes: Sizes) -> None:
    """Remove each caption or paragraph that repeats one in another element, such as a copy for small screens."""
    parents: dict[str, Element | None] = {}
    todo: list[Element] = [start]
    while todo:
        element = todo.pop()
        if id(element) not in sizes:
            continue
        if any(tag.name in _BLOCKS for tag in element.tags) or element.name not in _CAPTIONS:
            todo += reversed(element.tags)
            continue
        text = fold(element.text())
        if len(text) >= _MIN_CAPTION_CHARS and parents.setdefault(text, element.parent) is not element.parent:
            element.fill([])


def _mark_decoration(start: Element, sizes: Sizes) -> None:
    """Mark images in blocks without text as decoration, except in cells and list items, where they may be values."""
    for image in [tag for tag in start.elements() if tag.name == "img"]:
        block = next((tag for tag in image.parents(6) if tag.name in _BLOCKS), None)
        if block is not None and id(block) in sizes and block.name not in _VALUES and not sizes[id(block)].direct:
            image.attributes = {**image.attributes, "role": "none"}


def unwrap(body: Element, sizes: Sizes) -> None:
    """Rename elements to <div> if they look like boilerplate, but contain nearly all text of the page."""
    around = body
    for _ in range(MAX_SEARCH_DEPTH):
        total = sizes[id(around)]
        for node in around.tags:
            size = sizes.get(id(node))
            is_main = size and (size.bare >= 0.75 * total.bare if total.prose else size.text >= 0.95 * total.text > 0)
            if size and is_main and size.prose >= 0.75 * total.prose:
                around = node
                break
        else:
            return
        is_end = around.name in _PAGE_ENDS or around.get("role") in _PAGE_ENDS
        if (not is_end or size.has_h1) and is_noise(around):
            around.name = "div"
            around.attributes = {"id": around.get("id")}


def _find_leads(text_element: Element, start: Element, sizes: Sizes) -> list[Element]:
    """Return the elements before `text_element` that are a title, code or prose, such as an article's introduction."""
    all_leads: list[Element] = []
    inner = text_element
    for around in text_element.parents(3):
        if inner is start or id(around) not in sizes:
            break
        leads: list[Element] = []
        for block in takewhile(lambda node: node is not inner, around.children):  # noqa: B023 - called in this iteration
            for node in [block, *block.elements()] if isinstance(block, Element) and id(block) in sizes else ():
                size = sizes.get(id(node))
                if size is None:
                    continue
                is_prose = size.has_prose and size.direct == size.text and not kind_of(node)
                if node.name == "pre" or (not size.linked if node.name == "h1" else is_prose):
                    leads.append(node)
        all_leads[:0] = leads
        inner = around
    return all_leads


def _remove_boxes(start: Element, sizes: Sizes, *, is_article: bool) -> None:
    """Remove boxes with class names of boilerplate, as long as half of the page's text remains."""
    total = remaining = sizes[id(start)].bare
    prose = sizes[id(start)].prose
    min_rest = _MIN_POST_CHARS if is_article else _MIN_REMAINING_SHARE * prose
    boxes: list[tuple[Element, Element, int]] = []
    todo = [start]
    while todo:
        element = todo.pop()
        for node in reversed(element.tags):
            size = sizes.get(id(node)) if node.name not in _NO_TEXT else None
            if size is None:
                continue
            kind = "" if size.has_h1 else kind_of(node)
            is_poster = kind == "poster" and (not size.prose or size.text < 200)
            is_boilerplate = kind == "strong" or is_poster or size.linked > _MAX_LINK_SHARE * size.text
            if kind == "strong" and prose - size.prose >= min_rest and _is_thread(node):
                element.remove({id(node)})
            elif kind and is_boilerplate and total - size.bare >= _MIN_REMAINING_SHARE * total:
                boxes.append((element, node, size.bare))
            else:
                todo.append(node)
    parents_of_removed: dict[int, Element] = {}
    for parent, box, chars in boxes:
        if remaining - chars >= _MIN_REMAINING_SHARE * total:
            parents_of_removed[id(box)] = parent
            remaining -= chars
    for parent in {id(parent): parent for parent in parents_of_removed.values()}.values():
        parent.remove(parents_of_removed)


def _child_with_prose(element: Element, sizes: Sizes) -> Element | None:
    """Return the child that contains nearly all prose of an element, or None if no child does."""
    total = sizes[id(element)]
    for node in element.tags:
        inner = sizes.get(id(node)) if node.name in _CONTAINERS else None
        if inner is not None and inner.prose and inner.prose >= 0.85 * total.prose:
            return node if inner.bare >= 0.75 * total.bare else None
    return None


def _is_thread(box: Element) -> bool:
    """Return whether a box has a heading and then a series, such as comments or linked titles of related articles."""
    inside = [tag for tag in box.elements(MAX_NODES) if tag.name in HEADINGS or tag.classes]
    if not inside or inside[0].name not in HEADINGS:
        return False
    forms = Counter((tag.name, tag.get("class")) for tag in inside if kind_named(tag.get("class")))
    titles = {tag.get("href") for tag in box.elements(MAX_NODES) if _leads_elsewhere(tag) and _is_title(tag)}
    return max(forms.values(), default=0) > 1 or len(titles) >= _MIN_MENU_LINKS


def _is_title(link: Element) -> bool:
    """Return whether a link is the whole text of its parent, and is long enough to be a title."""
    line = link.parent.short_text(_MAX_TEASER_CHARS) if link.parent is not None else None
    text = fold(link.text())
    return len(text) >= _MIN_TITLE_CHARS and line is not None and fold(line) == text


def layout_cell(tree: HtmlTree) -> Element | None:
    """Return the table cell with the main text of a page that is laid out by tables, or None for other pages."""
    first = tree.first("p") or tree.first("br")
    if first is None or all(around.name != "td" for around in first.parents(12)):
        return None
    element: Element | None = tree.body
    cell, sizes = None, measure(tree.body)
    while element is not None:
        cell = element if element.name == "td" else cell
        element = _child_with_prose(element, sizes)
    return cell


def find_container(tree: HtmlTree, sizes: Sizes | None = None) -> Element | None:
    """Return the only <main>, <article> or similar element of a page. Return None if it is missing or too short."""
    candidates = {"main": tree.find_all("main"), "role": [], "article": tree.find_all("article"), "id": []}
    for element in tree.elements:
        attributes = element.attributes
        if "role" in attributes and attributes["role"] == "main":
            candidates["role"].append(element)
        if "id" in attributes and attributes["id"] in ("main-content", "content"):
            candidates["id"].append(element)
    unique = {kind: _with_title(elements[0]) for kind, elements in candidates.items() if len(elements) == 1}
    if sizes is None:
        return next(iter(unique.values()), None)
    prose = max(size.prose for size in sizes.values())
    bare = max(size.bare for size in sizes.values())
    for kind, element in unique.items():
        size = sizes.get(id(element))
        is_marked = kind in ("main", "role")
        if size is not None and (size.bare >= _MIN_MAIN_SHARE * bare if is_marked else size.prose >= 0.5 * prose):
            return element
    return None


def _with_title(element: Element) -> Element:
    """Return the element, or its parent if the title and the first section of the page precede the element."""
    parent = element.parent
    if element.name in ("main", "article") or parent is None or element.contains(("h1",)):
        return element
    for sibling in takewhile(lambda tag: tag is not element, parent.tags):
        names = [tag.name for tag in sibling.elements(MAX_NODES) if tag.name in ("h1", "h2", "p")]
        if not is_noise(sibling) and names[:3] == ["h1", "h2", "p"]:
            return parent
    return element
