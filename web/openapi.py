"""Descriptions of routes, which are declared at their views; `/openapi.json` is generated from them.

The structs of requests and responses, and the URL map, supply the rest.
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
Body = Any  # a struct, perhaps with more of its schema in `Annotated`; or a `Content`
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
    """A body that is not JSON."""

    media_type: str
    schema: Schema


HTML = Content("text/html", {"type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The request and responses of one method of a route; the summary is the docstring of the view.

    `role` is None for probes. `errors` adds to the common statuses. `operator` also requires the role write, but
    accepts the key as a password from browsers. `needs_everything` refuses callers who see only some documents.
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
        """Attach the description to a view."""
        setattr(view, _ATTRIBUTE, self)
        return view

    def statuses(self) -> set[int]:
        """Return the statuses of responses that are problems."""
        statuses = {
            *self.errors,
            *(GUARDED_ERRORS if self.role else ()),
            *(BODY_ERRORS if self.body is not None else ()),
        }
        return statuses | ({414} if self.query is not None and self.role else set())


def operation_of(view: Callable[..., Any] | None) -> Operation | None:
    """Return the description of a view function, or None if the function has none."""
    return getattr(view, _ATTRIBUTE, None)


def operation_for(rule: Rule) -> Operation:
    """Return the operation of a route. Without one, static files are public; other routes require the role write."""
    if rule.endpoint in PUBLIC:
        return Operation(role=None, responses={})
    return operation_of(current_app.view_functions[rule.endpoint]) or Operation(role="write", responses={})


def operations(app: Flask) -> Iterator[tuple[Rule, str, Operation]]:
    """Yield the rule, method and description of every route, except for static files."""
    for rule in app.url_map.iter_rules():
        described = operation_of(app.view_functions[rule.endpoint])
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
            if described is not None:
                yield rule, method, described


def long_paths(app: Flask) -> set[str]:
    """Return the paths of long requests, up to their first variable."""
    return {rule.rule.partition("<")[0] for rule, _, described in operations(app) if described.takes_long}


@blueprint.get("/openapi.json")
@Operation(role="read", responses={200: dict[str, Any]})
def describe_api() -> Response:
    """Describe this API in the OpenAPI 3.1 format."""
    return jsonify(document(current_app))


def document(app: Flask) -> dict[str, Any]:
    """Return the OpenAPI document of an application, made from its URL map and the operations of its views."""
    schemas = _Schemas(app)
    paths: dict[str, dict[str, Any]] = {}
    for rule, method, described in operations(app):
        path, text = _CONVERTER.sub(r"{\1}", rule.rule), inspect.getdoc(app.view_functions[rule.endpoint]) or ""
        paths.setdefault(path, {})[method.lower()] = _described(rule, described, text, schemas)
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
    """The schemas of all structs of an application."""

    def __init__(self, app: Flask) -> None:
        kinds: list[Any] = [Problem, FilterFields]
        for _, _, one in operations(app):
            kinds += [one.query, one.body, *(kind for answer in one.responses.values() for kind in _several(answer))]
        self._kinds = [kind for kind in kinds if kind is not None and not isinstance(kind, Content)]
        self._schemas, self.components = msgspec.json.schema_components(self._kinds, ref_template=REF + "{name}")
        for schema in self.components.values():
            if schema.get("additionalProperties") is False:
                optional = schema["properties"].keys() - set(schema.get("required", ()))
                schema["properties"] |= {name: _nullable(schema["properties"][name]) for name in optional}

    def contents(self, content: Body | Sequence[Body] | None) -> dict[str, Any]:
        """Return the schema of a body by media type, with references to structs."""
        by_media_type: dict[str, Any] = {}
        for one in _several(content):
            if isinstance(one, Content):
                by_media_type[one.media_type] = {"schema": one.schema}
            else:
                by_media_type["application/json"] = {"schema": self._schemas[self._kinds.index(one)]}
        return by_media_type

    def parameters(self, kind: type[msgspec.Struct], *, has_filter: bool) -> Iterator[dict[str, Any]]:
        """Yield the parameters of a query string."""
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


def _several(content: Body | Sequence[Body] | None) -> Sequence[Body]:
    if content is None:
        return ()
    return content if isinstance(content, list | tuple) else (content,)


def _parameter(name: str, schema: Schema, *, required: bool = False) -> dict[str, Any]:
    """Describe a parameter of a query string, which cannot be null."""
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
    if "$ref" in schema or "enum" in schema:  # null among the values of an enum breaks client generators
        outer: dict[str, Any] = {name: schema[name] for name in ("description", "default") if name in schema}
        return {"anyOf": [{name: each for name, each in schema.items() if name not in outer}, _NULL], **outer}
    return {**schema, "type": [schema["type"], "null"]}


def _described(rule: Rule, described: Operation, text: str, schemas: _Schemas) -> dict[str, Any]:
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
    if described.query is not None:
        parameters += schemas.parameters(described.query, has_filter=described.has_filter)
    if parameters:
        result["parameters"] = parameters
    if described.body is not None:
        result["requestBody"] = {"required": True, "content": schemas.contents(described.body)}
    result["security"] = SECURITY["operator" if described.operator else described.role]
    answers = {status: schemas.contents(content) for status, content in described.responses.items()}
    problem = {MEDIA_TYPE: schemas.contents(Problem)["application/json"]}
    answers |= dict.fromkeys(described.statuses() - answers.keys(), problem)
    result["responses"] = {
        str(status): {"description": HTTP_STATUS_CODES[status]}
        | ({"content": contents} if contents else {})
        | ({"headers": RETRY_AFTER} if status in (429, 503) else {})
        for status, contents in sorted(answers.items())
    }
    return result
