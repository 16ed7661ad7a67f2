"""The application, served on loopback from a thread."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flask import Flask
from werkzeug.serving import WSGIRequestHandler, make_server

from rag.serving.live import LiveRetriever
from rag.settings import load
from tests.dummy import DummyEmbedder
from tests.rag.conftest import Site, wait_for


class Quiet(WSGIRequestHandler):
    def log(self, *_: object) -> None:
        pass


@contextmanager
def running(app: Flask) -> Iterator[str]:
    """Serve until the end of the block; gives the address."""
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def library(folder: Path, pages: int) -> Iterator[LiveRetriever]:
    """Serve an index of pages called "Number 1" and so on, all of which answer "index", until the end of the block."""
    site = Site(folder)
    for path in site.source.iterdir():
        path.unlink()
    for number in range(1, pages + 1):
        words = " ".join(f"word{number}x{place}" for place in range(30))  # so that none repeats another
        (site.source / f"{number:03}.md").write_text(f"# Number {number}\n\nThe index has {words}.\n")
    site.build()
    retriever = LiveRetriever(load({"index": str(site.index)}, {}), lambda _: DummyEmbedder())
    retriever.start()
    try:
        wait_for(lambda: retriever.ready)
        yield retriever
    finally:
        retriever.close()
