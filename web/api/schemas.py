"""Requests and answers of searches, in JSON Schema; `web.fields.check` refuses by the same schemas."""

from typing import Any

from rag.query.explain import Explanation
from rag.query.facets import FACETS
from rag.query.filters import LISTS, MOST_CHARACTERS, MOST_VALUES
from rag.settings import Settings
from web.api.parameters import MOST_QUERIES, query_schema, search_options
from web.api.typed_schema import define_typed
from web.fields import NOT_ONLY_SPACE, nullable
from web.openapi import PROBLEM, Parameter, define

MEANINGS = {
    "source": "from this source, spelled as it was indexed",
    "url_prefix": "at this address or below it",
    "path": "at this path or below it, on any host",
    "language": "in this language: `en` and `en-GB` both mean English",
    "content_type": "of this media type",
}
STRING = {"type": "string"}
MAYBE = {"type": ["string", "null"]}
COUNT = {"type": "integer", "minimum": 0}
MILLISECONDS = {"type": "number", "minimum": 0}
SPAN = {"type": "array", "items": COUNT, "minItems": 2, "maxItems": 2}
METADATA = {"type": "object", "additionalProperties": {"type": ["string", "array"], "items": STRING}}
DAY = {"type": "string", "format": "date", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}
MAYBE_DAY = DAY | {"type": ["string", "null"]}
VALUE = {"type": "string", "minLength": 1, "maxLength": MOST_CHARACTERS, "pattern": NOT_ONLY_SPACE}
VALUES_OF = {  # values of a field of a filter, beside what holds for all
    "url_prefix": {"pattern": "^[A-Za-z][A-Za-z0-9+.-]*://"},
    "language": {"pattern": "^[A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8})*$"},
}


