"""Processes that are forked from one which has imported what they use: to start Python and import it again would take
most of their time."""

import atexit
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import IO

from rag.commands.cli import VERBS, main

# What is read from the environment as Python or a library starts, and never again: such a process must be a new one.
_READ_AT_START = ("PYTHON", "OMP_", "LD_")
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        *(f"rag.commands.{place.partition('.')[0]}" for place, _ in VERBS.values()),
        "embedder.engines.native",
        "indexer.pipeline.build",
        "indexer.stores.store",
        "web.app",
        "milvus_lite.adapter.grpc.server",
        "torch",
    ]
)


class Forked:
    """A process, with what is used of `subprocess.Popen`."""

    def __init__(self, process: ForkServerProcess) -> None:
        self._process = process
        assert process.pid is not None
        self.pid = process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        """Return the exit status. Raises subprocess.TimeoutExpired."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("pilotlight", timeout)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self._process.exitcode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def fork(function: Callable[..., None], *arguments: object) -> Forked:
    """Call a function in a process of its own."""
    process = _CONTEXT.Process(target=function, args=arguments)
    process.start()
    return Forked(process)


def start(
    line: Sequence[str], streams: tuple[IO[str], IO[str], IO[str]], environ: Mapping[str, str]
) -> Forked | subprocess.Popen[str]:
    """Start a command line. Its streams are files, as somebody would have to read a pipe all the while."""
    if any(environ[name] != os.environ.get(name) for name in environ if name.startswith(_READ_AT_START)):
        return start_anew(sys.executable, line, streams, environ)
    names = [f"/proc/{os.getpid()}/fd/{stream.fileno()}" for stream in streams]
    return fork(_run, list(line), names, dict(environ), Path.cwd())


def start_anew(
    python: str | Path, line: Sequence[str], streams: tuple[IO[str], IO[str], IO[str]], environ: Mapping[str, str]
) -> subprocess.Popen[str]:
    """Start a command line with a Python of its own, as a user does."""
    stdin, stdout, stderr = streams
    whole = [python, "-m", "rag.commands.cli", *line]
    return subprocess.Popen(whole, stdin=stdin, stdout=stdout, stderr=stderr, env=environ, text=True)


def _run(line: list[str], streams: list[str], environ: dict[str, str], folder: Path) -> None:
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    tempfile.tempdir = None  # as the environment says now
    for number, (name, flags) in enumerate(zip(streams, (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY), strict=True)):
        opened = os.open(name, flags | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = os.fdopen(0, closefd=False)  # multiprocessing closed it
    sys.argv = ["pilotlight", *line]
    try:
        sys.exit(main(line))
    finally:
        atexit._run_exitfuncs()
