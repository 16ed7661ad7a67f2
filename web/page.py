"""The search page, rendered here in full so that it works without JavaScript."""

import re
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import unquote

from flask import Blueprint, current_app, g, render_template, request

from rag.results import Answer, Hit, section_within
from web.parameters import DEFAULT_K, check_query, is_blank, parse_query_string
from web.retriever import Limits, Retriever
from web.snippets import Snippet, make_snippet

# anything else, javascript: above all, is shown as text; white space and controls can hide a scheme
SAFE_URL = re.compile(r"(?:https?://|file:///)[^\s\x00-\x1f\x7f]+", re.IGNORECASE)
BIDI_CONTROLS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")  # they let a url read backwards

blueprint = Blueprint("page", __name__)


@dataclass(frozen=True, slots=True)
class Result:
    """One hit as the template shows it."""

    title: str
    href: str | None  # None where the url is not one to follow
    place: str  # the url as people read it
    section: str
    score: str
    snippet: Snippet


@blueprint.get("/")
def index() -> str:
    """Show the search box and, with `?q=`, the passages that answer."""
    retriever: Retriever = current_app.extensions["retriever"]
    limits: Limits = current_app.extensions["limits"]
    # other parameters are left alone: links people share pick up tracking parameters on the way
    query = parse_query_string(request.query_string).get("q", "").strip()
    if is_blank(query):
        status = retriever.status()
        return render_template("page.html", state="empty", query="", status=status, day=_day(status.get("created_at")))
    g.query = query[: limits.max_query_chars]  # for the page that shows an error
    answer = retriever.search(check_query("q", query, limits), k=DEFAULT_K)
    return render_template(
        "page.html",
        state="answer" if answer.hits else "none",
        query=query,
        results=[_result(hit) for hit in answer.hits],
        total=_milliseconds(answer.took_ms.get("total", 0.0)),
        stages=_stages(answer),
    )


def _result(hit: Hit) -> Result:
    return Result(
        title=hit.title or _place(hit.url),
        href=hit.url if SAFE_URL.fullmatch(hit.url) else None,
        place=_place(hit.url),
        section=section_within(hit.title, hit.section),
        score=f"{hit.score:.2f}",
        snippet=make_snippet(hit.text, hit.highlights),
    )


def _place(url: str) -> str:
    bare = url.partition("#")[0]
    if not SAFE_URL.fullmatch(bare):
        return url
    host, slash, path = bare.partition("://")[2].partition("/")
    return BIDI_CONTROLS.sub("", host + slash + unquote(path)).rstrip("/")


def _stages(answer: Answer) -> list[tuple[str, str]]:
    names = {"embed": "embedding", "dense": "search", "lexical": "words", "fuse": "fusion"}
    return [
        (label, _milliseconds(answer.took_ms[stage])) for stage, label in names.items() if answer.took_ms.get(stage)
    ]


def _day(moment: str | None) -> str | None:
    return f"{datetime.fromisoformat(moment):%-d %b %Y}" if moment else None


def _milliseconds(value: float) -> str:
    return f"{value:.1f} ms" if value < 100 else f"{value:.0f} ms"
