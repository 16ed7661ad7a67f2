"""Build the index from sources, once or after each change, for the verb `index` and for the jobs of a server."""

import dataclasses
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedder.engines.plan import resolve_precision
from embedder.errors import PilotlightError
from embedder.text_embedder import Embedder
from indexer.config import SOURCE_SETTINGS, BuildConfig
from indexer.errors import ClusterError, NothingToIndex, SourceError, counted
from indexer.generation.previous import live_sources
from indexer.network.urls import address_kind, full_name, refuse_secret
from indexer.pipeline.build import build
from indexer.pipeline.progress import BuildReport, Progress
from indexer.publish.publish import disk_errors, list_collections, live_id, prepare
from indexer.sources.folder import Watcher
from indexer.stop_signal import raise_at
from rag.changes.snapshots import count_changes
from rag.commands import models
from rag.commands.cli import Result
from rag.commands.models import published_folder
from rag.settings import SETTINGS, Settings, load, own_limits
from rag.settings_file import ConfiguredSource, credentials_of
from rag.stores import publisher_of, report_of

if TYPE_CHECKING:
    from indexer.pipeline.cluster import Cluster

RETRY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """The sources to index, and the options of the builds.

    Args:
        sources: sources to index; if empty, `configured`; if both are empty, the sources of the live index.
        configured: sources in the configuration file.
        add: whether to keep the other sources of the live index.
        full: whether the first build reprocesses unchanged pages too.
        allow_shrink: whether to accept that a source has lost most of its documents.
        watch: whether to keep running, and to index folders and files again after each change.
        limits: crawl settings by name. They apply to `sources`, or to all sources if `sources` is empty.
        on_first: called with the report of the first build. If set, an error of the first build also ends `watch`.
    """

    sources: Sequence[str] = ()
    configured: Sequence[ConfiguredSource] = ()
    add: bool = False
    full: bool = False
    allow_shrink: bool = False
    watch: bool = False
    limits: Mapping[str, Any] = field(default_factory=dict)
    on_first: Callable[[BuildReport], None] | None = None


def index_sources(
    request: IndexRequest, settings: Settings, progress: Callable[[], Progress], *, quiet: bool = False
) -> Result:
    """Index the sources, and publish the index if anything has changed. `progress` creates a progress display."""
    sources = _sources(request, settings)
    config = settings.build_config()  # raises ConfigError, before the model is loaded
    limits_by_source = {one.source: one.limits for one in sources}
    config = dataclasses.replace(
        config,
        allow_shrink=request.allow_shrink,
        credentials=credentials_of(settings),
        crawl=dataclasses.replace(config.crawl, own=limits_by_source),
        metadata={one.source: one.metadata for one in sources if one.metadata},
    )
    settings = models.with_index_precision(settings)
    embedder = models.lazy_embedder(settings, quiet=quiet)
    models.check_model(settings, embedder.fingerprint)
    publisher = publisher_of(settings, quiet=quiet)
    with _cluster(settings, embedder.fingerprint) as cluster:
        with disk_errors(settings.index_dir):
            prepare(settings.index_dir)
        work = SourceBuilds(settings, config, embedder, tuple(limits_by_source), progress, cluster, publisher)
        if not request.watch:
            report = work.build(work.sources, full=request.full)
            if request.on_first:
                request.on_first(report)
            return report_of(report, publisher)
        totals = work.watch(full=request.full, on_first=request.on_first)
    runs, published_runs, failed = totals.values()
    return totals, f"{counted(runs, 'run')}, {published_runs:,} published, {failed:,} failed"


def _sources(request: IndexRequest, settings: Settings) -> list[ConfiguredSource]:
    folder, sources, configured = settings.collection_dir, list(request.sources), request.configured
    if request.add and not sources:
        raise SourceError("--add needs a source")
    for source in sources:
        refuse_secret(source)
    limited_sources = sources
    if not sources and not configured:
        limited_sources = sources = live_sources(published_folder(settings))
    elif request.add and folder in list_collections(settings.index_dir).values():
        sources = [*live_sources(folder), *sources]
    limited, limits = set(map(full_name, limited_sources)), own_limits(request.limits)
    sources_to_index = [
        ConfiguredSource(source, limits=limits if source in limited else {})
        for source in dict.fromkeys(map(full_name, sources))
    ]
    if not sources_to_index:  # the configuration file lists the sources, so limits of earlier commands are removed
        none = dict.fromkeys(SOURCE_SETTINGS)
        sources_to_index = [dataclasses.replace(one, limits={**none, **one.limits, **limits}) for one in configured]
    if request.watch and all(address_kind(one.source) for one in sources_to_index):
        raise SourceError("--watch is for folders and files: run index again by systemd or cron for other sources")
    return sources_to_index


