"""The application, served on loopback from a thread."""

import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from flask import Flask
from werkzeug.serving import WSGIRequestHandler, make_server

from rag.serving.follower import Follower
from rag.serving.live import LiveRetriever
from rag.settings import load
from tests.dummy import DummyEmbedder
from tests.rag.conftest import Site, start
from tests.waiting import wait_for

NEEDS_NGINX = pytest.mark.skipif(shutil.which("nginx", path="/usr/sbin") is None, reason="nginx is missing")


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
def nginx(configuration: Path, answers: Callable[[], bool]) -> Iterator[None]:
    """Run Debian's nginx until the end of the block, which begins once it answers."""
    command = ["/usr/sbin/nginx", "-e", f"{configuration}.log", "-c", configuration, "-p", configuration.parent]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def is_there() -> bool:
        assert process.poll() is None, process.communicate()
        try:
            return answers()
        except httpx.TransportError:
            return False

    try:
        wait_for(is_there)
        yield
    finally:
        process.terminate()
        try:
            process.communicate(timeout=300)
        finally:
            process.kill()


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
    with serving(site.index) as retriever:
        yield retriever


@contextmanager
def serving(index: Path) -> Iterator[LiveRetriever]:
    """Serve an index until the end of the block."""
    retriever = LiveRetriever(Follower(load({"index": str(index)}, {}), lambda _: DummyEmbedder()))
    try:
        start(retriever)
        yield retriever
    finally:
        retriever.close()
