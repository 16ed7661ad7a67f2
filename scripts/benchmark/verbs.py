"""The application against the script. Each verb returns rows: {name, contestant, median_ms, p95_ms, runs, ratio}."""

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmark import langchain_script, scale
from benchmark.corpus import QUERIES, read_chunks, short_passages, write_folder
from benchmark.measure import OURS, Row, interleave, ratio, summarise
from benchmark.overload import overload
from benchmark.serving import serving
from embedder import Embeddings
from embedder.config import locate
from indexer.config import BuildConfig
from indexer.generation.generation import Generation
from indexer.pipeline.build import build
from indexer.pipeline.progress import Progress
from rag.query.request import SearchRequest
from rag.query.retriever import Retriever

BASELINE = "LangChain script"


def _rows(name: str, seconds: dict[str, list[float]], **extra: Any) -> list[Row]:
    rows = []
    for contestant, values in seconds.items():
        row = {"name": name, "contestant": contestant, **summarise(values), "ratio": ratio(seconds[BASELINE], values)}
        rows.append(row | {key: value[contestant] for key, value in extra.items()})
    return rows


def query(source: Path, chunks: int, repeat: int, work: Path) -> list[Row]:
    """Embed a query, and answer a query, in one process each against the script."""
    ours = Embeddings()
    theirs = langchain_script.embeddings(locate(ours.config.model))
    texts = read_chunks(source, chunks, ours)
    build([str(write_folder(texts, work / "texts"))], work / "index", ours, BuildConfig(), progress=_quiet())
    retriever = Retriever(Generation.open(work / "index"), ours)
    retriever.warm()
    store = langchain_script.build(texts, theirs)
    embedding = interleave({BASELINE: theirs.embed_query, OURS: ours.embed_query}, QUERIES, repeat)
    answering = interleave(
        {
            BASELINE: lambda text: store.similarity_search(text, k=10),
            OURS: lambda text: retriever.answer_query(SearchRequest(text, k=10)),
        },
        QUERIES,
        repeat,
    )
    return _rows("embed a 15-token query", embedding) + _rows(f"answer a query, k = 10, {len(texts)} chunks", answering)


def index(source: Path, chunks: int, repeat: int, work: Path) -> list[Row]:
    """Index the same chunks: embed, and write or fill the store."""
    ours = Embeddings()
    theirs = langchain_script.embeddings(locate(ours.config.model))
    texts = read_chunks(source, chunks, ours)
    folder = write_folder(texts, work / "texts")
    turns = itertools.count()
    contestants: dict[str, Callable[[Any], object]] = {
        BASELINE: lambda _: langchain_script.build(texts, theirs),
        # into a new folder each time: a second build of the same index would have nothing to embed
        OURS: lambda _: build([str(folder)], work / f"index-{next(turns)}", ours, BuildConfig(), progress=_quiet()),
    }
    seconds = interleave(contestants, [folder], repeat)
    rate = {name: round(len(texts) / sorted(values)[len(values) // 2], 1) for name, values in seconds.items()}
    return _rows(f"index {len(texts)} chunks, files to searchable index", seconds, chunks_per_s=rate)


def cold(source: Path, chunks: int, repeat: int, work: Path) -> list[Row]:
    """A new process from its start to the first correct answer.

    The index has `chunks` short passages, spliced of real ones where the source has too few.
    """
    ours = Embeddings()
    model = locate(ours.config.model)
    texts = short_passages(read_chunks(source, chunks, ours), chunks)
    build([str(write_folder(texts, work / "texts"))], work / "index", ours, BuildConfig(), progress=_quiet())
    langchain_script.save(texts, ours.embed_documents(texts), langchain_script.embeddings(model), work / "store")
    wanted = " ".join(texts[len(texts) // 2].split())
    script = [sys.executable, str(Path(langchain_script.__file__)), str(model), str(work / "store")]
    command = [sys.executable, "-m", "rag.commands.cli", "search", "--index", str(work / "index"), "-k", "1"]

    def run(line: list[str]) -> None:
        done = subprocess.run(
            line, capture_output=True, text=True, check=True, env=os.environ | {"HF_HUB_OFFLINE": "1"}
        )
        check(line[1], done.stdout)

    def check(who: str, answer: str) -> None:
        if wanted[:60] not in " ".join(answer.split()):
            raise RuntimeError(f"{who} gave a wrong answer: {answer[:200]}")

    def serve(question: str) -> Callable[[], None]:
        stack = ExitStack()
        try:
            check("the server", stack.enter_context(serving(work / "index")).first_answer(question))
        except BaseException:
            stack.close()
            raise
        return stack.close

    contestants: dict[str, Callable[[Any], object]] = {
        BASELINE: lambda text: run([*script, text]),
        f"{OURS} search": lambda text: run([*command, text]),
        f"{OURS} serve": serve,
    }
    return _rows("process start to first correct answer", interleave(contestants, [wanted], repeat))


def _quiet() -> Any:
    return Progress(sys.stderr, quiet=True)


VERBS: dict[str, tuple[Callable[..., list[Row]], int, int]] = {  # verb, its turns, its passages
    "query": (query, 40, 2000),
    "index": (index, 3, 500),
    "search": (scale.search, 5, 10_000),
    "cold": (cold, 7, 10_000),
    "overload": (overload, 60, 10_000),  # --repeat is seconds
}
