"""Filters of a search, and the filters that it offers, as links that work without JavaScript."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

from flask import url_for
from msgspec import structs

from rag.query.facets import FACETS, Share
from rag.query.filters import METADATA, parameters_of
from rag.query.options import MODES
from rag.query.request import SearchRequest
from rag.query.results import is_source_code
from web.api.requests import collection_field
from web.display_urls import NO_SOURCES, Places, distinct, place_of

Pair = tuple[str, str]

HEADINGS = {"source": "Source", "language": "Language", "content_type": "Kind", "path": "Folder"}
KINDS = {
    "application/json": "JSON",
    "application/pdf": "PDF",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "Word document",
    "application/epub+zip": "Book",
    "application/vnd.ms-excel": "Table",
    "application/vnd.oasis.opendocument.spreadsheet": "Table",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "Slides",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "Table",
    "application/x-ipynb+json": "Notebook",
    "application/xhtml+xml": "Web page",
    "message/rfc822": "E-mail",
    "text/csv": "Table",
    "text/html": "Web page",
    "text/markdown": "Markdown",
    "text/mdx": "Markdown",
    "text/plain": "Text",
    "text/tab-separated-values": "Table",
    "text/x-rst": "reStructuredText",
}


@dataclass(frozen=True, slots=True)
class ActiveFilter:
    """One thing the search is narrowed to, carried along as a hidden field."""

    name: str
    value: str
    label: str
    without: str  # address of the same search without it


@dataclass(frozen=True, slots=True)
class FacetOption:
    """One value that the search can be narrowed to."""

    label: str
    count: int
    address: str


@dataclass(frozen=True, slots=True)
class Facet:
    """The values of one kind; there are at least two."""

    heading: str
    choices: list[FacetOption]


@dataclass(frozen=True, slots=True)
class PageSearch:
    """A search as it stands in the address of the page."""

    search: SearchRequest  # its query may be blank
    places: Places = NO_SOURCES  # names files

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The collection, if it is another than the default one, and the filter, in their usual order."""
        return (*collection_field(self.search.collection).items(), *parameters_of(self.search.only))

    @property
    def per_document(self) -> str:
        """The most hits of a document, as they were asked for; empty for the default."""
        return "" if self.search.per_document is None else str(self.search.per_document)

    def asking(self, query: str) -> str:
        """Return the address of the first hits of another query."""
        return PageSearch(structs.replace(self.search, query=query), self.places).address()

    def address(self, pairs: Sequence[Pair] | None = None, **more: object) -> str:
        """Return the address of the first hits of this search, narrowed to other things or with more parameters."""
        search = self.search
        kept = [("q", search.query)] if search.query else []
        kept += [("mode", search.mode)] if search.mode != MODES[0] else []
        narrowed = self.pairs if pairs is None else pairs
        kept += [(name, self.places.display_value(name, value)) for name, value in narrowed]
        more = {"per_document": self.per_document, "explain": "true" if search.explain else "", **more}
        kept += [(name, str(value)) for name, value in more.items() if value]
        return f"{url_for('page.index')}{'?' if kept else ''}{urlencode(kept)}"

    def question(self) -> dict[str, Any]:
        """Return the body of a request that has an answer written from the first hits of this search."""
        search = self.search
        given: dict[str, Any] = {"query": search.query, "mode": search.mode, "collection": search.collection}
        if search.per_document is not None:
            given["per_document"] = search.per_document
        return given | {"filter": search.only.as_dict() if search.only else {}}

    def within(self, url: str) -> str:
        """Return the address of all hits of this search in one document."""
        others = [pair for pair in self.pairs if pair[0] != "url_prefix"]
        return self.address([*others, ("url_prefix", url)], per_document="0")

    def narrowed(self) -> list[ActiveFilter]:
        """Return the filters of the search."""
        found = []
        for place, (name, value) in enumerate(self.pairs):
            others = [*self.pairs[:place], *self.pairs[place + 1 :]]
            # all passages of one page were asked for; of several, that would be a list of one page again
            limit = "" if name == "url_prefix" else self.per_document
            found.append(
                ActiveFilter(
                    name,
                    self.places.display_value(name, value),
                    _chip(name, value, self.places),
                    self.address(others, per_document=limit),
                )
            )
        return found

    def facets(self, counts: Mapping[str, Sequence[Share]]) -> list[Facet]:
        """Return the filters to offer: values that some of the documents found have and others have not."""
        facets: list[Facet] = []
        for name in FACETS:
            others = [pair for pair in self.pairs if pair[0] != name]  # a deeper folder takes the place of its parent
            set_already = len(others) < len(self.pairs) and name != "path"
            shares = [share for share in counts.get(name, ()) if (name, share["value"]) not in self.pairs]
            is_source_again = name == "path" and bool(facets) and _are_sources(shares, counts.get("source", ()))
            if len(shares) > 1 and not set_already and not is_source_again:
                values = [share["value"] for share in shares]
                labels = distinct([_label(name, value, self.places) for value in values], values)
                choices = [
                    FacetOption(label, share["count"], self.address([*others, (name, share["value"])]))
                    for label, share in zip(labels, shares, strict=True)
                ]
                facets.append(Facet(HEADINGS[name], choices))
        return facets


def _are_sources(folders: Sequence[Share], sources: Sequence[Share]) -> bool:
    """Return whether each folder has the documents of one source, so that choosing either is the same."""
    paths = [(urlsplit(each["value"]).path.rstrip("/") + "/", each["count"]) for each in sources]
    return len(folders) == len(sources) and all(
        any(path.startswith(f"{each['value']}/") and count == each["count"] for path, count in paths)
        for each in folders
    )


def _chip(name: str, value: str, places: Places) -> str:
    heading = HEADINGS.get(name, name.removeprefix(METADATA).replace("_", " ")).lower()
    return f"{heading} {_label(name, value, places)}"


def _label(name: str, value: str, places: Places) -> str:
    if name == "content_type":
        return KINDS.get(value) or (_code_name(value) if is_source_code(value) else value)
    if name == "path":
        return places.of_folder(unquote(value).removesuffix("!"))  # where an archive begins
    return places.of(value) if name in ("source", "url_prefix") else place_of(value)


def _code_name(content_type: str) -> str:
    name = content_type.rpartition("/")[2].removeprefix("x-")
    return f"Code ({name})"
