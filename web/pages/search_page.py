"""The search page, rendered here in full so that it works without JavaScript."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from flask import Blueprint, g, render_template, request
from werkzeug.exceptions import UnsupportedMediaType

from rag.errors import NotReady, NotThere
from rag.query.options import DEFAULT_COLLECTION, MAX_QUERY_CHARS, MODES
from rag.query.results import Answer
from rag.settings import Settings
from web.api.parameters import check_mode, limits, parse_query_string, retriever, run, search_from_parameters
from web.api.schemas import search_parameters, structure
from web.display_urls import places
from web.fields import is_blank
from web.filters import is_filter
from web.guards.limits import read_body
from web.openapi import HTML, Content, Parameter, define, operation
from web.pages.hits import group_hits
from web.pages.refinements import PageSearch
from web.sizes import MAX_BODY_BYTES

KNOWN = ("q", "mode", "collection", "offset", "per_document", "sentences", "open", "explain")
STAGES = ("embed", "dense", "lexical", "fuse", "rerank", "sentences")
EXAMPLES = 4
FORM = "application/x-www-form-urlencoded"
ANSWERED = {200: HTML}
DESCRIPTION = "Empty and unknown fields are ignored, so links with tracking parameters still work."

blueprint = Blueprint("page", __name__)


def _parameters(limits: Settings) -> list[Parameter]:
    text = {"in": "query", "schema": {"type": "string"}}
    others = [one for one in search_parameters(limits) if one["name"] in KNOWN[1:] or is_filter(one["name"])]
    return [
        {"name": "q", **text, "description": "what to search for"},
        *others,
        {"name": "open", **text, "description": "id of a passage to show with its whole section"},
    ]


def _form(limits: Settings) -> dict[str, Any]:
    return structure(
        {}, {one["name"]: {**one["schema"], "description": one["description"]} for one in _parameters(limits)}
    )


@blueprint.get("/")
@operation(
    summary="Show the search page",
    role="read",
    description=DESCRIPTION,
    parameters=_parameters,
    responses=ANSWERED,
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
    request=Content(FORM, define("SearchForm", _form)),
    responses=ANSWERED,
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
        if (name in KNOWN or is_filter(name)) and any(values)
    }
    query = parameters.pop("q", [""])[0].strip()
    opened = parameters.pop("open", [""])[0]
    status = retriever().status()
    longest = MAX_QUERY_CHARS
    # for the page that shows an error too
    g.form = {"query": query[:longest], "longest": longest, "status": status, "answers": _answers()}
    mode = check_mode(parameters.get("mode", [MODES[0]])[0])
    named = places(parameters.get("collection", [DEFAULT_COLLECTION])[0])
    parameters = named.from_addresses(parameters)
    asked = PageSearch.read(query, mode, parameters, named)
    g.form["explains"] = asked.explains
    collections = [one["name"] for one in status.get("collections", [])]
    offers = len(collections) > 1 and asked.collection in collections
    g.form |= {"mode": mode, "collection": asked.collection, "collections": collections if offers else []}
    g.form["narrowed"] = [one for one in asked.narrowed() if not (offers and one.name == "collection")]
    if is_blank(query):
        examples = [(text, replace(asked, query=text).address()) for text in _examples(status, asked.collection)]
        index = next((one for one in status.get("collections", []) if one["name"] == asked.collection), status)
        day = _day(index.get("created_at"))
        return render_template("page.html", state="empty", index=index, day=day, examples=examples, **g.form)
    search = search_from_parameters({"q": [query], **parameters}, limits())
    search = replace(search, facets=True, expand="section" if opened else "none")
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
    return {"text": text, "address": replace(asked, query=text).address()} if text else None


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
