"""Crawl pages that scripts draw, beside the same pages as they would be written; with the setting `render` and without.

Run as a program it is one crawl: `benchmark.rendering {off,auto} URL` prints JSON.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmark.crawling import served
from benchmark.machine import memory_of_all
from benchmark.report import OURS, Row

_APP = """
fetch("data.json").then(answer => answer.json()).then(page => {
  document.title = page.title;
  document.getElementById("root").innerHTML = page.html;
});
"""
_CONTESTANTS = (("written", "off"), ("written", "auto"), ("drawn", "auto"))


def render(source: Path, chunks: int, repeat: int, work: Path) -> list[Row]:
    """Crawl so many pages from a server in a process of its own. `source` is not used."""
    write_pages(work, chunks)
    rows: list[Row] = []
    with served(work) as url:
        for kind, mode in _CONTESTANTS:
            runs = [_run(mode, f"{url}{kind}/0/") for _ in range(repeat)]
            if {run["pages"] for run in runs} != {chunks}:
                raise RuntimeError(f"{runs[0]['pages']} of {chunks} pages that are {kind} were found")
            rows.append(
                {
                    "name": f"pages that are {kind}, render {mode}",
                    "contestant": OURS,
                    "pages": chunks,
                    "pages_per_s": round(median(chunks / run["seconds"] for run in runs), 1),
                    "runs": repeat,
                    "pss_half_mb": max(run["half_mb"] for run in runs),
                    "pss_mb": max(run["end_mb"] for run in runs),
                    "note": f"first page after {median(run['first'] for run in runs):.2f} s, then "
                    f"{median((run['seconds'] - run['first']) / (chunks - 1) for run in runs):.3f} s a page; "
                    f"{median(run['build_cpu'] for run in runs):.1f} CPU s of the build's own process",
                }
            )
    return rows


def write_pages(work: Path, pages: int) -> None:
    """Pages of which each leads to the next eight, with a script each, drawn by it and written."""
    for number in range(pages):
        title, further = f"Page {number}", range(number + 1, min(number + 9, pages))
        text = f"<p>{f'{title} tells of lamps and of their wicks, which draw the oil upwards. ' * 12}</p>" * 4
        links = "".join(f'<a href="../{other}/">Page {other}</a> ' for other in further)
        html = f"<main><h1>{title}</h1>{text}{links}</main>"
        for kind, body in (("written", html), ("drawn", "")):
            folder = work / kind / str(number)
            folder.mkdir(parents=True)
            script = "../app.js" if kind == "drawn" else "../search.js"
            page = f'<!doctype html><title>{title}</title><div id="root">{body}</div><script src="{script}"></script>'
            (folder / "index.html").write_text(page, encoding="utf-8")
            (folder / "data.json").write_text(json.dumps({"title": title, "html": html}), encoding="utf-8")
    (work / "drawn" / "app.js").write_text(_APP, encoding="utf-8")


def _run(mode: str, url: str) -> dict[str, Any]:
    command = [sys.executable, "-W", "ignore", "-m", "benchmark.rendering", mode, url]
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": paths})
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _pages(mode: str, url: str) -> Iterator[object]:
    from indexer.config import CrawlLimits
    from indexer.records import Page
    from indexer.sources.reading import Reading, read_sources

    limits = CrawlLimits(allow_private=True, render=mode)
    return (item for item in read_sources([url], Reading(limits)) if isinstance(item, Page))


def main(mode: str, url: str) -> None:
    """Crawl once; print how many pages were found with text, when, and the most memory by halves."""
    start, memory, first, found = time.perf_counter(), [], 0.0, 0
    for page in _pages(mode, url):
        found += b"tells of lamps" in page.body  # type: ignore[attr-defined]
        first = first or time.perf_counter() - start
        if found % 5 == 0:
            memory.append(memory_of_all())
    seconds, half = time.perf_counter() - start, len(memory) // 2
    used = resource.getrusage(resource.RUSAGE_SELF)
    told = {"pages": found, "seconds": seconds, "first": first, "build_cpu": used.ru_utime + used.ru_stime}
    print(json.dumps({**told, "half_mb": max(memory[:half]), "end_mb": max(memory[half:])}))


if __name__ == "__main__":
    main(*sys.argv[1:])
