#!/usr/bin/env python3
"""How many cores, how much memory and which network a corpus needs: the model behind docs/scaling.md.

Its inputs are one table, below; nothing is measured here. `--write` puts the tables into the page, `--check` compares.
"""

import argparse
import heapq
import math
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "scaling.md"
SIZES = (1_000_000, 10_000_000, 100_000_000, 1_000_000_000)  # passages
CORES = (2, 16, 64, 256, 1024)


@dataclass(frozen=True)
class Input:
    """One number that everything else follows from."""

    value: float
    unit: str
    what: str
    source: str  # a page of the documentation where it was measured, or how it is estimated


# The machine: two cores of an AMD EPYC with AVX512_BF16, the default model (384 dimensions), native engine, bf16.
INPUTS = {
    "tokens": Input(161, "tokens", "of a passage", "benchmarks: 41,241 tokens in 256 passages"),
    "embed": Input(18_260, "tokens/s a core", "embedded in bulk", "benchmarks: 41,241 tokens in 1.129 s on 2 cores"),
    "embed_aot": Input(10_090, "tokens/s a core", "the same with aot, bf16", "benchmarks: 2.043 s on 2 cores"),
    "pages": Input(160, "pages/s a core", "fetched and parsed", "benchmarks: PostgreSQL manual, 320 on 2 cores"),
    "page": Input(9.9, "passages", "of a page", "benchmarks: 11,531 passages of 1,169 pages"),
    "write": Input(140, "µs a passage", "of the one process that writes", "benchmarks: a million in 140 s"),
    "together": Input(0.8, "of the sum", "that many cores give when they share a build", "estimate: 1.25× by Ray"),
    "query": Input(4.02, "ms of a core", "for a query at 11,531 passages", "benchmarks: 498 a second on 2 cores"),
    "encode": Input(1.17, "ms of a core", "of that for embedding it", "benchmarks: 10,000 passages, one thread"),
    "disk": Input(1_880, "bytes a passage", "in an index, its text included", "benchmarks: search by size"),
    "worker": Input(140, "MB", "of each worker, without passages", "operations: memory"),
    "own": Input(115, "bytes a passage", "that each worker has of its own", "operations: memory"),
    "shared": Input(768, "bytes a passage", "of vectors that workers share", "operations: memory"),
    "sha256": Input(1_530, "MB/s a core", "compared with its checksum", "measured: hashlib, processor time"),
    "answer": Input(10.6, "kB", "of an answer with ten hits", "measured: this documentation"),
    "network": Input(1_250, "MB/s", "of a machine's network", "estimate: 10 Gbit/s"),
    "memory": Input(64, "GB", "of a machine", "estimate"),
    "machine": Input(16, "cores", "of a machine", "estimate"),
}
# ms of a core by passages: benchmarks, search by size. Beyond the last, and between, by the slope on two logarithms.
DENSE = {10_000: 0.073, 100_000: 0.22, 1_000_000: 0.76}
LEXICAL = {10_000: 0.086, 1_000_000: 1.61}
KINDS = {  # bytes a passage of each kind of vector index: shared by workers, and of each worker
    "`flat`": (768, 0, "operations"),
    "`pq`": (768, 99, "operations: 867 bytes in all"),
    "`ivf`": (768, 115, "operations"),
    "`hnsw`": (768, 272, "operations: 1,040 bytes in all"),
    "HNSW of a Milvus cluster, float32": (1_808, 0, "estimate: 4 bytes a dimension, links as ours"),
}
Table = list[tuple[str, ...]]


def get(name: str) -> float:
    """Value of an input."""
    return INPUTS[name].value


def at(known: dict[int, float], passages: float) -> float:
    """Time of a search in ms, by the straight line through its two nearest neighbours, both axes logarithmic."""
    sizes = sorted(known)
    left = max([index for index, size in enumerate(sizes[:-1]) if size <= passages], default=0)
    low, high = sizes[left], sizes[left + 1]
    slope = math.log(known[high] / known[low]) / math.log(high / low)
    return known[low] * (passages / low) ** slope


def query_ms(passages: float) -> float:
    """Milliseconds of a core that one hybrid query takes, HTTP and all."""
    measured = 11_531
    grown = sum(at(known, passages) - at(known, measured) for known in (DENSE, LEXICAL))
    return get("query") + grown


