"""Render the search page with its form, filters and hits. The page works without JavaScript."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import unquote, urlencode

from flask import Blueprint, g, render_template, request, url_for
from msgspec import Meta, structs

from rag.decoding import is_blank
from rag.errors import NotReady, NotThere
from rag.messages import Request
from rag.query.request import (
    DEFAULT_COLLECTION,
    MAX_K,
    MAX_OFFSET,
    MAX_QUERY_CHARS,
    METADATA,
    MODES,
    Collection,
    Mode,
    SearchRequest,
    parameters_of,
)
from rag.query.results import FACETS, Answer, Hit, Share, explanation_lines, is_source_code, section_within
from web.api import requests
from web.display_urls import BIDI_CONTROLS, SAFE_URL, DisplayNames, Link, display_names, is_http_url, readable_url
from web.openapi import HTML, Operation
from web.pages.snippets import SNIPPET_CHARS, make_section, make_text

MAX_EXAMPLES = 4
MAX_DUPLICATES = 3  # links to duplicates of a hit
HEADINGS = {"source": "Source", "language": "Language", "content_type": "Kind", "path": "Folder", "version": "Version"}
_OFFICE = "application/vnd.openxmlformats-officedocument"
_KINDS = {
    "AsciiDoc": "text/asciidoc text/x-asciidoc",
    "Book": "application/epub+zip",
    "E-mail": "message/rfc822",
    "JSON": "application/json",
    "Markdown": "text/markdown text/mdx",
    "Notebook": "application/x-ipynb+json",
    "OpenAPI": "application/openapi+json application/openapi+yaml application/vnd.oai.openapi "
    "application/vnd.oai.openapi+json",
    "PDF": "application/pdf",
    "Slides": f"{_OFFICE}.presentationml.presentation",
    "Table": f"application/vnd.ms-excel application/vnd.oasis.opendocument.spreadsheet {_OFFICE}.spreadsheetml.sheet "
    "text/csv text/tab-separated-values",
    "Text": "text/plain",
    "Web page": "application/xhtml+xml text/html",
    "Word document": f"{_OFFICE}.wordprocessingml.document",
    "reStructuredText": "text/x-rst",
}
KINDS = {media_type: name for name, types in _KINDS.items() for media_type in types.split()}

Pair = tuple[str, str]
blueprint = Blueprint("page", __name__)


class PageFields(Request):
    """The query parameters of the page, except those of a filter."""

    q: Annotated[str, Meta(description="what to search for")] = ""
    mode: Mode = "hybrid"
    collection: Collection = DEFAULT_COLLECTION
    collections: Annotated[str | None, Meta(description="several collections: names with commas, or `*`")] = None
    offset: Annotated[int, Meta(ge=0, le=MAX_OFFSET, description="hits to skip")] = 0
    per_document: Annotated[int, Meta(ge=0, le=MAX_K)] | None = None
    explain: bool = False
    open: Annotated[str, Meta(description="id of a passage to show with its whole section")] = ""


@dataclass(frozen=True, slots=True)
class PageSearch:
    """A search on the page. Methods return the URLs of similar searches, such as the same search without a filter."""

    search: SearchRequest
    places: DisplayNames

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The query parameters for collections and the filter, in a fixed order. The default collection is omitted."""
        search, several = self.search, self.search.collections
        where = {"collections": several} if isinstance(several, str) else requests.collection_field(search.collection)
        return (*where.items(), *parameters_of(search.parsed_filter))

    @property
    def per_document(self) -> str:
        """The requested maximum number of hits per document, or an empty string for the default."""
        return "" if self.search.per_document is None else str(self.search.per_document)

    def first_hits_of(self, query: str) -> str:
        """Return the URL of a search for another query with the same options, beginning with its first hit."""
        return PageSearch(structs.replace(self.search, query=query), self.places).address()

    def address(self, pairs: Sequence[Pair] | None = None, **more: object) -> str:
        """Return the URL of the first page of this search. `pairs` replaces the filters, and `more` adds parameters."""
        search = self.search
        parameters = [("q", search.query)] if search.query else []
        parameters += [("mode", search.mode)] if search.mode != MODES[0] else []
        narrowed = self.pairs if pairs is None else pairs
        parameters += [(name, self.places.display_value(name, value)) for name, value in narrowed]
        more = {"per_document": self.per_document, "explain": "true" if search.explain else "", **more}
        parameters += [(name, str(value)) for name, value in more.items() if value]
        return f"{url_for('page.index')}{'?' if parameters else ''}{urlencode(parameters)}"

    def active_filters(self) -> list[dict[str, str]]:
        """Return the name, value and label of each active filter, and the URL of the search without this filter."""
        filters = []
        for index, (name, value) in enumerate(self.pairs):
            other_pairs = [*self.pairs[:index], *self.pairs[index + 1 :]]
            # The link "all hits of this page" sets both url_prefix and per_document=0, so remove both.
            limit = "" if name == "url_prefix" else self.per_document
            heading = HEADINGS.get(name, name.removeprefix(METADATA).replace("_", " ")).lower()
            label = f"{heading} {_label(name, value, self.places)}"
            without = self.address(other_pairs, per_document=limit)
            shown = self.places.display_value(name, value)
            filters.append({"name": name, "value": shown, "label": label, "without": without})
        return filters

    def facets(self, counts: Mapping[str, Sequence[Share]]) -> list[dict[str, Any]]:
        """Return the filters to offer, such as one for each language. Omits fields with the same value in all hits."""
        facets: list[dict[str, Any]] = []
        for name in FACETS:
            other_pairs = [pair for pair in self.pairs if pair[0] != name]
            is_set = len(other_pairs) < len(self.pairs) and name != "path"
            shares = [share for share in counts.get(name, ()) if (name, share["value"]) not in self.pairs]
            if len(shares) > 1 and not is_set:
                choices = [
                    {
                        "label": _label(name, share["value"], self.places),
                        "count": share["count"],
                        "address": self.address([*other_pairs, (name, share["value"])]),
                    }
                    for share in shares
                ]
                facets.append({"heading": HEADINGS[name], "choices": choices})
        return facets


