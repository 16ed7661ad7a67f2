"""Interleaved timing: the contestants take turns, so that a machine whose speed drifts drifts for all of them."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def interleave(
    contestants: Mapping[str, Callable[[Any], object]], inputs: Sequence[Any], turns: int
) -> dict[str, list[float]]:
    """Time each contestant on all inputs, turn by turn; return seconds per call, by contestant.

    A turn is a run of inputs and not a single one: a server keeps its own weights in the cache, and contestants that
    alternated call by call would measure each other's evictions instead. One turn before is not counted. The order
    rotates, so that nobody always runs behind the same neighbour.
    """
    names = list(contestants)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(-1, turns):
        for offset in range(len(names)):
            name = names[(turn + offset) % len(names)]
            for value in inputs:
                start = time.perf_counter()
                contestants[name](value)
                if turn >= 0:
                    seconds[name].append(time.perf_counter() - start)
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
    """Return how many times faster ours is: the median of the ratios turn by turn."""
    return round(statistics.median(b / o for b, o in zip(baseline, ours, strict=True)), 2)
