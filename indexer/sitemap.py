"""Pages that list pages: sitemaps and their indexes, RSS and Atom feeds, llms.txt."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from io import BytesIO
from urllib.parse import urlsplit

from lxml import etree

from indexer.encodings import decoded
from indexer.errors import FetchError, NotWanted
from indexer.fetch import Unavailable
from indexer.links import read_links
from indexer.records import Failure, Page, Skip
from indexer.urls import normalise

TYPES = frozenset(  # media types that a list may have, beside text/plain and text/markdown for llms.txt
    "application/xml text/xml application/rss+xml application/atom+xml application/rdf+xml "
    "application/gzip application/x-gzip application/octet-stream".split()
)
MOST_FILES = 1_000  # sitemaps that one index leads to
_GZIP = b"\x1f\x8b"
_MOST_PAGES = 50_000  # entries read of one file, as the protocol has it
_ROOTS = frozenset({"urlset", "sitemapindex", "rss", "feed", "RDF"})


@dataclass(frozen=True, slots=True)
class Listing:
    """Addresses in their order, normalised, each once; on any site."""

    pages: tuple[str, ...]
    sitemaps: tuple[str, ...] = ()


def is_listing(page: Page) -> bool:
    """Whether a page, by its media type and name, is a list of pages."""
    return page.content_type in TYPES or urlsplit(page.url).path.endswith("/llms.txt")


def read_lists(
    first: Page, fetch: Callable[[str], Page], max_bytes: int
) -> tuple[tuple[str, ...], tuple[Skip | Failure, ...]]:
    """Addresses that a list and the lists it leads to give, and which of those lists were left out or failed.

    Raises:
        FetchError: the first cannot be read.
        Unavailable: one of the others is out of reach for now, so that it is not known what is gone.
    """
    listing = read_listing(first, max_bytes)
    pages = dict.fromkeys(listing.pages)
    notes: list[Skip | Failure] = []
    known = {first.url}
    due = deque(listing.sitemaps)
    while due:
        url = due.popleft()
        if url in known:
            continue
        if len(known) >= MOST_FILES:
            notes.append(Skip(url, f"over the limit of {MOST_FILES:,} sitemaps"))
            continue
        known.add(url)
        try:
            listing = read_listing(fetch(url), max_bytes)
        except Unavailable:
            raise
        except NotWanted as error:
            notes.append(Skip(url, str(error)))
        except FetchError as error:
            notes.append(Failure(url, str(error)))
        else:
            pages.update(dict.fromkeys(listing.pages))
            due.extend(listing.sitemaps)
    return tuple(pages), tuple(notes)


def read_listing(page: Page, max_bytes: int) -> Listing:
    """Read what a list of pages leads to.

    Args:
        page: any page of which `is_listing` is true.
        max_bytes: size at most of a file in gzip once it is unpacked.

    Raises:
        FetchError: it is none of the known kinds, is damaged, too large, or defines entities.
    """
    if page.content_type not in TYPES:
        return Listing(read_links(replace(page, content_type="text/markdown")).urls)
    body = page.body
    if body.startswith(_GZIP):
        body = _unpacked(body, max_bytes)
    pages: dict[str, None] = {}
    sitemaps: dict[str, None] = {}
    try:
        for parent, address in _addresses(body):
            url = normalise(page.url, address)
            if url is not None:
                (sitemaps if parent == "sitemap" else pages)[url] = None
            if len(pages) + len(sitemaps) >= _MOST_PAGES:
                break
    except (etree.LxmlError, ValueError) as error:
        raise FetchError(f"a list of pages that cannot be read: {' '.join(str(error).split())[:100]}") from error
    return Listing(tuple(pages), tuple(sitemaps))


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
                raise FetchError("a list of pages with a document type is not read: it may define entities")
            if name not in _ROOTS:
                raise FetchError(f"neither a page nor a sitemap or feed: its first element is {name[:40]}")
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


def _unpacked(body: bytes, most: int) -> bytes:
    return b"".join(_bounded(decoded([body], "gzip"), most))


def _bounded(parts: Iterable[bytes], most: int) -> Iterator[bytes]:
    size = 0
    for part in parts:
        size += len(part)
        if size > most:
            raise FetchError(f"larger than {most:,} bytes")
        yield part
