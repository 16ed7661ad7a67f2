"""Probes for supervisors: `/livez` says the process answers, `/readyz` that it can search."""

from flask import Blueprint, Response, current_app, jsonify

from rag.messages import Live, Status
from web.api.requests import retriever
from web.openapi import operation
from web.problems import problem, respond

blueprint = Blueprint("health", __name__)


@blueprint.get("/livez")
@operation(summary="Check that the process answers.", role=None, responses={200: Live})
def livez() -> Response:
    """Answer 200 for as long as the process serves requests."""
    return jsonify(live=True)


@blueprint.get("/readyz")
@operation(summary="Check readiness, and what is served.", role=None, responses={200: Status}, errors=(503,))
def readyz() -> Response:
    """Answer 200 with the retriever's status while a search would be answered, else 503 with the reason."""
    status = retriever().status()
    if current_app.extensions["draining"].is_set():
        return respond(problem(503, "The server is shutting down: it finishes running requests, then stops."))
    if retriever().ready:
        return jsonify({**status, "ready": True})
    return respond(problem(503, str(status.get("reason") or "The model and the index are still loading.")))
