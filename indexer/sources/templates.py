"""Learns the templates of sources, the text that pages share around their own, and keeps them with the index.

The first pages of a site, or a spread over a folder, are read twice: once to find what they have in common. Which pages
these are depends on the source alone. A template holds for later builds too, so that unchanged pages need not be read
again; it is learnt again when all pages are read again, or when most of the sample has changed, as after a redesign.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from itertools import islice
from typing import Any, TypeGuard, TypeVar
from urllib.parse import urlsplit

from indexer.errors import ParseError
from indexer.read.formats import HTML, TEMPLATE, effective_type, reader_of
from indexer.read.html.template import MOST_BLOCKS, Template
from indexer.read.reader_process import borrowed
from indexer.records import Item, Known, Page

SAMPLE = 40  # pages
_LARGEST, _MOST_ITEMS = 20_000_000, 200  # bytes of pages, and items, of a source that are waited for at most
_LEAST_PAGES = 4  # with headings of their own; of fewer nothing is learnt
_LEAST = 3  # pages that have the same text, or links, at a place
_SHARE = 0.5  # of the pages that have something at this place
_LINKED_SHARE = 0.8  # the same for links
_CHANGED = 0.8  # of the sample: a new design
_TWICE = 2  # as at the top of a page and at its end
_MOST = 512  # hashes of each kind in a template
_HASHES = 1 << 64  # there are

Items = Generator[Item, None, None]
T = TypeVar("T")


def spread(pages: Iterable[T], count: int) -> Iterator[T]:
    """Yield up to `SAMPLE` of so many pages, at equal distances."""
    places = {place * count // SAMPLE for place in range(SAMPLE)} if count > SAMPLE else range(count)
    return (page for place, page in enumerate(pages) if place in places)


class Templates:
    """Learns the templates of sources, and attaches them to pages."""

    def __init__(self, kept: Mapping[str, str] | None = None, is_new: Callable[[Page], bool] = lambda _: True) -> None:
        """Start from the result of `kept` after an earlier build.

        Args:
            kept: templates by source.
            is_new: whether the earlier build did not read a page in its present form.
        """
        self._known = dict(kept or {})
        self._studied: set[str] = set()
        self._samples: dict[str, _Sample] = {}  # of sources that are being studied
        self._is_new = is_new

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
        learnt = learn(_blocks_of(page for page in sample.pages if isinstance(page, Page)))
        if learnt is not None:
            self._known[source] = str(learnt)

    def _with(self, source: str, item: Item) -> Item:
        template = self._known.get(source)
        return replace(item, template=template) if template and is_html(item) else item


def learn(pages: Iterable[Mapping[str, Any]]) -> Template | None:
    """Learn the template of pages, each a result of `html_template.find`; return None if they are too few.

    Pages with the same headings, such as versions of one, count once: what they share is their own text.
    """
    different = {page["about"]: page["blocks"] for page in pages}
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


def _blocks_of(pages: Iterable[Page]) -> Generator[dict[str, Any], None, None]:
    with borrowed() as process:
        for page in pages:
            try:
                with closing(process.ask(TEMPLATE, page.charset, page.body)) as answers:
                    [(answer, _)] = answers
                yield checked(answer)
            except ParseError:  # whoever reads it for its text says so
                continue


def checked(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return a checked copy of the reader process's answer, which is untrusted; raises ParseError if it is invalid."""
    try:
        blocks = [
            (_number(around), _number(place), _number(text), bool(linked))
            for around, place, text, linked in islice(answer["blocks"], MOST_BLOCKS)
        ]
        return {"about": _number(answer["about"]), "blocks": blocks}
    except (KeyError, TypeError, ValueError) as error:
        raise ParseError("the reader process returned invalid data") from error


def _number(given: int) -> int:
    if not 0 <= int(given) < _HASHES:
        raise ValueError("no hash")
    return int(given)


def is_html(item: Item) -> TypeGuard[Page]:
    """Whether an item is an HTML page to be read, which may have a template."""
    if not isinstance(item, Page) or item.noindex:
        return False
    return reader_of(effective_type(item.content_type, urlsplit(item.url).path)) == HTML
