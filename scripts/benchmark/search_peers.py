"""Measure build time, quality and load of Pilotlight and of other libraries on one dataset (`bench.py peers`)."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import ir_measures
from ir_measures import nDCG

from benchmark import peer_server
from benchmark.corpus import write_folder
from benchmark.load import hammer, warm, write_script
from benchmark.measure import OURS, Row
from benchmark.serving import BenchmarkServer, pilotlight
from embedder.config import locate
from rag.evaluation.evaluation import Dataset, read_dataset
from rag.settings import load

PACKAGES = {  # flask and gunicorn serve all peers except txtai
    "script": "sentence-transformers faiss-cpu flask gunicorn",
    "chroma": "chromadb sentence-transformers flask gunicorn",
    "lancedb": "lancedb sentence-transformers flask gunicorn",
    "langchain": "langchain-classic langchain-community langchain-huggingface rank_bm25 faiss-cpu flask gunicorn",
    "haystack": "haystack-ai sentence-transformers-haystack flask gunicorn",
    "txtai": "txtai[api] flask",
}
CLIENTS, WORKERS, K = 16, 2, 10


class Contestant(NamedTuple):
    """The command lines that build and serve an index with Pilotlight or a library, and the routes of the server."""

    name: str
    build: list[str]
    serve: list[str]
    environ: dict[str, str]
    route: str = f"/search?k={K}&q="
    ready_path: str = "/readyz"


def peers(source: Path, environments: Path, seconds: int, work: Path) -> list[Row]:
    """Measure Pilotlight and the installed libraries, one after the other. Returns a table row for each program.

    Args:
        source: a dataset in BEIR's layout.
        environments: folder with a virtual environment for each library, named as in `PACKAGES`.
        seconds: duration of the load test.
        work: folder for indexes. Existing indexes are reused.
    """
    dataset = read_dataset(source)
    rows = []
    for name in (OURS, *PACKAGES):
        if name != OURS and not (environments / name / "bin" / "python").exists():
            rows.append({"contestant": name, "note": f"not installed: pip install {PACKAGES[name]}"})
            continue
        print(f"measuring {name}", file=sys.stderr)
        folder = work / name
        contestant = prepare(name, environments, folder, list(dataset.corpus.values()))
        row: Row = {"contestant": name}
        try:
            row |= measure(contestant, folder, dataset, seconds)
        except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
            row["note"] = f"does not run: {error}"
        print(row, file=sys.stderr)  # shows results even if the run is interrupted later
        rows.append(row)
    return rows


def measure(contestant: Contestant, folder: Path, dataset: Dataset, seconds: int) -> Row:
    """Build a contestant's index, serve it and measure it."""
    row: Row = {}
    if not (folder / "built").exists():
        row["build_s"] = build(contestant)
        (folder / "built").touch()
    files = (file for file in folder.glob("*/**/*") if file.parent.name != "texts")
    row["disk_mb"] = round(sum(file.stat().st_size for file in files) / 1e6)
    script = folder / "queries.lua"
    write_script(list(dataset.queries.values()), script, contestant.route)
    with warm(contestant.serve, script, contestant.environ, contestant.ready_path) as server:
        row["ndcg@10"] = quality(server, contestant.route, dataset)
        row |= hammer(server, CLIENTS, seconds, script)
        row["pss_mb"] = round(sum(pss for _, pss in server.workers_memory()))
    return row


def prepare(name: str, environments: Path, folder: Path, texts: Sequence[str]) -> Contestant:
    """Write the texts to the folder of a program, and return the program's command lines and routes."""
    folder.mkdir(parents=True, exist_ok=True)
    if name == OURS:
        if not (folder / "texts").exists():
            write_folder(texts, folder / "texts")
        index = str(folder / "index")
        serve = pilotlight("serve", "--index", index, "--workers", str(WORKERS), "--threads", "1", "--port", "{port}")
        # Request only one hit for each document, because the other libraries return whole documents.
        route = f"/api/v1/search?k={K}&per_document=1&q="
        return Contestant(name, pilotlight("index", str(folder / "texts"), "--index", index), serve, {}, route)
    (folder / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    model, programs = locate(load().embedder_config().model), environments / name / "bin"
    environ = {"HF_HUB_OFFLINE": "1", "PEER": name, "PEER_MODEL": str(model), "PEER_FOLDER": str(folder)}
    environ |= {"OMP_NUM_THREADS": "1", "CONFIG": str(folder / "txtai.yml"), "TOKENIZERS_PARALLELISM": "false"}
    line = [str(programs / "python"), peer_server.__file__, name, str(model), str(folder)]
    if name == "txtai":
        serve = [
            str(programs / "python"),
            "-m",
            "uvicorn",
            "txtai.api:app",
            "--workers",
            str(WORKERS),
            "--port",
            "{port}",
        ]
        return Contestant(name, line, serve, environ, f"/search?limit={K}&query=", "/docs")
    serve = [str(programs / "python"), "-m", "gunicorn", "-k", "gthread", "--workers", str(WORKERS), "--threads", "8"]
    serve += ["--timeout", "600", "--keep-alive", "15", "--chdir", str(Path(peer_server.__file__).parent)]
    return Contestant(name, line, [*serve, "peer_server:application()", "--bind", "127.0.0.1:{port}"], environ)


def build(contestant: Contestant) -> float:
    """Build an index, and return the time in seconds. Times of other libraries exclude loading code and the model."""
    environ = os.environ | contestant.environ
    environ.pop("OMP_NUM_THREADS", None)  # a build may use every core
    start = time.perf_counter()
    done = subprocess.run(contestant.build, env=environ, stdout=subprocess.PIPE, text=True, check=True)
    words = done.stdout.split()
    return round(time.perf_counter() - start if contestant.name == OURS else float(words[-1]), 1)


def quality(server: BenchmarkServer, route: str, dataset: Dataset) -> float:
    """Return the nDCG@10 of the dataset's queries."""
    names = list(dataset.corpus)
    run: dict[str, dict[str, float]] = {}
    for query, text in dataset.queries.items():
        hits: Any = json.loads(server.get(route + quote(text))[1])
        # The number of a text is in the URL of Pilotlight's hits, and is the id of the hits of other libraries.
        rows = (
            [hit["id"] for hit in hits] if isinstance(hits, list) else [Path(hit["url"]).stem for hit in hits["hits"]]
        )
        run[query] = {names[int(row)]: float(-rank) for rank, row in enumerate(rows)}
    return round(float(ir_measures.calc_aggregate([nDCG @ K], dataset.judgements, run)[nDCG @ K]), 4)
