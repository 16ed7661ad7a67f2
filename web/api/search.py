"""The search API: `/api/v1/search`, for one query by POST or GET, and `/api/v1/search/batch` for several."""

import time

from flask import Blueprint, Response, jsonify, request

from rag import deadline
from rag.errors import RagError
from rag.query.filters import FilterError
from rag.query.request import SearchRequest
from web.api.parameters import (
    MOST_QUERIES,
    limits,
    parse_query_string,
    read_object,
    retriever,
    run,
    search_from_object,
    search_from_parameters,
)
from web.api.schemas import ANSWER, BATCH_ANSWER, BATCH_REQUEST, REQUEST, search_parameters
from web.fields import FieldError, given_fields
from web.openapi import operation
from web.problems import problem_of
from web.sizes import MAX_BODY_BYTES, MAX_SEARCH_BYTES

blueprint = Blueprint("search", __name__, url_prefix="/api/v1")


@blueprint.get("/search")
@operation(
    summary="Search by a query string.",
    description="Metadata is filtered by `meta.NAME=VALUE`. Fields of a filter may be repeated.",
    role="read",
    parameters=search_parameters,
    responses={200: ANSWER},
    errors=(404, 414),
)
def search_by_query_string() -> Response:
    """Answer `?q=…&k=…` with the body of `Answer.as_dict`."""
    return _answer(search_from_parameters(parse_query_string(request.query_string), limits()))


@blueprint.post("/search")
@operation(summary="Search.", role="read", request=REQUEST, responses={200: ANSWER}, errors=(404,))
def search_by_body() -> Response:
    """Answer a JSON object with `query`, `k`, … with the body of `Answer.as_dict`."""
    return _answer(search_from_object(read_object(MAX_SEARCH_BYTES), limits()))


@blueprint.post("/search/batch")
@operation(
    summary="Search for several queries at once.",
    description="They go through the model together. A search that fails has a problem in its place.",
    role="read",
    request=BATCH_REQUEST,
    responses={200: BATCH_ANSWER},
)
def search_by_batch() -> Response:
    """Answer a list of searches, each with what it would have got alone: an answer or a problem."""
    began = time.perf_counter()
    fields = given_fields(read_object(MAX_BODY_BYTES), ("queries",), "a batch")
    queries = fields.get("queries")
    if not isinstance(queries, list) or not 1 <= len(queries) <= MOST_QUERIES:
        raise FieldError("queries", f"queries must be a list of 1 to {MOST_QUERIES} searches.")
    searches = [_checked(query) for query in queries]
    embedded = [each for each in searches if isinstance(each, SearchRequest) and each.mode != "lexical"]
    made = iter(retriever().embed_queries([each.meaning for each in embedded]) if embedded else ())
    seconds = time.perf_counter() - began
    answers = []
    for search in searches:
        if isinstance(search, SearchRequest):
            query = None if search.mode == "lexical" else next(made)
            try:
                deadline.check()
                answers.append(run(search, query, via="batch").as_dict())
            except RagError as error:
                answers.append(problem_of(error))
        else:
            answers.append(search)
    took = {"embed": round(seconds * 1000, 3), "total": round((time.perf_counter() - began) * 1000, 3)}
    return jsonify({"answers": answers, "took_ms": took})


def _checked(fields: object) -> SearchRequest | dict[str, object]:
    """Return one search of a batch, or the problem with it."""
    try:
        if not isinstance(fields, dict):
            raise FieldError("queries", "A search must be an object.")
        return search_from_object(fields, limits())
    except (FieldError, FilterError) as error:
        return problem_of(error)


def _answer(search: SearchRequest) -> Response:
    return jsonify(run(search))
