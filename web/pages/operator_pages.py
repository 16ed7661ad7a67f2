"""Render pages for operators: the status of the index and the server, and statistics of searches."""

import sqlite3
from contextlib import suppress
from typing import Annotated, Any, Literal

from flask import Blueprint, Response, current_app, render_template
from msgspec import Meta

from rag.errors import NotReady
from rag.insights.report import MAX_DAYS, Report, report
from rag.jobs.pushes import PushedQueue
from rag.messages import InCollection, Request
from web.api.requests import read_query, retriever, service, settings
from web.display_urls import DisplayNames
from web.openapi import HTML, Content, Operation

MAX_FAILURES = 10
status = Blueprint("status", __name__)
insights = Blueprint("insights", __name__)


class InsightsRequest(Request):
    """The query parameters of the page: the period and the collection of the searches to count."""

    days: Annotated[int, Meta(ge=1, le=MAX_DAYS, description="number of days, including today")] = 30
    collection: Annotated[str, Meta(description="collection of the searches; default: all")] = ""


class TableRequest(InsightsRequest):
    """The query parameters of the download: the table, its period and its collection."""

    table: Literal["asked", "unanswered"] = "asked"


@status.get("/status")
@Operation(role="read", needs_everything=True, query=InCollection, responses={200: HTML}, errors=(404,))
def show_status() -> str:
    """Show the status page."""
    state = retriever().status()
    collection = read_query(InCollection).collection
    index: dict[str, Any] | None = None
    with suppress(NotReady):
        index = retriever().describe(collection)
    pushed: dict[str, Any] | None = None
    with suppress(OSError, sqlite3.Error):
        pushes: PushedQueue | None = current_app.extensions["pushes"]
        pushed = pushes.waiting().get(collection) if pushes else None
    return render_template(
        "status.html",
        status=state,
        collection=collection,
        index=index,
        pushed=pushed,
        queues=current_app.extensions["metrics"].queues(),
        **(_index_variables(index) if index else {}),
    )


def _index_variables(index: dict[str, Any]) -> dict[str, Any]:
    report = index["report"]
    names = DisplayNames(index["sources"])
    return {
        "built": f"{index['created_at'][:16].replace('T', ' ')} UTC",
        "sources": [names.link_to(source) for source in index["sources"]],
        "report": report,
        "failures": [
            (names.link_to(failure["url"]), names.within(failure["reason"]))
            for failure in report.get("failed", [])[:MAX_FAILURES]
        ],
        "groups": [
            (title, [(group, [names.link_to(url) for url in group["examples"][:1]]) for group in report.get(name, [])])
            for title, name in (("Skipped", "skipped"), ("Noted", "notes"))
        ],
        "counts": [(name, report.get(name, {}).get("count", 0)) for name in ("new", "changed", "gone")]
        + [("unchanged", report.get("unchanged", 0))],
        "took": report.get("seconds", {}).get("total"),
    }


@insights.get("/insights")
@Operation(
    role="read",
    needs_everything=True,
    operator=True,
    query=InsightsRequest,
    responses={200: HTML},
    errors=(501,),
    takes_long=True,
)
def show_insights() -> str:
    """Show the most frequent searches, and searches without a good answer."""
    insights_request = read_query(InsightsRequest)
    return render_template(
        "insights.html",
        report=_report(insights_request),
        days=insights_request.days,
        offered=(1, 7, 30, 90),
        settings=settings(),
    )


@insights.get("/api/v1/insights.csv")
@Operation(
    role="read",
    needs_everything=True,
    operator=True,
    query=TableRequest,
    responses={200: Content("text/csv", {"type": "string"})},
    errors=(501,),
    takes_long=True,
)
def download_table() -> Response:
    """Return a table of searches as CSV. Values that spreadsheets would read as formulas are escaped."""
    table_request = read_query(TableRequest)
    headers = {"Content-Disposition": f'attachment; filename="pilotlight-{table_request.table}.csv"'}
    return Response(
        _report(table_request).as_csv(table_request.table), content_type="text/csv; charset=utf-8", headers=headers
    )


def _report(insights_request: InsightsRequest) -> Report:
    """Return the statistics of searches for a request. Raises NotConfigured if searches are not recorded."""
    service("insights")
    return report(settings().insights_folder, insights_request.days, insights_request.collection or None)
