"""A server as a process: how long it takes to its first answer, and how much memory its worker holds."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

_START_SECONDS = 120
_POLL_SECONDS = 0.005  # nothing can be awaited before the server listens


@dataclass(frozen=True)
class Server:
    """A running `pilotlight serve`."""

    process: subprocess.Popen[bytes]
    port: int

    def ask(self, query: str) -> str | None:
        """Return the best passage's text; None while the server does not listen or is not ready."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_START_SECONDS)
        try:
            connection.request("GET", f"/api/v1/search?k=1&q={quote(query)}")
            answer = connection.getresponse()
            body = answer.read()
        except ConnectionError:
            return None
        finally:
            connection.close()
        return str(json.loads(body)["hits"][0]["text"]) if answer.status == 200 else None

    def first_answer(self, query: str) -> str:
        """Ask until there is an answer. Raises RuntimeError if the server ends or takes too long."""
        end = time.monotonic() + _START_SECONDS
        while self.process.poll() is None and time.monotonic() < end:
            text = self.ask(query)
            if text is not None:
                return text
            time.sleep(_POLL_SECONDS)
        raise RuntimeError(f"the server on port {self.port} gave no answer: run pilotlight serve to see why")

    def workers_memory(self) -> list[tuple[float, float]]:
        """Return resident and proportional set size of each worker process, in MB."""
        master = self.process.pid
        workers = Path(f"/proc/{master}/task/{master}/children").read_text(encoding="utf-8").split()
        return [(_megabytes(pid, "status", "VmRSS"), _megabytes(pid, "smaps_rollup", "Pss")) for pid in workers]


@contextmanager
def serving(index: Path) -> Iterator[Server]:
    """Start a server with one worker on an index, and stop it in the end."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    line = [sys.executable, "-m", "rag.cli", "serve", "--index", str(index), "--port", str(port), "--workers", "1"]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ)
    try:
        yield Server(process, port)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def _megabytes(pid: str, file: str, field: str) -> float:
    text = Path(f"/proc/{pid}/{file}").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(f"{field}:")) / 1024
