"""Descriptions of routes, written beside them; `/openapi.json` is made from these and the url map."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Literal, TypeVar

from flask import Blueprint, Flask, Response, current_app, has_request_context, jsonify, request
from werkzeug.routing import Rule

from rag.settings import Settings
from web.problems import MEDIA_TYPE

Role = Literal["read", "write"]
Schema = Mapping[str, Any]  # JSON Schema 2020-12, as OpenAPI 3.1 has it
Parameter = Mapping[str, Any]  # an OpenAPI parameter object
View = TypeVar("View", bound=Callable[..., Any])

BODY_ERRORS = (400, 413, 415)
GUARDED_ERRORS = (400, 401, 403, 429, 500, 503)  # any route but a probe
MEANINGS = {
    400: "A field is missing, unknown or has a value that is not allowed; `field` names it.",
    401: "A key is needed, or the one given is not known.",
    403: "The key may not do this.",
    404: "There is nothing of this name.",
    409: "Something else that is running prevents this.",
    413: "The body is too large.",
    414: "The address is too long; send the fields by POST.",
    415: "The body has a content type that is not supported.",
    429: "Too many requests; `Retry-After` says when to try again.",
    500: "Something failed inside the server; its log says what.",
    501: "The server is not set up for this.",
    502: "Another server that this one needs failed.",
    503: "It cannot be answered now; `Retry-After` says when to try again.",
    504: "Another server that this one needs was too slow.",
    507: "There is no room for it; its `detail` says what is full.",
}
_ATTRIBUTE = "pilotlight_operation"
_CONVERTER = re.compile(r"<(?:[^:<>]+:)?([^<>]+)>")

blueprint = Blueprint("openapi", __name__)
_components: dict[str, Schema | Callable[[Settings], Schema]] = {}


@dataclass(frozen=True, slots=True)
class Content:
    """A body that is not JSON."""

    media_type: str
    schema: Schema


HTML = Content("text/html", {"type": "string"})


@dataclass(frozen=True, slots=True)
class Operation:
    """The request and the answers of one method of a route."""

    summary: str
    role: Role | None  # what a key must allow; None is open to everybody: probes alone
    request: Schema | Content | None
    parameters: Sequence[Parameter] | Callable[[Settings], Sequence[Parameter]]
    responses: Mapping[int, Schema | Content | Sequence[Schema | Content] | None]
    errors: tuple[int, ...]
    description: str
    operator: bool  # only for callers with the role write, though it changes nothing
    whole: bool  # tells of everything: not for keys that may see a part alone


def operation(
    *,
    summary: str,
    role: Role | None,
    request: Schema | Content | None = None,
    parameters: Sequence[Parameter] | Callable[[Settings], Sequence[Parameter]] = (),
    responses: Mapping[int, Schema | Content | Sequence[Schema | Content] | None],
    errors: Sequence[int] = (),
    description: str = "",
    operator: bool = False,
    whole: bool = False,
) -> Callable[[View], View]:
    """Describe a view function; stands below its route.

    Args:
        summary: one line.
        role: what a key must allow; None for probes, which everybody may ask.
        request: schema of the JSON body, best one that `define` gave, or a `Content`; None where there is no body.
        parameters: parameter objects of the query string and the path, or what makes them from the limits.
        responses: by status: a schema of JSON, a `Content`, several of these, or None for no body.
        errors: statuses that are answered with a problem, beside those that every such route has.
        description: more, in Markdown.
        operator: whether a key must have the role write as well; a browser may send it, as nothing is changed.
        whole: whether it tells of everything, so that a key that may see a part alone is refused.
    """
    common: tuple[int, ...] = () if role is None else GUARDED_ERRORS
    common += BODY_ERRORS if request is not None else ()
    common += (414,) if parameters and role is not None else ()
    answered = tuple(sorted({*common, *errors}))
    described = Operation(summary, role, request, parameters, responses, answered, description, operator, whole)

    def describe(view: View) -> View:
        setattr(view, _ATTRIBUTE, described)
        return view

    return describe


def operation_of(view: Callable[..., Any] | None) -> Operation | None:
    """Return the description of a view function, or None where it has none."""
    found = getattr(view, _ATTRIBUTE, None)
    return found if isinstance(found, Operation) else None


def define(name: str, schema: Schema | Callable[[Settings], Schema]) -> Schema:
    """Name a schema, or what makes it from the limits; return the reference to put in its place."""
    _components[name] = schema
    return {"$ref": f"#/components/schemas/{name}"}


PROBLEM = define(
    "Problem",
    {
        "description": "A problem as RFC 9457 defines it.",
        "type": "object",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": {"const": "about:blank"},
            "title": {"type": "string", "description": "the phrase of the status"},
            "status": {"type": "integer"},
            "detail": {"type": "string", "description": "one sentence for people"},
            "message": {"type": "string", "description": "`detail` again, for clients of Cohere: below /v1 and /v2"},
            "error": {
                "type": "object",
                "description": "the same as OpenAI's clients look for it: below /v1 and /v2",
                "required": ["message", "type", "param", "code"],
                "properties": {
                    "message": {"type": "string"},
                    "type": {"type": "string"},
                    "param": {"type": ["string", "null"]},
                    "code": {"type": ["string", "null"]},
                },
                "additionalProperties": False,
            },
            "field": {"type": "string", "description": "the field at fault, such as `filter.date.from`"},
        },
        "additionalProperties": False,
    },
)


@blueprint.get("/openapi.json")
@operation(summary="Describe this API in the OpenAPI 3.1 format.", role="read", responses={200: {"type": "object"}})
def describe_api() -> Response:
    """Answer with the description of every route of the running server."""
    return jsonify(document(current_app))


def document(app: Flask) -> dict[str, Any]:
    """Return the OpenAPI document of an application, made from its url map and the operations of its views."""
    limits: Settings = app.extensions["limits"]
    paths: dict[str, dict[str, Any]] = {}
    for rule, method, described in operations(app):
        path = _CONVERTER.sub(r"{\1}", rule.rule)
        paths.setdefault(path, {})[method.lower()] = _described(rule, described, limits)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Pilotlight",
            "version": metadata.version("pilotlight"),
            "description": "Search by meaning and words, and what belongs to it. Every error is a problem object.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": f"{request.script_root if has_request_context() else ''}/"}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": {name: schema(limits) if callable(schema) else schema for name, schema in _components.items()},
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "A key of `pilotlight keys add`."},
                "browser": {"type": "http", "scheme": "basic", "description": "The key as password, to read."},
            },
        },
    }


def operations(app: Flask) -> Iterator[tuple[Rule, str, Operation]]:
    """Yield every route's rule and method with the description of its view; static files have none."""
    for rule in app.url_map.iter_rules():
        described = operation_of(app.view_functions[rule.endpoint])
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
            if described is not None:
                yield rule, method, described


