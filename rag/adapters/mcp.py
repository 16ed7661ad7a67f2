"""Serve the tools over the Model Context Protocol with the official SDK. Requires the extra `pilotlight[mcp]`.

A tool returns only text. With structured content in addition, some clients would pass both to the model, and others
would pass only the structured content.
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from typing import Any

import anyio
import httpx
from anyio.to_thread import run_sync
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool, ToolAnnotations

from embedder.errors import PilotlightError
from rag.adapters.tools import DATA, Reply, describe_tools

Call = Callable[[str, Mapping[str, Any]], Reply]

INSTRUCTIONS = f"""Searches collections of documents by meaning and words, and reads them. Search with a whole
question; read more by address where a passage is not enough; grep for exact names. Cite addresses. {DATA}"""
_MAX_SHOWN_IDS = 1000  # passages of earlier results that a search omits
_READ_ONLY = ToolAnnotations(read_only_hint=True)


def make_server(call: Call, shown: dict[str, None] | None = None) -> Server[Any]:
    """Return an MCP server that runs tools with `call`. Searches omit passages whose ids are in `shown`."""

    async def list_tools(context: Any, parameters: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(**each, annotations=_READ_ONLY) for each in describe_tools()])

    async def call_tool(context: Any, parameters: Any) -> CallToolResult:
        arguments = dict(parameters.arguments or {})
        if shown is not None and parameters.name == "search":
            arguments["shown"] = list(shown)[-_MAX_SHOWN_IDS:]
        try:
            text, ids = await run_sync(call, parameters.name, arguments)
        except PilotlightError as error:
            return CallToolResult(content=[TextContent(text=str(error))], is_error=True)
        if shown is not None:
            shown.update(dict.fromkeys(ids))
        return CallToolResult(content=[TextContent(text=text)], _meta={"shown": ids} if "shown" in arguments else None)

    version = metadata.version("pilotlight")
    return Server(
        "pilotlight", version=version, instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool
    )


def serve_stdio(call: Call) -> None:
    """Serve MCP over standard input and output until the client disconnects. Searches omit earlier results."""

    async def serve() -> None:
        server = make_server(call, {})
        async with stdio_server() as (read_stream, write_stream):
            await server.run(read_stream, write_stream, server.create_initialization_options())

    anyio.run(serve)


def answer_post(call: Call, headers: Iterable[tuple[str, str]], message: Any) -> tuple[bytes, int]:
    """Answer one POST request of MCP's streamable HTTP transport, without a session.

    Args:
        call: function that runs a tool.
        headers: names and values of the request headers, decoded as Latin-1 (WSGI).
        message: JSON body of the request, decoded.

    Returns:
        The body and the status code of the response.
    """
    logging.getLogger("mcp").setLevel(logging.WARNING)

    async def answer() -> httpx.Response:
        manager = StreamableHTTPSessionManager(make_server(call), json_response=True, stateless=True)
        transport = httpx.ASGITransport(manager.handle_request)
        async with manager.run(), httpx.AsyncClient(transport=transport) as client:
            fields = [(b"content-type", b"application/json")]
            for name, value in headers:
                if name.lower().startswith("mcp-"):
                    fields.append((name.encode("latin-1", "replace"), value.encode("latin-1", "replace")))
            return await client.post("http://localhost/mcp", content=json.dumps(message), headers=fields)

    response = anyio.run(answer)
    return response.content, response.status_code
