"""The pages of the operator: the index served, its freshness and speed; and the questions of readers, with CSV."""

import sqlite3
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from flask import Blueprint, Response, current_app, render_template
from flask.typing import ResponseReturnValue
from msgspec import Meta

from rag.errors import InsightsError, NotReady
from rag.insights.report import MOST_DAYS, Report, report
from rag.messages import InCollection, Request
from rag.serving.pushed_queue import PushedQueue
from web.api.requests import limits, read_collection, read_query, retriever
from web.display_urls import Link, Places, distinct, link_to
from web.insights import required
from web.observe.metrics import Metrics
from web.openapi import HTML, Content, operation
from web.pages import charts

STAGES = {"embed": "Embedding", "dense": "Dense", "lexical": "Lexical", "fuse": "Fusion", "sentences": "Sentences"}
BUILD_STAGES = ("fetch", "parse", "model", "chunk", "embed", "write", "publish")  # as they follow each other
FAILURES = 10  # that are listed
OFFERED = (1, 7, 30, 90)  # days


class InsightsRequest(Request):
    """The searches that are counted."""

    days: Annotated[int, Meta(ge=1, le=MOST_DAYS, description="how many, with today")] = 30
    collection: Annotated[str, Meta(description="only searches of it; else of all")] = ""


class TableRequest(InsightsRequest):
    """One of the tables of the page."""

    table: Literal["asked", "unanswered", "days"] = "asked"


status = Blueprint("status", __name__)
insights = Blueprint("insights", __name__)


@status.get("/status")
@operation(
    summary="Show the status page",
    role="read",
    whole=True,
    query=InCollection,
    responses={200: HTML},
    errors=(404,),
)
def show_status() -> str:
    """Show the index of a collection, the speed of this server and the last build."""
    metrics: Metrics = current_app.extensions["metrics"]
    state = retriever().status()
    collection = read_collection()
    index: dict[str, Any] | None = None
    with suppress(NotReady):  # the page says why, by the status
        index = retriever().describe(collection)
    overview = metrics.overview()
    pushed: dict[str, Any] | None = None
    with suppress(OSError, sqlite3.Error):  # nothing can be pushed either, then, and who does is told
        pushes: PushedQueue | None = current_app.extensions["pushes"]
        pushed = pushes.waiting().get(collection) if pushes else None
    total = overview.stages.get("total", [])
    columns, most = charts.throughput(overview.minutes)
    return render_template(
        "status.html",
        status=state,
        collection=collection,
        index=index,
        pushed=pushed,
        **(_of_index(index) if index else {}),
        histogram=charts.histogram(total),
        searches=sum(count for _, count in total),
        quantiles=charts.quantiles(total),
        stages=[(label, charts.quantiles(overview.stages.get(name, []))) for name, label in STAGES.items()],
        columns=columns,
        most=most,
        hour=sum(minute.searches for minute in overview.minutes),
        errors=sum(minute.errors for minute in overview.minutes),
    )


def _of_index(index: dict[str, Any]) -> dict[str, Any]:
    report = index["report"]
    seconds = report.get("seconds", {})
    named = Places(index["sources"])
    names = distinct([named.of(source) for source in index["sources"]], index["sources"])
    return {
        "age": charts.age(index["created_at"], datetime.now(UTC)),
        "sources": [Link(link_to(source).href, name) for source, name in zip(index["sources"], names, strict=True)],
        "report": report,
        "failures": [
            (named.link_to(failure["url"]), named.within(failure["reason"]))
            for failure in report.get("failed", [])[:FAILURES]
        ],
        "groups": [
            (title, [(group, [named.link_to(url) for url in group["examples"][:1]]) for group in report.get(name, [])])
            for title, name in (("Skipped", "skipped"), ("Noted", "notes"))
        ],
        "counts": [(name, report.get(name, {}).get("count", 0)) for name in ("new", "changed", "gone")]
        + [("unchanged", report.get("unchanged", 0))],
        "build": charts.durations((name, seconds[name]) for name in BUILD_STAGES if name in seconds),
        "took": seconds.get("total"),
    }


@insights.get("/insights")
@operation(
    summary="Show what people ask",
    role="read",
    whole=True,
    operator=True,
    query=InsightsRequest,
    responses={200: HTML},
    errors=(501,),
)
def show_insights() -> str:
    """Show the most asked, what is asked without a good answer, times and days."""
    asked = read_query(InsightsRequest)
    found = _report(asked)
    columns, most = charts.days(found.days)
    return render_template(
        "insights.html", found=found, days=asked.days, offered=OFFERED, kept=limits(), columns=columns, most=most
    )


@insights.get("/api/v1/insights.csv")
@operation(
    summary="Return a table of what people ask as CSV.",
    description="A cell that would be a formula has an apostrophe before it.",
    role="read",
    whole=True,
    operator=True,
    query=TableRequest,
    responses={200: Content("text/csv", {"type": "string"})},
    errors=(501,),
)
def as_table() -> ResponseReturnValue:
    """Answer with one of the tables of the page."""
    asked = read_query(TableRequest)
    headers = {"Content-Disposition": f'attachment; filename="pilotlight-{asked.table}.csv"'}
    return Response(_report(asked).as_csv(asked.table), content_type="text/csv; charset=utf-8", headers=headers)


def _report(asked: InsightsRequest) -> Report:
    """Return the figures of the days and the collection that are asked for. Raises InsightsError."""
    required()
    try:
        return report(limits().insights_folder, asked.days, asked.collection or None)
    except (sqlite3.Error, OSError) as error:
        raise InsightsError(f"what people ask cannot be read: {error}") from error
