"""Generate `/openapi.json` from view functions, which the decorator `Operation` describes.

Paths come from Flask's URL map. Schemas come from the structs of requests and responses.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Literal, TypeVar

import msgspec
from flask import Blueprint, Flask, Response, current_app, has_request_context, jsonify, request
from werkzeug.http import HTTP_STATUS_CODES
from werkzeug.routing import Rule

from rag.decoding import REF
from rag.messages import FilterFields, Problem
from rag.query.request import LISTS
from web.problems import MEDIA_TYPE

Role = Literal["read", "write"]
Schema = Mapping[str, Any]
Body = Any  # class of a struct, possibly `Annotated` with a schema, or a `Content`
View = TypeVar("View", bound=Callable[..., Any])

BODY_ERRORS = (400, 413, 415)
GUARDED_ERRORS = (400, 401, 403, 429, 500, 503)
RETRY_AFTER = {"Retry-After": {"description": "seconds", "schema": {"type": "string"}}}
SECURITY: dict[str | None, list[dict[str, list[str]]]] = {
    None: [],
    "read": [{"key": []}, {"browser": []}, {}],
    "operator": [{"key": []}, {"browser": []}],
    "write": [{"key": []}],
}
PUBLIC = frozenset({"static", "search_box"})
_ATTRIBUTE = "pilotlight_operation"
_CONVERTER = re.compile(r"<(?:[^:<>]+:)?([^<>]+)>")
_NULL = {"type": "null"}

blueprint = Blueprint("openapi", __name__)


@dataclass(frozen=True, slots=True)
class Content:
    """The media type and schema of a body that is not a struct."""

    media_type: str
    schema: Schema


HTML = Content("text/html", {"type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A decorator that describes a view function: its request, its responses and who may call it.

    Callers need the `role`, unless it is None. `errors` are HTTP statuses in addition to the usual ones. `operator`
    requires a key with the role "write" for all documents; browsers may send the key as the password of HTTP Basic.
    `needs_everything` requires that the caller may read all documents.
    """

    role: Role | None
    responses: Mapping[int, Body | Sequence[Body] | None]
    body: Body | None = None
    query: type[msgspec.Struct] | None = None
    has_filter: bool = False
    errors: Sequence[int] = ()
    operator: bool = False
    takes_long: bool = False
    needs_everything: bool = False

    def __call__(self, view: View) -> View:
        """Attach the description to a view function."""
        setattr(view, _ATTRIBUTE, self)
        return view

    def statuses(self) -> set[int]:
        """Return the HTTP statuses of error responses."""
        statuses = {
            *self.errors,
            *(GUARDED_ERRORS if self.role else ()),
            *(BODY_ERRORS if self.body is not None else ()),
        }
        return statuses | ({414} if self.query is not None and self.role else set())


def operation_of(view: Callable[..., Any] | None) -> Operation | None:
    """Return the `Operation` that decorates a view function, or None."""
    return getattr(view, _ATTRIBUTE, None)


def operation_for(rule: Rule) -> Operation:
    """Return the `Operation` of a route. By default, routes in PUBLIC need no role, and others need the role write."""
    if rule.endpoint in PUBLIC:
        return Operation(role=None, responses={})
    return operation_of(current_app.view_functions[rule.endpoint]) or Operation(role="write", responses={})


def operations(app: Flask) -> Iterator[tuple[Rule, str, Operation]]:
    """Yield the rule, HTTP method and `Operation` of every route that has an `Operation`."""
    for rule in app.url_map.iter_rules():
        operation = operation_of(app.view_functions[rule.endpoint])
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
            if operation is not None:
                yield rule, method, operation


def long_paths(app: Flask) -> set[str]:
    """Return the paths of routes that may take long, each up to its first variable."""
    return {rule.rule.partition("<")[0] for rule, _, operation in operations(app) if operation.takes_long}


@blueprint.get("/openapi.json")
@Operation(role="read", responses={200: dict[str, Any]})
def describe_api() -> Response:
    """Describe this API in the OpenAPI 3.1 format."""
    return jsonify(document(current_app))


def document(app: Flask) -> dict[str, Any]:
    """Return the OpenAPI document of an application, JSON-ready."""
    schemas = _Schemas(app)
    paths: dict[str, dict[str, Any]] = {}
    for rule, method, operation in operations(app):
        path, text = _CONVERTER.sub(r"{\1}", rule.rule), inspect.getdoc(app.view_functions[rule.endpoint]) or ""
        paths.setdefault(path, {})[method.lower()] = _describe(rule, operation, text, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Pilotlight",
            "version": metadata.version("pilotlight"),
            "description": "Search documents by meaning and words. Every error is a problem object.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": f"{request.script_root if has_request_context() else ''}/"}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "A key from `pilotlight keys add`."},
                "browser": {"type": "http", "scheme": "basic", "description": "The key as the password; only to read."},
            },
        },
    }


