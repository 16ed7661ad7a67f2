"""Learns the templates of sources, the text that pages share around their own, and keeps them with the index.

A template is learnt from the first pages of a site, or from a spread over a folder: which they are depends on the
source alone. Pages that were read before it was known, and that have some of it, are read again. It holds for later
builds too, so that unchanged pages need not be read again; it is learnt again when all pages are read again, or when
most of the sample has changed, as after a redesign.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeGuard, TypeVar
from urllib.parse import urlsplit

from indexer.errors import ParseError
from indexer.read.formats import HTML, effective_type, reader_of
from indexer.read.html.template import MOST_BLOCKS, Template, read_template
from indexer.read.parsing import Wanted, read_parts
from indexer.read.reader_process import borrowed
from indexer.records import Item, Known, Page, PageBlocks, PageReading

SAMPLE = 40  # pages
_LARGEST, _MOST_ITEMS = 20_000_000, 200  # bytes of pages, and items, of a source that are waited for at most
_LEAST_PAGES = 4  # with headings of their own; of fewer nothing is learnt
_LEAST = 3  # pages that have the same text, or links, at a place
_SHARE = 0.5  # of the pages that have something at this place
_LINKED_SHARE = 0.8  # the same for links
_CHANGED = 0.8  # of the sample: a new design
_TWICE = 2  # as at the top of a page and at its end
_MOST = 512  # hashes of each kind in a template

Items = Generator[Item, None, None]
T = TypeVar("T")


def spread(pages: Iterable[T], count: int) -> Iterator[T]:
    """Yield up to `SAMPLE` of so many pages, at equal distances."""
    places = {place * count // SAMPLE for place in range(SAMPLE)} if count > SAMPLE else range(count)
    return (page for place, page in enumerate(pages) if place in places)


class Templates:
    """Learns the templates of sources, and attaches them to pages."""

    def __init__(
        self,
        kept: Mapping[str, str] | None = None,
        is_new: Callable[[Page], bool] = lambda _: True,
        *,
        reads_text: bool = True,
    ) -> None:
        """Start from the result of `kept` after an earlier build.

        Args:
            kept: templates by source.
            is_new: whether the earlier build did not read a page in its present form.
            reads_text: whether the text of pages is read here, and not by a cluster.
        """
        self._known = dict(kept or {})
        self._studied: set[str] = set()
        self._samples: dict[str, _Sample] = {}  # of sources that are being studied
        self._readings: dict[str, PageReading] = {}  # of pages that are given later, by the hash of their content
        self._is_new = is_new
        self._reads_text = reads_text

    def wanted(self, source: str, page: Page) -> Wanted:
        """Return which parts of a fetched page are read beside its links; may be called in any thread."""
        if not self._is_new(page):
            return Wanted()
        template = self._known.get(source, "") if is_html(page) else ""
        blocks = is_html(page) and not template and source not in self._studied
        return Wanted(text=self._reads_text, blocks=blocks, template=template)

    def kept(self, sources: Iterable[str]) -> dict[str, str]:
        """Return the known templates of these sources, by source."""
        return {source: self._known[source] for source in sources if source in self._known}

    def study(self, source: str, pages: Iterable[Item]) -> None:
        """Learn the template of a source from the first of these pages, if they are enough.

        A known template stays, unless most of these pages have changed.
        """
        sample = _Sample()
        for item in pages:
            sample.add(item)
            if sample.is_full:
                break
        self._learn(source, sample)

    def take(self, source: str, item: Item) -> list[Item]:
        """Take the next item of a source; return those that can be given, pages with the source's template attached.

        Unless the source has been studied by then, that is none at first: its template is learnt from them.
        """
        if source in self._studied:
            return [self._with(source, item)]
        sample = self._samples.setdefault(source, _Sample())
        if sample.is_full:
            return [*self.end(source), self._with(source, item)]
        sample.add(item)
        return []

    def end(self, source: str) -> list[Item]:
        """Return the items that `take` has not given yet, as no more of them are to be waited for."""
        sample = self._samples.pop(source, None)
        if sample is None:
            return []
        self._learn(source, sample)
        return [self._with(source, item) for item in sample.items]

    def _learn(self, source: str, sample: "_Sample") -> None:
        self._studied.add(source)
        if source in self._known:
            new = sum(isinstance(page, Page) and self._is_new(page) for page in sample.pages)
            if new < max(_LEAST_PAGES, _CHANGED * len(sample.pages)):
                return
        learnt = learn(self._blocks_of(page for page in sample.pages if isinstance(page, Page)))
        if learnt is not None:
            self._known[source] = str(learnt)

    def _with(self, source: str, item: Item) -> Item:
        if not is_html(item):
            return item
        template = self._known.get(source, "")
        reading = item.reading or self._readings.pop(item.content_hash, None)
        if reading is not None and reading.template != template and _may_have(reading, template):
            reading = None
        return replace(item, template=template, reading=reading)

    def _blocks_of(self, pages: Iterable[Page]) -> Iterator[PageBlocks]:
        """Yield the blocks of pages; those that are read for them here are not read again for their text."""
        for page in pages:
            reading = page.reading
            if reading is None or reading.blocks is None:
                try:
                    with borrowed() as process:
                        reading = read_parts(page, Wanted(blocks=True, text=self._reads_text), process).reading
                except ParseError:
                    continue
            if reading is not None:
                self._readings[page.content_hash] = reading
                if reading.blocks is not None:
                    yield reading.blocks


def _may_have(reading: PageReading, template: str) -> bool:
    """Return whether a page that was read without a template may have some of it."""
    if reading.template or reading.blocks is None or len(reading.blocks.blocks) == MOST_BLOCKS:
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


class _Sample:
    """The first items of a source, which its template is learnt from; in memory all at once."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.pages: list[Page | Known] = []  # of HTML, and of different content
        self._contents: set[str] = set()
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        return len(self.pages) >= SAMPLE or self._bytes >= _LARGEST or len(self.items) >= _MOST_ITEMS

    def add(self, item: Item) -> None:
        self.items.append(item)
        if not isinstance(item, Page | Known) or item.content_hash in self._contents:
            return
        self._contents.add(item.content_hash)
        self._bytes += len(item.body) if isinstance(item, Page) else 0
        if isinstance(item, Known) or is_html(item):
            self.pages.append(item)


def is_html(item: Item) -> TypeGuard[Page]:
    """Return whether an item is an HTML page to be read, which may have a template."""
    if not isinstance(item, Page) or item.noindex:
        return False
    return reader_of(effective_type(item.content_type, urlsplit(item.url).path)) == HTML
