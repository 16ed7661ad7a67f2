"""Define routes for other protocols: OpenAI (embeddings, models), Cohere (reranking), MCP and `/llms.txt`."""

import base64
import uuid
from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import Any

from flask import Blueprint, Response, jsonify, render_template, request
from werkzeug.exceptions import Forbidden, NotFound

from rag import messages
from rag.answer.prompt import neutralise
from rag.decoding import REF, decode
from rag.errors import FieldError, NotConfigured, RagError
from rag.messages import ToolMessage
from web.api.requests import collection_field, read_json, read_object, retriever, run
from web.guards.access import is_from_another_site
from web.guards.limits import MAX_BODY_BYTES, MAX_SEARCH_BYTES
from web.openapi import Content, Operation
from web.problems import MEDIA_TYPE, problem_of

MAX_LISTED = 50  # documents listed for each collection in `/llms.txt`
_ANSWER = Content("application/json", {"type": "object", "description": "a JSON-RPC 2.0 result or error"})
_REFUSED = [Content(MEDIA_TYPE, {"$ref": f"{REF}Problem"}), _ANSWER]
_LINK_TEXT = str.maketrans("[]()<>\n", " " * 7)
TOKENS = (
    "input has token ids, which this server cannot embed: send texts. LangChain's OpenAIEmbeddings sends "
    "texts with check_embedding_ctx_length=False."
)

USAGE = ("prompt_tokens", "total_tokens")

openai = Blueprint("openai", __name__, url_prefix="/v1")
mcp = Blueprint("mcp", __name__)


@openai.post("/embeddings")
@Operation(
    role="read", body=messages.EmbeddingRequest, responses={200: messages.EmbeddingList}, errors=(404,), takes_long=True
)
def embed() -> Response:
    """Embed texts, in OpenAI's format."""
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
    data = [messages.Embedding(index, vector) for index, vector in enumerate(vectors)]
    return jsonify(messages.EmbeddingList(data, embedding.model, dict.fromkeys(USAGE, embedding.tokens)))


@openai.get("/models")
@Operation(role="read", responses={200: messages.Models})
def models() -> Response:
    """List the models, in OpenAI's format."""
    return jsonify(messages.Models([messages.Model(name) for name in _model_names()]))


@openai.get("/models/<path:id>")
@Operation(role="read", responses={200: messages.Model}, errors=(404,))
def model(id: str) -> Response:
    """Describe a model, in OpenAI's format."""
    if id not in _model_names():
        raise NotFound(f"There is no model {id[:80]!a}; this server has {', '.join(_model_names())}.")
    return jsonify(messages.Model(id))


def _model_names() -> list[str]:
    status = retriever().status()
    return [status["model"], *([status["rerank_model"]] if "rerank_model" in status else [])]


@openai.post("/rerank")
@Operation(
    role="read", body=messages.RerankRequest, responses={200: messages.Reranking}, errors=(404, 501), takes_long=True
)
def rerank() -> Response:
    """Rank texts by relevance to a query, best first, in the format of Cohere and Jina."""
    rerank_request = read_json(messages.RerankRequest, MAX_BODY_BYTES)
    texts: list[str] = []
    for index, each in enumerate(rerank_request.documents):
        fields = {"text": each} if isinstance(each, str) else each
        values = [fields.get(name) for name in rerank_request.rank_fields or ()]
        text = "\n".join(str(value) for value in values if isinstance(value, str | int | float)) or fields.get("text")
        if not isinstance(text, str) or not 1 <= len(text) <= messages.MAX_TEXT_CHARS:
            name = f"documents[{index}]"
            raise FieldError(name, f"{name} must have a field text of 1 to {messages.MAX_TEXT_CHARS} characters.")
        texts.append(text)
    served = retriever().status().get("rerank_model")
    if served and rerank_request.model not in ("", served):
        raise NotFound(f"There is no model {rerank_request.model[:80]!a}; this server reranks with {served}.")
    scores, tokens = retriever().rerank(rerank_request.query, texts)
    best = sorted(range(len(scores)), key=lambda index: -scores[index])[: rerank_request.top_n]
    shown = [{"text": text} if rerank_request.return_documents else None for text in texts]
    results = [messages.Ranked(index, scores[index], shown[index]) for index in best]
    usage = dict.fromkeys(USAGE, tokens)
    return jsonify(messages.Reranking(str(uuid.uuid4()), served or "", results, usage))


@mcp.post("/mcp")
@Operation(
    role="read",
    body=ToolMessage,
    responses={200: _ANSWER, 202: None, 400: _REFUSED, 404: _REFUSED},
    errors=(501,),
    takes_long=True,
)
def exchange() -> Response:
    """Answer one MCP message. The transport is streamable HTTP without sessions."""
    try:
        from rag.adapters.mcp import answer_post
        from rag.adapters.tools import Tools
    except ModuleNotFoundError as error:
        raise NotConfigured("MCP is not installed on this server: pip install 'pilotlight[mcp]'.") from error
    if is_from_another_site():
        raise Forbidden("Pages of other sites may not use MCP.")
    message = read_object(MAX_SEARCH_BYTES)
    decode(message, ToolMessage, "a message")
    tools = Tools(retriever(), partial(run, via="mcp"))

    def call(name: str, arguments: Mapping[str, Any]) -> Any:
        try:
            return tools.call(name, arguments)
        except Exception as error:
            raise RagError(str(problem_of(error)["detail"])) from error

    return Response(*answer_post(call, request.headers.items(), message), content_type="application/json")


@mcp.get("/llms.txt")
@Operation(role="read", responses={200: Content("text/plain", {"type": "string"})}, takes_long=True)
def describe() -> Response:
    """Explain to language models how to search, and list the collections and their first documents."""
    visible = retriever()
    names = [each["name"] for each in visible.status()["collections"] if each["ready"]]
    counts = {name: count for name in names if (count := visible.overview(name)["documents"])}
    listings = [
        (name, count, [each.facts for each in islice(visible.documents(name), MAX_LISTED)], collection_field(name))
        for name, count in counts.items()
    ]
    text = render_template("llms.txt", collections=listings, plain=lambda it: neutralise(it).translate(_LINK_TEXT))
    return Response(text, content_type="text/plain; charset=utf-8")
