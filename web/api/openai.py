"""`/v1/embeddings` and `/v1/models` for programs that speak OpenAI's protocol."""

import base64
import json
from typing import Any

from flask import Blueprint, Response, jsonify
from werkzeug.exceptions import NotFound

from web.api.embeddings import INPUT, ROLE, VECTOR, model_name, role_of, texts_of
from web.api.parameters import read_object, retriever
from web.api.schemas import COUNT, STRING, listed, structure
from web.fields import FieldError, check, refuse_unknown
from web.openapi import define, operation
from web.problems import MEDIA_TYPE
from web.retriever import Vectors
from web.sizes import MAX_BODY_BYTES

MODEL = {"type": "string", "minLength": 1, "maxLength": 1000, "description": "must be the model that is served"}
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
REQUEST = define("OpenAIEmbed", structure({"model": MODEL, "input": INPUT}, OPTIONS))
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
    """Answer one vector for each text, in order, if the model asked for is the one that is served."""
    fields = read_object(MAX_BODY_BYTES)
    refuse_unknown(fields, ("model", "input", *OPTIONS), "this request")
    model = check("model", fields.get("model"), MODEL)
    options = {name: check(name, fields[name], schema) for name, schema in OPTIONS.items() if name in fields}
    texts, role = texts_of(fields), role_of(fields)
    if model != model_name():
        raise NotFound(f"There is no model {model[:80]!a}; this server has {model_name()}.")
    vectors = retriever().embed(texts, role)
    dimension = vectors.shape[1]
    if options.get("dimensions", dimension) != dimension:
        raise FieldError("dimensions", f"dimensions must be {dimension}, the dimension of the model.")
    tokens = sum(retriever().count_tokens(texts, role))
    encoded = _in_base64(vectors) if options.get("encoding_format") == "base64" else vectors.tolist()
    return jsonify(
        {
            "object": "list",
            "data": [{"object": "embedding", "index": place, "embedding": one} for place, one in enumerate(encoded)],
            "model": model,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }
    )


@blueprint.get("/models")
@operation(summary="List the models, as OpenAI does.", role="read", responses={200: MODELS})
def models() -> Response:
    """Answer the model that embeds, and the one that reranks where there is one."""
    names = filter(None, [model_name(), retriever().status().get("rerank_model")])
    data = [{"id": name, "object": "model", "created": 0, "owned_by": "pilotlight"} for name in names]
    return jsonify({"object": "list", "data": data})


@blueprint.after_request
def with_message(response: Response) -> Response:
    """Say what is wrong where OpenAI's clients look for it, too."""
    if response.mimetype == MEDIA_TYPE:
        body = json.loads(response.get_data())
        response.set_data(json.dumps(body | {"message": body["detail"]}))
    return response


def _in_base64(vectors: Vectors) -> list[str]:
    return [base64.b64encode(vector.astype("<f4").tobytes()).decode() for vector in vectors]
