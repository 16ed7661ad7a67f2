"""The search page, rendered here in full so that it works without JavaScript."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from flask import Blueprint, g, render_template, request

from rag.options import MODES
from rag.results import Answer
from web.fields import is_blank
from web.filters import is_filter
from web.listing import group_hits
from web.narrowing import Asked
from web.openapi import HTML, Parameter, operation
from web.parameters import check_mode, limits, parse_query_string, retriever, search_from_parameters
from web.retriever import Limits
from web.schemas import search_parameters

KNOWN = ("q", "mode", "collection", "offset", "open")
STAGES = {"embed": "embedding", "dense": "search", "lexical": "words", "fuse": "fusion"}

blueprint = Blueprint("page", __name__)


def _parameters(limits: Limits) -> list[Parameter]:
    text = {"in": "query", "schema": {"type": "string"}}
    others = [one for one in search_parameters(limits) if one["name"] in KNOWN[1:] or is_filter(one["name"])]
    return [
        {"name": "q", **text, "description": "what to search for"},
        *others,
        {"name": "open", **text, "description": "id of a passage to show with its whole section"},
    ]


@blueprint.get("/")
@operation(
    summary="The search page",
    role="read",
    description="Fields that are empty or not known are left alone, so that links that others added to still work.",
    parameters=_parameters,
    responses={200: HTML},
    errors=(404,),
)
def index() -> str:
    """Show the search box and, with `?q=`, the passages that answer.

    `open` is the id of a passage to show with its whole section.
    """
    # other parameters are left alone: links people share pick up tracking parameters on the way
    parameters = {
        name: values
        for name, values in parse_query_string(request.query_string).items()
        if (name in KNOWN or is_filter(name)) and any(values)
    }
    query = parameters.pop("q", [""])[0].strip()
    opened = parameters.pop("open", [""])[0]
    status = retriever().status()
    g.form = {"query": query[: limits().max_query_chars], "status": status}  # for the page that shows an error
    mode = check_mode(parameters.get("mode", [MODES[0]])[0])
    asked = Asked.read(query, mode, parameters)
    collections = [one["name"] for one in status.get("collections", [])]
    offers = len(collections) > 1 and asked.collection in collections
    g.form |= {"mode": mode, "collection": asked.collection, "collections": collections if offers else []}
    g.form["narrowed"] = [one for one in asked.narrowed() if not (offers and one.name == "collection")]
    if is_blank(query):
        return render_template("page.html", state="empty", day=_day(status.get("created_at")), **g.form)
    search = search_from_parameters({"q": [query], **parameters}, limits())
    search = replace(search, facets=True, sentences=True, expand="section" if opened else "none")
    answer = search.run(retriever())
    return render_template("page.html", **g.form, **_shown(answer, asked, opened))


def _shown(answer: Answer, asked: Asked, opened: str) -> dict[str, Any]:
    return {
        "state": "answer" if answer.hits else "none",
        "pages": group_hits(answer.hits),
        "passages": len(answer.hits),
        "facets": asked.facets(answer.facets or {}),
        "asked": asked,
        "opened": opened,
        "next": answer.next,
        "total": milliseconds(answer.took_ms.get("total", 0.0)),
        "stages": [
            (label, milliseconds(answer.took_ms[stage])) for stage, label in STAGES.items() if answer.took_ms.get(stage)
        ],
    }


def _day(moment: str | None) -> str | None:
    return f"{datetime.fromisoformat(moment):%-d %b %Y}" if moment else None


def milliseconds(value: float) -> str:
    """Spell a duration, given in milliseconds, to two or three digits."""
    return f"{value:.1f} ms" if value < 100 else f"{value:.0f} ms"
