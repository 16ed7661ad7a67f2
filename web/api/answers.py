"""The answer API: `POST /api/v1/answer` writes what the hits of a search say, with citations."""

import json
import logging
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any

from flask import Blueprint, Response, jsonify, request
from msgspec import structs

from rag import deadline
from rag.answer.prompt import Endpoint, Exchange, search_text
from rag.errors import AnswerError, NotReady
from rag.events import BEAT, MEDIA_TYPE, Event, event_of
from rag.messages import AnswerInWords, AnswerRequest
from rag.query.request import MAX_QUERY_CHARS
from rag.query.results import Answer
from web.api.requests import read_object, retriever, run, search_of_object, settings
from web.guards.limits import MAX_CONVERSATION_BYTES, ConcurrencyLimit
from web.openapi import Content, Operation
from web.problems import DETAILS, problem, problem_of

MOST_AT_ONCE = 8  # answers that one worker writes
DEFAULT_K = 6
SUPPORT = 0.5  # likeness to a passage from which a sentence counts as supported

Events = Generator[Event | None, None, None]  # None is a sign of life

log = logging.getLogger("pilotlight")
blueprint = Blueprint("answers", __name__, url_prefix="/api/v1")
_slots = ConcurrencyLimit("answers", MOST_AT_ONCE)


@blueprint.post("/answer")
@Operation(
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
    endpoint = Endpoint.of(settings())
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
        from rag.answer.answer_writer import write_answer  # brings an HTTP client, which not every server needs

        seen = retriever()
        embed = None if asked.mode == "lexical" else lambda texts: seen.embed(texts).vectors
        events = write_answer(found, endpoint, asked.query, exchanges, embed=embed, support=SUPPORT)
        if request.accept_mimetypes.best_match([MEDIA_TYPE, "application/json"]) == "application/json":
            response = jsonify(_whole(found, events))
        else:
            response = Response(_stream(events), content_type=MEDIA_TYPE)
            response.headers["X-Accel-Buffering"] = "no"  # or nginx would keep the text until it is complete
    except BaseException:
        give_back()
        raise
    response.call_on_close(give_back)
    return response


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


def _stream(events: Events) -> Iterator[bytes]:
    with closing(events):
        try:
            for event in events:
                yield BEAT if event is None else event.encode()
        except AnswerError as error:
            yield event_of("error", problem_of(error)).encode()
        except Exception:
            log.exception("writing an answer failed")
            yield event_of("error", problem(500, DETAILS[500])).encode()
