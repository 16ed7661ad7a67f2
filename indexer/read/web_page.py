"""Read the links, the template blocks and the text of an HTML or Markdown page in one pass, in a reader process."""

import re
from collections.abc import Generator, Mapping
from typing import Any

from indexer.errors import ParseError
from indexer.read.extraction import refresh_in
from indexer.read.formats import HTML
from indexer.read.html import main_content, single_page, site_template
from indexer.read.html.html_tree import HtmlTree, parse_html
from indexer.read.markup import markdown
from indexer.records import Extraction
from indexer.text.charsets import decode
from indexer.text.cleaning import fold

_MAX_LINKS, _MAX_LINK_CHARACTERS = 20_000, 4_000_000
_MAX_ADDRESS_LENGTH = 2_000
_MAX_DIRECTIVES_LENGTH = 1_000
_MAX_FRAMES = 100


def page_parts(
    body: bytes, requested: Mapping[str, Any]
) -> Generator[tuple[dict[str, Any], bytes], None, Extraction | None]:
    """Yield a page's `links`, whether it `needs_rendering`, and its `blocks`, as requested; return its text.

    If a page only refers to other pages or must not be indexed, only its links are read. After a true
    `needs_rendering`, nothing else is read. `requested` has the fields of `PageParts`, `charset` and `reader`.

    Raises:
        ParseError, lxml.etree.LxmlError, ValueError: the page cannot be read, or has too many links.
    """
    is_html, charset = requested["reader"] == HTML, requested["charset"]
    text = decode(body, charset, markup=is_html)
    tree, rendered = HtmlTree(), None
    if is_html:
        tree = parse_html(text)
    elif requested["links"] or requested["needs_rendering"]:
        rendered = markdown.render(text)
        tree = parse_html(rendered.html)
    if requested["links"]:
        links = _collect_links(tree)
        yield {"links": links}, b""
        if links["refresh"] or links["leads_on"] or not {"noindex", "none"}.isdisjoint(links["directives"]):
            return None
    if requested["needs_rendering"]:
        is_unrendered = needs_rendering(tree)
        yield {"needs_rendering": is_unrendered}, b""
        if is_unrendered:
            return None
    if is_html and (requested["blocks"] or requested["text"]):
        main_content.prepare(tree, text)
    if requested["blocks"]:
        yield {"blocks": site_template.find_blocks(tree)}, b""
    if not requested["text"]:
        return None
    if requested["reader"] == "markdown":
        return (rendered or markdown.render(text)).extraction()
    if not is_html:
        return markdown.read_mdx(body, charset)
    site = site_template.read_template(requested["template"]) if requested["template"] else None
    return main_content.extract(text, site, tree=tree, is_page=True)


