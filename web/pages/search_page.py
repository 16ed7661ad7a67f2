"""The search page, rendered here in full so that it works without JavaScript: form, filters, and hits by page."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from flask import Blueprint, g, render_template, request, url_for
from markupsafe import Markup
from msgspec import Meta, structs
from werkzeug.exceptions import UnsupportedMediaType

from rag.decoding import is_blank
from rag.errors import NotReady, NotThere
from rag.messages import Request
from rag.query.explain import in_words
from rag.query.options import DEFAULT_COLLECTION, FURTHEST, MAX_K, MAX_QUERY_CHARS
from rag.query.request import Collection, Mode
from rag.query.results import Answer, Hit, is_source_code, section_within
from web.api.requests import (
    collection_field,
    is_filter,
    limits,
    parse_query_string,
    retriever,
    run,
    search_of_parameters,
)
from web.display_urls import BIDI_CONTROLS, SAFE_URL, Link, Places, is_of_web, places
from web.guards.limits import MAX_BODY_BYTES, read_body
from web.openapi import HTML, Content, operation
from web.pages.refinements import PageSearch
from web.pages.snippets import make_section, make_snippet

STAGES = ("embed", "dense", "lexical", "fuse", "rerank", "sentences")
EXAMPLES = 4
ALSO = 3  # addresses of the same passage that are shown
FORM = "application/x-www-form-urlencoded"
DESCRIPTION = "Empty and unknown fields are ignored, so links with tracking parameters still work."


class PageFields(Request):
    """The fields of the page's address and form, next to those of a filter."""

    q: Annotated[str, Meta(description="what to search for")] = ""
    mode: Mode = "hybrid"
    collection: Collection = DEFAULT_COLLECTION
    offset: Annotated[int, Meta(ge=0, le=FURTHEST, description="hits to skip")] = 0
    per_document: Annotated[int, Meta(ge=0, le=MAX_K)] | None = None
    sentences: bool = False
    explain: bool = False
    open: Annotated[str, Meta(description="id of a passage to show with its whole section")] = ""


blueprint = Blueprint("page", __name__)


@dataclass(frozen=True, slots=True)
class ShownHit:
    """One hit."""

    id: str
    rank: int
    link: Link
    section: str
    why: list[tuple[str, str]]  # the steps to its score, each with its name; none unless asked for
    snippet: Markup
    whole: Markup | None  # with its section, where that was asked for
    citation: str
    also: list[Link]
    beyond: int  # such addresses that are not shown


@dataclass(frozen=True, slots=True)
class PageHits:
    """The hits of one page, in its best one's place."""

    title: str
    place: str
    language: str | None
    date: str | None
    passages: list[ShownHit]
    more: int  # passages of it that were left out
    all: str  # address of a search that gives these too


@blueprint.get("/")
@operation(
    summary="Show the search page",
    role="read",
    description=DESCRIPTION,
    query=PageFields,
    has_filter=True,
    responses={200: HTML},
    errors=(404,),
)
def index() -> str:
    """Show the search box and, with `?q=`, the passages that answer."""
    return _page(request.query_string)


@blueprint.post("/")
@operation(
    summary="Show the search page for a query that is too long for an address",
    role="read",
    description=DESCRIPTION,
    body=Content(FORM, {}, PageFields),
    responses={200: HTML},
    errors=(404,),
)
def index_of_long() -> str:
    """Show the same page for the fields of a form."""
    if request.mimetype != FORM:
        raise UnsupportedMediaType(f"Send the fields as {FORM}.")
    return _page(read_body(MAX_BODY_BYTES))


def _page(fields: bytes) -> str:
    # other parameters are left alone: links people share pick up tracking parameters on the way
    parameters = {
        name: values
        for name, values in parse_query_string(fields).items()
        if (name in PageFields.__struct_fields__ or is_filter(name)) and any(values)
    }
    query = parameters.pop("q", [""])[0].strip()
    opened = parameters.pop("open", [""])[0]
    status = retriever().status()
    longest = MAX_QUERY_CHARS
    # for the page that shows an error too
    g.form = {"query": query[:longest], "longest": longest, "status": status, "answers": _answers()}
    named = places(parameters.get("collection", [DEFAULT_COLLECTION])[0])
    parameters = named.index_values(parameters)
    search = structs.replace(search_of_parameters({"q": ["?"], **parameters}), query=query)
    asked = PageSearch(search, named)
    collections = [one["name"] for one in status.get("collections", [])]
    offers = len(collections) > 1 and search.collection in collections
    g.form |= {
        "explains": search.explain,
        "mode": search.mode,
        "collection": search.collection,
        "collections": collections if offers else [],
        "narrowed": [one for one in asked.narrowed() if not (offers and one.name == "collection")],
    }
    if is_blank(query):
        examples = [(text, asked.asking(text)) for text in _examples(status, search.collection)]
        index = next((one for one in status.get("collections", []) if one["name"] == search.collection), status)
        day = _day(index.get("created_at"))
        return render_template("page.html", state="empty", index=index, day=day, examples=examples, **g.form)
    search_of_parameters({"q": [query], **parameters})  # raises for a query that is too long
    search = structs.replace(search, facets=True, expand="section" if opened else "none")
    repeats = bool(opened) or search.sentences  # what is shown already, with more of it
    answer = run(search, via=None if repeats else "page")
    return render_template("page.html", **g.form, **_shown(answer, asked, opened, marks=search.sentences))


