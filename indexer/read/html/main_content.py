"""HTML to sections of readable text: which part of a page counts, and what it is called."""

import re
from itertools import islice

from indexer.decoding import decode
from indexer.read.extraction import collect, first_day, language_of
from indexer.read.html.articles import Sizes, is_published, layout_cell, main_part, measure, unwrap
from indexer.read.html.elements import simplify
from indexer.read.html.html_tree import Element, HtmlTree, fold, parse_html
from indexer.read.html.template import Template, read_template, strip
from indexer.read.html.unfold import drop_trail, unfold
from indexer.read.html.walk import Walker
from indexer.records import Declared, Extraction

_LOST = 0.5  # share of the characters of a page that are read, below which its main part is looked for again


def read(body: bytes, argument: str | None) -> Extraction:
    """Read a page by its charset, and on a second line the template of its site; raises what `extract` does."""
    charset, _, template = (argument or "").partition("\n")
    markup = decode(body, charset or None, markup=True)
    return extract(markup, read_template(template) if template else None, is_page=True)


def extract(
    markup: str, template: Template | None = None, *, tree: HtmlTree | None = None, is_page: bool = False
) -> Extraction:
    """Find the main part of an HTML page and cut it into sections of plain text.

    Paragraphs are separated by a blank line, list items and table rows by a line end; <pre> is kept as it is. What the
    template of its site has is left out, unless that is all there is. A `tree` is what `prepare` made of the markup.
    Raises lxml.etree.LxmlError or ValueError if it cannot be read.
    """
    tree = tree or prepare(parse_html(markup), markup)
    drop_trail(tree)
    is_stripped = template is not None and strip(tree, template)
    body = tree.body
    is_single = is_page and not is_stripped and is_published(tree)
    if is_single:
        container = main_part(body, lambda sizes: _container(tree, sizes))
    else:
        container = _container(tree) or (layout_cell(tree) if is_page else None) or body
    walker = Walker(container)
    if not is_single and walker.text_length < _LOST * tree.characters:
        texts = (node for node in body.nodes(("script",)) if isinstance(node, str))
        if walker.text_length < _LOST * sum(map(len, texts)):
            unwrap(body, measure(body))
            container = _container(tree, measure(body, with_noise=False)) or body
            walker = Walker(container)
    if not walker.text_length and container is not body:
        walker = Walker(body)
    if is_stripped and not walker.text_length:
        return extract(markup)
    sections = walker.sections() if walker.text_length > 200 or not tree.redirects else ()
    is_link_list = walker.is_mostly_links and not sections
    return Extraction(_title(tree, walker.headings), sections, declared(tree), is_link_list)


def prepare(tree: HtmlTree, markup: str) -> HtmlTree:
    """Make formulas of a page text, and show what it shows after a click."""
    simplify(tree, markup)
    unfold(tree)
    return tree


def _container(tree: HtmlTree, sizes: Sizes | None = None) -> Element | None:
    """Return the element that holds the page's own text: of a kind that occurs once, and with enough of the prose."""
    found: dict[str, list[Element]] = {kind: [] for kind in ("main", "role", "article", "id")}
    for element in tree.elements:
        if element.name in ("main", "article"):
            found[element.name].append(element)
        if element.get("role") == "main":
            found["role"].append(element)
        if element.get("id") in ("main-content", "content"):
            found["id"].append(element)
    unique = {kind: elements[0] for kind, elements in found.items() if len(elements) == 1}
    if sizes is None:
        return next(iter(unique.values()), None)
    whole = max(size.prose for size in sizes.values())
    for kind, element in unique.items():
        size = sizes.get(id(element))
        if size is not None and (size.prose >= 0.5 * whole if kind not in ("main", "role") else size.text):
            return element
    return None


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
    "article:modified_time og:updated_time dcterms.modified last-modified "
    "article:published_time dcterms.date dc.date date"
).split()
_STRUCTURED = re.compile(r'"(dateModified|datePublished)"\s*:\s*"([^"]{10,40})"')


def declared(tree: HtmlTree) -> Declared:
    """Read the facts of a page; what cannot be read counts as not declared."""
    head = list((tree.first("head") or tree.root).elements())
    metas: list[tuple[str, str]] = []
    dates: list[str] = []  # of JSON-LD, by pattern: it may be any shape, and is often not even JSON
    for tag in head:
        if tag.name == "meta":
            key = (tag.get("name") or tag.get("property") or tag.get("http-equiv")).strip()
            metas.append((key if key.lower().startswith(OWN) else key.lower(), tag.get("content")))
        elif tag.name == "script" and tag.get("type") == "application/ld+json":
            said = dict(reversed(_STRUCTURED.findall(tag.text())))
            dates += [said[name] for name in ("dateModified", "datePublished") if name in said]
    named = dict(reversed(metas))  # the first of a name wins
    root = tree.first("html") or tree.root
    languages = (root.get("lang"), root.get("xml:lang"), named.get("content-language", "").partition(",")[0])
    articles = list(islice(tree.named("article"), 2))
    inside = articles[0].elements() if len(articles) == 1 else ()  # under the heading, as blogs have it
    times = [day for tag in inside if tag.name == "time" and (day := tag.get("datetime"))]
    return Declared(
        language=next((code for tag in languages if (code := language_of(tag))), None),
        date=first_day([*(named.get(name) for name in _DATES), *dates, *times[:1]]),
        metadata=collect((key[len(OWN) :], value) for key, value in metas if key.lower().startswith(OWN)),
    )


_BLOCKS = frozenset("h1 h2 h3 h4 h5 h6 p li dd td th pre blockquote".split())
_MOUNTS = frozenset({"div", "main", "section", "article"})  # elements that scripts fill
_NOT_EMPTY = frozenset(
    "img picture svg canvas video audio iframe object embed input select textarea button form".split()
)


def is_drawn(tree: HtmlTree) -> bool:
    """Return whether a page that loads scripts has no text worth indexing without them.

    There are hardly any words outside of navigation; or few, and a message to those without scripts, or an empty
    element to fill and no block of text. Short pages are drawn in vain rather than lost.
    """
    sizes = measure(tree.body, with_noise=False)
    length = sizes[id(tree.body)].text
    if not 100 <= length < 400:
        return length < 100
    elements = list(tree.body.elements())
    if any(element.name == "noscript" and len(fold(element.text())) >= 20 for element in elements):
        return True
    shown = [(element, sizes[id(element)]) for element in elements if id(element) in sizes]
    return not any(element.name in _BLOCKS and size.text for element, size in shown) and any(
        ("-" in element.name or (element.name in _MOUNTS and element.get("id"))) and not _has_content(element)
        for element, _ in shown
    )


def _has_content(element: Element) -> bool:
    """Return whether it has text, or something that is none and stands for itself."""
    return any(
        bool(node.strip()) if isinstance(node, str) else node.name in _NOT_EMPTY
        for node in element.nodes(("script", "style", "template", "noscript"))
    )
