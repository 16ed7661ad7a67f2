"""`pilotlight warm`."""

import time
from typing import Any

from rag.commands.verb import Result, verb
from rag.settings import Settings


@verb("embedder", "rerank")
def warm(settings: Settings) -> Result:
    """Build the compiled packages for these settings, or find them built."""
    from rag.commands.embedders import plans

    done = [_warm(plan) for plan in plans(settings)]
    report, text = done[0]
    if len(done) > 1:
        report |= {"reranker": done[1][0]}
        text = f"{text}\n{done[1][1]}"
    return report, text


def _warm(plan: Any) -> Result:
    from embedder.engines.package import ensure_package
    from rag.commands.embedders import prepare

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
        return report, f"engine {plan.engine} needs no compilation"
    start = time.monotonic()
    built = prepare(plan)
    folder = ensure_package(plan, key)
    size = sum(path.stat().st_size for path in folder.iterdir())
    seconds = round(time.monotonic() - start, 1)
    report |= {"package": str(folder), "built": built, "bytes": size, "seconds": seconds}
    done = f"built in {seconds} s" if built else "was compiled before"
    return report, f"{plan.spec.name} ({plan.engine}, {plan.precision}) {done}: {folder}, {size / 1e6:.0f} MB"
