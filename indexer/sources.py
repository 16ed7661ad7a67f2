"""Source strings to pages: sites, folders and files, one after the other, each page once."""

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path

from indexer.config import CrawlLimits
from indexer.crawler import crawl
from indexer.earlier import Earlier, hash_page
from indexer.errors import SourceError
from indexer.folder import read_path
from indexer.journal import Journal
from indexer.records import Failure, Known, Page, Skip
from indexer.traffic import Traffic

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
    sources: Sequence[str],
    limits: CrawlLimits,
    found: Callable[[int], None],
    earlier: Earlier | None = None,
    traffic: Traffic | None = None,
    journal: Journal | None = None,
) -> Generator[Page | Known | Skip | Failure, None, None]:
    """Read every source in turn; of pages with the same address or the same content only the first is given.

    Args:
        sources: http or https addresses, folders or files.
        limits: for sites; `max_bytes` for files too.
        found: told how many pages are due in all, as far as is known.
        earlier: what an earlier build knows, if there was one; unchanged pages of a site are not read again.
        traffic: told of every request to a site.
        journal: pages that an interrupted build has fetched, and that this one will have.

    Raises:
        SourceError: a source cannot be read at all.
    """
    urls: set[str] = set()
    contents: set[str] = set()
    before = due = 0

    def tell(pages: int) -> None:
        nonlocal due
        due = before + pages
        found(due)

    for source in sources:
        for item in _read_one(source, limits, tell, earlier, traffic, journal):
            if isinstance(item, Skip | Failure):
                yield item
                continue
            content = item.record.content_hash if isinstance(item, Known) else hash_page(item)
            if item.url in urls:
                yield Skip(item.url, "already read")
            elif content in contents:
                yield Skip(item.url, "same content as another page")
            else:
                urls.add(item.url)
                contents.add(content)
                yield item
        before = due


def _read_one(
    source: str,
    limits: CrawlLimits,
    found: Callable[[int], None],
    earlier: Earlier | None,
    traffic: Traffic | None,
    journal: Journal | None,
) -> Iterator[Page | Known | Skip | Failure]:
    scheme = _SCHEME.match(source)
    if scheme is None:
        if not source.strip():
            raise SourceError("a source is empty; give an http or https address, a folder or a file")
        return read_path(source, limits.max_bytes, found, earlier)
    if scheme[1].lower() not in ("http", "https"):
        raise SourceError(f"{source}: only http and https addresses, folders and files can be indexed")
    return crawl(source, limits, found, earlier, traffic, journal)
