"""What people ask, as the routes hand it to the recorder; nothing where the server keeps none of it."""

from collections.abc import Iterable
from typing import Protocol

from flask import Flask, current_app, has_request_context, request

from rag.errors import InsightsOff
from rag.insights.events import Via
from rag.insights.recorder import Recorder
from rag.query import fair_share
from rag.query.request import SearchRequest
from rag.query.results import Answer, PastQuestion
from web.guards.callers import caller
from web.observe.metrics import Metrics

TYPING = "X-Pilotlight-Typing"  # a request of a page's script, while somebody may go on typing


def install(app: Flask, recorder: Recorder | None) -> None:
    """Give an application its recorder, or none. Comes after telemetry, which counts."""
    app.extensions["insights"] = recorder
    app.jinja_env.globals["keeps_searches"] = lambda: recorder is not None
    if recorder:
        metrics: Metrics = app.extensions["metrics"]
        recorder.counted = metrics.recorded


def recorder() -> Recorder | None:
    """Return the recorder of the application that answers."""
    found: Recorder | None = current_app.extensions["insights"]
    return found


def keep(search: SearchRequest, answer: Answer, via: Via) -> str | None:
    """Hand over a search that was answered; return its id, or None where it is not kept.

    One that goes on where another ended is no question of its own.
    """
    kept = recorder()
    if kept is None or search.offset or not has_request_context():
        return None
    who = caller()
    is_typing = who.is_shown or TYPING in request.headers  # boxes of other sites search while somebody types
    return kept.searched(
        search,
        answer,
        via="box" if who.is_shown else via,
        who=fair_share.caller.get(),
        scope=who.scope,
        seen=not is_typing,
    )


class _Suggests(Protocol):
    """What asks for past questions while somebody types."""

    def __call__(self, typed: str, collection: str) -> Iterable[PastQuestion]: ...


def questions_of(kept: Recorder) -> _Suggests:
    """Return the function that gives a retriever the past questions that the caller of a request may know."""

    def questions(typed: str, collection: str) -> Iterable[PastQuestion]:
        return kept.questions.matching(typed, collection, caller().scope) if has_request_context() else ()

    return questions


def required() -> Recorder:
    """Return the recorder. Raises InsightsOff where there is none."""
    if (found := recorder()) is None:
        raise InsightsOff
    return found
