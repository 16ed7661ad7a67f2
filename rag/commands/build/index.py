"""`pilotlight index`."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from indexer.config import OWN
from indexer.number_format import counted
from rag.commands.verb import Given, Result, verb
from rag.errors import SettingsError
from rag.settings import Settings, own_limits

if TYPE_CHECKING:
    from indexer.pipeline.progress import Progress
    from rag.settings_file import ConfiguredSource


@verb("index", "store", "build", "embedder", "crawl", "chunk", "ocr", publishes=True)
@click.argument(
    "source",
    nargs=-1,
    type=click.Path(readable=False),
    help="address of a site, repository (git+https://…) or bucket (s3://…), or path of a file or folder "
    "(default: the sources of the live index)",
)
@click.option("--add", is_flag=True, help="add these sources to those of the live index")
@click.option(
    "--watch",
    is_flag=True,
    help="keep running and re-read folders and files when they change; others are read once",
)
@click.option("--full", is_flag=True, help="reprocess unchanged pages too")
@click.option("--quiet", is_flag=True, help="show no progress")
@click.pass_obj
def index(given: Given, /, settings: Settings, *, source: Sequence[str], **options: Any) -> Result:
    """Read the sources that a command line names; limits given with them are for these sources, and no others."""
    from indexer import memory

    memory.prepare()
    own = {name: getattr(settings, name) for name in OWN if name in given.flags}
    configured = given.file.sources if given.file else ()
    settings = given.settings(without=OWN)
    return index_sources(list(source), settings, configured=configured, own=own, **options)


def index_sources(
    sources: list[str],
    settings: Settings,
    *,
    configured: "Sequence[ConfiguredSource]" = (),
    add: bool = False,
    full: bool = False,
    within: Mapping[str, Sequence[str]] | None = None,
    quiet: bool = False,
    watch: bool = False,
    progress: "Progress | None" = None,
    own: Mapping[str, Any] | None = None,
) -> Result:
    """Read the sources, and publish a generation unless nothing has changed.

    Without sources, those of the configuration file, or else of the live generation, are read again; with `add`, these
    are read as well. With `full`, everything is asked for and cut anew. `within` names, by source, the places that it
    may not leave. `own` has limits by name for the sources that are named here, or for all where none is; they are kept
    with them. With `watch`, stay and read folders and files again that have changed, until the process is told to stop.
    """
    from indexer.errors import SourceError
    from indexer.generation.previous import live_sources
    from indexer.publish.collections import list_collections
    from indexer.publish.publish import disk_errors, nothing_left, prepare
    from indexer.sources.names import address_kind, full_name, refuse_bare_host, refuse_secret
    from rag.commands.build.cluster import cluster_of
    from rag.commands.embedders import as_built, check_model, lazy_embedder
    from rag.commands.published import published
    from rag.serving.publisher import publisher_of, reported
    from rag.serving.source_builds import SourceBuilds
    from rag.settings_file import ConfiguredSource, credentials_of

    folder = settings.collection_dir
    if add and not sources:
        raise SourceError("--add needs a source")
    for source in sources:
        refuse_bare_host(source)
        refuse_secret(source)
    limited: Collection[str] = sources
    if not sources and not configured:
        limited = sources = live_sources(published(settings))
    elif add and folder in list_collections(settings.index_dir).values():
        sources = [*live_sources(folder), *sources]
    limited, given = set(map(full_name, limited)), own_limits(own or {})
    named = [
        ConfiguredSource(source, own=given if source in limited else {})
        for source in dict.fromkeys(map(full_name, sources))
    ] or [  # a file says all of it: what it does not say is not kept
        dataclasses.replace(source, own={**dict.fromkeys(OWN), **source.own, **given}) for source in configured
    ]
    if watch and all(address_kind(one.source) for one in named):
        raise SourceError("--watch is for folders and files: have systemd or cron run index again for other sources")
    config = settings.build_config(within)  # before the model is loaded, so that a bad value is told at once
    config = dataclasses.replace(config, credentials=credentials_of(settings))
    settings = as_built(settings)
    embedder = lazy_embedder(settings, quiet=quiet)
    for name in {one.collection or settings.collection for one in named}:
        check_model(dataclasses.replace(settings, collection=name), embedder.fingerprint)
    publisher = publisher_of(settings, quiet=quiet)
    if publisher and len({one.collection or settings.collection for one in named}) > 1:
        raise SettingsError(f"{settings.store} holds one collection, but the sources belong to several")
    with nothing_left(settings.index_dir), cluster_of(settings, embedder.fingerprint) as cluster:
        with disk_errors(settings.index_dir):
            prepare(settings.index_dir)
        work = SourceBuilds(
            settings,
            config,
            embedder,
            named,
            full=full,
            quiet=quiet,
            progress=progress,
            cluster=cluster,
            then=publisher,
        )
        if watch:
            work.watch()
            counts = f"{work.published:,} published, {work.failed:,} failed"
            return work.as_dict(), f"{counted(work.runs, 'run')}, {counts}"
        reports = work.once()
    if len(reports) == 1:
        [report] = reports.values()
        return reported(report, publisher)
    text = "\n\n".join(f"collection   {name}\n{report.table()}" for name, report in reports.items())
    return {"collections": {name: report.as_dict() for name, report in reports.items()}}, text
