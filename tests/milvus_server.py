"""Run Milvus Lite as a server in its own process, which tests can kill, suspend and restart."""

import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from tests.ports import free_port

# The fork server imports the slow module once, and each server process is forked from it.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["milvus_lite.adapter.grpc.server"])


def _serve(folder: Path, port: int) -> None:
    from milvus_lite.adapter.grpc.server import run_server

    for number in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    run_server(str(folder), "127.0.0.1", port)


class MilvusServer:
    """Serves a folder on a loopback port. The port remains the same when the server is restarted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()
        self._process: ForkServerProcess | None = None
        self.start()

    def place(self, name: str) -> str:
        """Return the address of a collection on this server."""
        return f"milvus://127.0.0.1:{self.port}/{name}"

    def start(self) -> None:
        """Start the server at its port, and wait until it accepts connections."""
        self._process = _CONTEXT.Process(target=_serve, args=(self._folder, self.port))
        self._process.start()
        until = time.monotonic() + 60
        while True:
            assert self._process.exitcode is None, "the Milvus server ended"
            assert time.monotonic() < until, "the Milvus server does not answer"
            with suppress(OSError):
                return socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            time.sleep(0.05)  # before the next attempt to connect

    def kill(self) -> None:
        """Kill the server, as if its machine had failed."""
        if self._process is not None:
            self._process.kill()
            self._process.join(timeout=30)
            self._process = None

    def hang(self) -> None:
        """Suspend the server. The kernel still accepts connections, but nothing answers."""
        assert self._process is not None
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGSTOP)
        while "State:\tT" not in Path(f"/proc/{self._process.pid}/status").read_text():
            pass

    def wake(self) -> None:
        """Resume the server after `hang`."""
        assert self._process is not None
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGCONT)


def ids_of(store: Any) -> list[str]:
    """Return the ids of the generations in a store, newest first."""
    return [each.id for each in store.published()]


@contextmanager
def running_milvus(folder: Path) -> Iterator[MilvusServer]:
    """Run a server for a folder until the `with` block ends."""
    server = MilvusServer(folder)
    try:
        yield server
    finally:
        server.kill()
