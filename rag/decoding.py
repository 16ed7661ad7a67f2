"""Convert JSON fields to structs. Errors name the field and its allowed values.

The allowed values are taken from the JSON Schema of the struct, which is also part of `/openapi.json`.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, TypeVar

import msgspec

from rag.errors import FieldError

T = TypeVar("T", bound=msgspec.Struct)
Schema = Mapping[str, Any]

REF = "#/components/schemas/"
# Matches a visible character: any character except these. JSON Schema has no shorter notation for them.
VISIBLE = (
    "[^\\u0000-\\u0020\\u007f-\\u00a0\\u00ad\\u061c\\u115f\\u1160\\u1680\\u180e\\u2000-\\u200f\\u2028-\\u202f"
    "\\u205f-\\u206f\\u3000\\ufeff\\ufff9-\\ufffb]"
)
# Matches a character for which `str.isspace` is false.
NOT_SPACE = "[^\\t-\\r\\u001c-\\u0020\\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]"
_VISIBLE = re.compile(VISIBLE)
_FIELD_PROBLEM = re.compile(r"Object (?P<problem>missing required|contains unknown) field `(?P<name>.*)`", re.DOTALL)
_TOO_LONG = re.compile(r"Expected `str` of length <= (\d+)")
# JSON type → its name in messages, end of its keywords (`minLength`, `maxLength`), words before and after a limit
_KINDS = {
    "boolean": ("true or false", "", "", ""),
    "string": ("text", "Length", " of", " characters"),
    "array": ("a list", "Items", " of", " items"),
    "object": ("an object", "Properties", " with", " names"),
    "integer": ("a whole number", "imum", "", ""),
    "number": ("a number", "imum", "", ""),
    "null": ("null", "imum", "", ""),
}


def is_blank(text: str) -> bool:
    """Return whether a text has no visible character."""
    return not _VISIBLE.search(text)


def quoted(name: str) -> str:
    """Quote a text from a client for an error message, in ASCII and truncated to 40 characters."""
    return ascii(name if len(name) <= 40 else name[:39] + "…")


def refuse_unknown_fields(names: Iterable[str], fields: Iterable[str], owner: str) -> None:
    """Raise FieldError for the first name that is not in `fields`. The message says that `owner` has no such field."""
    fields = tuple(fields)
    for name in names:
        if name not in fields:
            raise FieldError(name, f"{quoted(name)} is not a field of {owner}; known fields are: {', '.join(fields)}.")


def decode(fields: Mapping[str, Any], kind: type[T], owner: str = "this request", *, strict: bool = True) -> T:
    """Convert JSON fields to a struct. A field that is null counts as absent.

    Args:
        fields: values by field name.
        kind: type of the struct.
        owner: name of the object with these fields, for error messages.
        strict: whether numbers must be JSON numbers. If false, text such as "10" is converted, for query strings.

    Raises:
        FieldError: a field is missing or unknown, or its value is not allowed.
    """
    names = kind.__struct_encode_fields__
    present = {name: value for name, value in fields.items() if value is not None or name not in names}
    try:
        struct = msgspec.convert(present, kind, strict=strict)
    except msgspec.ValidationError as error:
        if kind.__struct_config__.forbid_unknown_fields:
            refuse_unknown_fields(fields, names, owner)
        raise _field_error(str(error), kind) from None
    for field, name in () if strict else zip(kind.__struct_fields__, names, strict=True):
        if name in present and getattr(struct, field) is None:  # msgspec converts the text "null" to None
            raise _field_error(f" - at `$.{name}`", kind)
    return struct


def check(struct: msgspec.Struct) -> None:
    """Check the values in a struct that was not created by `decode`. Raises FieldError for the first invalid value."""
    try:
        msgspec.convert(msgspec.structs.asdict(struct), type(struct))
    except msgspec.ValidationError as error:
        raise _field_error(str(error), type(struct)) from None


@cache
def components(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schemas of a struct and of the structs in its fields, by name."""
    return msgspec.json.schema_components([kind], ref_template=REF + "{name}")[1]


def _field_error(message: str, kind: type[msgspec.Struct]) -> FieldError:
    """Convert a message of msgspec, such as "Expected `int`, got `str` - at `$.filter.k`", to a FieldError."""
    text, _, location = message.partition(" - at `")
    location = location.removesuffix("`").removeprefix("key` in `").removeprefix("$").removeprefix(".")
    path = location.replace("[...]", "")
    if match := _FIELD_PROBLEM.fullmatch(text):
        field = f"{path}.{match['name']}".lstrip(".")
        if match["problem"].startswith("missing"):
            return FieldError(field, f"{field} is missing.")
        return FieldError(field, f"{quoted(field)} is not a known field.")
    if too_long := _TOO_LONG.fullmatch(text):
        return FieldError(path, f"{path} is too long: at most {too_long[1]} characters are allowed.")
    schemas = components(kind)
    schema = schemas[kind.__name__]["properties"].get(location)
    return FieldError(path, f"{path} must be {_must_be(schema, schemas)}." if schema else f"{path}: {text}.")


def _must_be(schema: Schema, schemas: Schema) -> str:
    """Describe the values that a schema allows, such as "a whole number from 1 to 100"."""
    if "$ref" in schema:
        return _must_be(schemas[schema["$ref"].removeprefix(REF)], schemas)
    if "anyOf" in schema:
        return " or ".join(_must_be(each, schemas) for each in schema["anyOf"] if each != {"type": "null"})
    if "enum" in schema:
        return f"one of: {', '.join(map(str, schema['enum']))}"
    text, limit, before, unit = _KINDS.get(schema.get("type", ""), ("another value", "imum", "", ""))
    lowest, highest = schema.get(f"min{limit}"), schema.get(f"max{limit}")
    if highest is not None and lowest is not None:
        text += f"{before or ' from'} {lowest} to {highest}{unit}"
    elif highest is not None:
        text += f"{before} at most {highest}{unit}"
    elif lowest is not None and not (lowest == 1 and unit):
        text += f"{before} at least {lowest}{unit}"
    if pattern := schema.get("pattern"):
        is_any = pattern in (VISIBLE, NOT_SPACE)
        return text + (" with a visible character" if is_any else f" that matches the pattern {pattern}")
    return "text that is not empty" if text == "text" and schema.get("minLength") else text
