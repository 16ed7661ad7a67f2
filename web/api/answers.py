"""The answer API: `POST /api/v1/answer` writes what the hits of a search say, with citations."""

import json
import logging
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Any

from flask import Blueprint, Response, jsonify, request
from msgspec import structs

from rag import deadline
from rag.answer.prompt import Endpoint, Exchange, search_text
from rag.errors import AnswerError, AnswersOff, EndpointSlow, NotReady
from rag.events import BEAT, MEDIA_TYPE, Event, event_of
from rag.messages import AnswerInWords, AnswerRequest
from rag.query.options import MAX_QUERY_CHARS
from rag.query.request import SearchRequest
from rag.query.results import Answer
from web.api.requests import limits, read_object, retriever, run, search_of_object
from web.guards.limits import MAX_CONVERSATION_BYTES, ConcurrencyLimit
from web.openapi import Content, operation
from web.problems import DETAILS, problem, respond

MOST_AT_ONCE = 8  # answers that one worker writes
DEFAULT_K = 6
SUPPORT = 0.5  # likeness to a passage from which a sentence counts as supported

Events = Generator[Event | None, None, None]

log = logging.getLogger("pilotlight")
blueprint = Blueprint("answers", __name__, url_prefix="/api/v1")
_slots = ConcurrencyLimit(blueprint, MOST_AT_ONCE)


@blueprint.post("/answer")
@operation(
    summary="Answer in words, with citations.",
    role="read",
    body=AnswerRequest,
    responses={200: (Content(MEDIA_TYPE, {}), AnswerInWords)},
    errors=(404, 501, 502, 504),
    description="Streams the events `hits`, `token`, `support`, `citations` and `done`, or `error` with a problem. "
    "With `Accept: application/json`, answers once all is written.",
)
def answer() -> Response:
    """Search, and have the endpoint write an answer from the hits."""
    known = limits()
    endpoint = Endpoint.of(known)
    fields = read_object(MAX_CONVERSATION_BYTES)
    if fields.get("k") is None:
        fields["k"] = DEFAULT_K
    asked = search_of_object(fields, AnswerRequest)
    exchanges = [Exchange(each.question, each.answer) for each in asked.history]
    full = NotReady("the server is already writing as many answers as it can: try again shortly")
    give_back = _slots.take(full)
    try:
        text = search_text(asked.query, exchanges, MAX_QUERY_CHARS)
        found = run(structs.replace(asked.search, query=text), via="answer")
        deadline.lift()  # which was that of the search; an answer has its own
        events = _events(found, endpoint, asked, exchanges)
        if request.accept_mimetypes.best_match([MEDIA_TYPE, "application/json"]) == "application/json":
            response = jsonify(_whole(found, events()))
        else:
            response = Response(_stream(events), content_type=MEDIA_TYPE)
            response.headers["X-Accel-Buffering"] = "no"  # or nginx would keep the text until it is complete
    except BaseException:
        give_back()
        raise
    response.call_on_close(give_back)
    return response


@blueprint.errorhandler(AnswerError)
def refuse(error: AnswerError) -> Response:
    """Say what is wrong with the endpoint, as a problem."""
    return respond(_problem(error))


def _events(found: Answer, endpoint: Endpoint, asked: SearchRequest, history: list[Exchange]) -> Callable[[], Events]:
    """Return what writes the answer; what it needs of the request is read now."""
    from rag.answer.answer_writer import write_answer  # brings an HTTP client, which not every server needs

    seen = retriever()
    embed = None if asked.mode == "lexical" else lambda texts: seen.embed(texts).vectors
    return lambda: write_answer(found, endpoint, asked.query, history, embed=embed, support=SUPPORT)


def _whole(found: Answer, events: Events) -> dict[str, Any]:
    text: list[str] = []
    sentences: list[dict[str, Any]] = []
    last: dict[str, Any] = {}
    for event in events:
        if event is None or event.name == "hits":
            continue
        value = json.loads(event.data)
        if event.name == "token":
            text.append(value["text"])
        elif event.name == "support":
            sentences.append(value)
        else:
            last |= value
    took = found.took_ms | last["took_ms"]
    return {**found.as_dict(), "answer": "".join(text), "sentences": sentences, **last, "took_ms": took}


def _stream(make: Callable[[], Events]) -> Iterator[bytes]:
    with closing(make()) as events:
        try:
            for event in events:
                yield BEAT if event is None else event.encode()
        except AnswerError as error:
            yield event_of("error", _problem(error)).encode()
        except Exception:
            log.exception("writing an answer failed")
            yield event_of("error", problem(500, DETAILS[500])).encode()


def _problem(error: AnswerError) -> dict[str, object]:
    status = 501 if isinstance(error, AnswersOff) else 504 if isinstance(error, EndpointSlow) else 502
    return problem(status, str(error))