@dataclass(frozen=True)
class SourceBuilds:
    """Builds one collection from its sources."""

    settings: Settings
    config: BuildConfig
    embedder: Embedder
    sources: Sequence[str]
    progress: Callable[[], Progress]
    cluster: "Cluster | None" = None
    on_published: Callable[[Path], None] | None = None  # called with the folder after every build

    def build(self, refresh: Collection[str], *, full: bool = False, keeps_others: bool = False) -> BuildReport:
        """Build the collection, but fetch only the sources in `refresh`. Raises the errors of `pipeline.build.build`.

        With `keeps_others`, sources that other commands have added to the index remain in the index.
        """
        folder = self.settings.collection_dir
        live = live_sources(folder) if (keeps_others or set(self.sources) - set(refresh)) and live_id(folder) else []
        config = dataclasses.replace(self.config, full=full, refresh=set(refresh))
        build_sources = [source for source in self.sources if source in refresh or source in live]
        build_sources += [source for source in live if source not in self.sources] if keeps_others else []
        report = build(build_sources, folder, self.embedder, config, progress=self.progress(), cluster=self.cluster)
        if report.published:
            report.sections = count_changes(folder)
        if self.on_published:
            self.on_published(folder)
        return report

    def watch(self, *, full: bool = False, on_first: Callable[[BuildReport], None] | None = None) -> dict[str, int]:
        """Index all sources, and then folders and files after each change, until SIGTERM or SIGINT.

        Failed sources are retried after a minute. If `on_first` is set, errors of the first build are raised instead.
        Returns the number of `runs`, and how many of them were `published` or `failed`.
        """
        totals = dict.fromkeys(("runs", "published", "failed"), 0)
        paths = {source for source in self.sources if address_kind(source) is None}
        due: Sequence[str] = self.sources
        is_first = True
        with suppress(KeyboardInterrupt), raise_at(signal.SIGTERM):
            watcher = Watcher(paths, self.settings.index_dir)
            if on_first:
                on_first(self.build(due, full=full))
                due, full, is_first = (), False, False
            while True:
                failed = self._try(due, totals, full=full, keeps_others=not is_first) if due else []
                full = is_first = False  # later builds keep the sources that other commands have added
                changed = watcher.wait(RETRY_SECONDS if failed else None)
                due = [source for source in self.sources if source in changed or source in failed]
        return totals

    def _try(self, refresh: Sequence[str], totals: dict[str, int], *, full: bool, keeps_others: bool) -> list[str]:
        """Index sources in one build. If it fails, build each source separately. Returns the sources that failed."""
        failed: list[str] = []
        try:
            report = self.build(refresh, full=full, keeps_others=keeps_others)
        except PilotlightError as error:
            if isinstance(error, SourceError | NothingToIndex) and len(refresh) > 1:
                each = ([source] for source in refresh)
                return [one for [one] in each if self._try([one], totals, full=full, keeps_others=keeps_others)]
            line, failed = f"failed, will retry: {error}", list(refresh)
        else:
            line = report.line()
            totals["published"] += report.published
        totals["failed"] += bool(failed)
        totals["runs"] += 1
        print(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), line, file=sys.stderr, flush=True)
        return failed


@contextmanager
def _cluster(settings: Settings, fingerprint: Mapping[str, Any]) -> "Iterator[Cluster | None]":
    """Connect to the Ray cluster and yield it, or yield None if the setting `ray` is empty.

    Each node chooses its engine, but all use the precision of this machine. Raises ClusterError if none can be used.
    """
    if not settings.ray:
        yield None
        return
    try:
        from indexer.pipeline.cluster import Cluster, ray_session
    except ModuleNotFoundError as error:
        raise ClusterError("building on a cluster needs the extra ray: pip install 'pilotlight[ray]'") from error
    with ray_session(settings.ray):
        cores = settings.threads or 1
        values = {setting.name: getattr(settings, setting.name) for setting in SETTINGS if setting.group == "embedder"}
        precision = resolve_precision(settings.precision)
        values |= {"threads": cores, "precision": precision, "query_precision": "same"}
        yield Cluster(partial(node_embedder, values), fingerprint, cores)


def node_embedder(settings: Mapping[str, Any]) -> Embedder:
    """Load the embedder in a process on a node of the cluster. The first process on each node compiles the model."""
    from rag.serving.follower import load_embedder

    return load_embedder(load(settings, {}))
