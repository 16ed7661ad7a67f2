"""HTML to sections of readable text: which part of a page counts, and what it is called."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from indexer.decoding import decode
from indexer.read.extraction import collect, first_day, language_of
from indexer.read.html.articles import Publication, Sizes, layout_cell, main_part, measure, publication, unwrap
from indexer.read.html.elements import simplify
from indexer.read.html.html_tree import Element, HtmlTree, fold, parse_html, redirects
from indexer.read.html.noise import classes, is_noise
from indexer.read.html.template import Template, read_template, strip
from indexer.read.html.unfold import drop_trail, unfold
from indexer.read.html.walk import Walker
from indexer.records import Declared, Extraction

_CONTAINERS = ("main", "role", "article", "body", "document", "contents", "id")  # see _container; first unique one wins
_NAMED = frozenset({"main", "article"})
_IDS = frozenset({"main-content", "content"})
_LOST = 0.5  # share of the characters of a page that are read, below which its main part is looked for again
_SURE = frozenset({"main", "role"})  # kinds of which one that has text at all is believed


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
    if not about.is_published and (
        walker.text_length < _LOST * tree.characters and walker.text_length < _LOST * _length(body)
    ):
        unwrap(body, measure(body))
        container = _container(tree, measure(body, with_noise=False)) or body
        walker = Walker()
        walker.walk(container)
    if not walker.text_length and container is not body:
        walker = Walker()
        walker.walk(body)
    if is_stripped and not walker.text_length:
        return extract(markup)
    sections = walker.sections() if walker.text_length > 200 or not redirects(tree) else ()
    is_link_list = walker.is_mostly_links and not sections
    return Extraction(_title(tree, walker.headings), sections, declared(tree), is_link_list)


def _length(body: Element) -> int:
    """Return the characters of text in a page, wherever they stand, without scripts."""
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
    """Return the element that holds the page's own text; a kind of element that occurs twice decides nothing.

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
        if size is not None and (size.prose >= 0.5 * whole if kind not in _SURE else size.text):
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
    """Return whether the element before it is the header that Doxygen writes."""
    around = element.parent.children if element.parent is not None else []
    before = None
    for node in around:
        if node is element:
            break
        before = node if isinstance(node, Element) else before
    return before is not None and before.name == "div" and "header" in classes(before)


def _title(tree: HtmlTree, headings: list[str]) -> str | None:
    """Return the page's own title; of `Heading - Site name` only the heading, if the page has it."""
    title = tree.first("title")
    named = fold(title.text()) if title is not None else ""
    for heading in headings[:3]:
        if len(heading) > 2 and named.lower().startswith(heading.lower()):
            return heading
    if not named:
        metas = (meta.get("content") for meta in tree.named("meta") if meta.get("property") == "og:title")
        named = fold(next(metas, ""))
    return named or (headings[0] if headings else None)


OWN = "pilotlight:"  # <meta name="pilotlight:KEY" content="VALUE">
_DATES = (  # names and properties, the surest first: when a page was changed goes before when it was published
    "article:modified_time",
    "og:updated_time",
    "dcterms.modified",
    "last-modified",
    "article:published_time",
    "dcterms.date",
    "dc.date",
    "date",
)
_STRUCTURED = re.compile(r'"(dateModified|datePublished)"\s*:\s*"([^"]{10,40})"')


def declared(tree: HtmlTree) -> Declared:
    """Read the facts of a page; what cannot be read counts as not declared."""
    head = tree.first("head") or tree.root
    metas = [(_key(tag), tag.get("content")) for tag in head.elements() if tag.name == "meta"]
    named = dict(reversed(metas))  # the first of a name wins
    root = tree.first("html") or tree.root
    languages = (root.get("lang"), root.get("xml:lang"), named.get("content-language", "").partition(",")[0])
    return Declared(
        language=next((code for tag in languages if (code := language_of(tag))), None),
        date=first_day([*(named.get(name) for name in _DATES), *_structured(head), *_time(tree)]),
        metadata=collect((key[len(OWN) :], value) for key, value in metas if key.lower().startswith(OWN)),
    )


def _key(meta: Element) -> str:
    key = (meta.get("name") or meta.get("property") or meta.get("http-equiv")).strip()
    return key if key.lower().startswith(OWN) else key.lower()


