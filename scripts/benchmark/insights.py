"""A server that keeps what people ask beside one that does not: what it costs of the searches they answer."""

import statistics
import sys
from contextlib import ExitStack
from pathlib import Path

from benchmark.corpus import read_chunks, short_passages
from benchmark.load import WORDS, make_queries, measure, prepare
from benchmark.report import Row
from benchmark.serving import running
from embedder import Embeddings

WITHOUT, WITH = "without insights", "with insights"
CLIENTS = 16
SECONDS = 4.0  # a measurement


def insights(source: Path, chunks: int, repeat: int, work: Path) -> list[Row]:
    """Measure two servers of one index by turns, `repeat` pairs; the one that is not asked meanwhile is idle.

    `ratio` is the median of the ratios of the pairs in answers a second, and `cpu_ratio` in answers a second of
    processor time, which other work on the machine changes less; `middle` and `cpu_middle` hold the middle half.
    """
    ours = Embeddings()
    passages = prepare(short_passages(read_chunks(source, chunks, ours), chunks, WORDS), ours, work)
    queries = make_queries(passages, ours)
    line = [sys.executable, "-m", "rag.commands.cli", "serve", "--index", str(work / "index")]
    line += ["--workers", "2", "--port", "{port}"]
    kept = work / "insights"
    runs: dict[str, list[Row]] = {WITHOUT: [], WITH: []}
    with ExitStack() as stack:
        lines = {WITHOUT: line, WITH: [*line, "--insights", "--insights-dir", str(kept)]}
        servers = {name: stack.enter_context(running(each)) for name, each in lines.items()}
        for server in servers.values():
            server.await_workers()
            measure(server.port, CLIENTS, SECONDS, queries)  # warms up
        for turn in range(repeat):
            for name in sorted(servers, reverse=bool(turn % 2)):  # neither is always the first of a pair
                before = servers[name].workers_seconds()
                figures = measure(servers[name].port, CLIENTS, SECONDS, queries)
                used = servers[name].workers_seconds() - before
                runs[name].append(figures | {"cpu_ms": 1000 * used / figures["per_second"]})
    size = sum(path.stat().st_size for path in kept.iterdir())
    more: dict[str, Row] = {WITHOUT: {"ratio": 1.0}, WITH: {"mb": round(size / 1e6, 1)}}
    pairs = list(zip(runs[WITH], runs[WITHOUT], strict=True))
    more[WITH] |= _ratios("", [ours["per_second"] / other["per_second"] for ours, other in pairs])
    more[WITH] |= _ratios("cpu_", [other["cpu_ms"] / ours["cpu_ms"] for ours, other in pairs])
    return [
        {
            "name": f"{CLIENTS} clients, {len(passages)} chunks",
            "contestant": name,
            **{
                key: round(statistics.median(run[key] for run in each), 2)
                for key in ("median_ms", "p95_ms", "per_second")
            },
            "runs": len(each),
            "failed": sum(run["failed"] for run in each),
            **more[name],
        }
        for name, each in runs.items()
    ]


def _ratios(prefix: str, ratios: list[float]) -> Row:
    low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    return {f"{prefix}ratio": round(middle, 4), f"{prefix}middle": f"{low:.4f} to {high:.4f}"}
