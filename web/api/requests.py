"""Decode requests from query strings and JSON bodies, and run searches."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from flask import current_app, request
from gunicorn.http.errors import ParseException
from msgspec import structs
from werkzeug.exceptions import BadRequest, UnsupportedMediaType

from rag.decoding import decode, quoted, refuse_unknown_fields
from rag.errors import FieldError, NotConfigured
from rag.insights.store import Recorder, Via
from rag.query.request import (
    DAYS,
    DEFAULT_COLLECTION,
    KEYS,
    LISTS,
    METADATA,
    Filter,
    FilterError,
    SearchRequest,
    fields_of,
    key_of,
    names_of,
)
from rag.query.results import Answer, QueryTokens
from rag.serving.live import LiveRetriever
from rag.settings import Settings
from web.guards.access import caller
from web.guards.limits import read_body
from web.metrics import note_search
from web.problems import this_request

T = TypeVar("T", bound=msgspec.Struct)
S = TypeVar("S", bound=SearchRequest)

MAX_PARAMETERS = 100
_MISSING_SERVICE = {
    "insights": "searches are not recorded here: set insights",
    "pushes": "This server cannot index documents.",
    "jobs": "This server cannot build indexes.",
}
_FILTER_FIELDS = (*LISTS, "date", "metadata")
_OPTIONS = tuple(name for name in SearchRequest.__struct_fields__ if name not in ("query", "filter"))


def settings() -> Settings:
    """Return the settings of the current application."""
    current: Settings = current_app.extensions["settings"]
    return current


def retriever() -> LiveRetriever:
    """Return the application's retriever, restricted to the documents that the current caller may read."""
    every: LiveRetriever = current_app.extensions["retriever"]
    return every.within(caller().scope)


def service(name: str) -> Any:
    """Return the service with this name: `insights`, `pushes` or `jobs`. Raises NotConfigured if it is disabled."""
    if current_app.extensions[name] is None:
        raise NotConfigured(_MISSING_SERVICE[name])
    return current_app.extensions[name]


def run(search: SearchRequest, embedded: QueryTokens | None = None, *, via: Via | None = "api") -> Answer:
    """Run a search, and record it for insights.

    Args:
        search: the request.
        embedded: vectors of the query, if they are already computed.
        via: interface that received the search, such as `page`. If None, the search is not recorded for insights.
    """
    answer = retriever().search(search, embedded)
    extensions = current_app.extensions
    note_search(extensions["metrics"], answer, search)
    recorder: Recorder | None = extensions["insights"]
    if recorder is None or via is None or search.offset:
        return answer
    is_box = caller().is_public
    is_seen = not (is_box or "X-Pilotlight-Typing" in request.headers)
    return structs.replace(answer, search_id=recorder.record(answer, "box" if is_box else via, seen=is_seen))


def collections_of(collection: str, collections: str | Sequence[str] | None) -> list[str]:
    """Return the names in `collections` that the caller may search or, if it is None, only the name `collection`."""
    if collections is None:
        return [collection]
    names, served = names_of(collections), retriever().status().get("collections", [])
    return [each["name"] for each in served if (each["ready"] if names is None else each["name"] in names)]


def collection_field(collection: str) -> dict[str, Any]:
    """Return the query parameter `collection`, or {} for the default collection, which needs no parameter."""
    return {} if collection == DEFAULT_COLLECTION else {"collection": collection}


def read_json(kind: type[T], max_bytes: int, owner: str = "this request") -> T:
    """Decode the JSON body of a request to a struct. Raises FieldError and the errors of `read_object`."""
    return decode(read_object(max_bytes), kind, owner)


def read_query(kind: type[T], owner: str = "this address") -> T:
    """Decode the query string of the request to a struct. Raises BadRequest or FieldError."""
    parameters = parse_query_string(request.query_string)
    return decode({name: values[-1] for name, values in parameters.items()}, kind, owner, strict=False)


