"""Read the addresses in sitemaps, feeds and plain text lists. Runs in reader processes."""

import re
from collections.abc import Iterator
from io import BytesIO
from itertools import islice
from typing import Any
from urllib.parse import urljoin

from lxml import etree

from indexer.errors import FetchError, ParseError
from indexer.network.content_codings import GZIP, decode_limited
from indexer.read.formats import MAX_ENTRIES, MAX_SITEMAP_LENGTH

_MAX_ADDRESS_LENGTH = 2_000
_ROOTS = frozenset({"urlset", "sitemapindex", "rss", "feed", "rdf"})
_ENTRIES = frozenset({"url", "sitemap", "item", "entry"})
_BOM_AND_BLANKS = b"\xef\xbb\xbf \t\r\n\x00"
_UTF_16_STARTS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"<\x00": "utf-16-le", b"\x00<": "utf-16-be"}
_DECLARATION = re.compile(rb"<\?xml[^>]{0,200}>")
_CONTROLS = bytes({*range(0x20)} - {*b"\t\n\r"})
_BARE_AMPERSAND = re.compile(rb"&(?!(?:amp|lt|gt|quot|apos|#\d{1,7}|#x[0-9a-fA-F]{1,6});)")


def listed_links(body: bytes, argument: str | None) -> dict[str, Any]:
    """Return the addresses of a sitemap, each with the name of its element, JSON-ready.

    Raises ParseError if the sitemap has an unknown format, is damaged or too large, or defines entities.
    """
    try:
        for _ in range(2):
            if body.startswith(GZIP):
                body = decode_limited([body], "gzip", MAX_SITEMAP_LENGTH)
        if (encoding := _UTF_16_STARTS.get(body[:2])) is not None:
            body = _DECLARATION.sub(b"", body.decode(encoding, "replace").encode(), count=1)
        body = body.lstrip(_BOM_AND_BLANKS)
        try:
            entries = _take_entries(_text_entries(body) if body and not body.startswith(b"<") else _xml_entries(body))
        except etree.XMLSyntaxError:  # bare ampersands, odd bytes, or a wrong declaration
            body = _DECLARATION.sub(b"", body, count=1).translate(None, _CONTROLS)
            entries = _take_entries(
                _xml_entries(_BARE_AMPERSAND.sub(b"&amp;", body.decode("utf-8", "replace").encode()))
            )
        return {"addresses": entries}
    except FetchError as error:
        raise ParseError(str(error)) from error
    except (etree.LxmlError, ValueError) as error:
        raise ParseError(f"a list of pages that cannot be read: {' '.join(str(error).split())[:100]}") from error


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
            raise ParseError("neither a page nor a sitemap or feed")


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
                raise ParseError("a list of pages with a document type is not read: it may define entities")
            if name not in _ROOTS:
                raise ParseError(f"neither a page nor a sitemap or feed: its first element is {name[:40]}")
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
        if name in _ENTRIES:  # frees the entry, so that memory does not grow
            ids = [
                child
                for child in element
                if _local_name(child) in ("guid", "id") and child.get("isPermaLink") != "false"
            ]
            if not has_address and ids and (ids[0].text or "").strip().startswith(("http://", "https://")):
                yield name, str(ids[0].text).strip()
            element.clear()
            while element.getprevious() is not None:
                del parent[0]


def _local_name(element: etree._Element) -> str:
    return str(etree.QName(element).localname).lower()
