"""Measure the CPU time of each component of a search over HTTP, and the CPU time in which the GIL is held."""

import json
import sys
from pathlib import Path
from typing import Any

from benchmark import traced_server
from benchmark.load import hammer, warm
from benchmark.measure import Row
from benchmark.serving import BenchmarkServer

CLIENTS = {"alone": 1, "at_16": 16, "at_160": 160}
TABLE = "components of a search: µs of the processor an answer, one worker whose functions are timed"
_SECONDS = 6


def floor(work: Path, script: Path) -> list[Row]:
    """Return a row for each component, and rows of sums: the CPU time in µs for an answer at 1, 16 and 160 clients."""
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
        "all else: the poller of connections, waking, the kernel": total - sum(times.values()),
        "**altogether**": total,
        "lock of the interpreter: user time less the components with *": user - unlocked,
        "answers a second": row["per_second"],
    }


def _fetch_report(server: BenchmarkServer) -> Any:
    return json.loads(server.get("/components")[1])
