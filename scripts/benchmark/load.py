"""Throughput and latency over HTTP at 1 to 64 clients, against a server written by hand with Flask."""

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import faiss
import numpy as np

from benchmark import clients
from benchmark.corpus import read_chunks, short_passages, write_folder
from benchmark.report import OURS, Row
from benchmark.serving import running
from embedder import Embeddings
from embedder.model.spec import locate
from indexer.config import BuildConfig
from indexer.generation.generation import Generation
from indexer.pipeline.build import build
from indexer.pipeline.progress import progress_for

CLIENTS = (1, 4, 16, 64)
CONFIGURATIONS = ((1, 1), (1, 2), (2, 1), (2, 2))  # workers, threads a worker
BASELINE = "Flask + SentenceTransformer + FAISS"
WORDS = 120  # of a passage, as in an ordinary index
SECONDS = 3.0  # a measurement; a quarter more goes before it
_BASELINE_THREADS = 8  # gunicorn's, as its documentation suggests: 2 to 4 a core


def load(source: Path, chunks: int, repeat: int, work: Path) -> list[Row]:
    """Measure every configuration at every number of clients; `repeat` turns, of which the median is given.

    Rows have, beside the common fields, workers, threads, clients, per_second, p99_ms and failed; `ratio` is that of
    the throughputs. Clients run on the same cores as the server, and cost both contestants the same.
    """
    ours = Embeddings()
    texts = short_passages(read_chunks(source, chunks, ours), chunks, WORDS)
    passages = prepare(texts, ours, work)
    queries = make_queries(passages, ours)
    taken: dict[tuple[int, int, str, int], list[Row]] = {}
    for _ in range(repeat):
        for workers, threads in CONFIGURATIONS:
            for name, line, environ in contestants(workers, threads, work, locate(ours.config.model)):
                with running(line, environ) as server:
                    server.await_workers()
                    for count in CLIENTS:
                        figures = measure(server.port, count, SECONDS, queries)
                        taken.setdefault((workers, threads, name, count), []).append(figures)
    rows = []
    for (workers, threads, name, count), runs in taken.items():
        rate = _median(runs, "per_second")
        theirs = _median(taken[workers, threads, BASELINE, count], "per_second")
        row = {
            "name": f"{workers} workers × {threads} threads, {count} clients, {len(passages)} chunks",
            "contestant": name,
            **{key: _median(runs, key) for key in ("median_ms", "p95_ms", "p99_ms", "per_second")},
            "runs": sum(run["runs"] for run in runs),
            "failed": sum(run["failed"] for run in runs),
            "ratio": round(rate / theirs, 2),
        }
        rows.append(row | {"workers": workers, "threads": threads, "clients": count})
    return rows


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


def prepare(texts: list[str], embedder: Embeddings, work: Path) -> list[str]:
    """Write our index, and the baseline's with the same passages and vectors; return the passages."""
    folder = write_folder(texts, work / "texts")
    build([str(folder)], work / "index", embedder, BuildConfig(), progress=progress_for(sys.stderr, quiet=True))
    return write_baseline(work)


def write_baseline(work: Path) -> list[str]:
    """Write the baseline's index, with the passages and vectors of ours; return the passages."""
    generation = Generation.open(work / "index")
    rows = np.arange(generation.chunk_count)
    passages = [chunk.text for chunk in generation.chunks(rows)]
    theirs = work / "baseline"
    theirs.mkdir(exist_ok=True)
    index = faiss.IndexFlatIP(generation.dimension)
    index.add(generation.vectors(rows))
    faiss.write_index(index, str(theirs / "vectors.faiss"))
    (theirs / "texts.json").write_text(json.dumps(passages), encoding="utf-8")
    generation.close()
    return passages


def contestants(workers: int, threads: int, work: Path, model: Path) -> Iterator[tuple[str, list[str], dict[str, str]]]:
    """Give name, command line and environment of each server."""
    ours = [sys.executable, "-m", "rag.commands.cli", "serve", "--index", str(work / "index")]
    yield OURS, [*ours, "--workers", str(workers), "--threads", str(threads), "--port", "{port}"], {}
    theirs = [sys.executable, "-m", "gunicorn", "-k", "gthread", "--workers", str(workers)]
    theirs += ["--threads", str(_BASELINE_THREADS), "--keep-alive", "15", "--timeout", "120", "--log-level", "error"]
    theirs += ["--chdir", str(Path(__file__).parent), "flask_baseline:app", "--bind", "127.0.0.1:{port}"]
    folders = {"BASELINE_MODEL": str(model), "BASELINE_INDEX": str(work / "baseline")}
    # without a limit each worker would use every core, and they would fight
    yield BASELINE, theirs, folders | {"OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}


def measure(port: int, count: int, seconds: float, queries: list[str]) -> Row:
    """Run the clients in a process of their own; return throughput and latencies."""
    line = [sys.executable, clients.__file__, str(port), str(count), str(seconds)]
    done = subprocess.run(line, input=json.dumps(queries), capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
    ordered = sorted(result["latencies_ms"])
    if not ordered:
        raise RuntimeError(f"no request of {count} clients was answered: {result['failed']} failed")
    return {
        "per_second": round(len(ordered) / result["seconds"], 1),
        "median_ms": round(statistics.median(ordered), 2),
        "p95_ms": round(ordered[int(len(ordered) * 0.95)], 2),
        "p99_ms": round(ordered[int(len(ordered) * 0.99)], 2),
        "runs": len(ordered),
        "failed": result["failed"],
    }


def _median(runs: list[Row], key: str) -> float:
    return float(statistics.median(run[key] for run in runs))
