"""Probes for supervisors: `/livez` says the process answers, `/readyz` that it can search."""

from flask import Blueprint, Response, current_app, jsonify

from web.problems import problem, respond
from web.retriever import Retriever

blueprint = Blueprint("health", __name__)


@blueprint.get("/livez")
def livez() -> Response:
    """Answer 200 for as long as the process serves requests."""
    return jsonify(live=True)


@blueprint.get("/readyz")
def readyz() -> Response:
    """Answer 200 with the retriever's status once a search would be answered, 503 with the reason before."""
    retriever: Retriever = current_app.extensions["retriever"]
    status = retriever.status()
    if retriever.ready:
        return jsonify({**status, "ready": True})
    return respond(problem(503, str(status.get("reason") or "The model and the index are still loading.")))
