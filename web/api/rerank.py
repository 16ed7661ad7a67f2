"""Reranking over REST, as clients of Cohere, of Jina and of Hugging Face's Text Embeddings Inference ask for it.

Scores are from 0 to 1, as these services give them: what the cross-encoder says of a text, after a sigmoid.
"""

import uuid
from collections.abc import Mapping
from typing import Any

from flask import Blueprint, Response, jsonify
from werkzeug.exceptions import NotFound

from web.api.embeddings import MODEL
from web.api.parameters import read_object, retriever
from web.api.schemas import COUNT, STRING, listed, request_of, structure
from web.fields import FieldError, Schema, check, given_fields
from web.openapi import define, operation
from web.sizes import MAX_BODY_BYTES

MOST_TEXTS = 1000  # of one request, as with Cohere
QUERY = {"type": "string", "minLength": 1, "maxLength": 10_000}
TEXT = {"type": "string", "minLength": 1, "maxLength": 100_000}
BOOLEAN = {"type": "boolean", "default": False}
OPTIONS: dict[str, dict[str, Any]] = {
    "model": MODEL | {"description": "must be the model that reranks here"},
    "top_n": {"type": "integer", "minimum": 1, "maximum": 1_000_000, "description": "most results; default: all"},
    "return_documents": BOOLEAN | {"description": "whether to repeat each text in its result"},
    # what the model reads of a text is its own length's matter
    "max_chunks_per_doc": {
        "type": "integer",
        "minimum": 1,
        "maximum": 1_000_000,
        "description": "accepted and ignored",
    },
    "max_tokens_per_doc": {
        "type": "integer",
        "minimum": 1,
        "maximum": 1_000_000,
        "description": "accepted and ignored",
    },
    "priority": {"type": "integer", "minimum": 0, "maximum": 999, "description": "accepted and ignored"},
    "truncation": {"type": "boolean", "description": "accepted and ignored: longer texts are truncated"},
}
RANK_FIELDS = listed(TEXT, minItems=1, maxItems=MOST_TEXTS) | {
    "description": "fields of the documents to read, as far as they are there, in this order; default: text"
}
DOCUMENT = {"anyOf": [TEXT, {"type": "object", "required": ["text"], "properties": {"text": TEXT}}]}
REQUEST = define(
    "Rerank",
    request_of(
        {"query": QUERY, "documents": listed(DOCUMENT, minItems=1, maxItems=MOST_TEXTS)},
        {**OPTIONS, "rank_fields": RANK_FIELDS},
    ),
)
SCORE = {"type": "number", "minimum": 0, "maximum": 1}
_RESULT = structure({"index": COUNT, "relevance_score": SCORE}, {"document": structure({"text": STRING})})
ANSWER = define(
    "Reranking",
    structure(
        {
            "id": STRING,
            "model": STRING,
            "results": listed(_RESULT),
            "usage": structure({"prompt_tokens": COUNT, "total_tokens": COUNT}),
        }
    ),
)
TEI_OPTIONS: dict[str, dict[str, Any]] = {
    "raw_scores": BOOLEAN | {"description": "whether to leave out the sigmoid"},
    "return_text": BOOLEAN | {"description": "whether to repeat each text in its result"},
    "truncate": {"type": "boolean", "description": "accepted and ignored: longer texts are truncated"},
    "truncation_direction": {
        "type": "string",
        "enum": ["Right"],
        "description": "the end of a text is what is cut off",
    },
}
TEI_REQUEST = define(
    "TEIRerank",
    request_of({"query": QUERY, "texts": listed(TEXT, minItems=1, maxItems=MOST_TEXTS)}, TEI_OPTIONS),
)
TEI_ANSWER = define("TEIRanks", listed(structure({"index": COUNT, "score": {"type": "number"}}, {"text": STRING})))
_DESCRIPTION = "Results are sorted, the best first; `index` is the place of the text in the request."

blueprint = Blueprint("rerank", __name__)


