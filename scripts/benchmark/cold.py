"""Measure the time from the start of a process to its first correct answer (`bench.py cold`)."""

import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmark import langchain_script
from benchmark.corpus import read_chunks, short_passages, write_folder
from benchmark.measure import OURS, Row, interleave, ratio, summarise
from benchmark.serving import pilotlight, running
from embedder import Embeddings
from embedder.config import locate
from indexer.config import BuildConfig
from indexer.pipeline.build import build
from indexer.pipeline.progress import Progress

BASELINE = "LangChain script"


def cold(source: Path, chunks: int, repeat: int, work: Path) -> list[Row]:
    """Measure the time from the start of a process to its first correct answer. Returns a table row for each program.

    The index has `chunks` short passages. If the source has fewer, more are made from halves of two passages.
    """
    ours = Embeddings()
    model = locate(ours.plan.config.model)
    texts = short_passages(read_chunks(source, chunks, ours), chunks)
    folder, progress = write_folder(texts, work / "texts"), Progress(sys.stderr, quiet=True)
    build([str(folder)], work / "index", ours, BuildConfig(), progress=progress)
    langchain_script.save(texts, ours.embed_documents(texts), langchain_script.embeddings(model), work / "store")
    passage = " ".join(texts[len(texts) // 2].split())
    script = [sys.executable, str(Path(langchain_script.__file__)), str(model), str(work / "store")]
    command = pilotlight("search", "--index", str(work / "index"), "-k", "1")
    server = pilotlight("serve", "--index", str(work / "index"), "--workers", "1", "--port", "{port}")

    def run(line: list[str]) -> None:
        check(line[1], subprocess.run(line, capture_output=True, text=True, check=True).stdout)

    def check(contestant: str, answer: str) -> None:
        if passage[:60] not in " ".join(answer.split()):
            raise RuntimeError(f"{contestant} gave a wrong answer: {answer[:200]}")

    def serve(question: str) -> Callable[[], None]:
        stack = ExitStack()
        try:
            check("the server", stack.enter_context(running(server)).first_answer(question))
        except BaseException:
            stack.close()
            raise
        return stack.close

    contestants: dict[str, Callable[[Any], object]] = {
        BASELINE: lambda text: run([*script, text]),
        f"{OURS} search": lambda text: run([*command, text]),
        f"{OURS} serve": serve,
    }
    seconds = interleave(contestants, [passage], repeat)
    return [
        {"contestant": contestant, **summarise(values), "ratio": ratio(seconds[BASELINE], values)}
        for contestant, values in seconds.items()
    ]
