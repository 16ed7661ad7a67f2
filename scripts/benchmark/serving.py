"""Start a server process, wait for its first answer, and measure the memory and CPU time of its workers."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

_START_SECONDS = 120
_STREAK = 20
_TICKS = os.sysconf("SC_CLK_TCK")
_POLL_SECONDS = 0.005


@dataclass(frozen=True)
class BenchmarkServer:
    """A running server to measure."""

    process: subprocess.Popen[bytes]
    port: int

    def get(self, path: str) -> tuple[int, bytes]:
        """Send a GET request on a new connection. Returns status and body. The status is 0 if the connection fails."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_START_SECONDS)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except ConnectionError:
            return 0, b""
        finally:
            connection.close()

    def ask(self, query: str) -> str | None:
        """Return the text of the best passage for a query, or None if the server is not ready yet."""
        status, body = self.get(f"/api/v1/search?k=1&q={quote(query)}")
        return str(json.loads(body)["hits"][0]["text"]) if status == 200 else None

    def first_answer(self, query: str) -> str:
        """Repeat a query until the server answers it. Raises RuntimeError if the server ends or takes too long."""
        end = time.monotonic() + _START_SECONDS
        while self.process.poll() is None and time.monotonic() < end:
            text = self.ask(query)
            if text is not None:
                return text
            time.sleep(_POLL_SECONDS)
        raise RuntimeError(f"the server on port {self.port} gave no answer: run pilotlight serve to see why")

    def await_workers(self, ready_path: str = "/readyz") -> None:
        """Wait until all workers are ready. Raises RuntimeError if the server ends or takes too long."""
        end = time.monotonic() + _START_SECONDS
        streak = 0
        while streak < _STREAK:  # many successes, because each worker loads the model separately
            streak = streak + 1 if self.get(ready_path)[0] == 200 else 0
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the server on port {self.port} did not start: run its command line to see why")
            time.sleep(0.1)

    def workers(self) -> list[int]:
        """Return the process ids of the workers."""
        main = self.process.pid
        return list(map(int, Path(f"/proc/{main}/task/{main}/children").read_text(encoding="utf-8").split()))

    def workers_memory(self) -> list[tuple[float, float]]:
        """Return the resident and the proportional set size of each worker process, in MB."""
        return [(megabytes(pid, "status", "VmRSS"), megabytes(pid, "smaps_rollup", "Pss")) for pid in self.workers()]

    def cpu_seconds(self) -> tuple[float, float]:
        """Return the user and the system CPU time of all workers, in seconds."""
        stats = [Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2] for pid in self.workers()]
        user, system = zip(*(map(int, stat.split()[11:13]) for stat in stats), strict=True)
        return sum(user) / _TICKS, sum(system) / _TICKS


def pilotlight(*arguments: str) -> list[str]:
    """Return the command line that starts Pilotlight."""
    return [sys.executable, "-m", "rag.commands.cli", *arguments]


@contextmanager
def running(line: list[str], environ: Mapping[str, str] | None = None) -> Iterator[BenchmarkServer]:
    """Start a server with a command line, in which a free port replaces "{port}". Stop the server after the block."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    command = [word.replace("{port}", str(port)) for word in line]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | (environ or {})
    )
    try:
        yield BenchmarkServer(process, port)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def megabytes(pid: int, file: str, field: str) -> float:
    """Return a field of the file `status` or `smaps_rollup` of a process in /proc, in MB."""
    lines = Path(f"/proc/{pid}/{file}").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) / 1024
