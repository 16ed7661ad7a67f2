"""`pilotlight warm`."""

import time
from typing import TYPE_CHECKING

from rag.commands.verb import Result, verb
from rag.settings import Settings

if TYPE_CHECKING:
    from embedder.engines.plan import Plan


@verb("embedder", "rerank")
def warm(settings: Settings) -> Result:
    """Build the compiled packages for these settings, or find them built."""
    from rag.commands.embedders import plans

    embedder, *rerankers = plans(settings)
    report, text = _warm(embedder)
    for plan in rerankers:
        its, line = _warm(plan)
        report, text = report | {"reranker": its}, f"{text}\nfor reranking: {line}"
    return report, text


def _warm(plan: "Plan") -> Result:
    """Build the package of one model, or find it built."""
    from embedder.engines.package import ensure_package
    from rag.commands.embedders import build

    key = plan.package_key
    report = {
        "model": plan.spec.name,
        "engine": plan.engine,
        "precision": plan.precision,
        "isa": plan.isa,
        "threads": key.threads if key else plan.threads,
    }
    if key is None:
        report |= {"package": None, "built": False, "bytes": 0, "seconds": 0.0}
        return report, f"engine {plan.engine} needs no compilation"
    start = time.monotonic()
    built = build(plan)
    folder = ensure_package(plan, key)
    size = sum(path.stat().st_size for path in folder.iterdir())
    seconds = round(time.monotonic() - start, 1)
    report |= {"package": str(folder), "built": built, "bytes": size, "seconds": seconds}
    done = f"built in {seconds} s" if built else "was compiled before"
    return report, f"{plan.spec.name} ({plan.engine}, {plan.precision}) {done}: {folder}, {size / 1e6:.0f} MB"
