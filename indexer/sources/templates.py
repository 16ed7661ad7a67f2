"""Learns the templates of sources, the text that pages share around their own, and keeps them with the index.

A template is learnt from the first pages of a source, which are held back until then, and holds for later builds too,
until all pages are read again, or most of the sample has changed, as after a redesign.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeGuard
from urllib.parse import urlsplit

from indexer.errors import ParseError
from indexer.read.document_reader import PageParts, read_page_parts
from indexer.read.formats import HTML, effective_type, reader_of
from indexer.read.html.site_template import MAX_BLOCKS, Template, read_template
from indexer.read.reader_process import borrowed, most_at_once
from indexer.records import CarriedPage, Item, Page, PageBlocks, PageReading

_PAGES = 40  # of a sample
_AT_ONCE = 2  # pages of a sample that are read at the same time
_LARGEST, _MOST_ITEMS = 20_000_000, 200  # bytes of pages, and items, of a source that are held back at most
_LEAST_PAGES = 4  # with headings of their own; of fewer nothing is learnt
_LEAST = 3  # pages that have the same text, or links, at a place
_SHARE = 0.5  # of the pages that have something at this place
_LINKED_SHARE = 0.8  # the same for links
_CHANGED = 0.8  # of the sample: a new design
_TWICE = 2  # as at the top of a page and at its end
_MOST = 512  # hashes of each kind in a template

Items = Generator[Item, None, None]


@dataclass(slots=True)
class _Sample:
    """The first items of a source, which its template is learnt from; in memory all at once."""

    items: list[Item] = field(default_factory=list)
    pages: dict[str, Page | CarriedPage] = field(default_factory=dict)  # of HTML, by the hash of their content
    bytes: int = 0


class Templates:
    """Learns the templates of sources, and attaches them to pages."""

    def __init__(self, kept: Mapping[str, str] | None = None, is_new: Callable[[Page], bool] = lambda _: True) -> None:
        """Start from what an earlier build has `kept`; `is_new` returns whether it did not read a page as it is now."""
        self._known = dict(kept or {})
        self._studied: set[str] = set()
        self._is_new = is_new

    def parts_of(self, source: str, page: Page) -> PageParts:
        """Return which parts of a fetched page are read beside its links; may be called in any thread."""
        if not self._is_new(page):
            return PageParts()
        template = self._known.get(source, "") if is_html(page) else ""
        blocks = is_html(page) and not template and source not in self._studied
        return PageParts(text=True, blocks=blocks, template=template)

    def kept(self, sources: Iterable[str]) -> dict[str, str]:
        """Return the known templates of these sources, by source."""
        return {source: self._known[source] for source in sources if source in self._known}

    def attach(self, source: str, items: Iterable[Item]) -> Items:
        """Yield the items of a source, pages with its template; from the first of HTML on, once that is learnt."""
        sample = _Sample()
        for item in items:
            is_page = is_html(item) or isinstance(item, CarriedPage)
            if source in self._studied or not (sample.items or is_page):
                yield self._with(source, item)
                continue
            sample.items.append(item)
            if is_page and isinstance(item, Page | CarriedPage) and item.content_hash not in sample.pages:
                sample.pages[item.content_hash] = item
                sample.bytes += len(item.body) if isinstance(item, Page) else 0
            if len(sample.pages) >= _PAGES or sample.bytes >= _LARGEST or len(sample.items) >= _MOST_ITEMS:
                yield from self._learn(source, sample)
                sample = _Sample()
        yield from self._learn(source, sample)

    def _learn(self, source: str, sample: _Sample) -> list[Item]:
        """Learn the template, unless one is known and most pages are as before; return the items of the sample."""
        pages = [page for page in sample.pages.values() if isinstance(page, Page)]
        readings: dict[str, PageReading] = {}
        needed = max(_LEAST_PAGES, _CHANGED * len(sample.pages)) if source in self._known else 0
        if sum(map(self._is_new, pages)) >= needed:
            with ThreadPoolExecutor(min(_AT_ONCE, most_at_once())) as pool:
                found = zip(pages, pool.map(self._reading, pages), strict=True)
                readings = {page.content_hash: reading for page, reading in found if reading is not None}
            learnt = learn(reading.blocks for reading in readings.values() if reading.blocks is not None)
            if learnt is not None:
                self._known[source] = str(learnt)
        if source in self._known:  # else it may be learnt from the next pages
            self._studied.add(source)
        return [self._with(source, item, readings) for item in sample.items]

    def _reading(self, page: Page) -> PageReading | None:
        """Return the reading of a page with its blocks; it is not read again for its text."""
        if page.reading is not None and page.reading.blocks is not None:
            return page.reading
        try:
            with borrowed() as process:
                return read_page_parts(page, PageParts(text=True, blocks=True), process)[2]
        except ParseError:
            return None

    def _with(self, source: str, item: Item, readings: Mapping[str, PageReading] | None = None) -> Item:
        """Return an item with the template of its source, and with its reading if that holds for it."""
        if not is_html(item):
            return item
        template = self._known.get(source, "")
        reading = item.reading or (readings or {}).get(item.content_hash)
        if reading is not None and reading.template != template and _may_have(reading, template):
            reading = None
        return replace(item, template=template, reading=reading)


def _may_have(reading: PageReading, template: str) -> bool:
    """Return whether a page that was read without a template may have some of it."""
    if reading.template or reading.blocks is None or len(reading.blocks.blocks) == MAX_BLOCKS:
        return True
    texts, places = read_template(template).texts, read_template(template).places
    blocks = reading.blocks.blocks
    return any(text in texts or (is_linked and place in places) for _, place, text, is_linked in blocks)


def learn(pages: Iterable[PageBlocks]) -> Template | None:
    """Learn the template of pages; return None if they are too few.

    Pages with the same headings, such as versions of one, count once: what they share is their own text.
    """
    different = {page.about: page.blocks for page in pages}
    if len(different) < _LEAST_PAGES:
        return None
    around: dict[int, int] = {}  # place: the one it is in
    place_of: dict[int, int] = {}  # text: place
    places, texts, linked = Counter[int](), Counter[int](), Counter[int]()  # pages that have them
    for blocks in different.values():
        around |= {place: outer for outer, place, _, _ in blocks}
        place_of |= {text: place for _, place, text, _ in blocks}
        texts.update({text for _, _, text, _ in blocks})
        times = Counter(place for _, place, _, _ in blocks)
        places.update(times.keys())
        bare = {place for _, place, _, is_linked in blocks if not is_linked}
        linked.update(place for place, count in times.items() if count <= _TWICE and place not in bare)
    often = [text for text, count in texts.most_common() if count >= max(_LEAST, _SHARE * places[place_of[text]])]
    links = [
        place for place, count in linked.most_common() if count >= max(_LEAST_PAGES, _LINKED_SHARE * places[place])
    ]
    at = frozenset(place_of[text] for text in often[:_MOST])
    found = {*at, *links[:_MOST]}
    for place in tuple(found):
        while (place := around.get(place, 0)) and place not in found:
            found.add(place)
    return Template(frozenset(often[:_MOST]), at, frozenset(links[:_MOST]), frozenset(found))


def is_html(item: Item) -> TypeGuard[Page]:
    """Return whether an item is an HTML page to be read, which may have a template."""
    if not isinstance(item, Page) or item.noindex:
        return False
    return reader_of(effective_type(item.content_type, urlsplit(item.url).path)) == HTML
