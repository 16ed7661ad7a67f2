"""The floor of a search over HTTP: the processor's time for each of its parts, and that of the interpreter's lock."""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmark import traced_server
from benchmark.load import hammer, warm
from benchmark.measure import Row
from benchmark.serving import BenchmarkServer

CLIENTS = {"alone": 1, "at_16": 16, "at_160": 160}  # by column
TABLE = "parts of a search: µs of the processor an answer, one worker whose functions are timed"
_SECONDS = 6
_RATE = 200  # samples a second of py-spy


def floor(work: Path, script: Path) -> list[Row]:
    """Return a row for each part, with its µs an answer for one client, for 16 and for 160; then their sums."""
    line = [sys.executable, str(Path(traced_server.__file__)), "serve", "--index", str(work / "index")]
    line += ["--workers", "1", "--threads", "1", "--port", "{port}"]
    rows: dict[str, Row] = {}
    with warm(line, script) as server:
        for column, clients in CLIENTS.items():
            for name, value in _measure(server, clients, script).items():
                rows.setdefault(name, {"table": TABLE, "name": name})[column] = value
        rows["Python calls"] = {"table": TABLE, "name": "Python calls, of which ours"}
        rows["Python calls"]["alone"] = _calls(server, script)
    return list(rows.values())


def _measure(server: BenchmarkServer, clients: int, script: Path) -> Row:
    parts, (user, system) = _report(server)["parts"], server.cpu_seconds()
    row = hammer(server, clients, _SECONDS, script)
    after, (user_after, system_after) = _report(server)["parts"], server.cpu_seconds()

    def each(seconds: float) -> int:
        return round(seconds * 1e6 / int(row["runs"]))

    found: Row = {part: each((after[part][1] - parts[part][1]) / 1e9) for part in parts}
    total, user = each(user_after - user + system_after - system), each(user_after - user)
    unlocked = sum(took for part, took in found.items() if part.endswith(traced_server.UNLOCKED))
    found |= {
        "all else: the poller of connections, waking, the kernel": total - sum(found.values()),
        "**altogether**": total,
        "lock of the interpreter: user time less the parts with *": user - unlocked,
    }
    if shutil.which("py-spy"):
        found["lock of the interpreter, by sampling with py-spy"] = _sample_lock(server, clients, script)
    return found | {"answers a second": row["per_second"]}


def _calls(server: BenchmarkServer, script: Path) -> str:
    """Return how many Python calls a search has, from the application on, and how many of them are of the product."""
    server.get("/parts?calls")
    done = hammer(server, 1, 2, script)["runs"]
    calls = _report(server)["calls"]
    return f"{calls['all'] / done:.0f}, {calls['ours'] / done:.0f}"


def _report(server: BenchmarkServer) -> Any:
    return json.loads(server.get("/parts")[1])


def _sample_lock(server: BenchmarkServer, clients: int, script: Path) -> int:
    """Return the µs an answer for which a thread held the lock, in a run of its own: sampling stops the process."""
    with tempfile.TemporaryDirectory() as folder:
        samples = Path(folder) / "samples"
        line = ["py-spy", "record", "--gil", "--format", "raw", "--rate", str(_RATE), "--duration", str(_SECONDS - 2)]
        line += ["--pid", str(server.workers()[0]), "--output", str(samples)]
        with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
            row = hammer(server, clients, _SECONDS, script)
        stacks = samples.read_text(encoding="utf-8").splitlines()
    held = sum(int(stack.rpartition(" ")[2]) for stack in stacks) / (_RATE * (_SECONDS - 2))  # share of the time
    return round(held * 1e6 / float(row["per_second"]))
