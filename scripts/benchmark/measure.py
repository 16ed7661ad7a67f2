"""Time functions in turn, describe the machine, and format results as Markdown tables.

The compared functions (contestants) are timed in turn, so that changes in the machine's speed affect all of them.
"""

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from itertools import groupby
from pathlib import Path
from typing import Any

from embedder import cpu

Row = dict[str, Any]
OURS = "Pilotlight"
PACKAGES = "torch sentence-transformers transformers langchain-community faiss-cpu tokenizers onnxruntime openvino nncf"


def interleave(
    contestants: Mapping[str, Callable[[Any], object]],
    inputs: Sequence[Any],
    turns: int,
    *,
    settle: float = 0,
    rehearsals: int = 1,
) -> dict[str, list[float]]:
    """Time functions (contestants) in turn on the same inputs. Returns the seconds of each call, by contestant.

    In a turn, each contestant is called with all inputs before the next contestant, because contestants that alternate
    after every call would evict the others' weights from the cache. For the same reason, calls in the first `settle`
    seconds of a contestant are not counted. The first `rehearsals` turns are not counted either. The order of
    contestants rotates. A function that a call returns, such as one that stops a server, is called without being timed.
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
    """Return median and 95th percentile in milliseconds, and the number of runs."""
    ordered = sorted(seconds)
    return {
        "median_ms": round(statistics.median(ordered) * 1000, 3),
        "p95_ms": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))] * 1000, 3),
        "runs": len(ordered),
    }


def ratio(baseline: Sequence[float], ours: Sequence[float]) -> float:
    """Divide the time of the baseline by our time for each run, and return the median of these ratios."""
    return round(statistics.median(b / o for b, o in zip(baseline, ours, strict=True)), 2)


def describe() -> dict[str, Any]:
    """Return the processor, number of cores, versions of packages, and date."""
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
    """Measures how busy other processes and virtual machines keep the processor, because they disturb the benchmark."""

    def __init__(self) -> None:
        self._start = time.monotonic(), _busy_seconds(), _process_seconds()

    def cores(self) -> float:
        """Return the mean number of cores that other work has used since this object was created."""
        since, busy, process = self._start
        seconds = (_busy_seconds() - busy) - (_process_seconds() - process)
        return round(max(0.0, seconds) / max(1e-9, time.monotonic() - since), 2)


def _busy_seconds() -> float:
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _process_seconds() -> float:
    return sum(os.times()[:4])


def as_table(rows: Sequence[Row]) -> str:
    """Format rows as a Markdown table with the fields of all rows. Pilotlight's name is bold."""
    columns = [name for name in dict.fromkeys(name for row in rows for name in row) if name != "table"]
    lines = ["| " + " | ".join(name.replace("_", " ") for name in columns) + " |", "|---" * len(columns) + "|"]
    for row in rows:
        cells = [str(row.get(name, "")) for name in columns]
        if str(row.get("contestant", "")).startswith(OURS):
            cells = [f"**{cell}**" if name == "contestant" else cell for name, cell in zip(columns, cells, strict=True)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def as_text(rows: Sequence[Row], facts: dict[str, Any]) -> str:
    """Format facts as a Markdown list, and rows as Markdown tables."""
    lines = [f"- {name.replace('_', ' ')}: {value}" for name, value in facts.items()]
    tables = [list(group) for _, group in groupby(rows, key=lambda row: str(row.get("table", "")))]
    blocks = ["\n".join(lines)]
    for group in tables:
        blocks += [str(group[0].get("table", "")), as_table(group)]
    return "\n\n".join(filter(None, blocks))
