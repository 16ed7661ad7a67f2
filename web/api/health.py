"""Probes for supervisors: `/livez` says the process answers, `/readyz` that it can search."""

from typing import Any

from flask import Blueprint, Response, current_app, jsonify

from web.api.parameters import retriever
from web.api.schemas import COUNT, STRING, listed, structure
from web.openapi import define, operation
from web.problems import problem, respond

_SERVED: dict[str, Any] = {"generation": STRING, "created_at": STRING, "documents": COUNT, "chunks": COUNT}
_STATE: dict[str, Any] = {"ready": {"type": "boolean"}, "reason": {"type": ["string", "null"]}}
STATUS = define(
    "Status",
    structure(
        {**_STATE, "missing": {"type": "boolean"}, "model": STRING},
        {
            "engine": STRING,
            "precision": STRING,
            "rerank_model": STRING,
            "dimension": COUNT,
            **_SERVED,
            "collections": listed(structure({"name": STRING, **_STATE}, _SERVED)),
        },
    ),
)

blueprint = Blueprint("health", __name__)


@blueprint.get("/livez")
@operation(summary="Check that the process answers.", role=None, responses={200: structure({"live": {"const": True}})})
def livez() -> Response:
    """Answer 200 for as long as the process serves requests."""
    return jsonify(live=True)


@blueprint.get("/readyz")
@operation(summary="Check readiness, and what is served.", role=None, responses={200: STATUS}, errors=(503,))
def readyz() -> Response:
    """Answer 200 with the retriever's status while a search would be answered, else 503 with the reason."""
    status = retriever().status()
    if current_app.extensions["draining"].is_set():
        return respond(problem(503, "The server is shutting down: it finishes running requests, then stops."))
    if retriever().ready:
        return jsonify({**status, "ready": True})
    return respond(problem(503, str(status.get("reason") or "The model and the index are still loading.")))
