"""The operator's page: what is served, how fresh it is, and how fast."""

import sqlite3
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from flask import Blueprint, current_app, render_template

from rag.errors import NotReady
from web.api.parameters import COLLECTION, collection_in_address, retriever
from web.display_urls import Link, Places, distinct, link_to
from web.observe.metrics import Metrics
from web.openapi import HTML, operation
from web.pages import charts
from web.retriever import Pushes

STAGES = {"embed": "Embedding", "dense": "Dense", "lexical": "Lexical", "fuse": "Fusion", "sentences": "Sentences"}
BUILD_STAGES = ("fetch", "parse", "model", "chunk", "embed", "write", "publish")  # as they follow each other
FAILURES = 10  # that are listed

blueprint = Blueprint("status", __name__)


@blueprint.get("/status")
@operation(
    summary="Show the status page",
    role="read",
    whole=True,
    parameters=[{"name": "collection", "in": "query", "schema": COLLECTION}],
    responses={200: HTML},
    errors=(404,),
)
def show() -> str:
    """Show the index of a collection, the speed of this server and the last build."""
    metrics: Metrics = current_app.extensions["metrics"]
    status = retriever().status()
    collection = collection_in_address()
    index: dict[str, Any] | None = None
    with suppress(NotReady):  # the page says why, by the status
        index = retriever().describe(collection)
    overview = metrics.overview()
    pushed: dict[str, Any] | None = None
    with suppress(OSError, sqlite3.Error):  # nothing can be pushed either, then, and who does is told
        pushes: Pushes | None = current_app.extensions["pushes"]
        pushed = pushes.waiting().get(collection) if pushes else None
    total = overview.stages.get("total", [])
    columns, most = charts.throughput(overview.minutes)
    return render_template(
        "status.html",
        status=status,
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