class _Schemas:
    """The schemas of all structs in an application's requests and responses."""

    def __init__(self, app: Flask) -> None:
        kinds: list[Any] = [Problem, FilterFields]
        for _, _, one in operations(app):
            kinds += [one.query, one.body, *(kind for answer in one.responses.values() for kind in _bodies(answer))]
        self._kinds = [kind for kind in kinds if kind is not None and not isinstance(kind, Content)]
        self._schemas, self.components = msgspec.json.schema_components(self._kinds, ref_template=REF + "{name}")
        for schema in self.components.values():
            if schema.get("additionalProperties") is False:
                optional = schema["properties"].keys() - set(schema.get("required", ()))
                schema["properties"] |= {name: _nullable(schema["properties"][name]) for name in optional}

    def contents(self, content: Body | Sequence[Body] | None) -> dict[str, Any]:
        """Return the schema of a body for each media type. Structs are references to `components`."""
        by_media_type: dict[str, Any] = {}
        for one in _bodies(content):
            if isinstance(one, Content):
                by_media_type[one.media_type] = {"schema": one.schema}
            else:
                by_media_type["application/json"] = {"schema": self._schemas[self._kinds.index(one)]}
        return by_media_type

    def parameters(self, kind: type[msgspec.Struct], *, has_filter: bool) -> Iterator[dict[str, Any]]:
        """Yield the OpenAPI parameters for the fields of a query string."""
        fields = self.components[kind.__name__]
        for name, schema in fields["properties"].items():
            if name != "filter":
                yield _parameter("q" if name == "query" else name, schema, required=name in fields.get("required", ()))
        if has_filter:
            filters = self.components[FilterFields.__name__]["properties"]
            for name in LISTS:
                several = next(each for each in filters[name]["anyOf"] if each.get("type") == "array")
                yield _parameter(name, several | {"description": f"{filters[name]['description']}; any one of these"})
            for name, day in self.components["Days"]["properties"].items():
                yield _parameter(name, day | {"description": "the first day" if name == "from" else "the last day"})


def _bodies(content: Body | Sequence[Body] | None) -> Sequence[Body]:
    if content is None:
        return ()
    return content if isinstance(content, list | tuple) else (content,)


def _parameter(name: str, schema: Schema, *, required: bool = False) -> dict[str, Any]:
    """Return an OpenAPI parameter. Removes null from its schema, because a query string cannot contain null."""
    schema = dict(schema)
    description = schema.pop("description", "")
    if schema.get("default", 0) is None:
        del schema["default"]
    if "anyOf" in schema:
        kinds = [each for each in schema.pop("anyOf") if each != _NULL]
        schema |= kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    elif isinstance(schema.get("type"), list):
        schema["type"] = schema["type"][0]
    parameter: dict[str, Any] = {"name": name, "in": "query", "description": schema.pop("description", description)}
    return parameter | {"schema": schema} | ({"required": True} if required else {})


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if "anyOf" in schema:
        return schema if _NULL in schema["anyOf"] else {**schema, "anyOf": [*schema["anyOf"], _NULL]}
    if "$ref" in schema or "enum" in schema:  # client generators fail if an enum contains null
        outer: dict[str, Any] = {name: schema[name] for name in ("description", "default") if name in schema}
        return {"anyOf": [{name: each for name, each in schema.items() if name not in outer}, _NULL], **outer}
    return {**schema, "type": [schema["type"], "null"]}


def _describe(rule: Rule, operation: Operation, text: str, schemas: _Schemas) -> dict[str, Any]:
    summary, _, description = text.partition("\n\n")
    result: dict[str, Any] = {
        "operationId": rule.endpoint.replace(".", "_"),
        "tags": [rule.endpoint.partition(".")[0]],
        "summary": summary,
    }
    if description:
        result["description"] = description
    in_path = {"in": "path", "required": True, "schema": {"type": "string"}}
    parameters: list[dict[str, Any]] = [{"name": name, **in_path} for name in sorted(rule.arguments)]
    if operation.query is not None:
        parameters += schemas.parameters(operation.query, has_filter=operation.has_filter)
    if parameters:
        result["parameters"] = parameters
    if operation.body is not None:
        result["requestBody"] = {"required": True, "content": schemas.contents(operation.body)}
    result["security"] = SECURITY["operator" if operation.operator else operation.role]
    answers = {status: schemas.contents(content) for status, content in operation.responses.items()}
    problem = {MEDIA_TYPE: schemas.contents(Problem)["application/json"]}
    answers |= dict.fromkeys(operation.statuses() - answers.keys(), problem)
    result["responses"] = {
        str(status): {"description": HTTP_STATUS_CODES[status]}
        | ({"content": contents} if contents else {})
        | ({"headers": RETRY_AFTER} if status in (429, 503) else {})
        for status, contents in sorted(answers.items())
    }
    return result
