"""Embedding, reranking and the list of models, in the protocols of OpenAI, Cohere and Jina."""

import base64
import uuid

from flask import Blueprint, Response, jsonify
from werkzeug.exceptions import NotFound

from rag import messages
from rag.decoding import decode
from rag.errors import FieldError
from web.api.requests import read_json, read_object, retriever
from web.guards.limits import MAX_BODY_BYTES
from web.openapi import Operation

TOKENS = (
    "input has numbers of tokens, which mean nothing to the model here: send texts. LangChain's OpenAIEmbeddings sends "
    "texts with check_embedding_ctx_length=False."
)

USAGE = ("prompt_tokens", "total_tokens")

blueprint = Blueprint("openai", __name__, url_prefix="/v1")


@blueprint.post("/embeddings")
@Operation(
    role="read", body=messages.EmbeddingRequest, responses={200: messages.EmbeddingList}, errors=(404,), takes_long=True
)
def embed() -> Response:
    """Embed texts, as OpenAI does."""
    fields = read_object(MAX_BODY_BYTES)
    texts = fields.get("input")
    if isinstance(texts, list) and texts and all(isinstance(each, int | list) for each in texts):
        raise FieldError("input", TOKENS)
    embedding_request = decode(fields, messages.EmbeddingRequest)
    embedding = retriever().embed(
        [embedding_request.input] if isinstance(embedding_request.input, str) else embedding_request.input,
        embedding_request.role,
        embedding_request.model,
    )
    dimension = embedding.vectors.shape[1]
    if embedding_request.dimensions not in (None, dimension):
        raise FieldError("dimensions", f"dimensions must be {dimension}, the dimension of the model.")
    if embedding_request.encoding_format == "base64":
        vectors = [base64.b64encode(vector.astype("<f4").tobytes()).decode() for vector in embedding.vectors]
    else:
        vectors = embedding.vectors.tolist()
    data = [messages.Embedding(place, vector) for place, vector in enumerate(vectors)]
    return jsonify(messages.EmbeddingList(data, embedding.model, dict.fromkeys(USAGE, embedding.tokens)))


@blueprint.get("/models")
@Operation(role="read", responses={200: messages.Models})
def models() -> Response:
    """List the models, as OpenAI does."""
    return jsonify(messages.Models([messages.Model(name) for name in _model_names()]))


@blueprint.get("/models/<path:id>")
@Operation(role="read", responses={200: messages.Model}, errors=(404,))
def model(id: str) -> Response:
    """Describe a model, as OpenAI does."""
    if id not in _model_names():
        raise NotFound(f"There is no model {id[:80]!a}; this server has {', '.join(_model_names())}.")
    return jsonify(messages.Model(id))


def _model_names() -> list[str]:
    status = retriever().status()
    return [status["model"], *([status["rerank_model"]] if "rerank_model" in status else [])]


@blueprint.post("/rerank")
@Operation(
    role="read", body=messages.RerankRequest, responses={200: messages.Reranking}, errors=(404, 501), takes_long=True
)
def rerank() -> Response:
    """Rank texts by relevance to a query, as Cohere and Jina do, the best first."""
    rerank_request = read_json(messages.RerankRequest, MAX_BODY_BYTES)
    texts: list[str] = []
    for place, each in enumerate(rerank_request.documents):
        fields = {"text": each} if isinstance(each, str) else each
        values = [fields.get(name) for name in rerank_request.rank_fields or ()]
        text = "\n".join(str(value) for value in values if isinstance(value, str | int | float)) or fields.get("text")
        if not isinstance(text, str) or not 1 <= len(text) <= messages.MAX_TEXT_CHARS:
            name = f"documents[{place}]"
            raise FieldError(name, f"{name} must have a field text of 1 to {messages.MAX_TEXT_CHARS} characters.")
        texts.append(text)
    served = retriever().status().get("rerank_model")
    if served and rerank_request.model not in ("", served):
        raise NotFound(f"There is no model {rerank_request.model[:80]!a}; this server reranks with {served}.")
    scores, tokens = retriever().rerank(rerank_request.query, texts)
    best = sorted(range(len(scores)), key=lambda place: -scores[place])[: rerank_request.top_n]
    shown = [{"text": text} if rerank_request.return_documents else None for text in texts]
    results = [messages.Ranked(at, scores[at], shown[at]) for at in best]
    usage = dict.fromkeys(USAGE, tokens)
    return jsonify(messages.Reranking(str(uuid.uuid4()), served or "", results, usage))
