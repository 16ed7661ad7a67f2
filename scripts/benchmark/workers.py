"""What the workers of a server share, and what more of them would give: computed for more cores than there are here."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from benchmark.load import hammer, warm
from benchmark.measure import OURS, Row
from benchmark.overload import contestants, ready_index
from benchmark.serving import mapped_megabytes, megabytes
from benchmark.simulation import SimulatedWorker, simulate_all
from embedder import Embeddings, cpu
from embedder.config import locate
from embedder.engines.native import WEIGHTS
from embedder.text_embedder import Embedder
from rag.settings import load

CLIENTS = (16, 160)
MEASURED, COMPUTED = (1, 2, 4), (4, 8, 16)  # workers
_TABLE = "computed"
_SIZES = (1, 2, 4, 8, 16, 32)  # texts of a run
_RUNS = 100  # of each size


def workers(source: Path, chunks: int, seconds: int, work: Path) -> list[Row]:
    """Measure 1, 2 and 4 workers under 16 and 160 clients, and their memory; compute 4, 8 and 16 with a core each.

    What is computed takes from the measurement the processor's time of an answer, and that of a run of the model beside
    a second process: more processes are taken to slow each other down no more than two do.
    """
    config = load().embedder_config()
    _, queries = ready_index(source, chunks, work, Embeddings(config))
    alone, beside = (run_times(queries, processes) for processes in (1, 2))
    cores, folder = cpu.detect().cores, locate(config.model)
    rows: list[Row] = []
    script = work / "queries.lua"
    for count in MEASURED:
        _, line, environ = next(contestants(count, 1, work, folder))
        with warm(line, script, environ) as server:
            for clients in CLIENTS:
                row = hammer(server, clients, seconds, script)
                rows.append({"name": _name(count, clients), "contestant": OURS, **row})
            rows[-2] |= memory([server.process.pid, *server.workers()])
    texts = rows[0]["texts_a_run"]
    python = max(0.1, rows[0]["cpu_ms"] - SimulatedWorker(0, alone).run_ms(texts) / texts)
    slower = ", ".join(f"{beside[size] / alone[size]:.2f} ({size})" for size in _SIZES)
    times = ", ".join(f"{alone[size]:.2f} ({size})" for size in _SIZES)
    note = f"Python {python:.2f} ms an answer; a run in ms (texts): {times}; times as long beside another: {slower}"
    rows.append({"table": _TABLE, "name": "from", "note": note})
    for clients in CLIENTS:
        for count in MEASURED:
            worker = SimulatedWorker(python, alone if count == 1 else beside, cores / count)
            rows.append({"table": _TABLE, "name": _name(count, clients) + ", as above"})
            rows[-1] |= simulate_all(worker, count, clients)
        one = simulate_all(SimulatedWorker(python, beside), 1, clients)["per_second"]
        for count in COMPUTED:
            row = simulate_all(SimulatedWorker(python, beside), count, clients)
            row["note"] = f"{row['per_second'] / count / one:.2f} of as many that have all clients each"
            rows.append({"table": _TABLE, "name": _name(count, clients) + ", a core each", **row})
    return rows


def _name(workers: int, clients: int) -> str:
    return f"{workers} worker{'s' * (workers > 1)}, {clients} clients"


def memory(pids: Sequence[int]) -> Row:
    """Return MB of the processes of a server, the first of which is not a worker: all, of a worker alone, weights."""
    own = [megabytes(pid, "smaps_rollup", "Private_Clean", "Private_Dirty") for pid in pids[1:]]
    rss, pss = np.mean([mapped_megabytes(pid, WEIGHTS) for pid in pids[1:]], axis=0)
    return {
        "pss_mb": round(sum(megabytes(pid, "smaps_rollup", "Pss") for pid in pids)),
        "private_mb": round(float(np.mean(own))),
        "note": f"weights in a worker: {rss:.1f} MB mapped, {pss:.1f} its share",
    }


def run_times(queries: Sequence[str], processes: int) -> Mapping[int, float]:
    """Return the median ms of a run of the model by its texts, in so many processes at once, of a thread each."""
    with get_context("spawn").Pool(processes) as pool:
        found = pool.map(_time_runs, [queries] * processes, chunksize=1)
    return {size: float(np.mean([times[size] for times in found])) for size in _SIZES}


def _time_runs(queries: Sequence[str]) -> dict[int, float]:
    embedder = Embedder(replace(load().embedder_config(), threads=1))
    rows = embedder.tokenize(queries, role="query")
    times: dict[int, list[float]] = {size: [] for size in _SIZES}
    for turn in range(_RUNS):
        for size in _SIZES:  # by turns: so the processes run the same most of the time
            texts = [rows[(turn * 7 + place) % len(rows)] for place in range(size)]
            start = time.process_time()  # without the wait for a core
            embedder.encode_ids(texts, role="query", tokens=True)
            times[size].append((time.process_time() - start) * 1000)
    return {size: float(np.median(took)) for size, took in times.items()}
