"""The verbs `index` and `remove`, which add or remove sources and publish a new build of the index."""

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from indexer.config import SOURCE_SETTINGS
from rag.commands.cli import CommandContext, Result, verb
from rag.settings import Settings


@verb("index", "store", "build", "embedder", "crawl", "chunk", "ocr", without=("query_precision",))
@click.argument(
    "source",
    nargs=-1,
    type=click.Path(readable=False),
    help="address of a site, repository (git+https://…) or bucket (s3://…), or path of a file or folder "
    "(default: the sources of the live index)",
)
@click.option("--add", is_flag=True, help="add these sources to those of the live index")
@click.option(
    "--watch", is_flag=True, help="keep running and re-read folders and files that change; other sources are read once"
)
@click.option("--full", is_flag=True, help="reprocess unchanged pages too")
@click.option("--allow-shrink", is_flag=True, help="accept that a source has lost most of its documents")
@click.option("--quiet", is_flag=True, help="show no progress")
@click.pass_obj
def index(
    context: CommandContext, /, settings: Settings, *, source: Sequence[str], quiet: bool, **flags: Any
) -> Result:
    """Index sources, by default those of the live index. Flags with limits apply to the sources in the same command."""
    from indexer import memory

    memory.prepare()  # reduces the use of memory, because FAISS aborts if it runs out
    from indexer.pipeline.progress import Progress
    from rag.commands.indexing import IndexRequest, index_sources

    limits = {name: getattr(settings, name) for name in SOURCE_SETTINGS if name in context.flags}
    configured = context.file.sources if context.file else ()
    request = IndexRequest(source, configured, limits=limits, **flags)
    progress = partial(Progress, sys.stderr, quiet=quiet)
    return index_sources(request, context.settings(without=SOURCE_SETTINGS), progress, quiet=quiet)


@verb("index", "store", "keep_generations")
@click.argument("source", nargs=-1, required=True, help="sources, spelled as for index")
def remove(settings: Settings, *, source: Sequence[str]) -> Result:
    """Publish the index without the documents of these sources. Nothing is fetched or embedded."""
    from indexer.pipeline.build import remove_sources
    from indexer.pipeline.progress import Progress
    from rag.commands.models import published_folder
    from rag.stores import publisher_of, report_of

    folder = published_folder(settings)
    publisher = publisher_of(settings)
    progress = Progress(sys.stderr, quiet=True)
    report = remove_sources(list(source), folder, keep_generations=settings.keep_generations, progress=progress)
    if publisher:
        publisher(folder)
    return report_of(report, publisher)
