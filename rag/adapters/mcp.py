"""The tools over the Model Context Protocol, by the official SDK; needs the extra `pilotlight[mcp]`.

Results are only text, because some clients would show a model only the structured content, and others both.
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
_REMEMBERED = 1000  # last passages of a session
_READS = ToolAnnotations(read_only_hint=True)


def make_server(call: Call, shown: dict[str, None] | None = None) -> Server[Any]:
    """Return a server of the tools; `call` runs a tool. `shown` collects the passages that a session has seen."""

    async def list_tools(context: Any, parameters: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(**each, annotations=_READS) for each in describe_tools()])

    async def call_tool(context: Any, parameters: Any) -> CallToolResult:
        arguments = dict(parameters.arguments or {})
        if shown is not None and parameters.name == "search":
            arguments["shown"] = list(shown)[-_REMEMBERED:]
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
    """Serve over standard input and output until the client disconnects, showing no passage twice."""

    async def serve() -> None:
        server = make_server(call, {})
        async with stdio_server() as (read_stream, write_stream):
            await server.run(read_stream, write_stream, server.create_initialization_options())

    anyio.run(serve)


def answer_post(call: Call, headers: Iterable[tuple[str, str]], message: Any) -> tuple[bytes, int]:
    """Answer one POST of streamable HTTP without sessions.

    Args:
        call: runs a tool.
        headers: names and values; each character is a byte (WSGI).
        message: body of the request, decoded.

    Returns:
        Body and status of the response.
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
