"""Read the pages of all sources, each page once, and learn the template of each site.

A template is the text that the pages of a site repeat around their content, such as menus. It is learnt from the first
pages of a source, and stored in the index. It is learnt again if most of the first pages have changed. The path of a
text is the chain of HTML elements from the body to the text.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeGuard
from urllib.parse import urlsplit

from indexer.config import CrawlLimits
from indexer.crawl.browser import Browser
from indexer.crawl.crawler import crawl
from indexer.errors import ParseError, SourceError
from indexer.generation.editions import editions_of
from indexer.generation.previous import PreviousGeneration
from indexer.network.credentials import Session
from indexer.network.urls import SCHEME, address_kind
from indexer.read.container import with_members
from indexer.read.document_reader import PageParts, read_page_parts
from indexer.read.formats import HTML, OCR_OFF, effective_type, reader_of
from indexer.read.html.site_template import MAX_BLOCKS, Template, read_template
from indexer.read.reader_process import ReaderPool, max_readers
from indexer.records import Item, Page, PageBlocks, PageReading, PageRecord, Skip
from indexer.source_context import SourceContext
from indexer.sources.bucket import Bucket
from indexer.sources.folder import read_path
from indexer.sources.git import read_repository
from indexer.sources.pushed_store import SOURCE, PushedStore

_SAMPLE_PAGES, _MAX_SAMPLE_BYTES, _MAX_SAMPLE_ITEMS = 40, 20_000_000, 200
_MAX_READERS = 2
_MIN_PAGES = 4
# A text is part of the template if it is on this many pages, and on this share of the pages with a text at its path.
_MIN_REPEATS, _MIN_SHARE = 3, 0.5
_MIN_LINKED_SHARE = 0.8  # a path is part of the template if this share of pages has only links there
_MIN_CHANGED_SHARE = 0.8
_MAX_TEXTS_PER_LINK_PATH = 2
_MAX_TEMPLATE_HASHES = 512

Items = Generator[Item, None, None]


@dataclass(slots=True)
class _Sample:
    """The first items of a source. The template of the source is learnt from these items."""

    items: list[Item] = field(default_factory=list)
    pages_by_hash: dict[str, Page | PageRecord] = field(default_factory=dict)
    bytes: int = 0


class Templates:
    """Learns the templates of sources, and attaches them to pages."""

    def __init__(
        self, previous: Mapping[str, str] | None = None, is_new: Callable[[Page], bool] = lambda _: True
    ) -> None:
        """Start with the templates of the previous build. `is_new` returns whether a page is new or has changed."""
        self._templates = dict(previous or {})
        self._studied: set[str] = set()
        self._is_new = is_new

    def parts_of(self, source: str, page: Page) -> PageParts:
        """Return the parts of a page, such as its text, to read with its links. Safe to call from several threads."""
        if not self._is_new(page):
            return PageParts()
        template = self._templates.get(source, "") if is_html(page) else ""
        blocks = is_html(page) and not template and source not in self._studied
        return PageParts(text=True, blocks=blocks, template=template)

    def of_sources(self, sources: Iterable[str]) -> dict[str, str]:
        """Return the templates by source. Sources without a template are left out."""
        return {source: self._templates[source] for source in sources if source in self._templates}

    def attach(self, source: str, items: Iterable[Item]) -> Items:
        """Learn the template of a source from its first items. Yield all items, with the template attached to pages."""
        sample = _Sample()
        for item in items:
            is_page = is_html(item) or isinstance(item, PageRecord)
            if source in self._studied or not (sample.items or is_page):
                yield self._with_template(source, item)
                continue
            sample.items.append(item)
            if is_page and isinstance(item, Page | PageRecord) and item.content_hash not in sample.pages_by_hash:
                sample.pages_by_hash[item.content_hash] = item
                sample.bytes += len(item.body) if isinstance(item, Page) else 0
            if (
                len(sample.pages_by_hash) >= _SAMPLE_PAGES
                or sample.bytes >= _MAX_SAMPLE_BYTES
                or len(sample.items) >= _MAX_SAMPLE_ITEMS
            ):
                yield from self._learn(source, sample)
                sample = _Sample()
        yield from self._learn(source, sample)

    def _learn(self, source: str, sample: _Sample) -> list[Item]:
        """Learn the template if there is none, or if most sampled pages are new. Return the items with the template."""
        pages = [page for page in sample.pages_by_hash.values() if isinstance(page, Page)]
        readings: dict[str, PageReading] = {}
        needed = max(_MIN_PAGES, _MIN_CHANGED_SHARE * len(sample.pages_by_hash)) if source in self._templates else 0
        if sum(map(self._is_new, pages)) >= needed:
            with ThreadPoolExecutor(min(_MAX_READERS, max_readers())) as pool, closing(ReaderPool()) as processes:
                results = zip(pages, pool.map(partial(self._reading, processes), pages), strict=True)
                readings = {page.content_hash: reading for page, reading in results if reading is not None}
            template = learn_template(reading.blocks for reading in readings.values() if reading.blocks is not None)
            if template is not None:
                self._templates[source] = str(template)
        if source in self._templates:
            self._studied.add(source)
        return [self._with_template(source, item, readings) for item in sample.items]

    def _reading(self, processes: ReaderPool, page: Page) -> PageReading | None:
        """Return the text and blocks of a page, or None if the page cannot be parsed."""
        if page.reading is not None and page.reading.blocks is not None:
            return page.reading
        try:
            with processes.borrowed(is_patient=False) as process:
                return read_page_parts(page, PageParts(text=True, blocks=True), process)[2]
        except ParseError:
            return None

    def _with_template(self, source: str, item: Item, readings: Mapping[str, PageReading] | None = None) -> Item:
        """Return an item with the template of its source. Drop parsed text that may contain parts of the template."""
        if not is_html(item):
            return item
        template = self._templates.get(source, "")
        reading = item.reading or (readings or {}).get(item.content_hash)
        if reading is not None and reading.template != template and _may_contain(reading, template):
            reading = None
        return replace(item, template=template, reading=reading)


def _may_contain(reading: PageReading, template: str) -> bool:
    if reading.template or reading.blocks is None or len(reading.blocks.blocks) == MAX_BLOCKS:
        return True
    texts, places = read_template(template).texts, read_template(template).link_paths
    blocks = reading.blocks.blocks
    return any(text in texts or (is_linked and place in places) for _, place, text, is_linked in blocks)


def learn_template(pages: Iterable[PageBlocks]) -> Template | None:
    """Return the template that pages share, or None for too few pages. Pages with equal headings count as one page."""
    blocks_by_headings = {page.headings_hash: page.blocks for page in pages}
    if len(blocks_by_headings) < _MIN_PAGES:
        return None
    texts_at: dict[tuple[int, int], list[int]] = defaultdict(list)  # hashes of texts by (page, path)
    pages_with: dict[int, set[int]] = defaultdict(set)  # pages by text
    path_of: dict[int, int] = {}
    linked_texts, paths_in_body = set[int](), set[int]()
    for page, blocks in enumerate(blocks_by_headings.values()):
        for outer, path, text, is_linked in blocks:
            texts_at[page, path].append(text)
            pages_with[text].add(page)
            path_of[text] = path
            if is_linked:
                linked_texts.add(text)
            if not outer:
                paths_in_body.add(path)
    pages_at, linked, unique = Counter[int](), Counter[int](), Counter[int]()  # page counts by path
    for (_, path), texts in texts_at.items():
        pages_at[path] += 1
        linked[path] += len(texts) <= _MAX_TEXTS_PER_LINK_PATH and linked_texts.issuperset(texts)
        unique[path] += any(len(pages_with[text]) < _MIN_REPEATS and text not in linked_texts for text in texts)
    # If most pages have a rare text at a path, repeated texts at this path are content too: the description of an
    # inherited method, for example. Paths at the top of the body are excluded, because text there may be a footer.
    content = {path for path, count in unique.items() if count >= _MIN_SHARE * pages_at[path]} - paths_in_body
    repeated = [
        text
        for text in sorted(pages_with, key=lambda text: -len(pages_with[text]))
        if len(pages_with[text]) >= max(_MIN_REPEATS, _MIN_SHARE * pages_at[path_of[text]])
        and (text in linked_texts or path_of[text] not in content)
    ][:_MAX_TEMPLATE_HASHES]
    links = [
        path for path, count in linked.most_common() if count >= max(_MIN_PAGES, _MIN_LINKED_SHARE * pages_at[path])
    ][:_MAX_TEMPLATE_HASHES]
    return Template(frozenset(repeated), frozenset(path_of[text] for text in repeated), frozenset(links))


def is_html(item: Item) -> TypeGuard[Page]:
    """Return whether an item is an HTML page that may be indexed. Only these pages have a template."""
    if not isinstance(item, Page) or item.noindex:
        return False
    return reader_of(effective_type(item.content_type, urlsplit(item.url).path)) == HTML


_MAX_VERSIONS = 100


@dataclass(frozen=True, slots=True)
class Reading:
    """Settings and services that all sources of a build share."""

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
    """Yield the items of all sources. Skip pages with a repeated address, and repeated content within a source.

    Pushed documents come first, and replace pages with the same address.

    Args:
        sources: sites, repositories, buckets, folders and files, spelled as `urls.full_name` returns them.
        reading: limits and services. If its `templates` is None, the items have no template.

    Raises:
        SourceError: a source cannot be read.
    """
    due: dict[str, int] = {}
    unique = _Unique(reading.copied_urls)

    def report_due(source: str, pages: int) -> None:
        due[source] = pages
        reading.report_due(sum(due.values()))

    def context_of(source: str) -> SourceContext:
        limits, report = reading.limits.for_source(source), partial(report_due, source)
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
        return Bucket(context).items()
    if kind is None:
        raise SourceError(
            f"{source} has an unknown scheme; a source is a site (http, https), a repository (git+https, git+file), a "
            "bucket (s3, gs, az), a folder or a file"
        )
    return crawl(context, reading.sessions, browser)


def read_pushed(context: SourceContext, documents: PushedStore) -> Iterator[Item]:
    """Yield pushed documents, sorted by address, and then documents of an imported index that were not pushed here."""
    earlier, pushed_urls = context.earlier, set[str]()
    context.report_due(documents.facts().documents)
    for url, content_hash, is_stored in documents.listed():
        pushed_urls.add(url)
        if not is_stored:
            continue
        record = earlier.reusable_page(url)
        if record is not None and record.content_hash == content_hash:
            yield from (replace(each, source=SOURCE) for each in (record, *earlier.pages(f"{url}!/")))
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
            if record.source == SOURCE and record.url.partition("!/")[0] not in pushed_urls:
                yield record


class _Unique:
    """Skips pages with a repeated address, and copies of pages in the same source.

    If the addresses of equal pages name different versions, such as `/v1/a` and `/v2/a`, the pages are not copies.
    """

    def __init__(self, copied_urls: Collection[str]) -> None:
        self._copied_urls = copied_urls
        self._urls: set[str] = set()
        # Addresses by (source, content hash). Equal pages of two sources may have different access lists.
        self._contents: dict[tuple[str, str], list[str]] = {}

    def item(self, item: Item) -> Item:
        if not isinstance(item, Page | PageRecord):
            return Skip(item.url, "already read") if item.url in self._copied_urls else item
        # Record the page even if another source has it, so that later copies in this source are skipped.
        is_copy = item.source != SOURCE and self._is_copy(item.url, (item.source, item.content_hash))
        if item.url in self._copied_urls or item.url in self._urls:
            return Skip(item.url, "already read")
        if is_copy:
            return Skip(item.url, "same content as another page")
        self._urls.add(item.url)
        return item

    def _is_copy(self, url: str, content: tuple[str, str]) -> bool:
        """Return whether a page is a copy of an earlier page. If it is not, record its address."""
        urls = self._contents.setdefault(content, [])
        if len(urls) >= _MAX_VERSIONS:
            return True
        present = {item for each in urls for item in _versions_of(each).items()}
        pages = {page for page, _ in present}
        if urls and all(page not in pages or (page, each) in present for page, each in _versions_of(url).items()):
            return True
        urls.append(url)
        return False


def _versions_of(url: str) -> dict[tuple[str, str], str]:
    """Return the versions that an address may name. Keys are (address before the version, path after the version).

    For `https://a.example/v2/b`, this is `{("https://a.example/*", "b"): "2", ("", "b"): "any", ("", "v2/b"): ""}`.
    The keys with "" are compared with those of addresses that contain no version, such as `https://a.example/b`.
    """
    versions, rest = dict[tuple[str, str], str](), urlsplit(url).path.strip("/")
    while rest:
        versions["", rest] = ""
        rest = rest.partition("/")[2]
    for edition in editions_of(url):
        versions |= {edition.page: edition.version, ("", edition.page[1]): "any"}
    return versions
