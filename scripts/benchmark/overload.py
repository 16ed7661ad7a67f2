"""A server under wrk: what it can do, and what becomes of ten times that. Needs the program wrk."""

import json
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import faiss
import numpy as np

from benchmark.corpus import read_chunks, short_passages, write_folder
from benchmark.floor import floor
from benchmark.load import TIMES, hammer, warm, write_script
from benchmark.measure import OURS, Row
from benchmark.serving import BenchmarkServer
from embedder import Embeddings, cpu
from embedder.config import locate
from indexer.config import BuildConfig
from indexer.generation.generation import Generation
from indexer.pipeline.build import build
from indexer.pipeline.progress import Progress
from rag.settings import load

BASELINE = "Flask + SentenceTransformer + FAISS"
WORDS = 120  # of a passage, as in an ordinary index
CLIENTS = 16
OVERLOAD = 10  # as many clients as that, none of which waits a moment when it is told to come later
TURNS = 3
CAPACITY_S = 5  # a turn
REPEATED = 30  # queries
DEADLINE_S = 2.0
_BASELINE_THREADS = 8  # gunicorn's, as its documentation suggests: 2 to 4 a core
_PROBE_S = 0.05


def overload(source: Path, chunks: int, seconds: int, work: Path) -> list[Row]:
    """Measure 16 clients beside Flask, one client, repeated queries, 160 clients for so many seconds, and `floor`.

    Uses the index in the work folder if there is one. Model, engine and precision are those of the environment. Rows
    have the fields of `hammer` and, under overload, livez_p99_ms and rss_mb.
    """
    config = load().embedder_config()
    ours = Embeddings(config)
    count, _ = ready_index(source, chunks, work, ours)
    script = work / "queries.lua"
    servers: dict[str, BenchmarkServer] = {}
    taken: dict[str, list[Row]] = {}
    with ExitStack() as stack:
        for name, line, environ in contestants(cpu.detect().cores, 1, work, locate(config.model)):
            options = ["--deadline", str(DEADLINE_S)] if name == OURS else []
            servers[name] = stack.enter_context(warm([*line, *options], script, environ))
        for _ in range(TURNS):  # a server that is not asked costs the others nothing
            for name, server in servers.items():
                taken.setdefault(name, []).append(hammer(server, CLIENTS, CAPACITY_S, script))
        middle = {name: _middle(runs) for name, runs in taken.items()}
        theirs = middle[BASELINE]["per_second"]
        rows: list[Row] = [
            {"name": f"{CLIENTS} clients", "contestant": name, **row, "ratio": round(row["per_second"] / theirs, 2)}
            for name, row in middle.items()
        ]
        for clients, repeated in ((1, 0), (CLIENTS, REPEATED), (1, REPEATED)):
            what = f"{clients} client{'s' * (clients > 1)}" + f", {REPEATED} queries" * bool(repeated)
            row = hammer(servers[OURS], clients, CAPACITY_S, script, repeated)
            rows.append({"name": what, "contestant": OURS, **row})
        watch = _Watch(servers[OURS])
        swamped = hammer(servers[OURS], CLIENTS * OVERLOAD, seconds, script)
        rows.append({"name": f"{CLIENTS * OVERLOAD} clients", "contestant": OURS, **swamped, **watch.end()})
    for row in rows:
        row["name"] += f", {count:,} passages, {ours.precision}"
    return rows + floor(work, script)


def _middle(runs: list[Row]) -> Row:
    """Return the medians of some runs, and their sums where something is counted."""
    measured = [key for key in ("per_second", *TIMES, "cpu_ms") if key in runs[0]]
    medians = {key: statistics.median(run[key] for run in runs) for key in measured}
    counts = {key: sum(run[key] for run in runs) for key in ("runs", "failed")}
    return {**medians, **counts, "statuses": dict(sum((Counter(run["statuses"]) for run in runs), Counter[str]()))}


def ready_index(source: Path, chunks: int, work: Path, ours: Embeddings) -> tuple[int, list[str]]:
    """Have an index in the work folder, the baseline's, and queries for wrk beside it.

    Returns how many passages there are, and the queries.
    """
    if not (work / "index").exists():
        folder = write_folder(short_passages(read_chunks(source, chunks, ours), chunks, WORDS), work / "texts")
        build([str(folder)], work / "index", ours, BuildConfig(), progress=Progress(sys.stderr, quiet=True))
    texts = write_baseline(work)
    some = texts[:: max(1, len(texts) // 2000)]
    queries = make_queries(some, ours)
    write_script(queries, work / "queries.lua")
    return len(texts), queries


def make_queries(texts: list[str], embedder: Embeddings, count: int = 512) -> list[str]:
    """Cut queries of 8 to 30 tokens out of the texts; all different."""
    queries: list[str] = []
    for number in range(count * 8):
        words = [word for word in texts[number * 31 % len(texts)].split() if word.isalpha()] or ["python"]
        start = number * 7 % len(words)
        query = " ".join([str(number), *words[start : start + 5 + number * 11 % 15]])
        if 8 <= embedder.count_tokens([query], role="query")[0] <= 30:
            queries.append(query)
    return queries[:count]


def write_baseline(work: Path) -> list[str]:
    """Write the baseline's index, with the passages and vectors of ours; return the passages."""
    generation = Generation.open(work / "index")
    rows = np.arange(generation.manifest.counts.chunks)
    passages = [chunk.text for chunk in generation.chunks(rows)]
    theirs = work / "baseline"
    theirs.mkdir(exist_ok=True)
    index = faiss.IndexFlatIP(generation.manifest.counts.dimension)
    index.add(generation.vectors(rows))
    faiss.write_index(index, str(theirs / "vectors.faiss"))
    (theirs / "texts.json").write_text(json.dumps(passages), encoding="utf-8")
    generation.close()
    return passages


def contestants(workers: int, threads: int, work: Path, model: Path) -> Iterator[tuple[str, list[str], dict[str, str]]]:
    """Give name, command line and environment of each server."""
    ours = [sys.executable, "-m", "rag.commands.cli", "serve", "--index", str(work / "index")]
    ours += ["--workers", str(workers), "--threads", str(threads), "--log-format", "text", "--port", "{port}"]
    yield OURS, ours, {}
    theirs = [sys.executable, "-m", "gunicorn", "-k", "gthread", "--workers", str(workers)]
    theirs += ["--threads", str(_BASELINE_THREADS), "--keep-alive", "15", "--timeout", "120", "--log-level", "error"]
    theirs += ["--chdir", str(Path(__file__).parent), "flask_baseline:app", "--bind", "127.0.0.1:{port}"]
    folders = {"BASELINE_MODEL": str(model), "BASELINE_INDEX": str(work / "baseline")}
    # without a limit each worker would use every core, and they would fight
    yield BASELINE, theirs, folders | {"OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}


class _Watch:
    """Asks for `/livez` again and again on new connections, and looks at the workers' memory."""

    def __init__(self, server: BenchmarkServer) -> None:
        self._server = server
        self._took: list[float] = []
        self._memory: list[float] = []  # MB of all workers
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(_PROBE_S):
            start = time.perf_counter()
            if self._server.get("/livez")[0] != 200:
                raise RuntimeError("/livez was not answered 200")
            self._took.append((time.perf_counter() - start) * 1000)
            self._memory.append(sum(rss for rss, _ in self._server.workers_memory()))

    def end(self) -> Row:
        self._stop.set()
        self._thread.join()
        return {"livez_p99_ms": round(float(np.percentile(self._took, 99)), 1), "rss_mb": round(max(self._memory))}
