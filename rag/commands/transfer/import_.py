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
    from indexer.generation.manifest import differing_fields
    from indexer.publish.archive import import_archive
    from indexer.publish.source_settings import leave_lost
    from rag.commands.published import described
    from rag.models.known_models import find, how_to_prepare

    manifest = import_archive(
        settings.index_dir, file, collection=settings.collection, keep_generations=settings.keep_generations
    )
    warnings = []
    try:
        if find(settings, manifest) is None and (
            fields := differing_fields(manifest.fingerprint, Plan(settings.embedder_config()).fingerprint)
        ):
            names = ", ".join(fields)
            warnings.append(
                f"serve will refuse it with these settings: it was built with a different embedder ({names}); make "
                f"this machine ready for it: {how_to_prepare(manifest)}"
            )
    except PilotlightError as error:
        warnings.append(f"cannot tell whether these settings can serve it: {error}")
    report = {"file": str(file), "collection": settings.collection, **described(manifest), "warnings": warnings}
    warnings += leave_lost(manifest)
    lines = [f"generation {manifest.id} of collection {settings.collection} is live"]
    return report, "\n".join([*lines, *(f"warning: {warning}" for warning in warnings)])
