"""A simulation of workers that share no batches, under clients who ask again as soon as they have an answer.

A worker has one interpreter, which its threads have for a turn each, and one model, which takes all that wait in one
run. The next run begins when the thread of the last one has had the interpreter. The two share the worker's cores
equally. Random by a seed; there is no clock.
"""

import random
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from benchmark.measure import Row
from rag.query.served_model import MAX_TEXTS

TURN_MS = 1.0  # the server's `sys.setswitchinterval`
_NOTHING = 1e-9  # ms


@dataclass(frozen=True)
class SimulatedWorker:
    """What one worker needs, in ms of a core, and how many cores it has."""

    python: float  # of a request, half of it before the model's run
    runs: Mapping[int, float]  # of the model, by texts
    cores: float = 1.0
    tell: float = 0.1  # of a run's Python
    spread: float = 0.5  # of a request's Python: uniform within so much of it, more or less

    def run_ms(self, texts: float) -> float:
        """Return the ms of a run, between those that are known."""
        sizes = sorted(self.runs)
        return float(np.interp(texts, sizes, [self.runs[size] for size in sizes]))


@dataclass(slots=True)
class _Task:
    """What a thread needs the interpreter for: a request `before` and `after` its run, or to `tell` others of a run."""

    what: str
    client: int
    left: float  # ms


def simulate(worker: SimulatedWorker, clients: int, answers: int = 4000, seed: int = 1) -> Row:
    """Return answers a second, latencies and texts a run of one worker."""
    rng = random.Random(seed)  # noqa: S311 - nothing secret

    def python() -> float:
        return worker.python / 2 * rng.uniform(1 - worker.spread, 1 + worker.spread)

    now, runs, model_left, turn_left = 0.0, 0, 0.0, TURN_MS
    batch: list[int] = []  # in the model, or run and not yet told
    waiting: deque[int] = deque()
    asked = [0.0] * clients
    interpreter = deque(_Task("before", client, python()) for client in range(clients))
    took: list[float] = []
    while len(took) < answers:
        if waiting and not batch:
            batch = [waiting.popleft() for _ in range(min(len(waiting), MAX_TEXTS))]
            model_left, runs = worker.run_ms(len(batch)), runs + 1
        left = [model_left] if model_left else []
        left += [min(interpreter[0].left, turn_left)] if interpreter else []
        step = min(left)
        now += step * max(1.0, len(left) / worker.cores)
        if interpreter:
            task = interpreter[0]
            task.left, turn_left = task.left - step, turn_left - step
            if task.left > _NOTHING and turn_left <= _NOTHING:
                interpreter.rotate(-1)
            elif task.left <= _NOTHING:
                interpreter.popleft()
                if task.what == "before":
                    waiting.append(task.client)
                elif task.what == "tell":
                    interpreter.extend(_Task("after", client, python()) for client in batch)
                    batch = []
                else:
                    took.append(now - asked[task.client])
                    asked[task.client] = now
                    interpreter.append(_Task("before", task.client, python()))
            if task.left <= _NOTHING or turn_left <= _NOTHING:
                turn_left = TURN_MS
        if model_left:
            model_left -= step
            if model_left <= _NOTHING:
                model_left = 0.0
                interpreter.append(_Task("tell", batch[0], worker.tell))
    return {
        "per_second": round(1000 * len(took) / now, 1),
        "median_ms": round(float(np.median(took)), 2),
        "p99_ms": round(float(np.percentile(took, 99)), 2),
        "texts_a_run": round(len(took) / max(1, runs), 2),
    }


def simulate_all(worker: SimulatedWorker, workers: int, clients: int) -> Row:
    """Return the same of several workers that have a share of the clients each; those of a worker stay with it."""
    each = [simulate(worker, share, seed=seed) for seed, share in enumerate(_shares(clients, workers)) if share]
    rate = sum(row["per_second"] for row in each)
    return {
        "per_second": round(rate, 1),
        "median_ms": round(float(np.mean([row["median_ms"] for row in each])), 2),
        "p99_ms": max(row["p99_ms"] for row in each),
        "texts_a_run": round(rate / sum(row["per_second"] / row["texts_a_run"] for row in each), 2),
    }


def _shares(clients: int, workers: int) -> list[int]:
    return [clients // workers + (number < clients % workers) for number in range(workers)]
