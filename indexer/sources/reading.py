"""Read the pages of all sources, each page once."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from indexer.config import CrawlLimits
from indexer.crawl.browser import Browser
from indexer.crawl.crawler import crawl
from indexer.errors import SourceError
from indexer.generation.previous import PreviousGeneration
from indexer.generation.versions import editions_of
from indexer.network.credentials import Session
from indexer.read.container import with_members
from indexer.read.formats import OCR_OFF
from indexer.records import CarriedPage, Item, Page, Skip
from indexer.source_context import SourceContext
from indexer.sources.addresses import SCHEME, address_kind
from indexer.sources.bucket import read_objects
from indexer.sources.folder import read_path
from indexer.sources.git import read_repository
from indexer.sources.pushed_store import SOURCE, PushedStore
from indexer.sources.templates import Items, Templates

_MAX_VERSIONS = 100


@dataclass(frozen=True, slots=True)
class Reading:
    """Settings and objects that all sources of a build share."""

    limits: CrawlLimits
    report_due: Callable[[int], None] = lambda _: None
    earlier: PreviousGeneration = field(default_factory=PreviousGeneration)
    sessions: Mapping[str, Session] = field(default_factory=dict)
    templates: Templates | None = None
    copied_urls: Collection[str] = ()
    pushed: PushedStore | None = None
    scratch: Path | None = None
    no_images: str = OCR_OFF


def read_sources(sources: Sequence[str], reading: Reading) -> Items:
    """Yield the pages of all sources. A repeated address, or repeated content within a source, becomes a skip.

    Pushed documents come first, and replace pages with the same address. Raises SourceError if a source cannot be read.
    """
    due: dict[str, int] = {}
    unique = _Unique(reading.copied_urls)

    def report_due(source: str, pages: int) -> None:
        due[source] = pages
        reading.report_due(sum(due.values()))

    def context_of(source: str) -> SourceContext:
        limits, report = reading.limits.of(source), partial(report_due, source)
        context = SourceContext(source, limits, report, reading.earlier, no_images=reading.no_images)
        return replace(context, parts_of=partial(reading.templates.parts_of, source)) if reading.templates else context

    if SOURCE in sources and reading.pushed is not None:
        yield from map(unique.item, read_pushed(context_of(SOURCE), reading.pushed))
    with closing(Browser()) as browser:
        for source in sources:
            if source != SOURCE:
                with closing(_read_one(context_of(source), reading, browser)) as items:
                    ready = reading.templates.attach(source, items) if reading.templates else items
                    yield from map(unique.item, ready)


def _read_one(context: SourceContext, reading: Reading, browser: Browser) -> Items:
    source = context.source
    if SCHEME.match(source) is None:
        if not source.strip():
            raise SourceError("empty source; name a site, folder or file")
        return read_path(context)
    kind = address_kind(source)
    if kind == "repository":
        return read_repository(context, reading.sessions, reading.scratch)
    if kind == "bucket":
        return read_objects(context)
    if kind is None:
        raise SourceError(
            f"{source}: cannot index this scheme; name an http or https address, git+https:// or git+file:// and a "
            "repository, s3://, gs:// or az:// and a bucket, a folder or a file"
        )
    return crawl(context, reading.sessions, browser)


def read_pushed(context: SourceContext, documents: PushedStore) -> Iterator[Item]:
    """Yield pushed documents by address, then the documents that only the index has after an import."""
    earlier, sent = context.earlier, set[str]()
    context.report_due(documents.facts().documents)
    for url, content_hash, is_there in documents.listed():
        sent.add(url)
        if not is_there:
            continue
        record = earlier.unchanging_page(url)
        if record is not None and record.content_hash == content_hash:
            yield from (CarriedPage(replace(each, source=SOURCE)) for each in (record, *earlier.pages(f"{url}!/")))
            continue
        page = documents.page(url)
        if page is None:
            continue
        for item in with_members(page, context.limits.max_bytes, context.no_images):
            if isinstance(item, Page) and item is not page:
                item = replace(item, sender_facts=page.sender_facts._replace(title=""), content_hash="")
            yield item
    if earlier.manifest is not None and SOURCE in earlier.manifest.sources:
        for record in earlier.pages():
            if record.source == SOURCE and record.url.partition("!/")[0] not in sent:
                yield CarriedPage(record)


class _Unique:
    """Skips repeated addresses, and repeated content within a source unless it is another version of a manual."""

    def __init__(self, copied_urls: Collection[str]) -> None:
        self._rested = copied_urls
        self._urls: set[str] = set()
        # Versions by page, for each source and content hash. Sources are separate, because their readers may differ.
        self._contents: dict[tuple[str, str], dict[tuple[str, str], set[str]]] = {}

    def item(self, item: Item) -> Item:
        """Return the item, or a skip for a duplicate."""
        if item.url in self._rested or (item.url in self._urls and isinstance(item, Page | CarriedPage)):
            return Skip(item.url, "already read")
        if isinstance(item, Page | CarriedPage):
            source = item.source if isinstance(item, Page) else item.record.source
            if source != SOURCE and self._is_copy(item.url, (source, item.content_hash)):
                return Skip(item.url, "same content as another page")
            self._urls.add(item.url)
        return item

    def _is_copy(self, url: str, content: tuple[str, str]) -> bool:
        """Return whether a page other than a version of this page has the same content. If not, record this page."""
        pages = self._contents.get(content)
        editions = {edition.page: edition.version for edition in editions_of(url)}
        if pages is not None:
            new = [page for page, version in editions.items() if page in pages and version not in pages[page]]
            if not any(len(pages[page]) < _MAX_VERSIONS for page in new):
                return True
        pages = self._contents.setdefault(content, {})
        for page, version in editions.items():
            pages.setdefault(page, set()).add(version)
        return False
