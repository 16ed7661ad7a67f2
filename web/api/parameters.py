"""Reads and checks what a client sent: query strings, JSON bodies and the fields of a search."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any
from urllib.parse import parse_qsl

from flask import current_app, request
from msgspec.structs import replace
from werkzeug.exceptions import BadRequest, HTTPException, UnsupportedMediaType

from rag.insights.store import Via
from rag.query.filters import Filter
from rag.query.options import DEFAULT_COLLECTION, MAX_K, MAX_QUERY_CHARS, PER_DOCUMENT
from rag.query.request import FIELDS, OPTIONS, Option, SearchRequest
from rag.query.results import Answer, QueryTokens
from rag.settings import Settings
from web.fields import SOMETHING, FieldError, Schema, check, from_text, given_fields, quoted, refuse_unknown
from web.filters import NAMES, filter_from_object, filter_from_parameters, is_filter, may_repeat
from web.guards.limits import read_body
from web.guards.scoped_retriever import visible
from web.insights import keep
from web.observe.telemetry import searched
from web.retriever import Retriever

MOST_QUERIES = 32  # of a batch: what goes through the model together
MAX_PARAMETERS = 100


def run(search: SearchRequest, embedded: QueryTokens | None = None, *, via: Via | None = "api") -> Answer:
    """Search, with the query embedded where it is. Raises what `Retriever.search` raises.

    `via` is the way it came, for what is kept of what people ask; None where it repeats a search.
    """
    answer = retriever().search(search, embedded)
    searched(answer, mode=search.mode, collection=search.collection, k=search.k)
    return replace(answer, search_id=keep(search, answer, via) if via else None)


def search_options(limits: Settings) -> Mapping[str, Schema]:
    """Return the schemas of the fields of a search beside its query and filter, by name."""
    return _search_options(MAX_K, PER_DOCUMENT)


@cache  # every request asks for them
def _search_options(max_k: int, per_document: int) -> Mapping[str, Schema]:
    return {name: _schema_of(option, max_k, per_document) for name, option in OPTIONS.items()}


def _schema_of(option: Option, max_k: int = 0, usual: int = 0) -> dict[str, Any]:
    """Return the schema of an option; a number without a default has the usual one."""
    schema: dict[str, Any] = {"type": KINDS[option.kind], "description": option.meaning}
    if option.choices:
        schema["enum"] = list(option.choices)
    elif option.kind is str:
        schema["minLength"] = 1
    elif option.kind is not bool:
        schema |= {"minimum": option.low, "maximum": option.high or max_k}
    if option.default is not None or option.kind is int:
        schema["default"] = usual if option.default is None else option.default
    return schema


KINDS: dict[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}  # as JSON Schema names them
MODE, COLLECTION = _schema_of(OPTIONS["mode"]), _schema_of(OPTIONS["collection"])


def query_schema(limits: Settings) -> dict[str, Any]:
    """Return the schema of a query."""
    return {
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_QUERY_CHARS,
        "pattern": SOMETHING,
        "description": FIELDS["query"].meaning,
    }


def parse_query_string(raw: bytes) -> dict[str, list[str]]:
    """Decode a query string strictly; only parts of a filter may be given twice. Raises BadRequest or FieldError."""
    try:
        pairs = parse_qsl(raw.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS)
    except UnicodeDecodeError as error:
        raise BadRequest("The query string is not valid UTF-8.") from error
    except ValueError as error:
        raise BadRequest(f"The query string has more than {MAX_PARAMETERS} parameters.") from error
    parameters: dict[str, list[str]] = {}
    for name, value in pairs:
        if name in parameters and not may_repeat(name):
            raise FieldError(name, f"{quoted(name)} is given more than once.")
        parameters.setdefault(name, []).append(value)
    return parameters


def given_in_address(known: Sequence[str] = (), what: str = "this address") -> dict[str, str]:
    """Return the fields of the query string, each given once. Raises BadRequest or FieldError for one not known."""
    parameters = parse_query_string(request.query_string)
    refuse_unknown(parameters, known, what)
    return {name: values[-1] for name, values in parameters.items()}


def collection_in_address() -> str:
    """Return `?collection=` of the request, which takes no other field. Raises BadRequest or FieldError."""
    return collection_among(given_in_address(("collection",)))


def collection_among(given: Mapping[str, str]) -> str:
    """Return the collection that the fields of an address name. Raises FieldError."""
    return str(check("collection", given.get("collection", DEFAULT_COLLECTION), COLLECTION))


def id_in_path(description: str) -> dict[str, Any]:
    """Return the OpenAPI parameter of an address that ends in an id."""
    return {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}, "description": description}


def collection_field(collection: str) -> dict[str, str]:
    """Return the field of an address that names a collection: none for the default one."""
    return {} if collection == DEFAULT_COLLECTION else {"collection": collection}


def read_object(most: int) -> dict[str, object]:
    """Read the JSON object that the request carries, of so many bytes at most.

    Raises UnsupportedMediaType, RequestEntityTooLarge, BadRequest, or FieldError for a name given twice.
    """
    if request.mimetype != "application/json":
        raise UnsupportedMediaType
    if request.query_string:
        raise BadRequest("A POST takes its fields from the body only; the address may not have a query string.")
    try:
        body = read_body(most)
    except HTTPException:
        raise
    except Exception as error:  # a server's errors for bad framing have no common base class
        raise BadRequest("The body was cut short or badly framed.") from error
    return parse_json_object(body)


def parse_json_object(body: bytes) -> dict[str, object]:
    """Decode a JSON object strictly. Raises BadRequest, or FieldError for a name given twice."""
    try:
        value = json.loads(body.decode("utf-8"), object_pairs_hook=_object_of)
    except UnicodeDecodeError as error:
        raise BadRequest(f"The body is not valid UTF-8, at byte {error.start}.") from error
    except json.JSONDecodeError as error:
        message = f"The body is not valid JSON: {error.msg}, at line {error.lineno} column {error.colno}."
        raise BadRequest(message) from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, thousands of brackets
        raise BadRequest("The body is not usable JSON: a number is too long or the nesting too deep.") from error
    if not isinstance(value, dict):
        raise BadRequest('The body must be a JSON object, such as {"query": "how do I …"}.')
    return value


def _object_of(pairs: list[tuple[str, object]]) -> dict[str, object]:
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise FieldError(twice, f"{quoted(twice)} is given more than once.")
    return dict(pairs)


def search_from_parameters(parameters: Mapping[str, Sequence[str]], limits: Settings) -> SearchRequest:
    """Check the fields of a search as they stand in a query string. Raises FieldError or FilterError."""
    schemas = search_options(limits)
    given = {name: values[0] for name, values in parameters.items() if not is_filter(name)}
    refuse_unknown(given, ("q", *schemas, *NAMES), "a search")
    options = {name: from_text(value, schemas[name]) for name, value in given.items() if name in schemas}
    query = check_query("q", given.get("q"), limits)
    return _search(query, options, filter_from_parameters(parameters), schemas)


def search_from_object(fields: Mapping[str, object], limits: Settings) -> SearchRequest:
    """Check the fields of a search as they stand in a JSON body. Raises FieldError or FilterError."""
    schemas = search_options(limits)
    fields = given_fields(fields, ("query", *schemas, "filter"), "a search")
    options = {name: fields[name] for name in schemas if name in fields}
    query = check_query("query", fields.get("query"), limits)
    return _search(query, options, filter_from_object(fields.get("filter", {})), schemas)


def _search(
    query: str, options: Mapping[str, object], wanted: Filter | None, schemas: Mapping[str, Schema]
) -> SearchRequest:
    checked: dict[str, Any] = {
        name: check(name, options[name], schema) if name in options else schema.get("default")
        for name, schema in schemas.items()
    }
    return SearchRequest(query, filter=wanted, **checked)


def check_query(field: str, value: object, limits: Settings) -> str:
    """Return the query if it is text with something to read in it. Raises FieldError."""
    if value is None:
        raise FieldError(field, f"{field} is missing: enter a query.")
    return str(check(field, value, query_schema(limits)))


def check_mode(value: object) -> str:
    """Return the mode if it is one. Raises FieldError."""
    return str(check("mode", value, MODE))


def limits() -> Settings:
    """Return the limits of the application that answers."""
    found: Settings = current_app.extensions["limits"]
    return found


def retriever() -> Retriever:
    """Return the retriever of this application, as the caller of this request may use it."""
    return visible(current_app.extensions["retriever"])
