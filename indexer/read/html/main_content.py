"""HTML to sections of readable text: which part of a page counts, and what it is called."""

from indexer.read.extraction import collect, first_day, language_of
from indexer.read.html.elements import simplify
from indexer.read.html.html_tree import HtmlTree, parse_html
from indexer.read.html.names import declares_article, is_published
from indexer.read.html.noise import drop_trail
from indexer.read.html.panels import unfold
from indexer.read.html.single_page import find_container, layout_cell, main_part, measure, unwrap
from indexer.read.html.template import Template, read_template, strip
from indexer.read.html.walk import Walker
from indexer.records import Declared, Extraction
from indexer.text.charsets import decode
from indexer.text.cleaning import fold

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
        part = main_part(tree, is_article=declares_article(tree, markup))
    else:
        part = find_container(tree) or (layout_cell(tree) if is_page else None) or body
    walker = Walker(part)
    if not is_single and walker.text_length < _LOST * tree.characters:
        texts = (node for node in body.nodes(("script",)) if isinstance(node, str))
        if walker.text_length < _LOST * sum(map(len, texts)):
            unwrap(body, measure(body))
            part = find_container(tree, measure(body, with_noise=False)) or body
            walker = Walker(part)
    if not walker.text_length and part is not body:
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


def _title(tree: HtmlTree, headings: list[str]) -> str | None:
    """Return the page's own title; of `Heading - Site name` only the heading, if the page has it."""
    title = tree.first("title")
    named = fold(title.text()) if title is not None else ""
    for heading in headings[:3]:
        if len(heading) > 2 and named.lower().startswith(heading.lower()):
            return heading
    return named or (headings[0] if headings else None)


OWN = "pilotlight:"  # <meta name="pilotlight:KEY" content="VALUE">
_DATES = (  # names and properties, the surest first: when a page was changed goes before when it was published
    "article:modified_time og:updated_time dcterms.modified last-modified "
    "article:published_time dcterms.date dc.date date"
).split()


def declared(tree: HtmlTree) -> Declared:
    """Read the facts of a page; what cannot be read counts as not declared."""
    head = list((tree.first("head") or tree.root).elements())
    metas: list[tuple[str, str]] = []
    for tag in head:
        if tag.name == "meta":
            key = (tag.get("name") or tag.get("property") or tag.get("http-equiv")).strip()
            metas.append((key if key.lower().startswith(OWN) else key.lower(), tag.get("content")))
    named = dict(reversed(metas))  # the first of a name wins
    root = tree.first("html") or tree.root
    languages = (root.get("lang"), root.get("xml:lang"), named.get("content-language", "").partition(",")[0])
    articles = tree.named("article")
    inside = articles[0].elements() if len(articles) == 1 else ()  # under the heading, as blogs have it
    times = [day for tag in inside if tag.name == "time" and (day := tag.get("datetime"))]
    return Declared(
        language=next((code for tag in languages if (code := language_of(tag))), None),
        date=first_day([*(named.get(name) for name in _DATES), *times[:1]]),
        metadata=collect((key[len(OWN) :], value) for key, value in metas if key.lower().startswith(OWN)),
    )
