"""Fields of a request, checked against the schemas that `/openapi.json` shows."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from werkzeug.exceptions import BadRequest

Schema = Mapping[str, Any]
T = TypeVar("T")
# White space, controls and characters without a mark on the page; spelled out, as JSON Schema has no names for them.
_INVISIBLE = (
    "\\u0000-\\u0020\\u007f-\\u00a0\\u00ad\\u061c\\u115f\\u1160\\u1680\\u180e\\u2000-\\u200f\\u2028-\\u202f"
    "\\u205f-\\u206f\\u3000\\ufeff\\ufff9-\\ufffb"
)
SOMETHING = f"[^{_INVISIBLE}]"  # pattern of text with something to read in it
# Pattern of text that is more than what Python takes for white space.
NOT_ONLY_SPACE = "[^\\t-\\r\\u001c-\\u0020\\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]"
_VISIBLE = re.compile(SOMETHING)
_NUMBERS = {
    "integer": re.compile(r"-?[0-9]{1,18}"),
    "number": re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?([eE][+-]?[0-9]{1,3})?"),
}
_BOOLEANS = {"true": True, "false": False}
_NULL = {"type": "null"}


class FieldError(BadRequest):
    """A field of the request that cannot be used; answered with status 400."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(detail)
        self.field = field


def is_blank(text: str) -> bool:
    """Return whether nothing in the text would be visible."""
    return not _VISIBLE.search(text)


def check(field: str, value: object, schema: Schema) -> Any:
    """Return a value that fits its schema: of a text, number, yes or no, or one of several texts. Raises FieldError."""
    kind = schema["type"]
    if "enum" in schema:
        if not isinstance(value, str) or value not in schema["enum"]:
            raise FieldError(field, f"{field} must be one of: {', '.join(schema['enum'])}.")
    elif kind == "string":
        _check_text(field, value, schema)
    elif kind == "boolean":
        if not isinstance(value, bool):
            raise FieldError(field, f"{field} must be true or false.")
    else:
        return _number(field, value, schema)
    return value


def _number(field: str, value: object, schema: Schema) -> int | float:
    low, high, whole = schema["minimum"], schema["maximum"], schema["type"] == "integer"
    # true and false are integers to Python; the comparison is false for NaN; and to JSON, 3.0 is a whole number
    if isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high:
        if not whole:
            return float(value)
        if value % 1 == 0:
            return int(value)
    raise FieldError(field, f"{field} must be a {'whole number' if whole else 'number'} from {low} to {high}.")


def _check_text(field: str, value: object, schema: Schema) -> None:
    if not isinstance(value, str):
        raise FieldError(field, f"{field} must be a string.")
    if len(value) > schema.get("maxLength", len(value)):
        raise FieldError(field, f"{field} has {len(value)} characters; at most {schema['maxLength']} are allowed.")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise FieldError(field, f"{field} contains half of a surrogate pair, which is not a character.")
    pattern = schema.get("pattern")
    if not value or (pattern == SOMETHING and is_blank(value)):
        raise FieldError(field, f"{field} is empty: enter a query." if pattern == SOMETHING else f"{field} is empty.")
    if pattern not in (None, SOMETHING) and not re.search(pattern, value):
        raise FieldError(field, f"{field} does not match the pattern {pattern}")


def from_text(text: str, schema: Schema) -> object:
    """Read a value as it stands in a query string; what is none of its kind stays a text, which `check` refuses."""
    kind = schema["type"]
    if kind == "boolean":
        return _BOOLEANS.get(text, text)
    if kind in _NUMBERS and _NUMBERS[kind].fullmatch(text):
        return int(text) if kind == "integer" else float(text)
    return text


def refuse_unknown(names: Iterable[str], known: Iterable[str], what: str) -> None:
    """Raise FieldError for the first name that is not known; `what` has fields of these names."""
    known = tuple(known)
    for name in names:
        if name not in known:
            raise FieldError(name, f"{quoted(name)} is not a field of {what}; known fields are: {', '.join(known)}.")


def given_fields(fields: Mapping[str, T], known: Iterable[str], what: str) -> dict[str, T]:
    """Return the fields of a JSON object that are not null: null is a field left out. Raises as `refuse_unknown`."""
    refuse_unknown(fields, known, what)
    return {name: value for name, value in fields.items() if value is not None}


def nullable(schema: Schema) -> dict[str, Any]:
    """Return the schema of a field that may be null as well."""
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], _NULL]}
    if "$ref" in schema or "enum" in schema:  # null among the values of an enum breaks generators of clients
        outer = {name: schema[name] for name in ("description", "default") if name in schema}
        return {"anyOf": [{name: each for name, each in schema.items() if name not in outer}, _NULL], **outer}
    kind = schema["type"]
    return {**schema, "type": [*([kind] if isinstance(kind, str) else kind), "null"]}


def quoted(name: str) -> str:
    """Return a name that a client has sent, fit to be shown."""
    return ascii(name if len(name) <= 40 else name[:39] + "…")
