"""Interleaved timing, the machine that it was done on, and measurements as a Markdown table.

Contestants take turns, so that a machine whose speed drifts drifts for all of them.
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


# field of a row: title of its column; a column without a value in any row is left out
_COLUMNS = {
    "name": "what",
    "contestant": "contestant",
    "build_s": "build s",
    "ndcg": "nDCG@10",
    "median_ms": "median ms",
    "p95_ms": "p95 ms",
    "runs": "runs",
    "tokens_per_s": "tokens/s",
    "chunks_per_s": "chunks/s",
    "per_second": "answers/s",
    "p99_ms": "p99 ms",
    "cpu_ms": "CPU ms/answer",
    "failed": "failed",
    "max_ms": "longest ms",
    "statuses": "statuses",
    "livez_p99_ms": "/livez p99 ms",
    "rss_mb": "RSS MB",
    "pss_mb": "PSS MB",
    "disk_mb": "disk MB",
    "bytes_per_chunk": "bytes/chunk",
    "recall": "recall@10",
    "cosine": "lowest cosine",
    "vs_embedding": "× its embedding",
    "vs_best_float": "× best fp32/bf16 peer",
    "vs_best_any": "× best peer",
    "vs_langchain": "× LangChain",
    "vs_first": "faster than the first",
    "ratio": "times faster",
    "alone": "alone",
    "at_16": "16 clients",
    "at_160": "160 clients",
    "note": "note",
}


def as_table(rows: Sequence[Row]) -> str:
    """Lay rows out as a Markdown table, with the columns that any of them fills; ours in bold."""
    columns = [name for name in _COLUMNS if any(name in row for row in rows)]
    lines = ["| " + " | ".join(_COLUMNS[name] for name in columns) + " |", "|---" * len(columns) + "|"]
    for row in rows:
        cells = [str(row.get(name, "")) for name in columns]
        if str(row.get("contestant", "")).startswith(OURS):
            cells = [f"**{cell}**" if name == "contestant" else cell for name, cell in zip(columns, cells, strict=True)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def as_matrix(rows: Sequence[Row]) -> str:
    """Lay the medians out as a Markdown table with a line a contestant and a column a measurement."""
    timed = [row for row in rows if "median_ms" in row]
    names = list(dict.fromkeys(row["name"] for row in timed))
    lines = ["| median ms | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for contestant in dict.fromkeys(row["contestant"] for row in timed):
        found = {row["name"]: row["median_ms"] for row in timed if row["contestant"] == contestant}
        label = f"**{contestant}**" if contestant.startswith(OURS) else contestant
        lines.append(" | ".join([f"| {label}", *(_rounded(found[n]) if n in found else "" for n in names)]) + " |")
    return "\n".join(lines)


def as_text(rows: Sequence[Row], facts: dict[str, Any]) -> str:
    """Return the facts, the medians at a glance where much was measured, and the whole table."""
    lines = [f"- {name.replace('_', ' ')}: {_shown(value)}" for name, value in facts.items()]
    tables = [list(group) for _, group in groupby(rows, key=lambda row: str(row.get("table", "")))]
    many = len(tables) == 1 and len({row["name"] for row in rows if "median_ms" in row}) > 2
    parts = ["\n".join(lines), as_matrix(rows) if many else ""]
    for group in tables:
        parts += [str(group[0].get("table", "")), as_table(group)]
    return "\n\n".join(part for part in parts if part)


def _rounded(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(part)}" for name, part in value.items())
    return str(value)
