"""A server whose collection changes from one model to another under clients: times before, meanwhile and after."""

import json
import shutil
import subprocess
import sys
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmark.corpus import read_chunks, short_passages, write_folder
from benchmark.load import WORDS, make_queries, measure
from benchmark.report import OURS, Row
from benchmark.serving import running
from embedder import Embeddings
from indexer.publish.publish import roll_back

CLIENTS = 16
LEAD = 0.45  # share of a measurement after which the change begins: after its warm-up
INT8 = ["--precision", "int8"]
PROMPT = ["--query-prompt", "query: "]
_STREAK = 10  # answers from the new generation in a row, after which all workers have changed


def model_change(source: Path, chunks: int, seconds: int, work: Path, against: Path | None = None) -> list[Row]:
    """Change the model, and back, for each of several; each row is one measurement of so many seconds.

    The generations are built before, unless they are in the work folder from an earlier run. The changes are to the
    same model with another prompt (as costly), in int8, and to the model in the folder `against` where one is given.
    The last rows are of a build with another model beside the server, as its own jobs run: with nice 10.

    Rows have, beside the common fields, p99_ms, failed, and a note: p99 as multiple of that before the change.
    """
    ours = Embeddings()
    texts = short_passages(read_chunks(source, chunks, ours), chunks, WORDS)
    queries = make_queries(texts, ours)
    others = {"another prompt": PROMPT, "int8": INT8}
    if against:
        others[f"{against.name}, int8"] = ["--model", str(against), *INT8]
    made = _prepared(texts, {"default": ["--precision", "fp32"], **others}, work)
    line = [*_pilotlight("serve", work), "--precision", "fp32", "--port", "{port}"]
    rows = []
    roll_back(work / "index", made["default"])
    with running(line) as server:
        server.await_workers()

        def phase(name: str, change: str = "") -> Row:
            """Measure; change to another generation meanwhile."""
            return {"name": name, "contestant": OURS, **_measured(server.port, seconds, queries, work, change)}

        for name in others:
            before = phase(f"before the change to {name}")
            there = phase(f"changing to {name}", made[name])
            after = phase(f"after the change to {name}")
            back = phase("changing back", made["default"])
            rows += _compared(before, there, after, back)
        before = phase("before a build with another model")
        beside = work / "beside"  # to publish would remove the generations that were rolled back from
        shutil.rmtree(beside, ignore_errors=True)
        shutil.copytree(work / "index", beside / "index")
        build = subprocess.Popen(["nice", "-n", "10", *_index(beside), *PROMPT, "--full"], stdout=subprocess.DEVNULL)
        during = phase("during it")
        if build.wait():
            raise RuntimeError("the build failed: run it to see why")
        rows += _compared(before, during)
    return rows


def _compared(before: Row, *others: Row) -> list[Row]:
    return [before, *(row | {"note": f"p99 × {row['p99_ms'] / before['p99_ms']:.2f}"} for row in others)]


def _prepared(texts: list[str], models: dict[str, list[str]], work: Path) -> dict[str, str]:
    """Index the texts once with each model; return the generations by the models' names."""
    kept = work / "generations.json"
    made: dict[str, str] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    folder = work / "texts"
    if not folder.exists():
        write_folder(texts, folder)
    for name, flags in models.items():
        if name not in made:
            done = subprocess.run([*_index(work), str(folder), "--json", *flags], capture_output=True, check=True)
            made[name] = json.loads(done.stdout)["generation"]
    kept.write_text(json.dumps(made), encoding="utf-8")
    return made


def _measured(port: int, seconds: int, queries: list[str], work: Path, change: str) -> Row:
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        figures = pool.submit(measure, port, CLIENTS, seconds, queries)
        if change:
            stop.wait(LEAD * seconds)  # never set
            roll_back(work / "index", change)
        row = figures.result()
    streak = 0
    while change and streak < _STREAK:  # of several workers, each of which changes by itself
        streak = streak + 1 if _served(port) == change else 0
        stop.wait(0.05)
    return row


def _served(port: int) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz") as answer:
        return json.load(answer)["generation"]


def _pilotlight(verb: str, work: Path) -> list[str]:
    return [sys.executable, "-m", "rag.commands.cli", verb, "--index", str(work / "index")]


def _index(work: Path) -> list[str]:
    return [*_pilotlight("index", work), "--quiet", "--keep-generations", "9"]
