"""Interleaved timing: the contestants take turns, so that a machine whose speed drifts drifts for all of them."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def interleave(
    contestants: Mapping[str, Callable[[Any], object]], inputs: Sequence[Any], warmup: int = 3
) -> dict[str, list[float]]:
    """Time each contestant on each input in turn; return seconds per call, by contestant.

    The order within a turn rotates, so that nobody always runs behind the same neighbour.
    """
    names = list(contestants)
    for name in names:
        for value in inputs[:warmup]:
            contestants[name](value)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn, value in enumerate(inputs):
        for offset in range(len(names)):
            name = names[(turn + offset) % len(names)]
            start = time.perf_counter()
            contestants[name](value)
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
