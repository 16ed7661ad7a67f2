"""Interleaved timing, and the machine that it was done on.

Contestants take turns, so that a machine whose speed drifts drifts for all of them.
"""

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from embedder import cpu

PACKAGES = "torch sentence-transformers transformers langchain-community faiss-cpu tokenizers onnxruntime openvino nncf"


def interleave(
    contestants: Mapping[str, Callable[[Any], object]],
    inputs: Sequence[Any],
    turns: int,
    *,
    settle: float = 0,
    rehearsals: int = 1,
) -> dict[str, list[float]]:
    """Time each contestant on all inputs, turn by turn; return seconds per call, by contestant.

    A turn is a run of inputs and not a single one: a server keeps its own weights in the cache, and contestants that
    alternated call by call would measure each other's evictions. So calls in the first `settle` seconds of a turn are
    not counted either, nor are the first `rehearsals` turns. The order rotates, so that nobody always runs behind the
    same neighbour. If a call returns a function, that is called once the clock has stopped, as to stop a server.
    """
    names = list(contestants)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(-rehearsals, turns):
        for offset in range(len(names)):
            name = names[(turn + offset) % len(names)]
            call = contestants[name]
            begin = time.perf_counter()
            while settle and time.perf_counter() - begin < settle:
                call(inputs[0])
            for value in inputs:
                start = time.perf_counter()
                after = call(value)
                if turn >= 0:
                    seconds[name].append(time.perf_counter() - start)
                if callable(after):
                    after()
    return seconds


def summarise(seconds: Sequence[float]) -> dict[str, float]:
    """Return median, 95th percentile and number of runs; times in milliseconds."""
    ordered = sorted(seconds)
    return {
        "median_ms": round(statistics.median(ordered) * 1000, 3),
        "p95_ms": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))] * 1000, 3),
        "runs": len(ordered),
    }


def ratio(baseline: Sequence[float], ours: Sequence[float]) -> float:
    """Return how many times faster ours is: the median of the ratios run by run."""
    return round(statistics.median(b / o for b, o in zip(baseline, ours, strict=True)), 2)


def describe() -> dict[str, Any]:
    """Return processor, cores, versions and date."""
    processor = cpu.detect()
    versions = {}
    for name in PACKAGES.split():
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return {
        "cpu": processor.name,
        "isa": processor.isa,
        "cores": processor.cores,
        "python": platform.python_version(),
        "versions": versions,
        "date": datetime.now(UTC).date().isoformat(),
    }


class OtherWork:
    """How many cores were busy with others' work since this was made: figures of a disturbed run are not worth much."""

    def __init__(self) -> None:
        self._start = time.monotonic(), _busy_seconds(), _own_seconds()

    def cores(self) -> float:
        """Return cores busy for other processes and machines, on average."""
        since, busy, own = self._start
        others = (_busy_seconds() - busy) - (_own_seconds() - own)
        return round(max(0.0, others) / max(1e-9, time.monotonic() - since), 2)


def _busy_seconds() -> float:
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    return sum(os.times()[:4])  # user and system, of this process and of those it waited for
