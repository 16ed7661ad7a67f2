"""Search for agents: the Model Context Protocol at `/mcp`, and `/llms.txt` for those that do not speak it."""

from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import Any

import msgspec
from flask import Blueprint, Response, request, url_for
from werkzeug.exceptions import NotImplemented as NotSetUp

from rag.decoding import REF, decode
from rag.errors import RagError
from rag.messages import ToolMessage
from web.api.requests import collection_field, read_object, retriever, run, settings
from web.guards.limits import MAX_SEARCH_BYTES
from web.openapi import Content, Operation
from web.problems import MEDIA_TYPE, problem_of

LISTED = 50  # documents of a collection in `/llms.txt`
_ANSWER = Content("application/json", {"type": "object", "description": "result or error, of JSON-RPC 2.0"})
_REFUSED = [Content(MEDIA_TYPE, {"$ref": f"{REF}Problem"}), _ANSWER]  # by the server, or by the protocol
_ASK = """
## How to ask

- Search: `GET {search}?q=QUESTION&k=5` gives passages as JSON; `collection=NAME`, `path=/docs` and others narrow it.
- Read: `GET {read}` with the `document` of a hit and `Accept: text/markdown`; add `?collection=NAME`.
- All routes: [{openapi}]({openapi}). MCP, as streamable HTTP: {mcp}
- Where a key is required, send `Authorization: Bearer KEY`.
"""

blueprint = Blueprint("mcp", __name__)


@blueprint.post("/mcp")
@Operation(
    role="read", body=ToolMessage, responses={200: _ANSWER, 202: None, 400: _REFUSED, 404: _REFUSED}, errors=(501,)
)
def exchange() -> Response:
    """Answer one message of MCP: streamable HTTP without sessions."""
    try:
        from rag.adapters.mcp import answer_post
        from rag.adapters.tools import Tools
    except ModuleNotFoundError as error:
        raise NotSetUp("MCP is not installed on this server: pip install 'pilotlight[mcp]'.") from error
    message = read_object(MAX_SEARCH_BYTES)
    decode(message, ToolMessage, "a message")
    tools = Tools(retriever(), partial(run, via="mcp"))

    def call(name: str, arguments: Mapping[str, Any]) -> Any:
        try:
            return tools.call(name, arguments)
        except Exception as error:  # counted, logged and put in words as where REST fails
            raise RagError(str(problem_of(error)["detail"])) from error

    status, headers, content = answer_post(call, request.headers.items(), msgspec.json.encode(message))
    return Response(content, status, headers)


@blueprint.get("/llms.txt")
@Operation(role="read", responses={200: Content("text/plain", {"type": "string"})})
def describe() -> Response:
    """List the collections with their first documents, and how to ask, for language models."""
    visible = retriever()
    lines = [
        f"# {' '.join(settings().site_name.split())}",
        "",
        "> Documents that can be searched by meaning and words.",
    ]
    for each in visible.status()["collections"]:
        name = each["name"]
        count = visible.overview(name)["documents"] if each["ready"] else 0
        if not count:
            continue
        lines += ["", f"## Collection {name}: {count} documents", ""]
        for document in islice(visible.documents(name), LISTED):
            where: dict[str, Any] = collection_field(name)
            title = " ".join(document["title"].translate(_PLAIN).split()) or document["id"]
            lines.append(f"- [{title}]({url_for('reading.read', id=document['id'], **where)})")
        if count > LISTED:
            lines.append(f"- and {count - LISTED} more: search for them")
    addresses = {
        "search": url_for("search.search_by_query_string"),
        "read": f"{request.script_root}/document/ID",
        "openapi": url_for("openapi.describe_api"),
        "mcp": url_for("mcp.exchange"),
    }
    return Response("\n".join([*lines, _ASK.format(**addresses)]), content_type="text/plain; charset=utf-8")


_PLAIN = str.maketrans("[]()<>", "    ‹›")
