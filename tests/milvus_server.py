"""Milvus Lite as a server in a process of its own, which tests kill, stop and start again like a cluster's."""

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

# from a process which has imported what takes most of the time
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["milvus_lite.adapter.grpc.server"])


def _serve(folder: Path, port: int) -> None:
    from milvus_lite.adapter.grpc.server import run_server

    for number in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    run_server(str(folder), "127.0.0.1", port)


class MilvusServer:
    """Serves a folder on a port of loopback that stays the same over restarts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        self._process: ForkServerProcess | None = None
        self.start()

    def place(self, name: str) -> str:
        """Address of a collection there."""
        return f"milvus://127.0.0.1:{self.port}/{name}"

    def start(self) -> None:
        """Start at the same port, and wait until it answers."""
        self._process = _CONTEXT.Process(target=_serve, args=(self._folder, self.port))
        self._process.start()
        until = time.monotonic() + 60
        while True:
            assert self._process.exitcode is None, "the Milvus server ended"
            assert time.monotonic() < until, "the Milvus server does not answer"
            with suppress(OSError):
                return socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            time.sleep(0.05)  # between two looks at another process

    def kill(self) -> None:
        """End it at once, as if the machine had gone."""
        if self._process is not None:
            self._process.kill()
            self._process.join(timeout=30)
            self._process = None

    def hang(self) -> None:
        """Go on accepting connections, and answer nothing."""
        assert self._process is not None
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGSTOP)
        while "State:\tT" not in Path(f"/proc/{self._process.pid}/status").read_text():
            pass

    def wake(self) -> None:
        """Answer again."""
        assert self._process is not None
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGCONT)


def ids_of(store: Any) -> list[str]:
    """The generations of a store, newest first."""
    return [each.id for each in store.published()]


@contextmanager
def running_milvus(folder: Path) -> Iterator[MilvusServer]:
    """Serve a folder until the end of the block."""
    server = MilvusServer(folder)
    try:
        yield server
    finally:
        server.kill()
