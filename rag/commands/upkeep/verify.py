"""`pilotlight verify`."""

import time
from contextlib import closing

import click

from rag.commands.verb import Result, verb
from rag.settings import Settings


@verb("index", "store", "embedder")
@click.option("--generation", metavar="ID", help="id of the generation (default: live)")
@click.option("--quick", is_flag=True, help="skip the vectors, and load no model")
def verify(settings: Settings, *, generation: str | None = None, quick: bool = False) -> Result:
    """Check every file and count of a generation and, unless it is to be quick, a sample of its vectors."""
    from indexer.publish.verification import problems_of
    from rag.commands.embedders import as_built, lazy_embedder
    from rag.commands.published import published
    from rag.serving.store_access import chosen_store, verify_generation

    start = time.monotonic()
    if not settings.store:
        published(settings)  # says that there is no such collection
    with closing(chosen_store(settings)) as store:
        generation = store.live_id() if generation is None else generation
        checks = verify_generation(store, generation, None if quick else lazy_embedder(as_built(settings)))
    ok = not problems_of(checks)
    report = {
        "ok": ok,
        "collection": settings.collection,
        "generation": generation,
        "checks": [{"name": check.name, "ok": check.ok, "what": check.what} for check in checks],
        "seconds": round(time.monotonic() - start, 3),
    }
    width = max(len(check.name) for check in checks)
    lines = [f"{'ok' if check.ok else 'FAILED':<6}  {check.name:<{width}}  {check.what}" for check in checks]
    return report, "\n".join([*lines, f"generation {generation} is {'intact' if ok else 'damaged'}"])
