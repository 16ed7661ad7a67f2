"""Measure the CPU time of each component of a search over HTTP, and for how much of this time the GIL is held."""

import json
import sys
from pathlib import Path
from typing import Any

from benchmark import traced_server
from benchmark.load import hammer, warm
from benchmark.measure import Row
from benchmark.serving import BenchmarkServer

CLIENTS = {"alone": 1, "at_16": 16, "at_160": 160}
TABLE = "CPU time of the components of a search, in µs per answer, with one worker"
_SECONDS = 6


def floor(work: Path, script: Path) -> list[Row]:
    """Return a table row for each component: its CPU time per answer in µs for several numbers of clients."""
    line = [sys.executable, str(Path(traced_server.__file__)), "serve", "--index", str(work / "index")]
    line += ["--workers", "1", "--threads", "1", "--port", "{port}"]
    rows: dict[str, Row] = {}
    with warm(line, script) as server:
        for column, clients in CLIENTS.items():
            for name, value in _measure_components(server, clients, script).items():
                rows.setdefault(name, {"table": TABLE, "name": name})[column] = value
    return list(rows.values())


def _measure_components(server: BenchmarkServer, clients: int, script: Path) -> Row:
    before, (user, system) = _fetch_report(server), server.cpu_seconds()
    row = hammer(server, clients, _SECONDS, script)
    after, (user_after, system_after) = _fetch_report(server), server.cpu_seconds()

    def each(seconds: float) -> int:
        return round(seconds * 1e6 / int(row["runs"]))

    times: Row = {name: each((after[name][1] - before[name][1]) / 1e9) for name in before}
    total, user = each(user_after - user + system_after - system), each(user_after - user)
    unlocked = sum(time for name, time in times.items() if name.endswith(traced_server.UNLOCKED))
    return times | {
        "rest: polling of connections, waking of threads, the kernel": total - sum(times.values()),
        "**total**": total,
        "GIL: user time without the components with *": user - unlocked,
        "answers per second": row["per_second"],
    }


def _fetch_report(server: BenchmarkServer) -> Any:
    return json.loads(server.get("/components")[1])
