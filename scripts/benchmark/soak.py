"""A server for a long time: mixed queries, hot swaps, and whether it grows."""

import json
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from benchmark import clients
from benchmark.corpus import read_chunks, short_passages, write_folder
from benchmark.load import WORDS, make_queries
from benchmark.report import OURS, Row
from benchmark.serving import Server, running
from embedder import Embeddings

CLIENTS = 8
SWAPS = 5
_SAMPLES = 200


def soak(source: Path, chunks: int, seconds: int, work: Path) -> list[Row]:
    """Serve mixed queries for so many seconds while the index is rebuilt and swapped five times.

    Rows have, beside the common fields, rss_growth_percent (from the fifth after the first swap to the last fifth),
    fds and threads of all workers (then, at the end), and swaps.
    """
    ours = Embeddings()
    texts = short_passages(read_chunks(source, chunks, ours), chunks, WORDS)
    folder = write_folder(texts, work / "texts")
    index = [sys.executable, "-m", "rag.commands.cli", "index", "--index", str(work / "index"), "--quiet", "--json"]
    _rebuild([*index, str(folder)])
    line = [sys.executable, "-m", "rag.commands.cli", "serve", "--index", str(work / "index"), "--port", "{port}"]
    with running(line) as server:
        server.await_workers()
        watch = _Watch(server, seconds / _SAMPLES)
        asking = subprocess.Popen(
            [sys.executable, clients.__file__, str(server.port), str(CLIENTS), str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        found: list[Any] = []
        queries = json.dumps(make_queries(texts, ours))
        reader = threading.Thread(target=lambda: found.append(json.loads(asking.communicate(queries)[0])))
        reader.start()
        generations = set()
        start = time.monotonic()
        for turn in range(SWAPS):
            reader.join(max(0.0, start + (turn + 1) * seconds / (SWAPS + 1) - time.monotonic()))
            (folder / "changing.md").write_text(f"# Changing\n\nRevision {turn} of this page.\n", encoding="utf-8")
            generations.add(_rebuild(index)["generation"])
        reader.join()
        watched = watch.end()
    ordered = sorted(found[0]["latencies_ms"])
    return [
        {
            "name": f"{seconds} s, {CLIENTS} clients, {len(texts):,} passages",
            "contestant": OURS,
            "per_second": round(len(ordered) / found[0]["seconds"], 1),
            "median_ms": round(statistics.median(ordered), 2),
            "p95_ms": round(ordered[int(len(ordered) * 0.95)], 2),
            "p99_ms": round(ordered[int(len(ordered) * 0.99)], 2),
            "runs": len(ordered),
            "failed": found[0]["failed"],
            "swaps": len(generations),
            **watched,
        }
    ]


def _rebuild(line: list[str]) -> Any:
    return json.loads(subprocess.run(line, capture_output=True, text=True, check=True).stdout)


class _Watch:
    """Looks at memory, open files and threads of the workers at even distances."""

    def __init__(self, server: Server, every: float) -> None:
        self._server = server
        self._every = every
        self._samples: list[tuple[float, int, int]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            resident = sum(rss for rss, _ in self._server.workers_memory())
            self._samples.append((resident, *self._server.workers_handles()))

    def end(self) -> Row:
        self._stop.set()
        self._thread.join()
        fifth = max(1, len(self._samples) // 5)
        early, late = self._samples[fifth : 2 * fifth], self._samples[-fifth:]
        first, last = (statistics.median(sample[0] for sample in part) for part in (early, late))
        fds, threads = ([int(statistics.median(s[place] for s in part)) for part in (early, late)] for place in (1, 2))
        return {
            "rss_mb": round(last),
            "rss_growth_percent": round((last / first - 1) * 100, 2),
            "fds": f"{fds[0]} → {fds[1]}",
            "threads": f"{threads[0]} → {threads[1]}",
        }
