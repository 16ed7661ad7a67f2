"""Define REST routes for searches, batches of searches, suggestions, feedback and answers in words."""

import json
import logging
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import chain, zip_longest
from typing import Annotated, Any

from flask import Blueprint, Response, jsonify, request
from msgspec import Meta, structs

from rag import deadline, messages
from rag.answer.prompt import Endpoint, search_text
from rag.answer.verify import make_lookup, verify
from rag.decoding import decode, refuse_unknown_fields
from rag.errors import AnswerError, FieldError, NotReady, RagError
from rag.messages import EVENT_STREAM, Event, event_of
from rag.query.request import MAX_QUERY_CHARS, FilterError, SearchRequest
from rag.query.results import Answer
from web.api import requests
from web.display_urls import display_names
from web.guards.limits import MAX_BODY_BYTES, MAX_CONVERSATION_BYTES, MAX_SEARCH_BYTES, take_slot
from web.openapi import Content, Operation
from web.problems import DETAILS, problem, problem_of

# All feedback except "the hits were seen" must name a hit.
_NAMES_HIT = {"required": ["hit"], "properties": {"hit": {"type": "string"}}}
_FEEDBACK = Annotated[
    messages.FeedbackRequest,
    Meta(extra_json_schema={"anyOf": [_NAMES_HIT, {"properties": {"feedback": {"const": "seen"}}}]}),
]

MAX_ANSWERS = 8  # per worker process
BEAT = b": still there\n\n"  # a comment in an event stream; sending it fails if the client has disconnected
DEFAULT_K = 6

Events = Generator[Event | None, None, None]  # None to send a heartbeat (BEAT)

log = logging.getLogger("pilotlight")
blueprint = Blueprint("search", __name__, url_prefix="/api/v1")
answers = Blueprint("answers", __name__, url_prefix="/api/v1")


@blueprint.get("/search")
@Operation(role="read", query=SearchRequest, has_filter=True, responses={200: Answer}, errors=(404,))
def search_by_query_string() -> Response:
    """Search by a query string. `meta.NAME=VALUE` filters by metadata. Filter parameters may be repeated."""
    return jsonify(requests.run(requests.search_of_parameters(requests.parse_query_string(request.query_string))))


@blueprint.post("/search")
@Operation(role="read", body=SearchRequest, responses={200: Answer}, errors=(404,))
def search_by_body() -> Response:
    """Search by a JSON body."""
    return jsonify(requests.run(requests.search_of_object(requests.read_object(MAX_SEARCH_BYTES), SearchRequest)))


@blueprint.post("/search/batch")
@Operation(role="read", body=messages.SearchBatch, responses={200: messages.BatchAnswer}, takes_long=True)
def search_by_batch() -> Response:
    """Run several searches in one request. For a failed search, the result is a problem object, not an answer."""
    began = time.perf_counter()
    fields = requests.read_object(MAX_BODY_BYTES)
    refuse_unknown_fields(fields, ("queries",), "a batch")
    queries = fields.get("queries")
    if not isinstance(queries, list) or not 1 <= len(queries) <= messages.MAX_BATCH_QUERIES:
        raise FieldError("queries", f"queries must be a list of 1 to {messages.MAX_BATCH_QUERIES} searches.")
    outcomes: list[Any] = []
    for each in queries:
        try:
            if not isinstance(each, dict):
                raise FieldError("queries", "A search must be an object.")
            outcomes.append(requests.search_of_object(each, SearchRequest))
        except (FieldError, FilterError) as error:
            outcomes.append(problem_of(error))
    to_embed = [one.meaning for one in outcomes if isinstance(one, SearchRequest) and one.mode != "lexical"]
    vectors = iter(requests.retriever().embed_queries(to_embed) if to_embed else ())
    seconds = time.perf_counter() - began
    for index, search in enumerate(outcomes):
        if isinstance(search, SearchRequest):
            embedded = None if search.mode == "lexical" else next(vectors)
            try:
                deadline.check()
                outcomes[index] = requests.run(search, embedded, via="batch")
            except RagError as error:
                outcomes[index] = problem_of(error)
    took = {"embed": round(seconds * 1000, 3), "total": round((time.perf_counter() - began) * 1000, 3)}
    return jsonify(messages.BatchAnswer(outcomes, took))