def _label(name: str, value: str, places: DisplayNames) -> str:
    if name == "content_type":
        code = f"Code ({value.rpartition('/')[2].removeprefix('x-')})" if is_source_code(value) else value
        return KINDS.get(value, code)
    if name == "path":
        return places.of_folder(unquote(value).removesuffix("!"))
    return places.of(value) if name in ("source", "url_prefix") else readable_url(value)


@blueprint.get("/")
@Operation(role="read", query=PageFields, has_filter=True, responses={200: HTML}, errors=(404,))
def index() -> str:
    """Show the search page. Empty and unknown parameters are ignored."""
    # Shared links often contain tracking parameters, so unknown parameters are ignored.
    parameters = {
        name: values
        for name, values in requests.parse_query_string(request.query_string).items()
        if (name in PageFields.__struct_fields__ or requests.is_filter(name)) and any(values)
    }
    query = parameters.pop("q", [""])[0].strip()
    opened = parameters.pop("open", [""])[0]
    status, settings = requests.retriever().status(), requests.settings()
    answers = settings.answer_page if settings.answer_url and settings.answer_page != "off" else ""
    g.form = {"query": query[:MAX_QUERY_CHARS], "longest": MAX_QUERY_CHARS, "status": status, "answers": answers}
    several = ",".join(parameters.get("collections", ())) or None
    collections_shown = requests.collections_of(parameters.get("collection", [DEFAULT_COLLECTION])[0], several)
    names = display_names(*collections_shown)
    parameters = names.index_values(parameters)
    blank = is_blank(query)
    search = requests.search_of_parameters({"q": ["?" if blank else query], **parameters})
    search = structs.replace(search, query=query)
    page_search = PageSearch(search, names)
    collections = [one["name"] for one in status.get("collections", [])]
    offers = len(collections) > 1 and set(collections_shown).issubset(collections)
    g.form |= {
        "explains": search.explain,
        "mode": search.mode,
        "chosen": collections_shown,
        "collections": collections if offers else [],
        "narrowed": [
            one for one in page_search.active_filters() if not (offers and one["name"] in ("collection", "collections"))
        ],
    }
    if blank:
        examples = [(text, page_search.first_hits_of(text)) for text in _examples(status, collections_shown)]
        searched = [one for one in status.get("collections", []) if one["name"] in collections_shown] or [status]
        index = {unit: sum(one.get(unit) or 0 for one in searched) for unit in ("documents", "chunks")}
        index["created_at"] = created = max(one.get("created_at") or "" for one in searched)
        day = f"{datetime.fromisoformat(created):%-d %b %Y}" if created else None
        return render_template("page.html", state="empty", index=index, day=day, examples=examples, **g.form)
    search = structs.replace(search, facets=True, links=True, expand="section" if opened else "none")
    answer = requests.run(search, via=None if opened else "page")
    return render_template("page.html", **g.form, **_shown(answer, page_search), opened=opened, page_search=page_search)


