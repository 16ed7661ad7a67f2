"""`pilotlight remove`."""

import sys
from collections.abc import Sequence

import click

from rag.commands.verb import Result, verb
from rag.settings import Settings


@verb("index", "store", "keep_generations", publishes=True)
@click.argument("source", nargs=-1, required=True, help="the source, as it was given to index")
def remove(settings: Settings, *, source: Sequence[str]) -> Result:
    """Publish a generation without what came from these sources; nothing is fetched or embedded."""
    from indexer.pipeline.progress import progress_for
    from indexer.pipeline.removal import remove_sources
    from rag.commands.published import published
    from rag.serving.publisher import publisher_of, reported

    folder = published(settings)
    progress = progress_for(sys.stderr, quiet=True)
    publisher = publisher_of(settings)
    report = remove_sources(list(source), folder, keep_generations=settings.keep_generations, progress=progress)
    if publisher:
        publisher(folder)
    return reported(report, publisher)
