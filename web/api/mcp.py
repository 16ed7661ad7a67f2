"""Search for agents: the Model Context Protocol at `/mcp`, and `/llms.txt` for agents without that protocol."""

from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import Any

from flask import Blueprint, Response, render_template, request
from werkzeug.exceptions import Forbidden

from rag.decoding import REF, decode
from rag.errors import NotConfigured, RagError
from rag.messages import ToolMessage
from web.api.requests import collection_field, read_object, retriever, run
from web.guards.access import is_from_another_site
from web.guards.limits import MAX_SEARCH_BYTES
from web.openapi import Content, Operation
from web.problems import MEDIA_TYPE, problem_of

MAX_LISTED = 50  # documents of a collection in `/llms.txt`
_ANSWER = Content("application/json", {"type": "object", "description": "result or error, of JSON-RPC 2.0"})
_REFUSED = [Content(MEDIA_TYPE, {"$ref": f"{REF}Problem"}), _ANSWER]
_LINK_TEXT = str.maketrans("[]()<>\n", " " * 7)

blueprint = Blueprint("mcp", __name__)


@blueprint.post("/mcp")
@Operation(
    role="read",
    body=ToolMessage,
    responses={200: _ANSWER, 202: None, 400: _REFUSED, 404: _REFUSED},
    errors=(501,),
    takes_long=True,
)
def exchange() -> Response:
    """Answer one message of MCP: streamable HTTP without sessions."""
    try:
        from rag.adapters.mcp import answer_post
        from rag.adapters.tools import Tools
    except ModuleNotFoundError as error:
        raise NotConfigured("MCP is not installed on this server: pip install 'pilotlight[mcp]'.") from error
    if is_from_another_site():
        raise Forbidden("A page of another site may not use this.")
    message = read_object(MAX_SEARCH_BYTES)
    decode(message, ToolMessage, "a message")
    tools = Tools(retriever(), partial(run, via="mcp"))

    def call(name: str, arguments: Mapping[str, Any]) -> Any:
        try:
            return tools.call(name, arguments)
        except Exception as error:
            raise RagError(str(problem_of(error)["detail"])) from error

    return Response(*answer_post(call, request.headers.items(), message), content_type="application/json")


@blueprint.get("/llms.txt")
@Operation(role="read", responses={200: Content("text/plain", {"type": "string"})}, takes_long=True)
def describe() -> Response:
    """List the collections with their first documents, and explain how to search, for language models."""
    visible = retriever()
    names = [each["name"] for each in visible.status()["collections"] if each["ready"]]
    counts = {name: count for name in names if (count := visible.overview(name)["documents"])}
    listings = [
        (name, count, [each.facts for each in islice(visible.documents(name), MAX_LISTED)], collection_field(name))
        for name, count in counts.items()
    ]
    text = render_template("llms.txt", collections=listings, plain=_LINK_TEXT)
    return Response(text, content_type="text/plain; charset=utf-8")