def _examples(status: Mapping[str, Any], collections: Sequence[str]) -> list[str]:
    """Return headings in the index that are questions, as examples for the start page."""
    if not status["ready"]:
        return []
    try:
        return [text for name in collections for text in requests.retriever().questions(name)][:MAX_EXAMPLES]
    except (NotReady, NotThere):
        return []


def _shown(answer: Answer, page_search: PageSearch) -> dict[str, Any]:
    """Return the template variables for the answer to a search."""
    search, suggestion = page_search.search, answer.did_you_mean
    question = {
        **{name: getattr(search, name) for name in ("query", "mode", "collection", "collections", "per_document")},
        "filter": search.parsed_filter.as_dict() if search.parsed_filter else None,
    }
    bounds = (("Only with", answer.required), ("Without", answer.excluded))
    return {
        "state": "answer" if answer.hits else "none",
        "pages": _pages(answer, page_search),
        "passages": len(answer.hits),
        "is_close": answer.close,
        "meant": {"text": suggestion, "address": page_search.first_hits_of(suggestion)} if suggestion else None,
        "also": answer.also_searched,
        "unavailable": answer.unavailable,
        "bounds": [(label, ", ".join(names)) for label, names in bounds if names],
        "facets": page_search.facets(answer.facets or {}),
        "question": question if g.form["answers"] else None,
        "next": answer.next,
        "search_id": answer.search_id,
    }


def _pages(answer: Answer, page_search: PageSearch) -> list[dict[str, Any]]:
    """Return the template variables of hits, grouped by page. Pages are in the order of their best hits."""
    groups: dict[str, list[Hit]] = {}
    for hit in answer.hits:
        groups.setdefault(hit.url.partition("#")[0], []).append(hit)
    other_pairs = [pair for pair in page_search.pairs if pair[0] != "url_prefix"]
    return [
        {
            "title": group[0].title or page_search.places.of(url),
            "place": page_search.places.of(url),
            "language": group[0].language,
            "collection": group[0].collection if len(answer.collections) > 1 else "",
            "date": group[0].date,
            "version": group[0].version,
            "passages": [_passage(hit, page_search) for hit in group],
            "more": group[-1].more,
            "all": page_search.address([*other_pairs, ("url_prefix", url)], per_document="0"),
        }
        for url, group in groups.items()
    ]


def _passage(hit: Hit, page_search: PageSearch) -> dict[str, Any]:
    section = section_within(hit.title, hit.section)
    is_code = is_source_code(hit.content_type)
    section_html = hit.section_text and make_section(
        hit.section_text, hit.text, hit.highlights, hit.section_blocks, is_code=is_code
    )
    name = " › ".join(" ".join(name_part.split()) for name_part in (hit.title, section) if name_part)
    place = hit.url if is_http_url(hit.url) else page_search.places.of(hit.url)
    citation = ", ".join(filter(None, (f"“{name}”" if name else "", place, hit.date)))
    return {
        "id": hit.id,
        "rank": hit.rank,
        "link": _link(hit, page_search),
        "section": section,
        "why": list(explanation_lines(hit.explanation)) if hit.explanation else [],
        "snippet": make_text(hit.text, hit.highlights, hit.blocks, is_code=is_code, size=SNIPPET_CHARS),
        "whole": section_html or None,
        "citation": BIDI_CONTROLS.sub("", citation),
        "also": [page_search.places.link_to(url) for url in hit.duplicates[:MAX_DUPLICATES]],
        "beyond": len(hit.duplicates[MAX_DUPLICATES:]),
        "versions": [(each["version"], page_search.places.link_to(each["url"])) for each in hit.also],
    }


def _link(hit: Hit, page_search: PageSearch) -> Link:
    """Return the link of a hit. If browsers cannot open its URL, link to the page that shows the document."""
    if is_http_url(hit.url) or not SAFE_URL.fullmatch(hit.url) or not hit.document:
        return page_search.places.link_to(hit.link or hit.url)
    address = url_for(
        "reading.read",
        id=hit.document,
        passage=hit.id,
        q=page_search.search.query,
        _anchor="passage",
        **requests.collection_field(hit.collection),
    )
    return Link(address, page_search.places.of(hit.url))
