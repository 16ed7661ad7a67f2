"""What people ask, for the operator: a page with tables and plots, the same as JSON, and its tables as CSV."""

import sqlite3
from typing import Any

from flask import Blueprint, Response, jsonify, render_template
from flask.typing import ResponseReturnValue

from rag.errors import InsightsError
from rag.insights.report import COUNTS, MOST_DAYS, TABLES, Report, report
from web.api.parameters import COLLECTION, given_in_address, limits
from web.api.schemas import COUNT, MILLISECONDS, STRING, listed, structure
from web.fields import check, from_text
from web.insights import required
from web.openapi import HTML, Content, define, operation
from web.pages import charts

DAYS: dict[str, Any] = {"type": "integer", "description": "how many, with today", "minimum": 1, "maximum": MOST_DAYS}
DAYS |= {"default": 30}
ONE: dict[str, Any] = {name: value for name, value in COLLECTION.items() if name != "default"}
TABLE: dict[str, Any] = {"type": "string", "enum": list(TABLES), "description": "which table", "default": TABLES[0]}
OFFERED = (1, 7, 30, 90)  # days
FILTERS = [
    {"name": "days", "in": "query", "schema": DAYS},
    {"name": "collection", "in": "query", "schema": ONE, "description": "only searches of it; else of all"},
]
_GROUP: dict[str, Any] = {
    **dict.fromkeys(COUNTS, COUNT),
    "cosine": {"type": ["number", "null"]},
    "p50_ms": MILLISECONDS,
    "p95_ms": MILLISECONDS,
}
_QUESTIONS = listed(structure({"question": STRING, **_GROUP}))
INSIGHTS = define(
    "Insights",
    structure(
        {
            "since": STRING,
            "collection": {"type": ["string", "null"]},
            "collections": listed(STRING),
            "total": structure(_GROUP),
            "asked": _QUESTIONS,
            "unanswered": _QUESTIONS,
            "days": listed(structure({"day": STRING, **_GROUP})),
        }
    ),
)

blueprint = Blueprint("insights", __name__)


@blueprint.get("/insights")
@operation(
    summary="Show what people ask",
    role="read",
    whole=True,
    operator=True,
    parameters=FILTERS,
    responses={200: HTML},
    errors=(501,),
)
def show() -> str:
    """Show the most asked, what is asked without a good answer, times and days."""
    found, days = _report(given_in_address(("days", "collection")))
    columns, most = charts.days(found.days)
    return render_template(
        "insights.html",
        found=found,
        days=days,
        offered=OFFERED,
        kept=limits(),
        columns=columns,
        most=most,
    )


@blueprint.get("/api/v1/insights")
@operation(
    summary="Return what people ask.",
    role="read",
    whole=True,
    operator=True,
    parameters=FILTERS,
    responses={200: INSIGHTS},
    errors=(501,),
)
def as_json() -> Response:
    """Answer with the figures of the page."""
    return jsonify(_report(given_in_address(("days", "collection")))[0].as_dict())


@blueprint.get("/api/v1/insights.csv")
@operation(
    summary="Return a table of what people ask as CSV.",
    description="A cell that would be a formula has an apostrophe before it.",
    role="read",
    whole=True,
    operator=True,
    parameters=[*FILTERS, {"name": "table", "in": "query", "schema": TABLE}],
    responses={200: Content("text/csv", STRING)},
    errors=(501,),
)
def as_table() -> ResponseReturnValue:
    """Answer with one of the tables of the page."""
    given = given_in_address(("days", "collection", "table"))
    table = str(check("table", given.pop("table", TABLE["default"]), TABLE))
    text = _report(given)[0].as_csv(table)
    headers = {"Content-Disposition": f'attachment; filename="pilotlight-{table}.csv"'}
    return Response(text, content_type="text/csv; charset=utf-8", headers=headers)


def _report(given: dict[str, str]) -> tuple[Report, int]:
    """The figures of the days and the collection that an address names. Raises InsightsError or FieldError."""
    required()
    days = int(check("days", from_text(given["days"], DAYS), DAYS)) if "days" in given else int(DAYS["default"])
    collection = str(check("collection", given["collection"], ONE)) if given.get("collection") else None
    folder = limits().insights_folder
    try:
        return report(folder, days, collection), days
    except (sqlite3.Error, OSError) as error:
        raise InsightsError(f"what people ask cannot be read: {error}") from error