def build_hours(passages: float, cores: int) -> tuple[float, str]:
    """Hours until an index is published, and the stage that takes them; the stages run side by side."""
    efficiency = 1.0 if cores <= 2 else get("together")
    seconds = {
        "embedding": passages * get("tokens") / get("embed") / (cores * efficiency),
        "reading": passages / get("page") / get("pages") / (cores * efficiency),
        "writing": passages * get("write") / 1e6,
    }
    shared = seconds["embedding"] + seconds["reading"]  # on the same cores
    if seconds["writing"] > shared:
        return seconds["writing"] / 3600, "writing"
    return shared / 3600, "embedding"


def memory_gb(passages: float, workers: int) -> float:
    """Memory of a server in GB."""
    return (passages * (get("shared") + workers * get("own")) + workers * get("worker") * 1e6) / 1e9


def most_passages(workers: int) -> int:
    """Passages that a machine has memory for, with a quarter of it left."""
    room = 0.75 * get("memory") * 1e9 - workers * get("worker") * 1e6
    return int(room / (get("shared") + workers * get("own")))


def p99(cores: int, load: float, ms: float, queries: int = 20_000) -> float:
    """Simulated 99th percentile in ms: queries come at random to as many processes as cores, first come first served.

    Each takes `ms`, and `load` is the share of the time for which the processes are busy.
    """
    rng = random.Random(7)  # noqa: S311 - a simulation, the same at every run
    free = [0.0] * cores
    now, waited = 0.0, []
    for _ in range(queries):
        now += rng.expovariate(load * cores / ms)
        start = max(now, heapq.heappop(free))
        heapq.heappush(free, start + ms)
        waited.append(start + ms - now)
    return sorted(waited)[int(0.99 * queries)]


def crossing(grows: Callable[[float], float], limit: float) -> float:
    """Where a growing function reaches a limit, to three digits."""
    low, high = 1.0, 1e15
    while high / low > 1.0005:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if grows(middle) < limit else (low, middle)
    return high


def inputs() -> Table:
    """Every number that the model starts from."""
    rows: Table = [("input", "value", "from")]
    rows += [(one.what, f"{one.value:,} {one.unit}", one.source) for one in INPUTS.values()]
    for name, known in (("dense search", DENSE), ("lexical search", LEXICAL)):
        times = ", ".join(f"{ms:g} at {size:,}" for size, ms in known.items())
        rows.append((f"{name} by passages", f"{times} ms", "benchmarks: search by size"))
    return rows


def building() -> Table:
    """Hours to build, by passages and cores."""
    rows: Table = [
        ("passages", "tokens", "core hours to embed", "with aot", *(f"{cores:,} cores" for cores in CORES)),
    ]
    for passages in SIZES:
        tokens = passages * get("tokens")
        cells = []
        for cores in CORES:
            hours, stage = build_hours(passages, cores)
            cells.append(_hours(hours) + (" ¹" if stage == "writing" else ""))
        embedding = (f"{tokens / get(engine) / 3600:,.1f}" for engine in ("embed", "embed_aot"))
        rows.append((f"{passages:,}", _short(tokens), *embedding, *cells))
    return rows


def remembering() -> Table:
    """Memory of a million passages, by the kind of vector index."""
    rows: Table = [("vectors", "shared, MB", "of each worker, MB", "1 worker, MB", "16 workers, MB", "from")]
    for name, (shared, own, source) in KINDS.items():
        rows.append((name, f"{shared:,}", f"{own:,}", *(f"{shared + own * n:,}" for n in (1, 16)), source))
    return rows


def answering() -> Table:
    """Queries a second of a core, and what they are spent on, by passages on one machine."""
    rows: Table = [("passages", "ms of a core", "embedding", "search", "the rest", "queries/s a core")]
    for passages in (10_000, 100_000, *SIZES[:3]):
        total, search = query_ms(passages), at(DENSE, passages) + at(LEXICAL, passages)
        parts = (get("encode"), search, total - get("encode") - search)
        rows.append(
            (f"{passages:,}", f"{total:.2f}", *(f"{part / total:.0%}" for part in parts), f"{1000 / total:,.0f}")
        )
    return rows