@blueprint.get("/suggest")
@Operation(
    role="read", query=messages.SuggestRequest, has_filter=True, responses={200: messages.Suggestions}, errors=(404,)
)
def suggest() -> Response:
    """Suggest titles and headings that complete a text, from documents that match the filter."""
    parameters = requests.parse_query_string(request.query_string)
    fields = requests.fields_without_filter(parameters, messages.SuggestRequest.__struct_fields__, "suggestions")
    typed = decode(fields, messages.SuggestRequest, strict=False)
    names = requests.collections_of(typed.collection, typed.collections)
    filter = requests.filter_of_parameters(display_names(*names).index_values(parameters))
    by_collection = [requests.retriever().suggest(typed.q, name, filter, typed.k) for name in names]
    in_turn = {each.text: each for each in chain(*zip_longest(*by_collection)) if each}
    return jsonify(messages.Suggestions(list(in_turn.values())[: typed.k]))


@blueprint.post("/feedback")
@Operation(role="read", body=_FEEDBACK, responses={204: None}, errors=(501,))
def add_feedback() -> Response:
    """Record feedback on a search. Feedback on an unknown search is ignored."""
    recorder = requests.service("insights")
    feedback = requests.read_json(messages.FeedbackRequest, MAX_SEARCH_BYTES, "feedback")
    if not feedback.hit and feedback.feedback != "seen":
        raise FieldError("hit", "hit is missing: only feedback `seen` needs no hit.")
    recorder.add_feedback(feedback.search_id, feedback.feedback, feedback.hit or "")
    return Response(status=204)


@answers.post("/answer")
@Operation(
    role="read",
    body=messages.AnswerRequest,
    responses={200: (Content(EVENT_STREAM, {}), messages.AnswerInWords)},
    errors=(404, 501, 502, 504),
    takes_long=True,
)
def answer() -> Response:
    """Answer a question in words, with citations.

    The response is a stream of the events `hits`, `token`, `proof`, `citations` and `done`. A failed answer ends with
    `error`, a problem object. With `Accept: application/json`, the response is one JSON object.
    """
    endpoint = Endpoint.of(requests.settings())
    fields = requests.read_object(MAX_CONVERSATION_BYTES)
    if fields.get("k") is None:
        fields["k"] = DEFAULT_K
    answer_request = requests.search_of_object(fields, messages.AnswerRequest)
    full = NotReady("the server is already writing as many answers as it can: try again shortly")
    free_slot = take_slot("answers", MAX_ANSWERS, full)
    try:
        text = search_text(answer_request.query, answer_request.history, MAX_QUERY_CHARS)
        search_answer = requests.run(structs.replace(answer_request.search, query=text, links=True), via="answer")
        deadline.lift()
        from rag.answer.completion import write_answer

        lookup = make_lookup(requests.retriever().search, answer_request.search)
        is_strict = requests.settings().answer_strict
        events = write_answer(
            search_answer, endpoint, answer_request.query, answer_request.history, lookup=lookup, is_strict=is_strict
        )
        if request.accept_mimetypes.best_match([EVENT_STREAM, "application/json"]) == "application/json":
            response = jsonify(_complete(search_answer, events))
        else:
            response = Response(_stream(events), content_type=EVENT_STREAM)
            response.headers["X-Accel-Buffering"] = "no"
    except BaseException:
        free_slot()
        raise
    response.call_on_close(free_slot)
    return response


@answers.post("/verify")
@Operation(
    role="read", body=messages.VerifyRequest, responses={200: messages.Verification}, errors=(404,), takes_long=True
)
def verify_text() -> Response:
    """Check the quotations and facts in a text against the index."""
    fields = structs.asdict(requests.read_json(messages.VerifyRequest, MAX_BODY_BYTES))
    text = fields.pop("text")
    scope = requests.search_of_object({"query": "?", **fields}, SearchRequest)
    return jsonify(verify(text, requests.retriever().search, scope))


def _complete(hits: Answer, events: Events) -> dict[str, Any]:
    text: list[str] = []
    last: dict[str, Any] = {"proofs": []}
    for event in events:
        if event is None or event.name == "hits":
            continue
        value = json.loads(event.data)
        if event.name == "token":
            text.append(value["text"])
        elif event.name == "proof":
            last["proofs"].append(value)
        else:
            last |= value
    took = hits.took_ms | last["took_ms"]
    return {**hits.as_dict(), "answer": "".join(text), **last, "took_ms": took}


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