def read_object(max_bytes: int) -> dict[str, Any]:
    """Return the JSON object in a request's body. Raises UnsupportedMediaType, RequestEntityTooLarge or BadRequest."""
    http_request = this_request()
    if http_request.mimetype != "application/json":
        raise UnsupportedMediaType
    if http_request.query_string:
        raise BadRequest("A POST request takes its fields from the body: remove the query string.")
    try:
        body = read_body(max_bytes)
    except (OSError, ParseException) as error:
        raise BadRequest("The body is incomplete, or incorrectly framed.") from error
    try:
        value = _DECODER.decode(body)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"The body is not valid JSON: {error}.") from error
    if not isinstance(value, dict):
        raise BadRequest('The body must be a JSON object, such as {"query": "how do I …"}.')
    return value


def _number(text: str) -> float:
    """Parse a JSON number that has a decimal point or an exponent. A whole number, such as 3.0, becomes an int."""
    value = float(text)
    return int(value) if value.is_integer() else value


_DECODER = msgspec.json.Decoder(float_hook=_number)


def parse_query_string(raw: bytes) -> dict[str, list[str]]:
    """Return the values of each parameter in a query string. Raises BadRequest or FieldError.

    Only `collections` and filter parameters other than `from` and `to` may occur more than once.
    """
    try:
        pairs = parse_qsl(raw.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS)
    except UnicodeDecodeError as error:
        raise BadRequest("The query string is not valid UTF-8.") from error
    except ValueError as error:
        raise BadRequest(f"The query string has more than {MAX_PARAMETERS} parameters.") from error
    parameters: dict[str, list[str]] = {}
    for name, value in pairs:
        if name in parameters and (name in DAYS or not (is_filter(name) or name == "collections")):
            raise FieldError(name, f"{quoted(name)} is given more than once.")
        parameters.setdefault(name, []).append(value)
    return parameters


def is_filter(name: str) -> bool:
    """Return whether a query parameter is part of a filter, such as `language`, `from` or `meta.team`."""
    return name in LISTS or name in DAYS or name.startswith(METADATA)


def fields_without_filter(parameters: Mapping[str, Sequence[str]], names: Sequence[str], owner: str) -> dict[str, str]:
    """Return the query parameters that are not part of a filter. Raises FieldError if one of them is unknown."""
    fields = {name: ",".join(values) for name, values in parameters.items() if not is_filter(name)}
    refuse_unknown_fields(fields, (*names, *KEYS), owner)
    return fields


def filter_of_parameters(parameters: Mapping[str, Sequence[str]]) -> Filter | None:
    """Return the filter in a query string, or None if there is none. Raises FilterError, which names the parameter."""
    fields = {name: values for name, values in parameters.items() if is_filter(name)}
    try:
        return (Filter.parse(fields_of(fields)) or None) if fields else None
    except FilterError as error:
        raise FilterError(key_of(error.field), error.detail) from error


def search_of_object(fields: Mapping[str, Any], kind: type[S]) -> S:
    """Decode the fields of a JSON body to a search. Raises FieldError or FilterError."""
    search = decode(fields, kind, "a search")
    if search.filter is None:
        return search
    filter: object = search.filter
    if isinstance(filter, Mapping):
        filter = {name: value for name, value in filter.items() if value is not None or name not in _FILTER_FIELDS}
        if isinstance(filter.get("metadata"), Mapping):
            filter["metadata"] = {name: value for name, value in filter["metadata"].items() if value is not None}
    return structs.replace(search, filter=Filter.parse(filter) or None)


def search_of_parameters(parameters: Mapping[str, Sequence[str]]) -> SearchRequest:
    """Decode the fields of a query string to a search. Raises FieldError or FilterError."""
    fields = fields_without_filter(parameters, ("q", *_OPTIONS), "a search")
    if "q" in fields:
        fields["query"] = fields.pop("q")
    try:
        search = decode(fields, SearchRequest, "a search", strict=False)
    except FieldError as error:
        name = "q" if error.field == "query" else error.field
        raise FieldError(name, str(error).replace(error.field, name, 1)) from None
    return structs.replace(search, filter=filter_of_parameters(parameters))