def _shown(answer: Answer, asked: PageSearch, opened: str, *, marks: bool) -> dict[str, Any]:
    return {
        "state": "answer" if answer.hits else "none",
        "pages": group_hits(answer.hits, asked),
        "passages": len(answer.hits),
        "is_close": answer.close,
        "meant": _meant(answer.did_you_mean, asked),
        "also": answer.also_searched,
        "bounds": [(what, ", ".join(names)) for what, names in _bounds(answer) if names],
        "facets": asked.facets(answer.facets or {}),
        "asked": asked,
        "opened": opened,
        "question": asked.question() if _answers() else None,
        "next": answer.next,
        "search_id": answer.search_id,
        "unmarked": answer.close and not marks and any(not hit.highlights for hit in answer.hits),
        "took": [
            (stage, milliseconds(answer.took_ms[stage])) for stage in ("total", *STAGES) if answer.took_ms.get(stage)
        ],
    }


def _answers() -> str:
    """When an answer is written: `button` or `auto`; empty where none is."""
    known = limits()
    return known.answer_page if known.answer_url and known.answer_page != "off" else ""


def _meant(text: str | None, asked: PageSearch) -> dict[str, str] | None:
    """The query that was probably meant, and its address."""
    return {"text": text, "address": asked.asking(text)} if text else None


def _bounds(answer: Answer) -> list[tuple[str, list[str]]]:
    return [("Only with", answer.required), ("Without", answer.excluded)]


def _examples(status: Mapping[str, Any], collection: str) -> list[str]:
    """Questions for the start page: the operator's, or headings from all over the index."""
    if chosen := [text for part in limits().examples.split("|") if (text := part.strip())]:
        return [] if chosen == ["none"] else chosen
    if not status["ready"]:
        return []
    try:
        return retriever().headings(collection)[:EXAMPLES]
    except (NotReady, NotThere):  # the page says so by its status, or once it is asked
        return []


def _day(moment: str | None) -> str | None:
    return f"{datetime.fromisoformat(moment):%-d %b %Y}" if moment else None


def milliseconds(value: float) -> str:
    """Spell a duration, given in milliseconds, to two or three digits."""
    return f"{value:.1f} ms" if value < 100 else f"{value:.0f} ms"


def group_hits(hits: Iterable[Hit], asked: PageSearch) -> list[PageHits]:
    """Group hits, best first, by the page that they are of; `section_text` is shown where a hit has it."""
    groups: dict[str, list[Hit]] = {}
    places = asked.places
    for hit in hits:
        groups.setdefault(hit.url.partition("#")[0], []).append(hit)
    return [
        PageHits(
            title=own[0].title or places.of(url),
            place=places.of(url),
            language=own[0].language,
            date=own[0].date,
            passages=[_passage(hit, asked) for hit in own],
            more=own[-1].more,
            all=asked.within(url),
        )
        for url, own in groups.items()
    ]


def _passage(hit: Hit, asked: PageSearch) -> ShownHit:
    section = section_within(hit.title, hit.section)
    is_code = is_source_code(hit.content_type)
    return ShownHit(
        id=hit.id,
        rank=hit.rank,
        link=_link(hit, asked),
        section=section,
        why=list(in_words(hit.explanation)) if hit.explanation else [],
        snippet=make_snippet(hit.text, hit.highlights, hit.sentence, is_code=is_code),
        whole=make_section(hit.section_text, hit.text, hit.highlights, is_code=is_code) if hit.section_text else None,
        citation=_citation(hit, section, asked.places),
        also=[asked.places.link_to(url) for url in hit.duplicates[:ALSO]],
        beyond=len(hit.duplicates[ALSO:]),
    )


def _link(hit: Hit, asked: PageSearch) -> Link:
    """Return where a hit leads: to its page, or for what browsers do not open from there, to its text here."""
    if is_of_web(hit.url) or not SAFE_URL.fullmatch(hit.url) or not hit.document:
        return asked.places.link_to(hit.url)
    kept: dict[str, Any] = collection_field(asked.search.collection)
    address = url_for("reading.read", id=hit.document, passage=hit.id, q=asked.search.query, **kept, _anchor="passage")
    return Link(address, asked.places.of(hit.url))


def _citation(hit: Hit, section: str, places: Places) -> str:
    """Title, section, address and date, as far as they are known, in one line."""
    name = " › ".join(" ".join(part.split()) for part in (hit.title, section) if part)
    parts = [f"“{name}”" if name else "", hit.url if is_of_web(hit.url) else places.of(hit.url), hit.date or ""]
    return BIDI_CONTROLS.sub("", ", ".join(filter(None, parts)))
