"""JSON Schemas of dictionaries whose type says everything: the field, its kind, and what it means."""

from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from web.openapi import Schema, define

_KINDS = {float: "number", int: "integer", str: "string", NoneType: "null"}


def define_typed(kind: Any, prefix: str = "") -> Schema:
    """Name the schemas of a TypedDict and of those within it, which begin with its own; return the reference to it.

    `Annotated[kind, "meaning"]` describes a field. The docstring describes the object.
    """
    properties = {
        name: _schema(hint, prefix or kind.__name__) for name, hint in get_type_hints(kind, include_extras=True).items()
    }
    schema = {
        "type": "object",
        "description": "\n".join(line.strip() for line in (kind.__doc__ or "").strip().splitlines()),
        "required": list(properties),
        "properties": properties,
        "additionalProperties": False,
    }
    return define(prefix + kind.__name__, schema)


def _schema(hint: Any, prefix: str) -> dict[str, Any]:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _schema(inner[0], prefix) | {"description": inner[1].description}
    if is_typeddict(hint):
        return dict(define_typed(hint, prefix))
    if origin in (UnionType, Union):
        kinds = [_schema(one, prefix) for one in inner]
        simple = [one["type"] for one in kinds if set(one) == {"type"}]
        return {"type": simple} if len(simple) == len(kinds) else {"anyOf": kinds}
    if origin is list:
        return {"type": "array", "items": _schema(inner[0], prefix)}
    if origin is Literal:
        return {"enum": list(inner)}
    return {"type": _KINDS[hint]}
