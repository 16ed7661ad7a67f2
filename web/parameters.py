"""Reads and checks what a client sent: query strings, JSON bodies and the fields of a search."""

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from werkzeug.exceptions import BadRequest

from web.retriever import Limits

MODES = ("dense",)
DEFAULT_K = 10
MAX_PARAMETERS = 32
INVISIBLE = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})  # Unicode categories without a mark on the page


class FieldError(BadRequest):
    """A field of the request that cannot be used; answered with status 400."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(detail)
        self.field = field


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search whose fields have been checked."""

    query: str
    k: int
    mode: str


def parse_query_string(raw: bytes) -> dict[str, str]:
    """Decode a query string strictly. Raises BadRequest for bad UTF-8, FieldError for a name given twice."""
    try:
        pairs = parse_qsl(raw.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS)
    except UnicodeDecodeError as error:
        raise BadRequest("The query string is not valid UTF-8.") from error
    except ValueError as error:
        raise BadRequest(f"The query string has more than {MAX_PARAMETERS} parameters.") from error
    parameters: dict[str, str] = {}
    for name, value in pairs:
        if name in parameters:
            raise FieldError(name, f"{_quoted(name)} is given more than once.")
        parameters[name] = value
    return parameters


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
        raise FieldError(twice, f"{_quoted(twice)} is given more than once.")
    return dict(pairs)


def search_from_parameters(parameters: Mapping[str, str], limits: Limits) -> SearchRequest:
    """Check `q`, `k` and `mode` as they stand in a query string. Raises FieldError."""
    _refuse_unknown(parameters, ("q", "k", "mode"))
    k: object = parameters.get("k", DEFAULT_K)
    if isinstance(k, str) and re.fullmatch("-?[0-9]{1,18}", k):
        k = int(k)
    return SearchRequest(
        query=check_query("q", parameters.get("q"), limits),
        k=_check_k(k, limits),
        mode=_check_mode(parameters.get("mode", MODES[0])),
    )


def search_from_object(fields: Mapping[str, object], limits: Limits) -> SearchRequest:
    """Check `query`, `k` and `mode` as they stand in a JSON body. Raises FieldError."""
    _refuse_unknown(fields, ("query", "k", "mode"))
    return SearchRequest(
        query=check_query("query", fields.get("query"), limits),
        k=_check_k(fields.get("k", DEFAULT_K), limits),
        mode=_check_mode(fields.get("mode", MODES[0])),
    )


def check_query(field: str, value: object, limits: Limits) -> str:
    """Return the query if it is text with something to read in it. Raises FieldError."""
    if value is None:
        raise FieldError(field, f"{field} is missing: give the text to search for.")
    if not isinstance(value, str):
        raise FieldError(field, f"{field} must be a string.")
    if len(value) > limits.max_query_chars:
        raise FieldError(field, f"{field} has {len(value)} characters; at most {limits.max_query_chars} are allowed.")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise FieldError(field, f"{field} holds half of a surrogate pair, which is not a character.")
    if is_blank(value):
        raise FieldError(field, f"{field} is empty: give the text to search for.")
    return value


def is_blank(text: str) -> bool:
    """Whether nothing in the text would be visible."""
    return all(unicodedata.category(character) in INVISIBLE for character in text)


def _check_k(value: object, limits: Limits) -> int:
    # type() rather than isinstance(): true and false are integers to Python
    if type(value) is not int or not 1 <= value <= limits.max_k:
        raise FieldError("k", f"k must be a whole number from 1 to {limits.max_k}.")
    return value


def _check_mode(value: object) -> str:
    if not isinstance(value, str) or value not in MODES:
        raise FieldError("mode", f"mode must be one of: {', '.join(MODES)}.")
    return value


def _refuse_unknown(names: Iterable[str], known: tuple[str, ...]) -> None:
    for name in names:
        if name not in known:
            raise FieldError(name, f"{_quoted(name)} is not a field of a search; known are: {', '.join(known)}.")


def _quoted(name: str) -> str:
    return ascii(name if len(name) <= 40 else name[:39] + "…")
