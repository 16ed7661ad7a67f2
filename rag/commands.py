"""What each verb of the command line does. Each returns a JSON-ready object; `cli` prints it."""

import dataclasses
import os
import sys
from pathlib import Path
from typing import Any

from embedder import cpu
from embedder.config import Plan
from embedder.package import package_folder
from indexer.generation import Generation, current_id
from indexer.layout import GENERATIONS
from indexer.manifest import read_manifest
from rag.configs import build_config, embedder_config
from rag.retriever import Retriever, check_fingerprint
from rag.settings import Settings


def index(sources: list[str], settings: Settings, *, quiet: bool) -> tuple[dict[str, Any], str]:
    """Build and publish a generation; return its report as an object and as text.

    Without sources, those of the live generation are read again.
    """
    from indexer.build import build
    from indexer.progress import progress_for
    from rag.live import load_embedder

    if not sources:
        generation = current_id(settings.index_dir)
        sources = list(read_manifest(settings.index_dir / GENERATIONS / generation).sources)
    config = build_config(settings)  # before the model is loaded, so that a bad value is told at once
    _announce_compilation(settings)
    report = build(
        sources, settings.index_dir, load_embedder(settings), config, progress=progress_for(sys.stderr, quiet=quiet)
    )
    return report.as_dict(), report.table()


def search(query: str, k: int, mode: str, settings: Settings) -> dict[str, Any]:
    """Answer one query from the live generation; the body of the REST answer."""
    from rag.live import load_embedder

    current_id(settings.index_dir)  # says that there is no index before a second goes into loading the model
    _announce_compilation(settings)
    retriever = Retriever.open(
        settings.index_dir,
        load_embedder(settings),
        max_k=settings.max_k,
        max_query_chars=settings.max_query_chars,
    )
    retriever.warm()  # so that the times shown are those of a server
    return retriever.search(query, k=k, mode=mode).as_dict()


def evaluate(folder: Path, mode: str, settings: Settings) -> dict[str, Any]:
    """Measure retrieval quality on a BEIR folder."""
    from rag.evaluation import evaluate as run
    from rag.evaluation import read_dataset
    from rag.live import load_embedder

    dataset = read_dataset(folder)
    _announce_compilation(settings)
    embedder = load_embedder(settings)
    plan = Plan(embedder_config(settings))
    return run(dataset, embedder, mode=mode) | {"precision": plan.precision, "engine": plan.engine}


def serve(settings: Settings) -> None:
    """Check that the index can be served, then become the server. Does not return."""
    generation = Generation.open(settings.index_dir)
    plan = Plan(embedder_config(settings))
    check_fingerprint(generation, plan.fingerprint)
    generation.close()
    if _announce_compilation(settings):
        from rag.live import load_embedder

        load_embedder(settings)  # compiles once, here, and not in every worker
    if not settings.workers:
        settings = dataclasses.replace(settings, workers=max(1, cpu.detect().cores // plan.threads))
    sys.stderr.flush()
    os.execvpe(  # noqa: S606 - this process becomes the server; no shell is wanted
        sys.executable, [sys.executable, "-m", "web.server"], os.environ | settings.as_environment()
    )


def _announce_compilation(settings: Settings) -> bool:
    """Say that a package has to be compiled, where that is so: it takes long enough to wonder."""
    plan = Plan(embedder_config(settings))
    key = plan.package_key
    missing = key is not None and not package_folder(settings.cache, key).exists()
    if missing:
        duration = "half a minute" if plan.engine == "aot" else "a few seconds"
        print(
            f"compiling {plan.spec.name} ({plan.engine}, {plan.precision}) once for this machine: {duration}",
            file=sys.stderr,
        )
    return missing
