"""Send queries to a server with the program wrk, and measure answers per second, latencies and CPU time."""

import itertools
import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from benchmark.measure import Row
from benchmark.serving import BenchmarkServer, running

TIMES = ("median_ms", "p95_ms", "p99_ms", "max_ms")
_RUNS = itertools.count(1)
_MAX_ANSWERS_PER_RUN = 1_000_000
_SCRIPT = """
local queries = {QUERIES}
codes = {}
function setup(started) thread = started end
function init(args) turn, repeats = tonumber(args[1]), tonumber(args[2]) end
function request()
  turn = turn + 1
  local query = repeats == 0 and queries[turn % #queries + 1] .. "%20" .. turn or queries[turn % repeats + 1]
  return wrk.format("GET", "ROUTE" .. query)
end
function response(status) codes[status] = (codes[status] or 0) + 1 end
function done(summary, latency, requests)
  local counts = {}
  for status, count in pairs(thread:get("codes")) do counts[#counts + 1] = string.format('"%d": %d', status, count) end
  local errors = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout
  io.stderr:write(string.format(
    '{"seconds": %f, "median_ms": %f, "p95_ms": %f, "p99_ms": %f, "max_ms": %f, "broken": %d, "statuses": {%s}}',
    summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(95) / 1e3, latency:percentile(99) / 1e3,
    latency.max / 1e3, errors, table.concat(counts, ", ")))
end
"""


def write_script(queries: Sequence[str], path: Path, route: str = "/api/v1/search?k=10&q=") -> None:
    """Write a Lua script for wrk, which sends these queries to a route."""
    lines = ", ".join(json.dumps(quote(query)) for query in queries)
    path.write_text(_SCRIPT.replace("QUERIES", lines).replace("ROUTE", route), encoding="utf-8")


@contextmanager
def warm(
    line: list[str], script: Path, environ: Mapping[str, str] | None = None, ready_path: str = "/readyz"
) -> Iterator[BenchmarkServer]:
    """Start a server as `running` does, and send queries to it for 3 seconds, so that every worker is warm."""
    if shutil.which("wrk") is None:
        raise RuntimeError("wrk is not installed: apt-get install wrk")
    with running(line, environ) as server:
        server.await_workers(ready_path)
        hammer(server, 16, 3, script)
        yield server


def hammer(server: BenchmarkServer, clients: int, seconds: int, script: Path, repeated: int = 0) -> Row:
    """Send queries from several clients at the same time, for some seconds.

    Args:
        repeated: number of different queries, which are sent again and again. With 0, no query is sent twice.

    Returns:
        Answers with status 200 per second, latencies and CPU time per answer in ms, and counts of answers by status.
    """
    line = ["wrk", "-t1", f"-c{clients}", f"-d{seconds}", "--timeout", "30s", "-s", str(script)]
    line += [f"http://127.0.0.1:{server.port}", "--", str(next(_RUNS) * _MAX_ANSWERS_PER_RUN), str(repeated)]
    cpu_before = sum(server.cpu_seconds())
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    cpu_s = sum(server.cpu_seconds()) - cpu_before
    summary: dict[str, Any] = json.loads(done.stderr)
    answers, answered = sum(summary["statuses"].values()), summary["statuses"].get("200", 0)
    return {
        "per_second": round(answered / summary["seconds"], 1),
        **{key: round(summary[key], 2) for key in TIMES},
        "cpu_ms": round(cpu_s * 1000 / max(1, answers), 2),
        "runs": answers,
        "failed": answers - answered - summary["statuses"].get("503", 0) + summary["broken"],
        "statuses": summary["statuses"],
    }
