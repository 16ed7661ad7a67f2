"""The search API: `POST` and `GET /api/v1/search`."""

from flask import Blueprint, Response, current_app, jsonify, request
from werkzeug.exceptions import BadRequest, HTTPException, RequestEntityTooLarge, UnsupportedMediaType

from web.parameters import (
    SearchRequest,
    parse_json_object,
    parse_query_string,
    search_from_object,
    search_from_parameters,
)
from web.retriever import Limits

MAX_BODY_BYTES = 64 * 1024

blueprint = Blueprint("search", __name__, url_prefix="/api/v1")


@blueprint.get("/search")
def search_by_query_string() -> Response:
    """Answer `?q=…&k=…` with the body of `Answer.as_dict`; web/parameters.py has all fields."""
    limits: Limits = current_app.extensions["limits"]
    return _answer(search_from_parameters(parse_query_string(request.query_string), limits))


@blueprint.post("/search")
def search_by_body() -> Response:
    """Answer a JSON object with `query`, `k`, … with the body of `Answer.as_dict`."""
    limits: Limits = current_app.extensions["limits"]
    if request.mimetype != "application/json":
        raise UnsupportedMediaType
    if request.query_string:
        raise BadRequest("A POST takes its fields from the body only; the address may not have a query string.")
    return _answer(search_from_object(parse_json_object(_body()), limits))


def _body() -> bytes:
    try:
        body = request.get_data(cache=False)
    except HTTPException:
        raise
    except Exception as error:  # a server's errors for bad framing have no common base class
        raise BadRequest("The body could not be read to its end: it was cut short or badly framed.") from error
    # a chunked body is silently cut at the application's limit, which is therefore one byte more than ours
    if len(body) > MAX_BODY_BYTES:
        raise RequestEntityTooLarge
    return body


def _answer(search: SearchRequest) -> Response:
    return jsonify(search.run(current_app.extensions["retriever"]).as_dict())
