"""The answer API: `POST /api/v1/answer` writes what the hits of a search say, with citations."""

import json
import logging
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

from flask import Blueprint, Response, jsonify, request

from rag import deadline
from rag.answer.conversation import Exchange, search_text
from rag.answer.endpoint import Endpoint
from rag.errors import AnswerError, AnswersOff, EndpointSlow, NotReady
from rag.events import BEAT, MEDIA_TYPE, Event, event_of
from rag.query.options import MAX_QUERY_CHARS, MOST_EXCHANGES, MOST_OF_ANSWER
from rag.query.request import SearchRequest
from rag.query.results import Answer
from rag.settings import Settings
from web.api.parameters import limits, query_schema, read_object, retriever, run, search_from_object
from web.api.schemas import ANSWER_FIELDS, COUNT, MILLISECONDS, STRING, listed, search_fields, structure
from web.fields import FieldError, check, nullable, refuse_unknown
from web.guards.concurrency import ConcurrencyLimit
from web.openapi import Content, define, operation
from web.problems import DETAILS, problem, respond
from web.sizes import MAX_CONVERSATION_BYTES

MOST_AT_ONCE = 8  # answers that one worker writes
DEFAULT_K = 6
SUPPORT = 0.5  # likeness to a passage from which a sentence counts as supported

Events = Generator[Event | None, None, None]

log = logging.getLogger("pilotlight")
blueprint = Blueprint("answers", __name__, url_prefix="/api/v1")
_slots = ConcurrencyLimit(blueprint, MOST_AT_ONCE)

OLD_ANSWER = {"type": "string", "maxLength": MOST_OF_ANSWER}


def _history(limits: Settings) -> dict[str, Any]:
    return listed(
        structure({"question": query_schema(limits), "answer": OLD_ANSWER}),
        maxItems=MOST_EXCHANGES,
        description="what was asked and answered before, the last one last; a short question is about that",
    )


def _request(limits: Settings) -> dict[str, Any]:
    search = search_fields(limits)
    return search | {"properties": search["properties"] | {"history": nullable(_history(limits))}}


REQUEST = define("Question", _request)
SENTENCE = structure(
    {
        "start": COUNT,
        "end": COUNT,
        "supported": {"type": "boolean", "description": "whether a hit supports it, as far as likeness can tell"},
        "hit": {"type": ["integer", "null"], "minimum": 1, "description": "number of the hit that supports it best"},
        "score": {"type": "number"},
    }
) | {"description": "Characters [start, end) of the answer; headings, questions and code are not judged."}
TOOK = {"first_token": {"type": ["number", "null"]}, "answer": MILLISECONDS}
WRITTEN = define(
    "WrittenAnswer",
    {
        **ANSWER_FIELDS,
        "description": "An answer to a search, and what was written from its hits.",
        "required": [*ANSWER_FIELDS["required"], "answer", "sentences", "citations", "finish_reason"],
        "properties": {
            **ANSWER_FIELDS["properties"],
            "answer": STRING,
            "sentences": listed(SENTENCE),
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
    description="Streams the events `hits`, `token`, `support`, `citations` and `done`, or `error` with a problem. "
    "With `Accept: application/json`, answers once all is written.",
)
def answer() -> Response:
    """Search, and have the endpoint write an answer from the hits."""
    known = limits()
    endpoint = Endpoint.of(known)
    fields = read_object(MAX_CONVERSATION_BYTES)
    history = fields.pop("history", None)
    exchanges = [] if history is None else _check_history(history, known)
    if fields.get("k") is None:
        fields["k"] = DEFAULT_K
    asked = search_from_object(fields, known)
    full = NotReady("the server is already writing as many answers as it can: try again shortly")
    give_back = _slots.take(full)
    try:
        found = run(replace(asked, query=search_text(asked.query, exchanges, MAX_QUERY_CHARS)), via="answer")
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


def _check_history(value: object, known: Settings) -> list[Exchange]:
    """Return what was asked and answered before, if it is that. Raises FieldError."""
    if not isinstance(value, list) or len(value) > MOST_EXCHANGES:
        raise FieldError("history", f"history must be a list of at most {MOST_EXCHANGES} questions and answers.")
    return [_check_exchange(f"history[{place}]", each, known) for place, each in enumerate(value)]


def _check_exchange(name: str, value: object, known: Settings) -> Exchange:
    if not isinstance(value, Mapping):
        raise FieldError(name, f"{name} must be an object with a question and an answer.")
    refuse_unknown(value, ("question", "answer"), name)
    question = check(f"{name}.question", value.get("question"), query_schema(known))
    return Exchange(question, check(f"{name}.answer", value.get("answer"), OLD_ANSWER))


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
