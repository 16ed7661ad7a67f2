"""The answer API: `POST /api/v1/answer` writes what the hits of a search say, with citations."""

import json
import logging
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from flask import Blueprint, Response, current_app, jsonify, request

from rag import deadline
from rag.answer.endpoint import Endpoint
from rag.errors import AnswerError, AnswersOff, EndpointSlow, NotReady
from rag.events import BEAT, MEDIA_TYPE, event_of
from rag.query.results import Answer
from web.api.parameters import limits, read_object, run, search_from_object
from web.api.schemas import ANSWER_FIELDS, MILLISECONDS, REQUEST, STRING, listed, structure
from web.guards.concurrency import ConcurrencyLimit
from web.openapi import Content, define, operation
from web.problems import DETAILS, problem, respond
from web.sizes import MAX_SEARCH_BYTES

MOST_AT_ONCE = 8  # answers that one worker writes
DEFAULT_K = 6

log = logging.getLogger("pilotlight")
blueprint = Blueprint("answers", __name__, url_prefix="/api/v1")
_slots = ConcurrencyLimit(blueprint, MOST_AT_ONCE)

TOOK = {"first_token": {"type": ["number", "null"]}, "answer": MILLISECONDS}
WRITTEN = define(
    "WrittenAnswer",
    {
        **ANSWER_FIELDS,
        "description": "An answer to a search, and what was written from its hits.",
        "required": [*ANSWER_FIELDS["required"], "answer", "citations", "finish_reason"],
        "properties": {
            **ANSWER_FIELDS["properties"],
            "answer": STRING,
            "citations": listed(
                structure(
                    {
                        "number": {"type": "integer", "minimum": 1, "description": "[1] in the text is the first hit"},
                        **dict.fromkeys(("id", "url", "title", "section"), STRING),
                    }
                )
            ),
            "finish_reason": {**STRING, "description": "`stop`, `length` if it was cut off, or `nothing found`"},
            "took_ms": structure({**ANSWER_FIELDS["properties"]["took_ms"]["properties"], **TOOK}),
        },
    },
)


@blueprint.post("/answer")
@operation(
    summary="Answer in words, with citations.",
    role="read",
    request=REQUEST,
    responses={200: [Content(MEDIA_TYPE, {}), WRITTEN]},
    errors=(404, 501, 502, 504),
    description="Streams the events `hits`, `token`, `citations` and `done`, or `error` with a problem. "
    "With `Accept: application/json`, answers once all is written.",
)
def answer() -> Response:
    """Search, and have the endpoint write an answer from the hits."""
    endpoint = Endpoint.of(current_app.extensions["limits"])
    fields = read_object(MAX_SEARCH_BYTES)
    search = search_from_object({"k": min(DEFAULT_K, limits().max_k), **fields}, limits())
    full = NotReady("the server is already writing as many answers as it can: try again shortly")
    give_back = _slots.take(full)
    try:
        found = run(search, via="answer")
        deadline.lift()  # which was that of the search; an answer has its own
        if request.accept_mimetypes.best_match([MEDIA_TYPE, "application/json"]) == "application/json":
            response = jsonify(_whole(found, endpoint))
        else:
            response = Response(_stream(found, endpoint), content_type=MEDIA_TYPE)
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


def _whole(found: Answer, endpoint: Endpoint) -> dict[str, Any]:
    from rag.answer.answer_writer import (
        write_answer,  # brings an HTTP client, which a server without an endpoint never needs
    )

    text: list[str] = []
    last: dict[str, Any] = {}
    for event in write_answer(found, endpoint):
        if event is None or event.name == "hits":
            continue
        value = json.loads(event.data)
        if event.name == "token":
            text.append(value["text"])
        else:
            last |= value
    took = found.took_ms | last["took_ms"]
    return {**found.as_dict(), "answer": "".join(text), **last, "took_ms": took}


def _stream(found: Answer, endpoint: Endpoint) -> Iterator[bytes]:
    from rag.answer.answer_writer import write_answer

    with closing(write_answer(found, endpoint)) as events:
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
