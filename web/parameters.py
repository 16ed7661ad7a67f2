"""Reads and checks what a client sent: query strings, JSON bodies and the fields of a search."""

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl

from werkzeug.exceptions import BadRequest

from rag.filters import Filter
from rag.options import DEFAULT_COLLECTION, EXPANSIONS, MODES
from rag.results import Answer
from web.filters import NAMES, filter_from_parameters, is_filter, may_repeat
from web.retriever import Limits, Retriever

DEFAULT_K = 10
MAX_PARAMETERS = 100
OPTIONS = ("k", "mode", "collection", "per_document", "diversity", "expand")
WHOLE = r"-?[0-9]{1,18}"
DECIMAL = r"[0-9]{1,18}(\.[0-9]{1,18})?"
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
    filter: Filter | None
    collection: str
    per_document: int | None  # None: as the server is set
    diversity: float
    expand: str | None  # None: as the server is set

    def run(self, retriever: Retriever) -> Answer:
        """Search. Raises what `Retriever.search` raises."""
        return retriever.search(
            self.query,
            k=self.k,
            mode=self.mode,
            filter=self.filter,
            collection=self.collection,
            per_document=self.per_document,
            diversity=self.diversity,
            expand=self.expand,
        )


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
            raise FieldError(name, f"{_quoted(name)} is given more than once.")
        parameters.setdefault(name, []).append(value)
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


def search_from_parameters(parameters: Mapping[str, Sequence[str]], limits: Limits) -> SearchRequest:
    """Check the fields of a search as they stand in a query string. Raises FieldError or FilterError."""
    given = {name: values[0] for name, values in parameters.items() if not is_filter(name)}
    _refuse_unknown(given, ("q", *OPTIONS), NAMES)
    options: dict[str, object] = {name: given[name] for name in OPTIONS if name in given}
    for name, pattern, read in (("k", WHOLE, int), ("per_document", WHOLE, int), ("diversity", DECIMAL, float)):
        if re.fullmatch(pattern, given.get(name, "")):
            options[name] = read(given[name])
    return _search("q", given.get("q"), options, filter_from_parameters(parameters), limits)


def search_from_object(fields: Mapping[str, object], limits: Limits) -> SearchRequest:
    """Check the fields of a search as they stand in a JSON body. Raises FieldError or FilterError."""
    _refuse_unknown(fields, ("query", *OPTIONS, "filter"))
    wanted = Filter.parse(fields.get("filter", {})) or None
    return _search("query", fields.get("query"), fields, wanted, limits)


def _search(
    name: str, query: object, options: Mapping[str, object], wanted: Filter | None, limits: Limits
) -> SearchRequest:
    most = _check_whole("per_document", options["per_document"], 0, limits) if "per_document" in options else None
    return SearchRequest(
        query=check_query(name, query, limits),
        k=_check_whole("k", options.get("k", DEFAULT_K), 1, limits),
        mode=check_mode(options.get("mode", MODES[0])),
        filter=wanted,
        collection=_check_collection(options.get("collection", DEFAULT_COLLECTION)),
        per_document=most,
        diversity=_check_diversity(options.get("diversity", 0.0)),
        expand=_check_choice("expand", options["expand"], EXPANSIONS) if "expand" in options else None,
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


def check_mode(value: object) -> str:
    """Return the mode if it is one. Raises FieldError."""
    return _check_choice("mode", value, MODES)


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in choices:
        raise FieldError(name, f"{name} must be one of: {', '.join(choices)}.")
    return value


def _check_whole(name: str, value: object, low: int, limits: Limits) -> int:
    # type() rather than isinstance(): true and false are integers to Python
    if type(value) is not int or not low <= value <= limits.max_k:
        raise FieldError(name, f"{name} must be a whole number from {low} to {limits.max_k}.")
    return value


def _check_collection(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise FieldError("collection", "collection must be the name of a collection.")
    return value


def _check_diversity(value: object) -> float:
    # the comparison is false for NaN, which Python's JSON reader lets through
    if type(value) not in (int, float) or not 0 <= value <= 1:  # type: ignore[operator]  # a number by then
        raise FieldError("diversity", "diversity must be a number from 0 to 1.")
    return float(value)  # type: ignore[arg-type]


def _refuse_unknown(names: Iterable[str], known: tuple[str, ...], more: tuple[str, ...] = ()) -> None:
    for name in names:
        if name not in known:
            listed = ", ".join((*known, *more))
            raise FieldError(name, f"{_quoted(name)} is not a field of a search; known are: {listed}.")


def _quoted(name: str) -> str:
    return ascii(name if len(name) <= 40 else name[:39] + "…")
