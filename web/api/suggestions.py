"""The suggestion API: `GET /api/v1/suggest` says what somebody who types may be about to ask."""

from typing import Any

from flask import Blueprint, Response, jsonify, request

from rag.query.options import MOST_SUGGESTED, SUGGESTED
from rag.settings import Settings
from web.api.parameters import COLLECTION, check_query, limits, parse_query_string, query_schema, retriever
from web.api.schemas import STRING, filter_parameters, listed, structure
from web.display_urls import places
from web.fields import check, from_text, refuse_unknown
from web.filters import NAMES, filter_from_parameters, is_filter
from web.openapi import Parameter, define, operation

_K: dict[str, Any] = {
    "type": "integer",
    "description": "most suggestions to return",
    "minimum": 1,
    "maximum": MOST_SUGGESTED,
    "default": SUGGESTED,
}
SUGGESTIONS = define(
    "Suggestions",
    structure({"suggestions": listed(structure({"text": STRING, "kind": {"enum": ["title", "heading"]}}))}),
)

blueprint = Blueprint("suggestions", __name__, url_prefix="/api/v1")


def _parameters(limits: Settings) -> list[Parameter]:
    return [
        {"name": "q", "in": "query", "required": True, "schema": query_schema(limits), "description": "what is typed"},
        {"name": "k", "in": "query", "schema": _K, "description": _K["description"]},
        {"name": "collection", "in": "query", "schema": COLLECTION, "description": COLLECTION["description"]},
        *filter_parameters(),
    ]


@blueprint.get("/suggest")
@operation(
    summary="Suggest what to ask.",
    description="Titles and headings that go on as was typed, of documents that the filter allows.",
    role="read",
    parameters=_parameters,
    responses={200: SUGGESTIONS},
    errors=(404, 414),
)
def suggest() -> Response:
    """Answer `?q=…` with suggestions, the likeliest first."""
    parameters = parse_query_string(request.query_string)
    given = {name: values[0] for name, values in parameters.items() if not is_filter(name)}
    refuse_unknown(given, ("q", "k", "collection", *NAMES), "suggestions")
    typed = check_query("q", given.get("q"), limits())
    most = int(check("k", from_text(given["k"], _K), _K)) if "k" in given else SUGGESTED
    collection = str(check("collection", given.get("collection", COLLECTION["default"]), COLLECTION))
    wanted = filter_from_parameters(places(collection).from_addresses(parameters))  # as the page names files
    found = retriever().suggest(typed, collection, wanted, most)
    return jsonify({"suggestions": [{"text": each.text, "kind": each.kind} for each in found]})
