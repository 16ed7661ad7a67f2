"""Searches on their way from the routes to the recorder; nothing where the server keeps none."""

from flask import Flask, current_app, has_request_context, request

from rag.errors import InsightsOff
from rag.insights.recorder import Recorder
from rag.insights.store import Via
from rag.query.request import SearchRequest
from rag.query.results import Answer
from web.guards.scoped_retriever import caller
from web.observe.metrics import Metrics

TYPING = "X-Pilotlight-Typing"  # a request of a page's script, while somebody may go on typing


def install(app: Flask, recorder: Recorder | None) -> None:
    """Give an application its recorder, or none. Comes after telemetry, which counts."""
    app.extensions["insights"] = recorder
    app.jinja_env.globals["keeps_searches"] = lambda: recorder is not None
    if recorder:
        metrics: Metrics = app.extensions["metrics"]
        recorder.count = metrics.recorded


def keep(search: SearchRequest, answer: Answer, via: Via) -> str | None:
    """Record a search that was answered; return its id, or None where it is not kept, as a further page of hits."""
    recorder: Recorder | None = current_app.extensions["insights"]
    if recorder is None or search.offset or not has_request_context():
        return None
    is_box = caller().is_shown  # on a page of another site, which searches while somebody types
    return recorder.record(search, answer, "box" if is_box else via, seen=not (is_box or TYPING in request.headers))


def required() -> Recorder:
    """Return the recorder. Raises InsightsOff where there is none."""
    recorder: Recorder | None = current_app.extensions["insights"]
    if recorder is None:
        raise InsightsOff
    return recorder
