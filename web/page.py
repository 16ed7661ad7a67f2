"""The search page, rendered here in full so that it works without JavaScript."""

import re
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import unquote, urlencode

from flask import Blueprint, current_app, g, render_template, request, url_for

from rag.filters import METADATA
from rag.options import DEFAULT_COLLECTION, MODES
from rag.results import Answer, Hit, section_within
from web.filters import filter_from_parameters, is_filter, parameters_of
from web.parameters import check_mode, is_blank, parse_query_string, search_from_parameters
from web.retriever import Limits, Retriever
from web.snippets import Snippet, make_snippet

# anything else, javascript: above all, is shown as text; white space and controls can hide a scheme
SAFE_URL = re.compile(r"(?:https?://|file:///)[^\s\x00-\x1f\x7f]+", re.IGNORECASE)
BIDI_CONTROLS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")  # they let a url read backwards

ALSO = 3  # addresses of the same passage that are shown

blueprint = Blueprint("page", __name__)


@dataclass(frozen=True, slots=True)
class Link:
    """An address as people read it, which may be one to follow."""

    href: str | None  # None where it is not
    place: str


@dataclass(frozen=True, slots=True)
class Narrowed:
    """One thing the search is narrowed to, carried along as a hidden field."""

    name: str
    value: str
    label: str
    without: str  # address of the same search without it


@dataclass(frozen=True, slots=True)
class Result:
    """One hit as the template shows it."""

    title: str
    link: Link
    section: str
    scores: list[tuple[str, str]]  # what it is of, and how much
    language: str | None
    date: str | None
    snippet: Snippet
    also: list[Link]
    more: int  # such addresses that are not shown


@blueprint.get("/")
def index() -> str:
    """Show the search box and, with `?q=`, the passages that answer."""
    retriever: Retriever = current_app.extensions["retriever"]
    limits: Limits = current_app.extensions["limits"]
    # other parameters are left alone: links people share pick up tracking parameters on the way
    parameters = {
        name: values
        for name, values in parse_query_string(request.query_string).items()
        if (name in ("q", "mode", "collection") or is_filter(name)) and any(values)
    }
    query = parameters.pop("q", [""])[0].strip()
    g.form = {"query": query[: limits.max_query_chars]}  # for the page that shows an error
    mode = check_mode(parameters.get("mode", [MODES[0]])[0])
    g.form |= {"mode": mode, "narrowed": _narrowed(query, mode, parameters)}
    if is_blank(query):
        status = retriever.status()
        return render_template("page.html", state="empty", status=status, day=_day(status.get("created_at")), **g.form)
    answer = search_from_parameters({"q": [query], **parameters}, limits).run(retriever)
    return render_template(
        "page.html",
        state="answer" if answer.hits else "none",
        results=[_result(hit) for hit in answer.hits],
        total=_milliseconds(answer.took_ms.get("total", 0.0)),
        stages=_stages(answer),
        **g.form,
    )


def _narrowed(query: str, mode: str, parameters: dict[str, list[str]]) -> list[Narrowed]:
    collection = parameters.get("collection", [DEFAULT_COLLECTION])[0]
    pairs = [("collection", collection)] if collection != DEFAULT_COLLECTION else []
    pairs += parameters_of(filter_from_parameters(parameters))
    kept = [("q", query)] if query else []
    kept += [("mode", mode)] if mode != MODES[0] else []
    return [
        Narrowed(
            name=name,
            value=value,
            label=f"{name.removeprefix(METADATA).replace('_', ' ')} {value}",
            without=f"{url_for('page.index')}?{urlencode([*kept, *pairs[:place], *pairs[place + 1 :]])}",
        )
        for place, (name, value) in enumerate(pairs)
    ]


def _result(hit: Hit) -> Result:
    return Result(
        title=hit.title or _place(hit.url),
        link=_link(hit.url),
        section=section_within(hit.title, hit.section),
        scores=_scores(hit),
        language=hit.language,
        date=hit.date,
        snippet=make_snippet(hit.text, hit.highlights),
        also=[_link(url) for url in hit.duplicates[:ALSO]],
        more=len(hit.duplicates[ALSO:]),
    )


def _scores(hit: Hit) -> list[tuple[str, str]]:
    """The scores of the retrievers that found a hit; the fused score only orders, and says nothing by itself."""
    dense, lexical = hit.scores.get("dense"), hit.scores.get("lexical")
    found = [("Meaning", f"{dense:.2f}")] if dense is not None else []
    return found + ([("Words", f"{lexical:.1f}")] if lexical is not None else [])


def _link(url: str) -> Link:
    return Link(url if SAFE_URL.fullmatch(url) else None, _place(url))


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
