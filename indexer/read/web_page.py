"""Read the links, template blocks and text of a page in one pass. Also read the addresses in lists of pages.

A page is HTML or Markdown. A list of pages is a sitemap, a feed or plain text. This module runs in reader processes.
"""

import re
from collections.abc import Generator, Iterator, Mapping
from io import BytesIO
from itertools import islice
from typing import Any
from urllib.parse import urljoin

from lxml import etree

from indexer.errors import FetchError, ParseError
from indexer.network.http import GZIP, decode_limited
from indexer.read.extraction import refresh_in
from indexer.read.formats import HTML, MAX_ENTRIES, MAX_SITEMAP_LENGTH
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
    """Yield the requested `links`, `needs_rendering` and `blocks` of a page, and return the requested text or None.

    If a page needs rendering, only refers to other pages, or must not be indexed, its blocks and text are not read.
    `requested` has the fields of `PageParts`, `charset` and `reader`. Raises ParseError, lxml.etree.LxmlError or
    ValueError if the page cannot be read, or has too many links.
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
    """Return the links and robots directives of a page as JSON values. Raises ParseError if it has too many links."""
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
    # a page that only forwards to another page has a refresh, a frame, or no links
    may_lead_on = has_refresh or bool(frames["iframe"]) or not hrefs
    length, prose, refresh, is_redirect = _measure_text(tree) if may_lead_on or is_listing else (0, 0, None, False)
    is_bare = may_lead_on and length < _MAX_BARE_LENGTH
    every = [*hrefs, *frames["frame"], *(frames["iframe"] if is_bare else ())]
    if refresh is not None and not is_redirect:
        every.append(refresh)
    is_listing = is_listing and prose < _MIN_PROSE_LENGTH
    return result | {
        "hrefs": list(dict.fromkeys(every)),
        "directives": sorted(directives),
        "refresh": refresh if is_redirect else None,
        "is_listing": is_listing,
        "leads_on": "a listing of a folder" if is_listing else "a set of frames" if frames["frame"] else "",
        "is_blank": is_bare and not every,
    }


# limits of text outside links, in characters
_MAX_REDIRECT_LENGTH = 500
_MAX_BARE_LENGTH = 100
_MIN_PROSE_LENGTH = 300
_MAX_FILE_INFO_LENGTH = 120  # size and date next to a link in a directory listing
_INVISIBLE = frozenset({"script", "style", "template", "noframes", "iframe", "title"})
# titles of directory listings by web servers such as Apache, nginx and Tomcat, and ("host - /path/") by IIS
_LISTING = re.compile(r"(?:index of|directory:|directory listing for) \[?/.*|[\w.:-]+ - /.*/", re.IGNORECASE)


def _measure_text(tree: HtmlTree) -> tuple[int, int, str | None, bool]:
    """Measure a page that may only refer to another page.

    Returns:
        text_length: the number of characters outside links.
        prose: this number without up to 120 characters after each link, such as the size and date of a listed file.
        address: the address that a refresh in <meta> names, or None.
        is_redirect: whether browsers open this address before users can read the page.
    """
    text_length = prose = between = 0
    refresh, is_for_all, has_links = None, False, False
    todo: list[tuple[Any, bool, bool]] = [(tree.root, False, False)]
    while todo:
        node, is_in_link, is_fallback = todo.pop()
        if isinstance(node, str):
            if not is_in_link:
                length = len(node.strip())
                text_length += length
                prose += min(length, max(0, between + length - _MAX_FILE_INFO_LENGTH))
                between += length
            continue
        name = node.name
        if name in _INVISIBLE:
            continue
        if name == "meta" and node.get("http-equiv").strip().lower() == "refresh" and refresh is None:
            refresh, is_for_all = refresh_in(node.get("content")), not is_fallback
        elif name == "a" and node.get("href"):
            is_in_link, between, has_links = True, 0, has_links or not is_fallback
        is_fallback = is_fallback or name == "noscript"
        todo += [(child, is_in_link, is_fallback) for child in reversed(node.children)]
    seconds, address = refresh or (0, None)
    # a browser that runs scripts ignores a refresh in <noscript>, and shows the links of the page
    is_redirect = seconds == 0 if is_for_all else not has_links
    is_redirect |= is_for_all and text_length < _MAX_REDIRECT_LENGTH
    return text_length, prose, address, is_redirect


_TEXT_BLOCKS = frozenset("h1 h2 h3 h4 h5 h6 p li dd td th pre blockquote".split())


def needs_rendering(tree: HtmlTree) -> bool:
    """Return whether scripts probably add the text of a page.

    A page needs rendering if it has fewer than 100 characters outside navigation, or fewer than 400 and no heading,
    paragraph, list item or table cell. Some short pages are rendered unnecessarily, so that no text is missed.
    """
    sizes = single_page.measure(tree.body, with_noise=False)
    length = sizes[id(tree.body)].text
    measured = ((element.name, sizes.get(id(element))) for element in tree.body.elements())
    return length < 100 or (length < 400 and not any(n in _TEXT_BLOCKS and size and size.text for n, size in measured))


_ROOTS = frozenset({"urlset", "sitemapindex", "rss", "feed", "rdf"})
_ENTRIES = frozenset({"url", "sitemap", "item", "entry"})
_BOM_AND_BLANKS = b"\xef\xbb\xbf \t\r\n\x00"
_UTF_16_STARTS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"<\x00": "utf-16-le", b"\x00<": "utf-16-be"}
_DECLARATION = re.compile(rb"<\?xml[^>]{0,200}>")
_CONTROLS = bytes({*range(0x20)} - {*b"\t\n\r"})
_BARE_AMPERSAND = re.compile(rb"&(?!(?:amp|lt|gt|quot|apos|#\d{1,7}|#x[0-9a-fA-F]{1,6});)")


def listed_links(body: bytes, argument: str | None) -> dict[str, Any]:
    """Return `{"addresses": [[element name, address], …]}` for a sitemap, feed or text list, or raise ParseError."""
    try:
        for _ in range(2):
            if body.startswith(GZIP):
                body = decode_limited([body], "gzip", MAX_SITEMAP_LENGTH)
        if (encoding := _UTF_16_STARTS.get(body[:2])) is not None:
            body = _DECLARATION.sub(b"", body.decode(encoding, "replace").encode(), count=1)
        body = body.lstrip(_BOM_AND_BLANKS)
        try:
            entries = _take_entries(_text_entries(body) if body and not body.startswith(b"<") else _xml_entries(body))
        except etree.XMLSyntaxError:  # try again with ampersands, control characters and declarations repaired
            body = _DECLARATION.sub(b"", body, count=1).translate(None, _CONTROLS)
            entries = _take_entries(
                _xml_entries(_BARE_AMPERSAND.sub(b"&amp;", body.decode("utf-8", "replace").encode()))
            )
        return {"addresses": entries}
    except FetchError as error:
        raise ParseError(str(error)) from error
    except (etree.LxmlError, ValueError) as error:
        raise ParseError(f"invalid sitemap or feed: {' '.join(str(error).split())[:100]}") from error


def _take_entries(entries: Iterator[tuple[str, str]]) -> list[list[str]]:
    usable = ([name, address] for name, address in entries if address and len(address) <= _MAX_ADDRESS_LENGTH)
    return list(islice(usable, MAX_ENTRIES))


def _text_entries(body: bytes) -> Iterator[tuple[str, str]]:
    lines = (line.split(None, 1) for line in body.decode("utf-8", "replace").splitlines())
    words = [line[0] for line in lines if line and not line[0].startswith("#")]
    for number, word in enumerate(words):
        if word.lower().startswith(("http://", "https://", "/")):
            yield "url", word
        elif not number:
            raise ParseError("not a page, a sitemap or a feed")


def _xml_entries(body: bytes) -> Iterator[tuple[str, str]]:
    events = etree.iterparse(
        BytesIO(body),
        events=("start", "end"),
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    has_address = False
    for event, element in events:
        name, parent = _local_name(element), element.getparent()
        if parent is None:
            if event == "end":
                return
            about = element.getroottree().docinfo
            defined = about.internalDTD.entities() if about.internalDTD is not None else []
            if about.doctype and (defined or not about.public_id):  # RSS 0.91 has a public document type
                raise ParseError("a sitemap or feed with a document type is not read, because it may define entities")
            if name not in _ROOTS:
                raise ParseError(f"not a page, a sitemap or a feed: its first element is {name[:40]}")
            continue
        if event == "start":
            has_address = has_address and name not in _ENTRIES
            continue
        above = _local_name(parent)
        if above in _ENTRIES:
            address = element.text or "" if name == ("link" if above in ("item", "entry") else "loc") else ""
            if not address.strip() and name == "link" and element.get("rel", "alternate") == "alternate":
                address = element.get("href", "")
            if address := urljoin(element.base or "", address.strip()):
                has_address = True
                yield above, address
                continue
        if name in _ENTRIES:
            ids = [
                child
                for child in element
                if _local_name(child) in ("guid", "id") and child.get("isPermaLink") != "false"
            ]
            if not has_address and ids and (ids[0].text or "").strip().startswith(("http://", "https://")):
                yield name, str(ids[0].text).strip()
            element.clear()  # otherwise, memory would grow with each entry
            while element.getprevious() is not None:
                del parent[0]


def _local_name(element: etree._Element) -> str:
    return str(etree.QName(element).localname).lower()
