"""The build of `index` and of the jobs of a server: sources in, a published generation out."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from embedder.engines.plan import resolve_precision
from embedder.protocol import Embedder
from indexer.config import OWN
from indexer.errors import ClusterError, SourceError, counted
from indexer.generation.previous import live_sources
from indexer.pipeline.progress import Progress
from indexer.publish.publish import disk_errors, list_collections, prepare
from indexer.sources.addresses import address_kind, full_name, refuse_bare_host, refuse_secret
from rag.commands import models
from rag.commands.models import published
from rag.commands.verb import Result
from rag.errors import SettingsError
from rag.serving.builds import SourceBuilds
from rag.serving.store_access import publisher_of, reported
from rag.settings import SETTINGS, Settings, load, own_limits
from rag.settings_file import ConfiguredSource, credentials_of

if TYPE_CHECKING:
    from indexer.pipeline.cluster import Cluster


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """The sources to index, and how."""

    sources: Sequence[str] = ()  # none: those of the configuration file, or else of the live generation
    configured: Sequence[ConfiguredSource] = ()  # in the configuration file
    add: bool = False  # to those of the live generation
    full: bool = False  # whether unchanged pages are asked for and cut again
    watch: bool = False  # whether to stay and read folders and files again that have changed
    limits: Mapping[str, Any] = field(default_factory=dict)  # settings by name, for the named sources or else for all


def index_sources(
    request: IndexRequest, settings: Settings, progress: Callable[[], Progress], *, quiet: bool = False
) -> Result:
    """Read the sources, and publish a generation unless nothing has changed; `progress` is made for each build."""
    sources = _sources(request, settings)
    config = settings.build_config()  # before the model is loaded, so that a bad value is refused at once
    config = dataclasses.replace(config, credentials=credentials_of(settings))
    settings = models.as_built(settings)
    embedder = models.lazy_embedder(settings, quiet=quiet)
    for name in {one.collection or settings.collection for one in sources}:
        models.check_model(dataclasses.replace(settings, collection=name), embedder.fingerprint)
    publisher = publisher_of(settings, quiet=quiet)
    if publisher and len({one.collection or settings.collection for one in sources}) > 1:
        raise SettingsError(f"{settings.store} holds one collection, but the sources belong to several")
    with _cluster(settings, embedder.fingerprint) as cluster:
        with disk_errors(settings.index_dir):
            prepare(settings.index_dir)
        work = SourceBuilds(
            settings,
            config,
            embedder,
            sources,
            full=request.full,
            progress=progress,
            cluster=cluster,
            on_published=publisher,
        )
        if request.watch:
            work.watch()
            runs, published_runs, failed = work.totals.values()
            return work.totals, f"{counted(runs, 'run')}, {published_runs:,} published, {failed:,} failed"
        reports = work.once()
    if len(reports) == 1:
        [report] = reports.values()
        return reported(report, publisher)
    text = "\n\n".join(f"collection   {name}\n{report.table()}" for name, report in reports.items())
    return {"collections": {name: report.as_dict() for name, report in reports.items()}}, text


def _sources(request: IndexRequest, settings: Settings) -> list[ConfiguredSource]:
    """Return all that is to be read. Raises SourceError for a source that cannot be one."""
    folder, sources, configured = settings.collection_dir, list(request.sources), request.configured
    if request.add and not sources:
        raise SourceError("--add needs a source")
    for source in sources:
        refuse_bare_host(source)
        refuse_secret(source)
    named = sources
    if not sources and not configured:
        named = sources = live_sources(published(settings))
    elif request.add and folder in list_collections(settings.index_dir).values():
        sources = [*live_sources(folder), *sources]
    limited, limits = set(map(full_name, named)), own_limits(request.limits)
    found = [
        ConfiguredSource(source, own=limits if source in limited else {})
        for source in dict.fromkeys(map(full_name, sources))
    ]
    if not found:  # a file says all of it: limits that it does not name are not kept
        none = dict.fromkeys(OWN)
        found = [dataclasses.replace(one, own={**none, **one.own, **limits}) for one in configured]
    if request.watch and all(address_kind(one.source) for one in found):
        raise SourceError("--watch is for folders and files: have systemd or cron run index again for other sources")
    return found


@contextmanager
def _cluster(settings: Settings, fingerprint: Mapping[str, Any]) -> "Iterator[Cluster | None]":
    """Connect to the Ray cluster of the settings, if they name one, until the block ends.

    Every node gets the embedder of the settings with the engine that its own processor runs, in the precision of this
    machine. Raises ClusterError.
    """
    if not settings.ray:
        yield None
        return
    try:
        from indexer.pipeline.cluster import Cluster, ray_session
    except ModuleNotFoundError as error:
        raise ClusterError("building on a cluster needs the extra ray: pip install 'pilotlight[ray]'") from error
    with ray_session(settings.ray):
        cores = settings.threads or 1  # of a task: processes next to each other do not wait for each other
        values = {setting.name: getattr(settings, setting.name) for setting in SETTINGS if setting.group == "embedder"}
        values |= {"threads": cores, "precision": resolve_precision(settings.precision)}
        yield Cluster(partial(node_embedder, values), fingerprint, cores)


def node_embedder(settings: Mapping[str, Any]) -> Embedder:
    """Load the embedder of these settings on a node; compiled there once, by the first process that needs it."""
    from rag.serving.live import load_embedder

    return load_embedder(load(settings, {}))
