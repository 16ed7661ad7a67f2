"""Addresses in sitemaps and their indexes, RSS and Atom feeds; runs in the process that reads documents."""

from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import islice
from typing import Any

from lxml import etree

from indexer.encodings import decoded
from indexer.errors import FetchError, ParseError
from indexer.read.formats import LONGEST_LIST, MOST_LISTED

_LONGEST = 2_000  # characters of an address; longer ones are traps or data
_GZIP = b"\x1f\x8b"
_ROOTS = frozenset({"urlset", "sitemapindex", "rss", "feed", "RDF"})


def find(body: bytes, argument: str | None) -> dict[str, Any]:
    """Return the addresses of a list, each with the name of the element that it belongs to, JSON-ready.

    Raises:
        ParseError: it is none of the known kinds, is damaged, too large, or defines entities.
    """
    try:
        if body.startswith(_GZIP):
            body = b"".join(_bounded(decoded([body], "gzip"), LONGEST_LIST))
        short = ([name, address] for name, address in _addresses(body) if len(address) <= _LONGEST)
        return {"addresses": list(islice(short, MOST_LISTED))}
    except FetchError as error:
        raise ParseError(str(error)) from error
    except (etree.LxmlError, ValueError) as error:
        raise ParseError(f"a list of pages that cannot be read: {' '.join(str(error).split())[:100]}") from error


def _addresses(body: bytes) -> Iterator[tuple[str, str]]:
    """Element that an address belongs to, and the address."""
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
    is_root = True
    for event, element in events:
        name = _name(element)
        if is_root:
            is_root = False
            if element.getroottree().docinfo.doctype:
                raise ParseError("a list of pages with a document type is not read: it may define entities")
            if name not in _ROOTS:
                raise ParseError(f"neither a page nor a sitemap or feed: its first element is {name[:40]}")
        parent = element.getparent()
        if event == "start" or parent is None:
            continue
        above = _name(parent)
        if (name == "loc" and above in ("url", "sitemap")) or (name == "link" and above == "item"):
            yield above, (element.text or "").strip()
        elif name == "link" and above == "entry" and element.get("rel", "alternate") == "alternate":
            yield above, element.get("href", "")
        elif name in ("url", "sitemap", "item", "entry"):  # done with: memory does not grow with the list
            element.clear()
            while element.getprevious() is not None:
                del parent[0]


def _name(element: etree._Element) -> str:
    return str(etree.QName(element).localname)


def _bounded(parts: Iterable[bytes], most: int) -> Iterator[bytes]:
    size = 0
    for part in parts:
        size += len(part)
        if size > most:
            raise ParseError(f"larger than {most:,} bytes")
        yield part
