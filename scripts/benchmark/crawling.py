"""Fetch and parse two manuals over loopback, beside LangChain's RecursiveUrlLoader.

Run as a program it is one contestant: `benchmark.crawling {pilotlight,extractor,bare} URL DEPTH` prints JSON.
"""

import itertools
import json
import os
import re
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmark.report import Row

MANUALS = {  # Debian's packages postgresql-doc-15 and python3.11-doc
    "PostgreSQL": Path("/usr/share/doc/postgresql-doc-15/html"),
    "Python": Path("/usr/share/doc/python3.11/html"),
}
_OURS = "Pilotlight"
_CONTESTANTS = {_OURS: "pilotlight", "RecursiveUrlLoader, bs4_extractor": "extractor", "RecursiveUrlLoader": "bare"}
_DEPTH = 3  # links; more makes the loader find more, and each page cost more


def crawl(source: Path, chunks: int, repeat: int, work: Path) -> list[Row]:
    """Crawl each manual from a server in a process of its own, in alternating processes."""
    rows: list[Row] = []
    for manual, folder in MANUALS.items():
        if not folder.is_dir():
            rows.append({"name": manual, "contestant": "not installed"})
            continue
        with served(folder) as url:
            rates: dict[str, list[dict[str, Any]]] = {name: [] for name in _CONTESTANTS}
            for _, (name, kind) in itertools.product(range(repeat), _CONTESTANTS.items()):
                rates[name].append(_run(kind, url))
        for name, runs in rates.items():
            ratios = [ours["rate"] / theirs["rate"] for ours, theirs in zip(rates[_OURS], runs, strict=True)]
            last = runs[-1]
            memory = {"rss_half_mb": last["half_mb"], "rss_mb": last["end_mb"]}
            rate = round(median(run["rate"] for run in runs), 1)
            row = {"name": f"{manual} manual", "contestant": name, "pages": last["pages"], "pages_per_s": rate}
            rows.append({**row, "runs": repeat, "ratio": round(median(ratios), 2), **memory})
    return rows


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on loopback, by a process of its own; gives the address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-u", "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        try:
            assert server.stdout is not None  # noqa: S101 - it was asked for
            server.stdout.readline()  # "Serving HTTP on"
            yield f"http://127.0.0.1:{port}/"
        finally:
            server.kill()


def _run(kind: str, url: str) -> dict[str, Any]:
    command = [sys.executable, "-W", "ignore", "-m", "benchmark.crawling", kind, url, str(_DEPTH)]
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": paths})
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _pilotlight(url: str, depth: int) -> Iterator[object]:
    from indexer.config import ChunkConfig, CrawlLimits
    from indexer.errors import ParseError
    from indexer.pipeline.lookahead import read_ahead
    from indexer.sources.reading import Reading, read_sources

    limits = CrawlLimits(delay=0.0, allow_private=True, max_pages=100_000)  # of any depth: every page is found

    def pages() -> Iterator[object]:
        items = read_sources([url], Reading(limits))
        with closing(read_ahead(items, lambda page: True, ChunkConfig())) as ahead:
            for item, document in ahead:
                if document is None:
                    continue
                try:
                    yield document.result().document
                except ParseError:  # a list of links, which has been read as well
                    yield item

    return pages()


def _loader(url: str, depth: int, **options: Any) -> Iterator[object]:
    warnings.simplefilter("ignore")
    from langchain_community.document_loaders import RecursiveUrlLoader

    return iter(RecursiveUrlLoader(url, max_depth=depth, **options).lazy_load())


def _extractor(url: str, depth: int) -> Iterator[object]:
    """As the loader's documentation has it."""
    from bs4 import BeautifulSoup

    def extract(html: str) -> str:
        return re.sub(r"\n\n+", "\n\n", BeautifulSoup(html, "lxml").text).strip()

    return _loader(url, depth, extractor=extract)


_KINDS: dict[str, Callable[[str, int], Iterator[object]]] = {
    "pilotlight": _pilotlight,
    "extractor": _extractor,
    "bare": _loader,
}


def _memory() -> int:
    """MB that this process and those it has started hold."""
    own = Path("/proc/self")
    pids = {pid for task in (own / "task").iterdir() for pid in (task / "children").read_text().split()}
    found = (re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text()) for pid in ("self", *pids))
    return sum(int(size[1]) for size in found if size) >> 10


def main(kind: str, url: str, depth: str) -> None:
    """Crawl once; print the pages, how many a second once the imports are done, and the most memory by halves."""
    found = _KINDS[kind](url, int(depth))
    start, memory = time.perf_counter(), []
    for pages, _ in enumerate(found, 1):
        if pages % 20 == 0:
            memory.append(_memory())
    seconds = time.perf_counter() - start
    half = len(memory) // 2
    peaks = {"half_mb": max(memory[:half]), "end_mb": max(memory[half:])}
    print(json.dumps({"pages": pages, "rate": pages / seconds, **peaks}))


if __name__ == "__main__":
    main(*sys.argv[1:])
