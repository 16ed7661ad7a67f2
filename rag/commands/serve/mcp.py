"""`pilotlight mcp`."""

import os
from contextlib import ExitStack

import click

from rag.commands.verb import WHOLE, Result, verb
from rag.errors import SettingsError
from rag.settings import Settings


@verb("index", "store", "embedder", "rerank", "insights", prints=False)
@click.option("--server", metavar="URL", help="ask this running server instead of reading an index")
@click.option(
    "--http", "port", metavar="PORT", type=WHOLE, help="listen on this port of 127.0.0.1 (default: use standard input)"
)
def mcp(settings: Settings, *, server: str | None, port: int | None) -> Result | None:
    """Offer the tools of `rag.adapters.mcp` on the index, or on a server, until the caller ends.

    Over standard input and output, or over HTTP on a port of loopback.
    """
    try:
        from rag.adapters import mcp as tools
    except ModuleNotFoundError as error:
        raise SettingsError("mcp is not installed: pip install 'pilotlight[mcp]'") from error

    with ExitStack() as stack:
        if server is not None:
            from rag.client.client import Client

            library: tools.Library = stack.enter_context(Client(server, os.environ.get("PILOTLIGHT_KEY") or None))
        else:
            from rag.commands.embedders import as_built, plans, prepare
            from rag.commands.published import published
            from rag.insights.recorder import Recorder
            from rag.serving.live import LiveRetriever

            if not settings.store:
                published(settings)
            settings = as_built(settings)
            for plan in plans(settings):
                prepare(plan)
            retriever = LiveRetriever(settings)
            retriever.start()
            stack.callback(retriever.close)
            recorder = None
            if settings.insights:
                recorder = Recorder(settings)
                recorder.start()
                stack.callback(recorder.close)
            library = tools.LocalLibrary(retriever, recorder)
        offered = tools.make_server(library, settings.collection)
        if port is None:
            tools.serve_stdio(offered)
            return None
        try:
            tools.serve_http(offered, port)
        except (OSError, OverflowError) as error:
            raise SettingsError(f"cannot listen on {tools.HOST} port {port}: {error}") from error
    return None
