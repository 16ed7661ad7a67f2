"""Remove boilerplate that is recognised by its position or neighbours: link bars, footers and status messages."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from operator import attrgetter

from indexer.read.html.html_tree import MAX_NODES, MAX_SEARCH_DEPTH, Element, HtmlTree
from indexer.read.html.noise import INLINE, LETTER, MAX_LABEL_CHARS, PAGE_ELEMENTS, PERMALINKS, TITLES, WORD, is_brief
from indexer.text.cleaning import fold

POPUP = re.compile(
    r"(?:^|[\s_-])(?:modal|dialog|popup|popover|tooltip|dropdown-menu|submenu|lightbox|overlay|offcanvas|toast|cookies?|"
    r"consent|spinner|loader|loading|error|success|invalid)(?:[\s_-]|$)",
    re.IGNORECASE,
)
_TITLE_ENDS = re.compile(r"\A[\W_]++|(?<![\W_])[\W_]++\Z")
_MAX_SMALL_PRINT_CHARS = 200
_RELATIONS = frozenset("next prev previous up top start first last contents toc index glossary".split())
_MAX_BAR_CHARS = 300
_NO_BARS = TITLES | {"body", "code", "pre", "form"}
_TABLE_PARTS = frozenset("table tbody tr td th".split())
_PLACEHOLDERS = frozenset({"div", "ul", "ol", "table"})
_MAX_CONTROL_CHARS = 20
_MIN_TARGETS = 3
_MAX_FOOTER_CHARS = 400
_FOOTER = re.compile(r"(?:^|[\s_-])footer(?:[\s_-]|$)")
_FOOTER_ELEMENTS = frozenset({"address", "small", "font"})


def drop_boilerplate(tree: HtmlTree) -> None:
    """Remove the content of link bars, footers and status messages, and repeated links at line ends."""
    links = [tag for tag in tree.find_all("a") if "href" in tag.attributes and tag.depth < MAX_SEARCH_DEPTH]
    _drop_bars(tree, links)
    _drop_last_links(links)
    for element in tree.elements:
        attributes = element.attributes
        if not attributes and element.name not in _FOOTER_ELEMENTS:
            continue
        is_footer, is_popup = _kinds_named(attributes["class"]) if "class" in attributes else (False, False)
        is_footer = is_footer or ("id" in attributes and attributes["id"] == "footer")
        if is_footer or element.name in _FOOTER_ELEMENTS:
            length = _MAX_FOOTER_CHARS if is_footer else _MAX_SMALL_PRINT_CHARS
            is_boilerplate = element.short_text(length) is not None and _ends_page(element)
        else:
            is_boilerplate = is_popup and bool(element.children) and _is_state_message(element)
        if is_boilerplate:
            element.fill([])
        elif not element.children and element.name in _PLACEHOLDERS and "id" in attributes:
            for state in _hidden_states(element):
                state.fill([])


@lru_cache(maxsize=4_096)
def _kinds_named(names: str) -> tuple[bool, bool]:
    """Return `(is_footer, is_popup)`: whether class names say that an element is a footer or a popup."""
    return _FOOTER.search(names) is not None, POPUP.search(names) is not None


def _drop_last_links(links: Iterable[Element]) -> None:
    """Remove links such as "source" if the same text links to different pages at the end of three or more lines."""
    by_text: dict[str, list[Element]] = defaultdict(list)
    for link in links:
        text = link.short_text(_MAX_CONTROL_CHARS)
        if text and not link.get("href").startswith("#"):
            by_text[fold(text)].append(link)
    for text, group in by_text.items():
        last = [link for link in group if _ends_line(link)] if text and len(group) >= _MIN_TARGETS else []
        if len({link.get("href") for link in last}) >= _MIN_TARGETS:
            for link in last:
                link.fill([])


def _ends_line(link: Element) -> bool:
    """Return whether a link ends a line of text. A link after a label such as "Author:" does not count."""
    line = next((around for around in link.parents(6) if around.name not in INLINE), link)
    before, is_after, inside = "", False, set(map(id, link.nodes()))
    for node in islice(line.nodes(), MAX_NODES):
        if node is link:
            is_after = True
        elif isinstance(node, Element):
            if is_after and node.name not in INLINE:
                break
            before = before if node.name in INLINE else ""
        elif not is_after:
            before += node
        elif id(node) not in inside and node.strip() and node.strip() not in PERMALINKS:
            return False
    is_value = before.rstrip().endswith((":", ",", "=")) and WORD.match(link.text().strip())
    return is_after and WORD.search(before) is not None and not is_value


def _drop_bars(tree: HtmlTree, links: Sequence[Element]) -> None:
    """Remove the content of short link bars that are marked as navigation."""
    marked = {link.get("href") for link in (*tree.find_all("link"), *links) if _is_relation(link)} - {""}
    one_per_parent = {id(link.parent): link for link in links if link.get("href") in marked}.values()
    bars: dict[int, Element] = {}
    not_bars = set[int]()
    shared = {id(tag): tag for link in one_per_parent for tag in link.parents(6) if len(tag.children) > 1}
    for tag in sorted(shared.values(), key=attrgetter("depth"), reverse=True):
        if id(tag) not in not_bars and _is_bar(tag, marked):
            bars[id(tag)] = tag
        else:
            not_bars.update(map(id, tag.parents(6)))
    for bar in bars.values():
        is_outermost = bars.keys().isdisjoint(map(id, bar.parents(6)))
        if is_outermost and len(marked.intersection(tag.get("href") for tag in bar.elements() if tag.name == "a")) > 1:
            bar.fill([])


def _is_relation(link: Element) -> bool:
    attributes = link.attributes
    return "accesskey" in attributes or ("rel" in attributes and not _RELATIONS.isdisjoint(attributes["rel"].split()))


def _is_bar(tag: Element, marked: set[str]) -> bool:
    """Return whether an element is a link bar: short, with at most one word outside links for each link.

    A table or cell may have more words, such as page titles, if the targets of all its links are in `marked`.
    """
    if tag.name in _NO_BARS or tag.short_text(_MAX_BAR_CHARS) is None:
        return False
    elements = list(tag.elements(MAX_NODES))
    if any(node.name in _NO_BARS for node in elements):
        return False
    hrefs = [node.get("href") for node in elements if node.name == "a"]
    other_words = sum(len(WORD.findall(text)) for text, is_link in tag.leading_texts() if not is_link)
    return other_words <= len(hrefs) or (tag.name in _TABLE_PARTS and marked.issuperset(hrefs))


def _ends_page(tag: Element) -> bool:
    """Return whether no text follows an element. Return False within <main>, <article>, <section>, <td> and <li>."""
    for around in (tag, *tag.parents()):
        parent = around.parent
        if around.name in ("main", "article", "section", "td", "li"):
            return False
        siblings = parent.children if parent is not None else []
        for node in reversed(siblings):
            if node is around:
                break
            if LETTER.search(node if isinstance(node, str) else node.text()):
                return False
    return True


def _is_state_message(tag: Element) -> bool:
    """Return whether an element is a status message: a short text after an element without text, such as an icon."""
    if tag.short_text(MAX_LABEL_CHARS) is None or tag.contains(("a", *PAGE_ELEMENTS)) or tag.parent is None:
        return False
    before = next((other for other, node in pairwise(tag.parent.tags) if node is tag), None)
    first = next((node for node in tag.children if not isinstance(node, str) or not node.isspace()), None)
    return any(isinstance(node, Element) and not node.text().strip() for node in (before, first))


def _hidden_states(placeholder: Element) -> list[Element]:
    """Return the short messages next to an empty element, such as "Loading". A script shows one of them at a time."""
    siblings = placeholder.parent.tags if placeholder.parent is not None else []
    states = [tag for tag in siblings if tag is not placeholder]
    alike = len({(tag.name, tag.classes) for tag in states}) == 1 and all("id" in tag.attributes for tag in states)
    is_state = alike and len(states) in (2, 3, 4) and all(map(is_brief, states))
    return states if is_state and not any(tag.contains(("a",)) for tag in states) else []


def drop_trail(tree: HtmlTree) -> None:
    """Remove breadcrumbs before the first <h1> or <h2> if they end with the text of this heading."""
    heading = next((tag for tag in tree.elements if tag.name in ("h1", "h2")), None)
    title = _TITLE_ENDS.sub("", fold(heading.text())) if heading is not None else ""
    if heading is None or not title:
        return
    node = heading
    for parent in heading.parents(3):
        siblings = parent.tags
        position = siblings.index(node)
        for element in siblings[max(0, position - 4) : position]:
            texts = [*element.leading_texts()] if element.short_text(300) is not None else []
            text = "".join(text for text, _ in texts).strip()
            rest = "".join(text for text, is_link in texts if not is_link and WORD.search(text)).strip()
            if text.endswith(rest) and _TITLE_ENDS.sub("", fold(rest)) == title and element.contains(("a",)):
                parent.remove({id(element)})
                return
        node = parent