@blueprint.post("/v1/rerank")
@operation(
    summary="Say how well texts answer a query, as Cohere and Jina do.",
    description=_DESCRIPTION,
    role="read",
    request=REQUEST,
    responses={200: ANSWER},
    errors=(404, 501),
)
def rerank() -> Response:
    """Answer the index and score of each document, best first."""
    fields = given_fields(read_object(MAX_BODY_BYTES), ("query", "documents", *OPTIONS, "rank_fields"), "this request")
    query, options = _query_and_options(fields, OPTIONS)
    texts = _texts_of_documents(fields)
    served = retriever().status().get("rerank_model")
    if served and options.get("model", served) != served:
        raise NotFound(f"There is no model {options['model'][:80]!a}; this server reranks with {served}.")
    found = retriever().rerank(query, texts)
    scores = found.scores.tolist()
    results: list[dict[str, Any]] = [
        {"index": place, "relevance_score": scores[place]} for place in _best_first(scores)[: options.get("top_n")]
    ]
    if options.get("return_documents"):
        results = [result | {"document": {"text": texts[result["index"]]}} for result in results]
    usage = {"prompt_tokens": found.tokens, "total_tokens": found.tokens}
    return jsonify({"id": str(uuid.uuid4()), "model": served, "results": results, "usage": usage})


@blueprint.post("/v2/rerank")
@operation(
    summary="The same, at the address of Cohere's second version.",
    role="read",
    request=REQUEST,
    responses={200: ANSWER},
    errors=(404, 501),
)
def rerank_v2() -> Response:
    """Answer as `/v1/rerank` does."""
    return rerank()


@blueprint.post("/rerank")
@operation(
    summary="Say how well texts answer a query, as Text Embeddings Inference does.",
    description=_DESCRIPTION,
    role="read",
    request=TEI_REQUEST,
    responses={200: TEI_ANSWER},
    errors=(501,),
)
def rerank_texts() -> Response:
    """Answer a list of the index and score of each text, best first."""
    fields = given_fields(read_object(MAX_BODY_BYTES), ("query", "texts", *TEI_OPTIONS), "this request")
    if isinstance(direction := fields.get("truncation_direction"), str):
        fields["truncation_direction"] = direction.capitalize()
    query, options = _query_and_options(fields, TEI_OPTIONS)
    texts = [check(f"texts.{place}", text, TEXT) for place, text in enumerate(_list_of(fields, "texts"))]
    found = retriever().rerank(query, texts)
    scores = (found.logits if options.get("raw_scores") else found.scores).tolist()
    results: list[dict[str, Any]] = [{"index": place, "score": scores[place]} for place in _best_first(scores)]
    if options.get("return_text"):
        results = [result | {"text": texts[result["index"]]} for result in results]
    return jsonify(results)


def _query_and_options(fields: dict[str, object], schemas: Mapping[str, Schema]) -> tuple[str, dict[str, Any]]:
    """Return the query of a request and the options it gives. Raises FieldError."""
    options = {option: check(option, fields[option], schema) for option, schema in schemas.items() if option in fields}
    return check("query", fields.get("query"), QUERY), options


def _texts_of_documents(fields: dict[str, object]) -> list[str]:
    """Return the texts of documents, whether bare or in objects, of which `rank_fields` are read. Raises FieldError."""
    given = _list_of(fields, "rank_fields") if "rank_fields" in fields else ["text"]
    names = [check(f"rank_fields.{place}", name, TEXT) for place, name in enumerate(given)]
    return [_text_of(f"documents.{place}", one, names) for place, one in enumerate(_list_of(fields, "documents"))]


def _text_of(field: str, document: object, names: list[str]) -> str:
    """Return a document's text: bare, or the fields named as far as it has them, or else its `text`."""
    if not isinstance(document, Mapping):
        return str(check(field, document, TEXT))
    values = [str(document[name]) for name in names if isinstance(document.get(name), str | int | float)]
    if not values:
        return str(check(f"{field}.text", document.get("text"), TEXT))
    return str(check(field, "\n".join(values), TEXT))


def _list_of(fields: dict[str, object], name: str) -> list[object]:
    value = fields.get(name)
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_TEXTS:
        raise FieldError(name, f"{name} must be a list of 1 to {MOST_TEXTS} texts.")
    return value


def _best_first(scores: list[float]) -> list[int]:
    return sorted(range(len(scores)), key=lambda place: -scores[place])