def _structured(head: Element) -> Iterator[str]:
    """Yield the dates of JSON-LD, by pattern: it may be any shape, and is often not even JSON."""
    for script in head.elements():
        if script.name == "script" and script.get("type") == "application/ld+json":
            dates = dict(reversed(_STRUCTURED.findall(script.text())))
            yield from (dates[name] for name in ("dateModified", "datePublished") if name in dates)


def _time(tree: HtmlTree) -> Iterator[str]:
    """Yield the first time of a page's only article, as blogs have it under the heading."""
    articles = list(islice(tree.named("article"), 2))
    if len(articles) == 1:
        times = (tag.get("datetime") for tag in articles[0].elements() if tag.name == "time")
        yield from islice((time for time in times if time), 1)


_JAVASCRIPT = frozenset({"", "module", "text/javascript", "application/javascript", "text/ecmascript", "text/babel"})
_ENOUGH = 400  # characters of text of a page that has been written, whatever else stands in it
_MAIN_IDS = frozenset({"main-content", "content", "main"})
_MOUNTS = frozenset({"div", "main", "section", "article"})
_BLOCKS = frozenset("h1 h2 h3 h4 h5 h6 p li dd td th pre blockquote".split())
_NOT_EMPTY = frozenset(
    "img picture svg canvas video audio iframe object embed input select textarea button form".split()
)


def is_drawn(markup: str) -> bool:
    """Return whether a page loads scripts and has no text worth indexing without them.

    It has none if its main part is empty; if there are hardly any words outside of navigation and the like; or if there
    is little, and a message to those without scripts, or an empty element for scripts to fill and no paragraph, heading
    or list beside it. Short pages are drawn in vain rather than lost.
    """
    tree = parse_html(markup)
    if not any(map(_runs, tree.named("script"))):
        return False
    if any(not _has_content(main) for main in _main_parts(tree)):
        return True
    body = tree.first("body") or tree.root
    seen = _look(body)
    if seen.length >= _ENOUGH:
        return False
    return (
        seen.length < 100
        or (seen.has_mount and not seen.has_block)
        or any(len(fold(element.text())) >= 20 for element in body.elements() if element.name == "noscript")
    )


def _runs(script: Element) -> bool:
    kind = script.get("type").partition(";")[0].strip().lower()
    return kind in _JAVASCRIPT and (bool(script.get("src")) or bool(script.text().strip()))


def _main_parts(tree: HtmlTree) -> Iterable[Element]:
    """Return the element that is marked as the page's own text, if there is only one."""
    found = [element for element in tree.elements if element.name == "main" or element.get("role") == "main"]
    found = found or [element for element in tree.elements if element.get("id") in _MAIN_IDS]
    return found if len(found) == 1 else ()


@dataclass(slots=True)
class _Seen:
    """What stands in a page outside of navigation and the like."""

    length: int = 0  # characters of text, up to enough
    has_block: bool = False  # whether some stand in a block of text
    has_mount: bool = False  # whether an element is there for a script to fill


def _look(body: Element) -> _Seen:
    seen = _Seen()
    todo: list[tuple[Element | str, bool]] = [(node, False) for node in reversed(body.children)]
    while todo and seen.length < _ENOUGH:
        node, within = todo.pop()
        if isinstance(node, str):
            size = len(fold(node))
            seen.length += size
            seen.has_block |= within and size > 0
        elif not is_noise(node):
            seen.has_mount = seen.has_mount or _is_mount(node)
            within = within or node.name in _BLOCKS
            todo += ((child, within) for child in reversed(node.children))
    return seen


def _has_content(element: Element) -> bool:
    """Return whether it has text, or something that is none and stands for itself."""
    return any(
        bool(node.strip()) if isinstance(node, str) else node.name in _NOT_EMPTY for node in _without_scripts(element)
    )


def _without_scripts(element: Element) -> Iterable[Element | str]:
    todo: list[Element | str] = element.children[::-1]
    while todo:
        node = todo.pop()
        if isinstance(node, str) or node.name not in ("script", "style", "template", "noscript"):
            yield node
            if isinstance(node, Element):
                todo += reversed(node.children)


def _is_mount(element: Element) -> bool:
    named = "-" in element.name or (element.name in _MOUNTS and bool(element.get("id")))
    return named and not _has_content(element)