def _described(rule: Rule, described: Operation, limits: Settings) -> dict[str, Any]:
    parameters = described.parameters
    answers = {str(status): _answer(status, content) for status, content in described.responses.items()}
    answers |= {str(status): _problem(status) for status in described.errors if status not in described.responses}
    result: dict[str, Any] = {
        "operationId": rule.endpoint.replace(".", "_"),
        "tags": [rule.endpoint.partition(".")[0]],
        "summary": described.summary,
    }
    if described.description:
        result["description"] = described.description
    if parameters:
        result["parameters"] = list(parameters(limits) if callable(parameters) else parameters)
    if described.request is not None:
        [(media_type, body)] = _contents(described.request).items()
        result["requestBody"] = {"required": True, "content": {media_type: body}}
    # reading may be open to all: that is the operator's choice
    allowed: dict[Role | None, list[dict[str, list[str]]]] = {
        None: [],
        "read": [{"key": []}, {"browser": []}, {}],
        "write": [{"key": []}],
    }
    security = [{"key": []}, {"browser": []}] if described.operator else allowed[described.role]
    return result | {"responses": dict(sorted(answers.items())), "security": security}


def _answer(status: int, content: Schema | Content | Sequence[Schema | Content] | None) -> dict[str, Any]:
    kinds = _contents(content)
    meaning = {200: "The answer.", 201: "Created.", 202: "Started.", 204: "Done."}.get(status, "")
    described: dict[str, Any] = {"description": meaning or MEANINGS[status]}
    if kinds:
        described["content"] = kinds
    return described


def _contents(content: Schema | Content | Sequence[Schema | Content] | None) -> dict[str, dict[str, Schema]]:
    """Schemas by media type."""
    several = [] if content is None else content if isinstance(content, Sequence) else [content]
    kinds = [one if isinstance(one, Content) else Content("application/json", one) for one in several]
    return {kind.media_type: {"schema": kind.schema} for kind in kinds}


def _problem(status: int) -> dict[str, Any]:
    described: dict[str, Any] = {
        "description": MEANINGS[status],
        "content": {MEDIA_TYPE: {"schema": PROBLEM}},
    }
    if status in (429, 503):
        described["headers"] = {"Retry-After": {"description": "seconds", "schema": {"type": "string"}}}
    return described
