"""What is measured. Each verb returns rows: {name, contestant, median_ms, p95_ms, runs, ratio}."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmark import langchain_script
from benchmark.corpus import QUERIES, read_chunks
from benchmark.timing import interleave, ratio, summarise
from embedder import Embeddings
from embedder.model import locate
from indexer.build import build
from indexer.config import BuildConfig
from indexer.progress import progress_for
from rag.retriever import Retriever

BASELINE = "LangChain script"
OURS = "Pilotlight"
Row = dict[str, Any]


def _rows(name: str, seconds: dict[str, list[float]], **extra: Any) -> list[Row]:
    rows = []
    for contestant, values in seconds.items():
        row = {"name": name, "contestant": contestant, **summarise(values), "ratio": ratio(seconds[BASELINE], values)}
        rows.append(row | {key: value[contestant] for key, value in extra.items()})
    return rows


def _write_folder(texts: list[str], folder: Path) -> Path:
    """One file a passage, so that both contestants index the very same chunks."""
    folder.mkdir(parents=True)
    for number, text in enumerate(texts):
        (folder / f"{number:06d}.txt").write_text(text, encoding="utf-8")
    return folder


def query(source: Path, chunks: int, repeat: int, work: Path) -> list[Row]:
    """Embed a query, and answer a query, in one process each against the script."""
    ours = Embeddings()
    theirs = langchain_script.embeddings(locate(ours.config.model))
    texts = read_chunks(source, chunks, ours)
    build([str(_write_folder(texts, work / "texts"))], work / "index", ours, BuildConfig(), progress=_quiet())
    retriever = Retriever.open(work / "index", ours)
    retriever.warm()
    store = langchain_script.build(texts, theirs)
    embedding = interleave({BASELINE: theirs.embed_query, OURS: ours.embed_query}, QUERIES, repeat)
    answering = interleave(
        {
            BASELINE: lambda text: store.similarity_search(text, k=10),
            OURS: lambda text: retriever.search(text, k=10),
        },
        QUERIES,
        repeat,
    )
    return _rows("embed a 15-token query", embedding) + _rows(f"answer a query, k = 10, {len(texts)} chunks", answering)


def embed(source: Path, chunks: int, repeat: int, work: Path) -> list[Row]:
    """Index the same chunks: embed, and write or fill the store."""
    ours = Embeddings()
    theirs = langchain_script.embeddings(locate(ours.config.model))
    texts = read_chunks(source, chunks, ours)
    folder = _write_folder(texts, work / "texts")
    contestants: dict[str, Callable[[Any], object]] = {
        BASELINE: lambda _: langchain_script.build(texts, theirs),
        OURS: lambda _: build([str(folder)], work / "index", ours, BuildConfig(), progress=_quiet()),
    }
    seconds = interleave(contestants, [folder], repeat)
    rate = {name: round(len(texts) / sorted(values)[len(values) // 2], 1) for name, values in seconds.items()}
    return _rows(f"index {len(texts)} chunks, files to searchable index", seconds, chunks_per_s=rate)


def cold(source: Path, chunks: int, repeat: int, work: Path) -> list[Row]:
    """A new process from its start to the first correct answer."""
    ours = Embeddings()
    theirs = langchain_script.embeddings(locate(ours.config.model))
    texts = read_chunks(source, chunks, ours)
    build([str(_write_folder(texts, work / "texts"))], work / "index", ours, BuildConfig(), progress=_quiet())
    langchain_script.build(texts, theirs).save_local(str(work / "store"))
    wanted = texts[len(texts) // 2]
    question = " ".join(wanted.split()[:40])
    script = [sys.executable, str(Path(langchain_script.__file__)), str(locate(ours.config.model)), str(work / "store")]
    command = [sys.executable, "-m", "rag.cli", "search", "--index", str(work / "index"), "-k", "1"]

    def run(line: list[str]) -> None:
        done = subprocess.run(
            line, capture_output=True, text=True, check=True, env=os.environ | {"HF_HUB_OFFLINE": "1"}
        )
        if " ".join(wanted.split())[:60] not in " ".join(done.stdout.split()):
            raise RuntimeError(f"{line[1]} gave a wrong answer: {done.stdout[:200]}")

    seconds = interleave(
        {BASELINE: lambda text: run([*script, text]), OURS: lambda text: run([*command, text])},
        [question],
        repeat,
    )
    return _rows("process start to first correct answer", seconds)


def _quiet() -> Any:
    return progress_for(sys.stderr, quiet=True)


VERBS: dict[str, tuple[Callable[[Path, int, int, Path], list[Row]], int]] = {
    "query": (query, 40),
    "embed": (embed, 3),
    "cold": (cold, 7),
}
