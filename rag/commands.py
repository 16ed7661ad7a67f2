"""What each verb of the command line does. Each returns a JSON-ready object; `cli` prints it."""

import os
import sys
import time
from pathlib import Path
from typing import Any

from embedder import cpu
from embedder.building import ensure_package, is_built
from embedder.config import Plan
from indexer.generation import Generation, current_id
from indexer.layout import GENERATIONS
from indexer.manifest import read_manifest
from rag.configs import build_config, embedder_config
from rag.elapsed import Elapsed
from rag.retriever import Retriever, check_fingerprint
from rag.settings import Settings
from rag.workers import share_cores


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
    _prepare(Plan(embedder_config(settings)), quiet=quiet)
    report = build(
        sources, settings.index_dir, load_embedder(settings), config, progress=progress_for(sys.stderr, quiet=quiet)
    )
    return report.as_dict(), report.table()


def search(query: str, k: int, mode: str, settings: Settings) -> dict[str, Any]:
    """Answer one query from the live generation; the body of the REST answer."""
    from rag.live import load_embedder

    current_id(settings.index_dir)  # says that there is no index before a second goes into loading the model
    _prepare(Plan(embedder_config(settings)))
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
    plan = Plan(embedder_config(settings))
    _prepare(plan)
    embedder = load_embedder(settings)
    return run(dataset, embedder, mode=mode) | {"precision": plan.precision, "engine": plan.engine}


def serve(settings: Settings) -> None:
    """Check that the index can be served, then become the server. Does not return."""
    generation = Generation.open(settings.index_dir)
    plan = Plan(embedder_config(settings))
    check_fingerprint(generation, plan.fingerprint)
    generation.close()
    _prepare(plan)  # compiles once, here, and not in every worker
    settings = share_cores(settings, plan.engine, cpu.detect().cores)
    sys.stderr.flush()
    os.execvpe(  # noqa: S606 - this process becomes the server; no shell is wanted
        sys.executable, [sys.executable, "-m", "web.server"], os.environ | settings.as_environment()
    )


def warm(settings: Settings) -> tuple[dict[str, Any], str]:
    """Build the compiled package for these settings, or find it built; return it as an object and as text."""
    plan = Plan(embedder_config(settings))
    key = plan.package_key
    report: dict[str, Any] = {
        "model": plan.spec.name,
        "engine": plan.engine,
        "precision": plan.precision,
        "isa": plan.isa,
        "threads": key.threads if key else plan.threads,
    }
    if key is None:
        report |= {"package": None, "built": False, "bytes": 0, "seconds": 0.0}
        return report, f"engine {plan.engine} has no package: nothing to build"
    start = time.monotonic()
    built = _prepare(plan)
    folder = ensure_package(plan, key)
    size = sum(path.stat().st_size for path in folder.iterdir())
    seconds = round(time.monotonic() - start, 1)
    report |= {"package": str(folder), "built": built, "bytes": size, "seconds": seconds}
    done = f"built in {seconds} s" if built else "is there already"
    return report, f"{plan.spec.name} ({plan.engine}, {plan.precision}) {done}: {folder}, {size / 1e6:.0f} MB"


def _prepare(plan: Plan, *, quiet: bool = False) -> bool:
    """Build the plan's package where there is none, saying so on stderr. Return whether it was built."""
    key = plan.package_key
    if key is None or is_built(plan):
        return False
    title = f"compiling {plan.spec.name} ({plan.engine}, {plan.precision}) once for this machine"
    with Elapsed(sys.stderr, title, quiet=quiet) as elapsed:
        ensure_package(plan, key, elapsed.step)
    return True