def structure(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the schema of an object of these properties and no others."""
    return {
        "type": "object",
        "required": list(required),
        "properties": required | (optional or {}),
        "additionalProperties": False,
    }


def request_of(required: dict[str, Any], optional: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a request: an optional property may be null, which leaves it out."""
    return structure(required, {name: nullable(schema) for name, schema in optional.items()})


def listed(items: Any, **more: Any) -> dict[str, Any]:
    """Return the schema of a list."""
    return {"type": "array", "items": items, **more}


def _texts(name: str, description: str) -> dict[str, Any]:
    value = VALUE | VALUES_OF.get(name, {})
    return {"anyOf": [value, listed(value, minItems=1, maxItems=MOST_VALUES)], "description": description}


FILTER = define(
    "Filter",
    request_of(
        {},
        {name: _texts(name, MEANINGS[name]) for name in LISTS}
        | {
            "date": structure({}, {"from": MAYBE_DAY, "to": MAYBE_DAY})
            | {"description": "dated within these days, both included"},
            "metadata": {
                "type": "object",
                "maxProperties": MOST_VALUES,
                "propertyNames": VALUE,
                "additionalProperties": nullable(_texts("", "any of these values")),
                "description": "with these values for these names",
            },
        },
    )
    | {"description": "Which documents may be found. All fields must match, each by any one of its values."},
)


def search_fields(limits: Settings) -> dict[str, Any]:
    """Return the schema of a search."""
    return request_of({"query": query_schema(limits)}, {**search_options(limits), "filter": FILTER})


REQUEST = define("Search", search_fields)

EXPLANATION = define_typed(Explanation)
SCORES = ("dense", "lexical", "tokens", "rerank")
HIT = define(
    "Hit",
    structure(
        {
            "rank": {"type": "integer", "minimum": 1},
            "id": STRING,
            "url": STRING,
            "title": STRING,
            "section": STRING,
            "text": STRING,
            "highlights": listed(SPAN),
            "score": {"type": "number"},
            "scores": structure({name: {"type": ["number", "null"]} for name in SCORES}),
            "language": MAYBE,
            "date": MAYBE,
            "content_type": STRING,
            "metadata": METADATA,
            "duplicates": listed(STRING),
            "section_text": MAYBE,
            "document": STRING,
            "sentence": {"anyOf": [SPAN, {"type": "null"}]},
            "more": COUNT | {"description": "passages of this document that `per_document` left out"},
            "explanation": {"anyOf": [EXPLANATION, {"type": "null"}]},
        }
    ),
)
FACETS_SCHEMA = define(
    "Facets", structure({name: listed(structure({"value": STRING, "count": COUNT})) for name in FACETS})
)
SEARCH_ID = {
    "type": "string",
    "pattern": "^[0-9a-f]{32}$",
    "description": "what feedback names this search by; only where the server keeps what people ask",
}
ANSWER_FIELDS = structure(
    {
        "query": STRING,
        "hits": listed(HIT),
        "next": {"type": ["integer", "null"], "description": "`offset` of the hits after these, if there are any"},
        "facets": {"anyOf": [FACETS_SCHEMA, {"type": "null"}]},
        "also_searched": listed(
            structure({"typed": STRING, "searched": listed(STRING), "reason": {"enum": ["correction", "synonym"]}}),
            description="words and phrases that were searched for because of those that were typed",
        ),
        "did_you_mean": MAYBE | {"description": "the query with words of the index for those that it does not have"},
        "required": listed(STRING, description="phrases and fields that every hit has"),
        "excluded": listed(STRING, description="what no hit has"),
        "close": {
            "type": "boolean",
            "description": "whether any hit is close to the query; if not, these are only the nearest",
        },
        "reranked": {
            "anyOf": [structure({"candidates": COUNT, "scored": COUNT}), {"type": "null"}],
            "description": "how many candidates a cross-encoder was to read, and did: fewer where time was short",
        },
        "took_ms": structure(
            {name: MILLISECONDS for name in ("embed", "dense", "lexical", "fuse", "rerank", "sentences", "total")}  # noqa: C420
        ),
        "generation": STRING,
        "search_id": nullable(SEARCH_ID),
    },
)
ANSWER = define("Answer", ANSWER_FIELDS)
BATCH_REQUEST = define("SearchBatch", structure({"queries": listed(REQUEST, minItems=1, maxItems=MOST_QUERIES)}))
BATCH_ANSWER = define(
    "AnswerBatch",
    structure(
        {
            "answers": listed({"oneOf": [ANSWER, PROBLEM]}),
            "took_ms": structure({"embed": MILLISECONDS, "total": MILLISECONDS}),
        }
    ),
)
DOCUMENT = define(
    "Document",
    structure(
        {
            "generation": STRING,
            "id": STRING,
            "url": STRING,
            "title": STRING,
            "source": STRING,
            "language": MAYBE,
            "date": MAYBE,
            "content_type": STRING,
            "metadata": METADATA,
            "fetched_at": STRING,
            "passages": listed(structure({"id": STRING, "url": STRING, "section": STRING, "text": STRING})),
        }
    ),
)


def search_parameters(limits: Settings) -> list[Parameter]:
    """Return the parameters of a search in a query string."""
    query = {"name": "q", "in": "query", "required": True, "schema": query_schema(limits)}
    options = [
        {"name": name, "in": "query", "schema": schema, "description": schema.get("description", "")}
        for name, schema in search_options(limits).items()
    ]
    return [query, *options, *filter_parameters()]


def filter_parameters() -> list[Parameter]:
    """Return the parameters of a filter in a query string, but for those of metadata, which have any name."""
    lists: list[Parameter] = [
        {
            "name": name,
            "in": "query",
            "schema": listed(VALUE | VALUES_OF.get(name, {}), minItems=1, maxItems=MOST_VALUES),
            "description": f"only documents {MEANINGS[name]}; any one of these",
        }
        for name in LISTS
    ]
    days = [
        {"name": name, "in": "query", "schema": DAY, "description": f"only documents dated {words}"}
        for name, words in (("from", "on this day or later"), ("to", "on this day or before"))
    ]
    return [*lists, *days]
