"""Source strings to pages: sites, folders and files, one after the other, each page once."""

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from indexer.config import CrawlLimits
from indexer.crawler import crawl
from indexer.errors import SourceError
from indexer.folder import read_path
from indexer.records import Failure, Page, Skip

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)


def full_name(source: str) -> str:
    """A source as it can be read again from anywhere: paths are made absolute, addresses stay as they are."""
    if _SCHEME.match(source) or not source.strip():
        return source
    try:
        return str(Path(source).expanduser().absolute())
    except RuntimeError:  # no such user
        return source


def read_sources(
    sources: Sequence[str], limits: CrawlLimits, found: Callable[[int], None]
) -> Iterator[Page | Skip | Failure]:
    """Read every source in turn; of pages with the same address or the same bytes only the first is given.

    Args:
        sources: http or https addresses, folders or files.
        limits: for sites; `max_bytes` for files too.
        found: told how many pages are due in all, as far as is known.

    Raises:
        SourceError: a source cannot be read at all.
    """
    urls: set[str] = set()
    bodies: set[bytes] = set()
    earlier = due = 0

    def tell(pages: int) -> None:
        nonlocal due
        due = earlier + pages
        found(due)

    for source in sources:
        for item in _read_one(source, limits, tell):
            if not isinstance(item, Page):
                yield item
                continue
            digest = hashlib.sha256(item.body).digest()
            if item.url in urls:
                yield Skip(item.url, "already read")
            elif digest in bodies:
                yield Skip(item.url, "same content as another page")
            else:
                urls.add(item.url)
                bodies.add(digest)
                yield item
        earlier = due


def _read_one(source: str, limits: CrawlLimits, found: Callable[[int], None]) -> Iterator[Page | Skip | Failure]:
    scheme = _SCHEME.match(source)
    if scheme is None:
        if not source.strip():
            raise SourceError("a source is empty; give an http or https address, a folder or a file")
        return read_path(source, limits.max_bytes, found)
    if scheme[1].lower() not in ("http", "https"):
        raise SourceError(f"{source}: only http and https addresses, folders and files can be indexed")
    return crawl(source, limits, found)
