"""Whole documents: one by its id, or all of them as JSON Lines."""

import json
from collections.abc import Iterator
from typing import Any

from flask import Blueprint, Response, jsonify
from werkzeug.exceptions import ServiceUnavailable

from rag import deadline
from web.api.parameters import COLLECTION, collection_in_address, id_in_path, retriever
from web.api.schemas import DOCUMENT
from web.guards.concurrency import ConcurrencyLimit
from web.openapi import Content, operation

JSON_LINES = "application/jsonl"
MOST_AT_ONCE = 4  # exports that one worker sends
_COLLECTION = {"name": "collection", "in": "query", "schema": COLLECTION, "description": COLLECTION["description"]}

blueprint = Blueprint("documents", __name__, url_prefix="/api/v1")
_slots = ConcurrencyLimit(blueprint, MOST_AT_ONCE)


@blueprint.get("/documents/<id>")
@operation(
    summary="Read a document.",
    role="read",
    parameters=[
        id_in_path("`document` of a hit"),
        _COLLECTION,
    ],
    responses={200: DOCUMENT},
    errors=(404,),
)
def document(id: str) -> Response:
    """Answer one document with its passages, in reading order."""
    return jsonify(retriever().document(id, collection_in_address()))


@blueprint.get("/documents")
@operation(
    summary="Export all documents as JSON Lines.",
    description=f"One document a line, all of one generation. A worker sends {MOST_AT_ONCE} exports at once.",
    role="read",
    parameters=[_COLLECTION],
    responses={200: Content(JSON_LINES, {"type": "string"})},
    errors=(404,),
)
def documents() -> Response:
    """Stream every document of the generation that is live as the request comes in."""
    found = retriever().documents(collection_in_address())
    full = ServiceUnavailable("Too many exports are running: try again shortly.")
    give_back = _slots.take(full)
    deadline.lift()
    response = Response(_lines(found), content_type=JSON_LINES)
    response.call_on_close(give_back)  # whether or not it was sent whole
    return response


def _lines(documents: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    for found in documents:
        yield json.dumps(found, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
