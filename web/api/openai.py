"""`/v1/embeddings` and `/v1/models` for programs that speak OpenAI's protocol."""

import base64
from typing import Any

from flask import Blueprint, Response, jsonify
from werkzeug.exceptions import NotFound

from web.api.embeddings import INPUT, MODEL, ROLE, VECTOR, role_of, texts_of
from web.api.parameters import id_in_path, read_object, retriever
from web.api.schemas import COUNT, STRING, listed, request_of, structure
from web.fields import FieldError, check, given_fields
from web.openapi import define, operation
from web.retriever import Vectors
from web.sizes import MAX_BODY_BYTES

OPTIONS: dict[str, dict[str, Any]] = {
    "encoding_format": {
        "type": "string",
        "enum": ["float", "base64"],
        "default": "float",
        "description": "lists of numbers, or little-endian 32-bit floats in base64",
    },
    "dimensions": {
        "type": "integer",
        "minimum": 1,
        "maximum": 100_000,
        "description": "must be the dimension of the model",
    },
    "user": {"type": "string", "minLength": 1, "maxLength": 1000, "description": "accepted and ignored"},
    "role": ROLE,
}
REQUEST = define("OpenAIEmbed", request_of({"model": MODEL, "input": INPUT}, OPTIONS))
_ONE = structure({"object": {"const": "embedding"}, "index": COUNT, "embedding": {"anyOf": [VECTOR, STRING]}})
ANSWER = define(
    "OpenAIEmbeddings",
    structure(
        {
            "object": {"const": "list"},
            "data": listed(_ONE),
            "model": STRING,
            "usage": structure({"prompt_tokens": COUNT, "total_tokens": COUNT}),
        }
    ),
)
_MODEL = structure({"id": STRING, "object": {"const": "model"}, "created": COUNT, "owned_by": STRING})
MODELS = structure({"object": {"const": "list"}, "data": listed(_MODEL)})

blueprint = Blueprint("openai", __name__, url_prefix="/v1")


@blueprint.post("/embeddings")
@operation(
    summary="Turn texts into vectors, as OpenAI does.",
    role="read",
    request=REQUEST,
    responses={200: ANSWER},
    errors=(404,),
)
def embed() -> Response:
    """Answer one vector for each text, in order, if the model asked for is in use."""
    fields = given_fields(read_object(MAX_BODY_BYTES), ("model", "input", *OPTIONS), "this request")
    model = str(check("model", fields.get("model"), MODEL))
    options = {name: check(name, fields[name], schema) for name, schema in OPTIONS.items() if name in fields}
    texts, role = texts_of(fields), role_of(fields)
    made = retriever().embed(texts, role, model)
    vectors, tokens = made.vectors, made.tokens
    dimension = vectors.shape[1]
    if options.get("dimensions", dimension) != dimension:
        raise FieldError("dimensions", f"dimensions must be {dimension}, the dimension of the model.")
    encoded = _in_base64(vectors) if options.get("encoding_format") == "base64" else vectors.tolist()
    return jsonify(
        {
            "object": "list",
            "data": [{"object": "embedding", "index": place, "embedding": one} for place, one in enumerate(encoded)],
            "model": made.model,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }
    )


@blueprint.get("/models")
@operation(summary="List the models, as OpenAI does.", role="read", responses={200: MODELS})
def models() -> Response:
    """Answer the model that embeds, and the one that reranks where there is one."""
    return jsonify({"object": "list", "data": [_described(name) for name in _model_names()]})


@blueprint.get("/models/<path:id>")
@operation(
    summary="Describe a model, as OpenAI does.",
    role="read",
    parameters=[id_in_path("name of a model in use")],
    responses={200: _MODEL},
    errors=(404,),
)
def model(id: str) -> Response:
    """Answer one model, if it is in use."""
    if id not in _model_names():
        raise NotFound(f"There is no model {id[:80]!a}; this server has {', '.join(_model_names())}.")
    return jsonify(_described(id))


def _model_names() -> list[str]:
    status = retriever().status()
    return [status["model"]] + ([status["rerank_model"]] if "rerank_model" in status else [])


def _described(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "pilotlight"}


def _in_base64(vectors: Vectors) -> list[str]:
    return [base64.b64encode(vector.astype("<f4").tobytes()).decode() for vector in vectors]