def _collect_links(tree: HtmlTree) -> dict[str, Any]:
    """Return links and robots directives of a page, JSON-ready. Raises ParseError if it has too many links."""
    result = dict[str, Any](base=None, canonical=None, asks_password=False, nofollow=0, has_script=False)
    hrefs: dict[str, None] = {}
    frames: dict[str, list[str]] = {"frame": [], "iframe": []}
    directives: set[str] = set()
    has_refresh, length = False, 0
    for element in tree.elements:
        name, attributes = element.name, element.attributes
        if name == "script":
            result["has_script"] = True
        elif not attributes:
            continue
        elif name in ("a", "area"):
            href = attributes.get("href", "").partition("#")[0]
            if "nofollow" in attributes.get("rel", "").lower().split():
                result["nofollow"] += 1
            elif href and len(href) <= _MAX_ADDRESS_LENGTH:
                hrefs[href] = None
                length += len(href)
                if len(hrefs) > _MAX_LINKS or length > _MAX_LINK_CHARACTERS:
                    raise ParseError(f"more than {_MAX_LINKS:,} links, or {_MAX_LINK_CHARACTERS:,} characters of links")
        elif name in frames:
            src = attributes.get("src", "").strip()
            if src and len(src) <= _MAX_ADDRESS_LENGTH and len(frames[name]) < _MAX_FRAMES:
                frames[name].append(src.partition("#")[0])
        elif name == "input":
            result["asks_password"] |= attributes.get("type", "").strip().lower() == "password"
        elif name == "base":
            result["base"] = result["base"] or attributes.get("href")
        elif name == "link" and "canonical" in attributes.get("rel", "").lower().split():
            result["canonical"] = result["canonical"] or attributes.get("href", "").partition("#")[0]
        elif name == "meta":
            has_refresh |= attributes.get("http-equiv", "").strip().lower() == "refresh"
            if attributes.get("name", "").lower() in ("robots", "pilotlight"):
                words = attributes.get("content", "")[:_MAX_DIRECTIVES_LENGTH].lower().split(",")
                directives |= {word.strip() for word in words}
    title = tree.first("title")
    is_listing = title is not None and _LISTING.fullmatch(fold(title.text()[:_MAX_ADDRESS_LENGTH])) is not None
    # a page with a redirect or a frame, or without links, may only lead to other pages
    may_lead_on = has_refresh or bool(frames["iframe"]) or not hrefs
    length, prose, refresh, is_at_once = _measure_text(tree) if may_lead_on or is_listing else (0, 0, None, False)
    is_bare = may_lead_on and length < _MAX_BARE_LENGTH
    every = [*hrefs, *frames["frame"], *(frames["iframe"] if is_bare else ())]
    if refresh is not None and not is_at_once:
        every.append(refresh)
    is_listing = is_listing and prose < _MIN_PROSE_LENGTH
    return result | {
        "hrefs": list(dict.fromkeys(every)),
        "directives": sorted(directives),
        "refresh": refresh if is_at_once else None,
        "is_listing": is_listing,
        "leads_on": "a listing of a folder" if is_listing else "a set of frames" if frames["frame"] else "",
        "is_blank": is_bare and not every,
    }


_MAX_MOVED_LENGTH = 500
_MAX_BARE_LENGTH = 100
_UNSEEN = frozenset({"script", "style", "template", "noframes", "iframe", "title"})
# titles of directory listings by Apache, nginx, lighttpd, Python, Tomcat and Jetty, and by IIS
_LISTING = re.compile(r"(?:index of|directory:|directory listing for) \[?/.*|[\w.:-]+ - /.*/", re.IGNORECASE)
_MAX_ENTRY_LENGTH = 120
_MIN_PROSE_LENGTH = 300


def _measure_text(tree: HtmlTree) -> tuple[int, int, str | None, bool]:
    """Measure a page that may only refer to another page.

    Returns: the characters of text outside of links; of these, the characters beyond a date and a size between two
    links; the address of the refresh; and whether browsers follow it before the page can be read.
    """
    text_length = prose = between = 0
    refresh, is_for_all = None, False
    todo: list[tuple[Any, bool, bool]] = [(tree.root, False, False)]
    while todo:
        node, is_in_link, is_fallback = todo.pop()
        if isinstance(node, str):
            if not is_in_link:
                length = len(node.strip())
                text_length += length
                prose += min(length, max(0, between + length - _MAX_ENTRY_LENGTH))
                between += length
            continue
        name = node.name
        if name in _UNSEEN:
            continue
        if name == "meta" and node.get("http-equiv").strip().lower() == "refresh" and refresh is None:
            refresh, is_for_all = refresh_in(node.get("content")), not is_fallback
        elif name == "a" and node.get("href"):
            is_in_link, between = True, 0
        is_fallback = is_fallback or name == "noscript"
        todo += [(child, is_in_link, is_fallback) for child in reversed(node.children)]
    seconds, address = refresh or (0, None)
    return text_length, prose, address, (seconds == 0 and is_for_all) or text_length < _MAX_MOVED_LENGTH


_TEXT_BLOCKS = frozenset("h1 h2 h3 h4 h5 h6 p li dd td th pre blockquote".split())


def needs_rendering(tree: HtmlTree) -> bool:
    """Return whether a page with scripts has hardly any words outside of navigation, or few words and no block of text.

    Some short pages are rendered needlessly, so that none is lost.
    """
    sizes = single_page.measure(tree.body, with_noise=False)
    length = sizes[id(tree.body)].text
    measured = ((element.name, sizes.get(id(element))) for element in tree.body.elements())
    return length < 100 or (length < 400 and not any(n in _TEXT_BLOCKS and size and size.text for n, size in measured))
