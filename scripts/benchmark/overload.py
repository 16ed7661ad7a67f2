"""Measure how many answers per second a server gives to 1, 16 and 160 clients of wrk (`bench.py overload`)."""

import sys
import threading
import time
from pathlib import Path

import numpy as np

from benchmark.corpus import read_chunks, short_passages, write_folder
from benchmark.floor import floor
from benchmark.load import hammer, warm, write_script
from benchmark.measure import OURS, Row
from benchmark.serving import BenchmarkServer, pilotlight
from embedder import Embeddings, cpu
from indexer.config import BuildConfig
from indexer.generation.generation import Generation
from indexer.pipeline.build import build
from indexer.pipeline.progress import Progress
from rag.settings import load

PASSAGE_WORDS = 120
CLIENTS, OVERLOAD_CLIENTS = 16, 160
CAPACITY_SECONDS = 5
REPEATED_QUERIES = 30
_DEADLINE_SECONDS = 2.0
_PROBE_SECONDS = 0.05


def overload(source: Path, chunks: int, seconds: int, work: Path) -> list[Row]:
    """Measure a server with 1, 16 and 160 clients, and the CPU time of each component of a search.

    160 clients send queries for `seconds`. An index in the work folder is reused. Environment variables select the
    model, engine and precision. Table rows have the fields of `hammer` and, for 160 clients, `livez_p99_ms`.
    """
    ours = Embeddings(load().embedder_config())
    count = prepare_index(source, chunks, work, ours)
    script, index = work / "queries.lua", str(work / "index")
    options = ["--workers", str(cpu.detect().cores), "--threads", "1", "--deadline", str(_DEADLINE_SECONDS)]
    rows = []
    with warm(pilotlight("serve", "--index", index, *options, "--port", "{port}"), script) as server:
        for clients, repeated in ((CLIENTS, 0), (1, 0), (CLIENTS, REPEATED_QUERIES), (1, REPEATED_QUERIES)):
            name = f"{clients} client{'s' * (clients > 1)}" + f", {repeated} queries" * bool(repeated)
            rows.append({"name": name, **hammer(server, clients, CAPACITY_SECONDS, script, repeated)})
        watch = _Watch(server)
        row = hammer(server, OVERLOAD_CLIENTS, seconds, script)
        rows.append({"name": f"{OVERLOAD_CLIENTS} clients", **row, **watch.stop()})
    for row in rows:
        row |= {"name": f"{row['name']}, {count:,} passages, {ours.precision}", "contestant": OURS}
    return rows + floor(work, script)


def prepare_index(source: Path, chunks: int, work: Path, ours: Embeddings) -> int:
    """Build an index in the work folder if it is missing, and write queries for wrk. Returns the number of passages."""
    if not (work / "index").exists():
        passages = short_passages(read_chunks(source, chunks, ours), chunks, PASSAGE_WORDS)
        folder = write_folder(passages, work / "texts")
        build([str(folder)], work / "index", ours, BuildConfig(), progress=Progress(sys.stderr, quiet=True))
    generation = Generation.open(work / "index")
    count = generation.manifest.counts.chunks
    texts = [chunk.text for chunk in generation.chunks(np.arange(0, count, max(1, count // 2000)))]
    generation.close()
    write_script(make_queries(texts, ours), work / "queries.lua")
    return count


def make_queries(texts: list[str], embedder: Embeddings, count: int = 512) -> list[str]:
    """Make up to `count` different queries of 8 to 30 tokens from words of the texts."""
    queries: list[str] = []
    for number in range(count * 8):
        words = [word for word in texts[number * 31 % len(texts)].split() if word.isalpha()] or ["python"]
        start = number * 7 % len(words)
        query = " ".join([str(number), *words[start : start + 5 + number * 11 % 15]])
        if 8 <= embedder.count_tokens([query], role="query")[0] <= 30:
            queries.append(query)
    return queries[:count]


class _Watch:
    """A thread that requests `/livez` on new connections and measures the latency until `stop` is called."""

    def __init__(self, server: BenchmarkServer) -> None:
        self._server = server
        self._milliseconds: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(_PROBE_SECONDS):
            start = time.perf_counter()
            if self._server.get("/livez")[0] != 200:
                raise RuntimeError("/livez was not answered 200")
            self._milliseconds.append((time.perf_counter() - start) * 1000)

    def stop(self) -> Row:
        self._stop.set()
        self._thread.join()
        return {"livez_p99_ms": round(float(np.percentile(self._milliseconds, 99)), 1)}
