"""HTML to sections of readable text: which part of a page counts, and what it is called."""

from collections.abc import Iterator

from indexer.decoding import decode
from indexer.read.extraction import Extraction
from indexer.read.html.articles import Sizes, layout_cell, main_part, measure, unwrap
from indexer.read.html.formulas import simplify
from indexer.read.html.furniture import Publication, publication
from indexer.read.html.head import declared, redirects
from indexer.read.html.html_tree import Element, HtmlTree, fold, parse_html
from indexer.read.html.noise import classes
from indexer.read.html.template import Template, read_template, strip
from indexer.read.html.trail import drop_trail
from indexer.read.html.unfold import unfold
from indexer.read.html.walk import Walker

_CONTAINERS = ("main", "role", "article", "body", "document", "contents", "id")  # see _container; first unique one wins
_NAMED = frozenset({"main", "article"})
_IDS = frozenset({"main-content", "content"})
_LOST = 0.5  # share of the characters of a page that are read, below which its main part is looked for again
_HALF = 0.5  # share of the prose of a page that its main part holds
_SURE = frozenset({"main", "role"})  # kinds of which one that has text at all is believed
_STUB = 200  # characters of text of a page that only leads to another


def read(body: bytes, argument: str | None) -> Extraction:
    """Read a page; raises what `extract` does.

    The argument is its charset; on a second line, the template of its site.
    """
    charset, _, template = (argument or "").partition("\n")
    return extract(
        decode(body, charset or None, markup=True), read_template(template) if template else None, is_page=True
    )


def extract(markup: str, template: Template | None = None, *, is_page: bool = False) -> Extraction:
    """Find the main part of an HTML page and cut it into sections of plain text.

    Paragraphs are separated by a blank line, list items and table rows by a line end; <pre> is kept as it is;
    navigation, forms, scripts and hidden elements are left out, and so is what the template of its site has, unless
    that is all there is.

    Raises:
        lxml.etree.LxmlError, ValueError: the markup cannot be read.
    """
    tree = parse_html(markup)
    simplify(tree, markup)
    unfold(tree)
    drop_trail(tree)
    is_stripped = template is not None and strip(tree, template)
    body = tree.first("body") or tree.root
    about = publication(tree) if is_page and not is_stripped else Publication()
    if about.is_published:
        container = main_part(body, lambda sizes: _container(tree, sizes), is_article=about.is_article)
    else:
        container = _container(tree) or (layout_cell(tree, body) if is_page else None) or body
    walker = Walker()
    walker.walk(container)
    if not about.is_published and _has_lost(walker.text_length, tree, body):
        unwrap(body, measure(body))
        container = _container(tree, measure(body, with_noise=False)) or body
        walker = Walker()
        walker.walk(container)
    if not walker.text_length and container is not body:
        walker = Walker()
        walker.walk(body)
    if is_stripped and not walker.text_length:
        return extract(markup)
    sections = walker.sections() if walker.text_length > _STUB or not redirects(tree) else ()
    is_link_list = walker.is_mostly_links and not sections
    return Extraction(_title(tree, walker.headings), sections, declared(tree), is_link_list)


def _has_lost(length: int, tree: HtmlTree, body: Element) -> bool:
    """Return whether so many characters are little of a page; its text is only counted if that may be so."""
    return length < _LOST * tree.characters and length < _LOST * _length(body)


def _length(body: Element) -> int:
    """Characters of text in a page, wherever they stand, without scripts."""
    length = 0
    todo = [body]
    while todo:  # in any order
        for node in todo.pop().children:
            if isinstance(node, str):
                length += len(node)
            elif node.name != "script":
                todo.append(node)
    return length


def _container(tree: HtmlTree, sizes: Sizes | None = None) -> Element | None:
    """The element that holds the page's own text; a kind of element that occurs twice decides nothing.

    Where the sizes of elements are known, neither does one that holds little of the prose.
    """
    found: dict[str, list[Element]] = {kind: [] for kind in _CONTAINERS}
    for element in tree.elements:
        name, attributes = element.name, element.attributes
        if name in _NAMED:
            found[name].append(element)
        if not attributes:
            continue
        if "role" in attributes and attributes["role"] == "main":
            found["role"].append(element)
        if "id" in attributes and attributes["id"] in _IDS:
            found["id"].append(element)
        if name == "div" and "class" in attributes:
            for kind in _kinds(element):
                found[kind].append(element)
    unique = {kind: elements[0] for kind, elements in found.items() if len(elements) == 1}
    if sizes is None:
        return next(iter(unique.values()), None)
    whole = max(size.prose for size in sizes.values())
    for kind, element in unique.items():
        size = sizes.get(id(element))
        if size is not None and (size.prose >= _HALF * whole if kind not in _SURE else size.text):
            return element
    return None


def _kinds(division: Element) -> Iterator[str]:
    names = classes(division)
    if "body" in names:
        yield "body"
    if "document" in names:
        yield "document"
    if names == {"contents"} and _follows_a_header(division):
        yield "contents"


def _follows_a_header(element: Element) -> bool:
    """Whether the element before it is the header that Doxygen writes."""
    around = element.parent.children if element.parent is not None else []
    before = None
    for node in around:
        if node is element:
            break
        before = node if isinstance(node, Element) else before
    return before is not None and before.name == "div" and "header" in classes(before)


def _title(tree: HtmlTree, headings: list[str]) -> str | None:
    """The page's own title; of `Heading - Site name` only the heading, if the page has it."""
    title = tree.first("title")
    named = fold(title.text()) if title is not None else ""
    for heading in headings[:3]:
        if len(heading) > 2 and named.lower().startswith(heading.lower()):
            return heading
    if not named:
        metas = (meta.get("content") for meta in tree.named("meta") if meta.get("property") == "og:title")
        named = fold(next(metas, ""))
    return named or (headings[0] if headings else None)
