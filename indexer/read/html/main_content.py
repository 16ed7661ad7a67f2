"""Extract the sections, title and metadata of an HTML page."""

from indexer.read.extraction import collect, first_day, language_of
from indexer.read.html.boilerplate import drop_boilerplate, drop_trail
from indexer.read.html.class_names import declares_article, is_published
from indexer.read.html.code_and_formulas import replace_formulas
from indexer.read.html.html_tables import build_tables
from indexer.read.html.html_tree import HtmlTree, parse_html
from indexer.read.html.panels import unfold_panels
from indexer.read.html.section_walker import Walker
from indexer.read.html.single_page import find_container, layout_cell, main_part, measure, unwrap
from indexer.read.html.site_template import Template, read_template, strip_template
from indexer.records import Declared, Extraction
from indexer.text.charsets import decode
from indexer.text.cleaning import fold

_MIN_READ_SHARE = 0.5  # share of a page's characters; if less text is extracted, another container is tried


def read(body: bytes, argument: str | None) -> Extraction:
    """Decode a page and extract its text. `argument` has the charset on line 1 and the site's template on line 2."""
    charset, _, template = (argument or "").partition("\n")
    markup = decode(body, charset or None, markup=True)
    return extract(markup, read_template(template) if template else None, is_page=True)


def extract(
    markup: str, template: Template | None = None, *, tree: HtmlTree | None = None, is_page: bool = False
) -> Extraction:
    """Find the main part of an HTML page, and split it into sections of plain text.

    Blank lines separate paragraphs. Line breaks separate list items and table rows. <pre> keeps its white space.

    Args:
        markup: the page.
        template: the template of the site. Its text is removed, unless the page has no other text.
        tree: the result of `prepare` for this markup, if it has already been called.
        is_page: whether the markup is a whole page of a site, which may have navigation around its text.

    Raises:
        lxml.etree.LxmlError, ValueError: the markup cannot be parsed.
    """
    tree = tree or prepare(parse_html(markup), markup)
    drop_trail(tree)
    is_stripped = template is not None and strip_template(tree, template)
    body = tree.body
    is_article = is_page and not is_stripped and declares_article(tree, markup)
    is_single = is_article or (is_page and not is_stripped and is_published(tree))
    if is_single:
        container = main_part(tree, is_article=is_article)
    else:
        container = find_container(tree) or (layout_cell(tree) if is_page else None) or body
    walker = Walker(container)
    if not is_single and walker.text_length < _MIN_READ_SHARE * tree.text_length:
        texts = (node for node in body.nodes(("script",)) if isinstance(node, str))
        if walker.text_length < _MIN_READ_SHARE * sum(map(len, texts)):
            unwrap(body, measure(body))
            container = find_container(tree, measure(body, with_noise=False)) or body
            walker = Walker(container)
    if not walker.text_length and container is not body:
        walker = Walker(body)
    if is_stripped and not walker.text_length:
        return extract(markup)
    sections = walker.sections() if walker.text_length > 200 or not tree.redirects else ()
    is_link_list = walker.is_mostly_links and not sections
    links = () if tree.first("base") else tuple(walker.link_texts.items())  # a <base> changes the targets of links
    return Extraction(_title(tree, walker.headings), sections, declared(tree), is_link_list, links)


def prepare(tree: HtmlTree, markup: str) -> HtmlTree:
    """Replace formulas by TeX, remove boilerplate, build tables and show hidden panels. Return the modified tree."""
    replace_formulas(tree, markup)
    drop_boilerplate(tree)
    build_tables(tree)
    unfold_panels(tree)
    return tree


def _title(tree: HtmlTree, headings: list[str]) -> str | None:
    """Return the title of a page, or None. Shorten a <title> such as "Heading - Site name" to the heading."""
    title = tree.first("title")
    page_title = fold(title.text()) if title is not None else ""
    for heading in headings[:3]:
        if len(heading) > 2 and page_title.lower().startswith(heading.lower()):
            return heading
    return page_title or (headings[0] if headings else None)


METADATA_PREFIX = "pilotlight:"  # <meta name="pilotlight:KEY" content="VALUE">
# `name` or `property` of <meta> elements with a date, by priority: first modification dates, then publication dates
_DATES = (
    "article:modified_time og:updated_time dcterms.modified last-modified "
    "article:published_time dcterms.date dc.date date"
).split()


def declared(tree: HtmlTree) -> Declared:
    """Return the language, date and metadata that the <html>, <meta> and <time> elements of a page declare."""
    head = list((tree.first("head") or tree.root).elements())
    metas: list[tuple[str, str]] = []
    for tag in head:
        if tag.name == "meta":
            key = (tag.get("name") or tag.get("property") or tag.get("http-equiv")).strip()
            metas.append((key if key.lower().startswith(METADATA_PREFIX) else key.lower(), tag.get("content")))
    values = dict(reversed(metas))
    root = tree.first("html") or tree.root
    languages = (root.get("lang"), root.get("xml:lang"), values.get("content-language", "").partition(",")[0])
    articles = tree.find_all("article")
    inside = articles[0].elements() if len(articles) == 1 else ()
    times = [day for tag in inside if tag.name == "time" and (day := tag.get("datetime"))]
    prefix = METADATA_PREFIX
    custom = ((key[len(prefix) :], value) for key, value in metas if key.lower().startswith(prefix))
    return Declared(
        language=next((code for tag in languages if (code := language_of(tag))), None),
        date=first_day([*(values.get(name) for name in _DATES), *times[:1]]),
        metadata=collect(custom),
    )