def waiting() -> Table:
    """Simulated 99th percentiles at a million passages."""
    loads, ms = (0.3, 0.5, 0.7, 0.9), query_ms(1_000_000)
    rows: Table = [("cores", *(f"{load:.0%} busy" for load in loads))]
    for cores in (1, 2, 4, 16, 64):
        rows.append((f"{cores}", *(f"{p99(cores, load, ms):.1f} ms" for load in loads)))
    return rows


def serving() -> Table:
    """Return what it takes to hold and to answer from so many passages, with no machine more than half busy."""
    cores = int(get("machine"))
    rows: Table = [
        ("passages", "bytes", "machines to hold them", "their queries/s", "core ms a query", "a new generation on each")
    ]
    for passages in SIZES:
        shards = math.ceil(passages / most_passages(cores))
        share = passages / shards
        # embedded once; every machine that holds a part searches it
        cost = query_ms(share) + (shards - 1) * (query_ms(share) - get("encode"))
        rate = 0.5 * shards * cores * 1000 / cost
        size = share * get("disk")
        seconds = size / 1e6 / get("network") + size / 1e6 / get("sha256")
        rows.append(
            (
                f"{passages:,}",
                _short(passages * get("disk")),
                f"{shards}",
                f"{rate:,.0f}",
                f"{cost:.1f}",
                _seconds(seconds),
            )
        )
    return rows


def limits() -> Table:
    """Where something else begins to be the limit."""
    per_core = (get("tokens") / get("embed") + 1 / get("page") / get("pages")) * 1e6 / get("together")
    half = crossing(lambda passages: at(DENSE, passages) + at(LEXICAL, passages), get("encode"))
    network = get("network") * 1e6 / (get("answer") * 1e3)
    fetch = 0.1 * get("network") * 1e6 * 3600 / get("disk")
    return [
        ("limit", "begins at"),
        ("a build waits for the process that writes, not for the model", f"{per_core / get('write'):,.0f} cores"),
        ("a query spends longer on search than on embedding", f"{_short(half)} passages on a machine"),
        ("a machine's memory is full", f"{_short(most_passages(int(get('machine'))))} passages"),
        (
            "a machine's network is full of answers",
            f"{network:,.0f} queries/s, which {network * query_ms(1e6) / 1e3:,.0f} cores give",
        ),
        ("fetching a generation every hour takes a tenth of the network", f"{_short(fetch)} passages"),
    ]


SECTIONS = {
    "Inputs": inputs,
    "Building": building,
    "Memory": remembering,
    "Queries": answering,
    "Waiting": waiting,
    "Serving": serving,
    "Limits": limits,
}


def page() -> str:
    """The page with its tables as the model has them: the first below the heading of each section."""
    text = PAGE.read_text(encoding="utf-8")
    for heading, table in SECTIONS.items():
        made = "\n".join(_lines(table()))
        text, found = re.subn(
            rf"(^## {heading}\n(?:(?!## |\|).*\n)*)(?:\|.*\n)+",
            lambda old, made=made: old[1] + made + "\n",
            text,
            flags=re.M,
        )
        if found != 1:
            raise SystemExit(f"{PAGE.name} has no table below the heading {heading!r}")
    return text


def _lines(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for number, row in enumerate(rows):
        yield f"| {' | '.join(row)} |"
        if number == 0:
            yield "|" + "---|" * len(row)


def _short(number: float) -> str:
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.3g}"


def _hours(hours: float) -> str:
    return f"{hours * 60:.0f} min" if hours < 1 else f"{hours:,.3g} h" if hours < 100 else f"{hours:,.0f} h"


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def main() -> None:
    """Print the tables, write them into the page, or exit with 1 if the page has others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/scaling.md")
    parser.add_argument("--check", action="store_true", help="say whether docs/scaling.md has them")
    options = parser.parse_args()
    if options.write:
        PAGE.write_text(page(), encoding="utf-8")
    elif options.check:
        sys.exit(0 if page() == PAGE.read_text(encoding="utf-8") else f"{PAGE.name} is out of date: run --write")
    else:
        for heading, table in SECTIONS.items():
            print(f"{heading}\n", *_lines(table()), "", sep="\n")


if __name__ == "__main__":
    main()
