"""Vectors over REST; `web.api.openai` has the same for programs that speak OpenAI's protocol."""

import time
from typing import Literal

from flask import Blueprint, Response, jsonify

from web.api.parameters import read_object, retriever
from web.api.schemas import COUNT, MILLISECONDS, STRING, listed, request_of, structure
from web.fields import FieldError, check, given_fields
from web.openapi import define, operation
from web.sizes import MAX_BODY_BYTES

MOST_TEXTS = 2048  # of one request, as with OpenAI
TEXT = {"type": "string", "minLength": 1, "maxLength": 100_000}
INPUT = {
    "anyOf": [TEXT, listed(TEXT, minItems=1, maxItems=MOST_TEXTS)],
    "description": "text to embed; truncated to what the model reads",
}
TOKENS = (
    "input has numbers of tokens, which mean nothing to the model here: send texts. LangChain's OpenAIEmbeddings sends "
    "texts with check_embedding_ctx_length=False."
)
MODEL = {
    "type": "string",
    "minLength": 1,
    "maxLength": 1000,
    "description": "name of the model, as in /readyz",
}
ROLE = {
    "type": "string",
    "enum": ["document", "query"],
    "default": "document",
    "description": "role of the texts; some models embed queries differently",
}
VECTOR = listed({"type": "number"})

REQUEST = define("Embed", request_of({"input": INPUT}, {"role": ROLE, "model": MODEL}))
ANSWER = define(
    "Embeddings",
    structure(
        {
            "model": STRING,
            "dimension": COUNT,
            "embeddings": listed(VECTOR),
            "tokens": COUNT,
            "took_ms": MILLISECONDS,
        }
    ),
)

blueprint = Blueprint("embeddings", __name__, url_prefix="/api/v1")


@blueprint.post("/embeddings")
@operation(summary="Turn texts into vectors.", role="read", request=REQUEST, responses={200: ANSWER}, errors=(404,))
def embed() -> Response:
    """Answer one vector for each text, in order."""
    fields = given_fields(read_object(MAX_BODY_BYTES), ("input", "role", "model"), "this request")
    texts, role = texts_of(fields), role_of(fields)
    model = str(check("model", fields["model"], MODEL)) if "model" in fields else ""
    began = time.perf_counter()
    made = retriever().embed(texts, role, model)
    return jsonify(
        {
            "model": made.model,
            "dimension": made.vectors.shape[1],
            "embeddings": made.vectors.tolist(),
            "tokens": made.tokens,
            "took_ms": round((time.perf_counter() - began) * 1000, 3),
        }
    )


def texts_of(fields: dict[str, object]) -> list[str]:
    """Return the texts that a request has as `input`. Raises FieldError."""
    value = fields.get("input")
    if isinstance(value, list):
        if not 1 <= len(value) <= MOST_TEXTS:
            raise FieldError("input", f"input must have 1 to {MOST_TEXTS} texts.")
        if all(isinstance(each, int | list) for each in value):
            raise FieldError("input", TOKENS)
        return [check(f"input.{place}", text, TEXT) for place, text in enumerate(value)]
    if not isinstance(value, str):
        raise FieldError("input", "input must be a text or a list of texts.")
    return [check("input", value, TEXT)]


def role_of(fields: dict[str, object]) -> Literal["document", "query"]:
    """Return what a request says its texts are. Raises FieldError."""
    return "query" if check("role", fields.get("role", "document"), ROLE) == "query" else "document"
