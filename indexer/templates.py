"""What the pages of each site have around their text, learnt from its first pages and kept with the index.

The first pages of a site, and of each folder at the top of a source, are read twice: once to find what they have in
common. Which pages these are depends on the site alone. What was learnt holds for later builds too, so that pages which
did not change need not be read again; it is learnt anew when all pages are read anew.
"""

from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from indexer.errors import ParseError
from indexer.formats import HTML, TEMPLATE, effective_type, reader_of
from indexer.html_template import Template
from indexer.records import Failure, Known, Page, Skip
from indexer.sandbox import borrowed

SAMPLE = 24  # pages
_LARGEST = 20_000_000  # bytes of a sample
_LEAST_PAGES = 4  # with headings of their own; of fewer nothing is learnt
_LEAST = 3  # pages that have the same text, or links, at a place
_SHARE = 0.5  # of the pages that have something at this place
_LINKED_SHARE = 0.8  # the same for links
_TWICE = 2  # as at the top of a page and at its end
_MOST = 512  # hashes of each kind in a template
_MOST_SITES = 1_000  # whose templates are kept

Item = Page | Known | Skip | Failure
Items = Generator[Item, None, None]


class Templates:
    """Learns templates, and gives pages those of their sites."""

    def __init__(self, kept: Mapping[str, Mapping[str, str]] | None = None) -> None:
        """Take what `kept` gave after an earlier build."""
        self._known = {source: dict(sites) for source, sites in (kept or {}).items()}

    def kept(self, sources: Iterable[str]) -> dict[str, dict[str, str]]:
        """All templates of these sources, by source and folder at its top; JSON-ready."""
        return {source: self._known[source] for source in sources if self._known.get(source)}

    def over(self, source: str, items: Items) -> Items:
        """Give the items of a source in their order, each page with the template of its site."""
        root = "" if "://" in source else f"{Path(source).resolve().as_uri()}/"
        known = self._known.setdefault(source, {})
        tried = dict(known)
        held: list[Item] = []
        site, pages, size = "", 0, 0

        def release() -> Items:
            nonlocal pages, size
            if site not in tried:
                learnt = learn(_blocks_of(held)) if pages >= _LEAST_PAGES else None
                tried[site] = str(learnt) if learnt is not None else tried.get("", "")
                if learnt is not None and sum(map(len, self._known.values())) < _MOST_SITES:
                    known[site] = tried[site]
            yield from (_with(item, tried[site]) for item in held)
            held.clear()
            pages = size = 0

        with closing(items):
            for item in items:
                here = item.url.removeprefix(root).rpartition("/")[0].partition("/")[0] if root else ""
                if here != site:
                    yield from release()
                    site = here
                if site in tried:
                    yield _with(item, tried[site])
                    continue
                held.append(item)
                if isinstance(item, Page) and _is_html(item):
                    pages, size = pages + 1, size + len(item.body)
                if pages >= SAMPLE or size >= _LARGEST:
                    yield from release()
            yield from release()


def learn(pages: Iterable[Mapping[str, Any]]) -> Template | None:
    """The template of pages, of which each is what `html_template.find` gives; None where they are too few.

    Pages with the same headings, such as versions of one, count once: what they share is what they say.
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
    found = {*(place_of[text] for text in often[:_MOST]), *links[:_MOST]}
    for place in tuple(found):
        while (place := around.get(place, 0)) and place not in found:
            found.add(place)
    return Template(frozenset(often[:_MOST]), frozenset(links[:_MOST]), frozenset(found))


def _blocks_of(items: Sequence[Item]) -> Generator[dict[str, Any], None, None]:
    with borrowed() as sandbox:
        for item in items:
            if isinstance(item, Page) and _is_html(item):
                try:
                    with closing(sandbox.ask(TEMPLATE, item.charset, item.body)) as answers:
                        [(answer, _)] = answers
                    yield checked(answer)
                except ParseError:  # whoever reads it next says so
                    continue


def checked(answer: Mapping[str, Any]) -> dict[str, Any]:
    """What the reader process found, which has read what a stranger wrote; raises ParseError if it is nothing such."""
    try:
        blocks = [
            (int(around), int(place), int(text), bool(linked)) for around, place, text, linked in answer["blocks"]
        ]
        return {"about": int(answer["about"]), "blocks": blocks}
    except (KeyError, TypeError, ValueError) as error:
        raise ParseError("the reader process returned garbage") from error


def _is_html(page: Page) -> bool:
    return not page.noindex and reader_of(effective_type(page.content_type, urlsplit(page.url).path)) == HTML


def _with(item: Item, template: str) -> Item:
    return replace(item, template=template) if template and isinstance(item, Page) and _is_html(item) else item
