"""Searches over REST: for one query or several, suggestions while somebody types, and feedback on hits."""

import time
from typing import Annotated, Any

from flask import Blueprint, Response, jsonify, request
from msgspec import Meta

from rag import deadline
from rag.decoding import decode, refuse_unknown
from rag.errors import FieldError, RagError
from rag.messages import MOST_QUERIES, BatchAnswer, FeedbackRequest, SearchBatch, Suggestions, SuggestRequest
from rag.query.request import FilterError, SearchRequest
from rag.query.results import Answer
from web.api.requests import (
    fields_beside_filter,
    filter_of_parameters,
    parse_query_string,
    read_json,
    read_object,
    recorder,
    retriever,
    run,
    search_of_object,
    search_of_parameters,
)
from web.display_urls import places
from web.guards.limits import MAX_BODY_BYTES, MAX_SEARCH_BYTES
from web.openapi import Operation
from web.problems import problem_of

# A hit is named by all feedback but `seen`.
_NAMED = {"required": ["hit"], "properties": {"hit": {"type": "string"}}}
_FEEDBACK = Annotated[
    FeedbackRequest, Meta(extra_json_schema={"anyOf": [_NAMED, {"properties": {"feedback": {"const": "seen"}}}]})
]

blueprint = Blueprint("search", __name__, url_prefix="/api/v1")


@blueprint.get("/search")
@Operation(
    summary="Search by a query string.",
    description="Metadata is filtered by `meta.NAME=VALUE`. Fields of a filter may be repeated.",
    role="read",
    query=SearchRequest,
    has_filter=True,
    responses={200: Answer},
    errors=(404,),
)
def search_by_query_string() -> Response:
    """Answer `?q=…&k=…`."""
    return jsonify(run(search_of_parameters(parse_query_string(request.query_string))))


@blueprint.post("/search")
@Operation(summary="Search.", role="read", body=SearchRequest, responses={200: Answer}, errors=(404,))
def search_by_body() -> Response:
    """Answer a JSON object with `query`, `k`, …"""
    return jsonify(run(search_of_object(read_object(MAX_SEARCH_BYTES), SearchRequest)))


@blueprint.post("/search/batch")
@Operation(
    summary="Search for several queries at once.",
    description="They go through the model together. A search that fails has a problem in its place.",
    role="read",
    body=SearchBatch,
    responses={200: BatchAnswer},
)
def search_by_batch() -> Response:
    """Answer a list of searches, each with what it would have got alone: an answer or a problem."""
    began = time.perf_counter()
    fields = read_object(MAX_BODY_BYTES)
    refuse_unknown(fields, ("queries",), "a batch")
    queries = fields.get("queries")
    if not isinstance(queries, list) or not 1 <= len(queries) <= MOST_QUERIES:
        raise FieldError("queries", f"queries must be a list of 1 to {MOST_QUERIES} searches.")
    outcomes: list[Any] = []  # of each, its search, and later what it got: an answer or a problem
    for each in queries:
        try:
            if not isinstance(each, dict):
                raise FieldError("queries", "A search must be an object.")
            outcomes.append(search_of_object(each, SearchRequest))
        except (FieldError, FilterError) as error:
            outcomes.append(problem_of(error))
    to_embed = [one.meaning for one in outcomes if isinstance(one, SearchRequest) and one.mode != "lexical"]
    made = iter(retriever().embed_queries(to_embed) if to_embed else ())
    seconds = time.perf_counter() - began
    for place, search in enumerate(outcomes):
        if isinstance(search, SearchRequest):
            embedded = None if search.mode == "lexical" else next(made)
            try:
                deadline.check()
                outcomes[place] = run(search, embedded, via="batch")
            except RagError as error:
                outcomes[place] = problem_of(error)
    took = {"embed": round(seconds * 1000, 3), "total": round((time.perf_counter() - began) * 1000, 3)}
    return jsonify(BatchAnswer(outcomes, took))


@blueprint.get("/suggest")
@Operation(
    summary="Suggest what to ask.",
    description="Titles and headings that go on as was typed, of documents that the filter allows.",
    role="read",
    query=SuggestRequest,
    has_filter=True,
    responses={200: Suggestions},
    errors=(404,),
)
def suggest() -> Response:
    """Answer `?q=…` with suggestions, the likeliest first."""
    parameters = parse_query_string(request.query_string)
    given = fields_beside_filter(parameters, SuggestRequest.__struct_fields__, "suggestions")
    typed = decode(given, SuggestRequest, strict=False)
    wanted = filter_of_parameters(places(typed.collection).index_values(parameters))
    return jsonify(Suggestions(retriever().suggest(typed.q, typed.collection, wanted, typed.k)))


@blueprint.post("/feedback")
@Operation(
    summary="Say what became of a search.",
    description="Answers in the same way whether or not there is such a search, and hit of it.",
    role="read",
    body=_FEEDBACK,
    responses={204: None},
    errors=(501,),
)
def add_feedback() -> Response:
    """Take feedback, to be written within a second."""
    keeps = recorder()
    found = read_json(FeedbackRequest, MAX_SEARCH_BYTES, "feedback")
    if not found.hit and found.feedback != "seen":
        raise FieldError("hit", "hit is missing: only seen is said of a search as a whole.")
    keeps.add_feedback(found.search_id, found.feedback, found.hit or "")
    return Response(status=204)
