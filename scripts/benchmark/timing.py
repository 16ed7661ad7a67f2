"""Interleaved timing: the contestants take turns, so that a machine whose speed drifts drifts for all of them."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def interleave(
    contestants: Mapping[str, Callable[[Any], object]],
    inputs: Sequence[Any],
    turns: int,
    *,
    settle: float = 0,
    rehearsals: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Time each contestant on all inputs, turn by turn; return seconds per call, by contestant.

    A turn is a run of inputs and not a single one: a server keeps its own weights in the cache, and contestants that
    alternated call by call would measure each other's evictions instead. For the same reason calls in the first
    `settle` seconds of a turn are not counted, while the neighbour's threads stop spinning; nor are the first
    `rehearsals` turns. The order rotates, so that nobody always runs behind the same neighbour. What has to be done
    after a call and is not to be timed, such as stopping a server, is what the call returns: if it is callable, it is
    called. With `time.process_time` as clock, what other processes take from this one does not count.
    """
    names = list(contestants)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(-rehearsals, turns):
        for offset in range(len(names)):
            name = names[(turn + offset) % len(names)]
            call = contestants[name]
            begin = time.perf_counter()
            while settle and time.perf_counter() - begin < settle:
                _finish(call(inputs[0]))
            for value in inputs:
                start = clock()
                after = call(value)
                if turn >= 0:
                    seconds[name].append(clock() - start)
                _finish(after)
    return seconds


def _finish(after: object) -> None:
    if callable(after):
        after()


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
