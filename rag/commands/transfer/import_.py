"""`pilotlight import`."""

from pathlib import Path

import click

from rag.commands.verb import PATH, Result, verb
from rag.settings import Settings


@verb("index", "keep_generations", "embedder", without=("threads",))
@click.argument("file", type=PATH, help="an archive written by export")
def import_(settings: Settings, *, file: Path) -> Result:
    """Publish the generation that an archive holds; say so if these settings cannot serve it."""
    from embedder.engines.plan import Plan
    from embedder.errors import PilotlightError
    from indexer.publish.archive import import_archive
    from indexer.publish.source_settings import leave_lost
    from rag.commands.embedders import as_built
    from rag.commands.published import described
    from rag.errors import FingerprintMismatch
    from rag.query.served_model import check_fingerprint

    manifest = import_archive(
        settings.index_dir, file, collection=settings.collection, keep_generations=settings.keep_generations
    )
    warnings = []
    try:
        check_fingerprint(manifest, Plan(as_built(settings).embedder_config()).fingerprint)
    except FingerprintMismatch as error:
        warnings.append(f"serve will refuse it with these settings: {error}")
    except PilotlightError as error:
        warnings.append(f"cannot tell whether these settings can serve it: {error}")
    report = {"file": str(file), "collection": settings.collection, **described(manifest), "warnings": warnings}
    warnings += leave_lost(manifest)
    lines = [f"generation {manifest.id} of collection {settings.collection} is live"]
    return report, "\n".join([*lines, *(f"warning: {warning}" for warning in warnings)])
