"""Indexes that stay up to date: sources that are read again when they change, or when their time has come."""

import dataclasses
import hashlib
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from embedder.errors import PilotlightError
from embedder.protocol import Embedder
from indexer.build.build import build
from indexer.build.progress import Progress, progress_for
from indexer.build.report import BuildReport
from indexer.config import BuildConfig
from indexer.errors import IndexerError, NothingToIndex, SourceError
from indexer.generation.previous import READER_VERSION, live_sources
from indexer.publish.collections import list_collections
from indexer.publish.held_back import Judge
from indexer.publish.publish import disk_errors
from indexer.sources.names import address_kind
from indexer.sources.read_times import ReadTimes
from indexer.sources.schedule import Schedule, ScheduledSource
from indexer.sources.watch import Watcher
from rag.settings import Settings
from rag.settings_file import ConfiguredSource

if TYPE_CHECKING:
    from indexer.build.ray.driver import Cluster


class BuildScheduler:
    """Builds the collections that sources belong to: all sources at once, or each when it is due."""

    def __init__(
        self,
        settings: Settings,
        config: BuildConfig,
        embedder: Embedder,
        entries: Mapping[ScheduledSource, Mapping[str, Sequence[str]]],
        *,
        full: bool = False,
        quiet: bool = False,
        say: Callable[[str], None] | None = None,
        progress: Progress | None = None,
        cluster: "Cluster | None" = None,
        then: Callable[[Path], None] | None = None,
        judge: Judge | None = None,
        own: Mapping[tuple[str, str], Mapping[str, Any]] | None = None,
    ) -> None:
        """`entries` come with the metadata that their documents get; `progress` is shown on stderr by default.

        With a `cluster`, its machines read, cut and embed.

        `say` is told what came of every run of `keep`; by default it prints a line on stderr. `then` is given the
        folder of a collection after every build of it that ended well. `judge` says what is held back. `own` has, by
        collection and source, what `CrawlLimits.own` takes.
        """
        self._settings = settings
        self._config = config
        self._embedder = embedder
        self._entries = sorted(entries, key=lambda entry: entry.collection)
        self._metadata = entries
        self._full = full
        self._quiet = quiet
        self._say = say or _print
        self._readings = ReadTimes(settings.index_dir)
        self._progress = progress
        self._cluster = cluster
        self._then = then
        self._judge = judge
        self._own = own or {}
        self.runs = self.published = self.failed = self.held_back = 0

    def once(self) -> dict[str, BuildReport]:
        """Read everything; return reports by collection. Raises what `build` raises."""
        return {
            collection: self._build(collection, list(entries))
            for collection, entries in groupby(self._entries, key=lambda entry: entry.collection)
        }

    def keep(self) -> None:
        """Read what is due until the process is told to stop or nothing can become due any more.

        At first that is everything but what has an interval and was read within it, by whatever process, with the
        same settings.
        """
        schedule = Schedule(self._entries, age=self._age)
        watched = [entry.source for entry in self._entries if entry.watched]
        with _stopping(), closing(Watcher(watched, self._settings.index_dir)) as watcher:
            while True:
                for collection, entries in groupby(schedule.due(), key=lambda entry: entry.collection):
                    due = list(entries)
                    failed = self._try(collection, due)
                    for entry in due:
                        schedule.done(entry, failed=entry in failed)
                        if entry.watched and entry in failed:
                            watcher.renew(entry.source)  # as it may have been taken away and put back
                seconds = schedule.wait()
                if seconds is None and not watched:
                    return
                schedule.changed(watcher.wait(seconds))

    def _try(self, collection: str, due: Sequence[ScheduledSource]) -> list[ScheduledSource]:
        """Read entries of one collection; those that failed. One that cannot be read does not keep the others."""
        try:
            report = self._build(collection, due)
        except (SourceError, NothingToIndex) as error:
            if len(due) > 1:
                return [entry for entry in due if self._try(collection, [entry])]
            return self._failed(collection, due, error)
        except PilotlightError as error:
            return self._failed(collection, due, error)
        self.runs += 1
        self.published += report.published
        self.held_back += report.held_back is not None
        self._say(f"{collection}: {report.line()}")
        return []

    def _failed(self, collection: str, due: Sequence[ScheduledSource], error: PilotlightError) -> list[ScheduledSource]:
        self.runs += 1
        self.failed += 1
        self._say(f"{collection}: failed, will retry: {error}")
        return list(due)

    def _build(self, collection: str, due: Sequence[ScheduledSource]) -> BuildReport:
        settings = dataclasses.replace(self._settings, collection=collection)
        folder = settings.collection_dir
        live = live_sources(folder) if folder in list_collections(settings.index_dir).values() else []
        refresh = {entry.source for entry in due}
        entries = [entry for entry in self._entries if entry.collection == collection]
        full, self._full = self._full, False
        metadata = {entry.source: given for entry in entries if (given := self._metadata[entry])}
        report = build(
            [entry.source for entry in entries if entry.source in refresh or entry.source in live],
            folder,
            self._embedder,
            dataclasses.replace(self._config_of(entries), full=full, refresh=refresh, metadata=metadata),
            progress=self._progress or progress_for(sys.stderr, quiet=self._quiet),
            cluster=self._cluster,
            judge=self._judge,
        )
        if not report.held_back:  # or what was read did not come into the index
            with disk_errors(settings.index_dir):
                self._readings.note(collection, [(entry.source, self._digest(entry)) for entry in due])
        if self._then:
            self._then(folder)
        return report

    def _age(self, entry: ScheduledSource) -> float | None:
        """Seconds since an entry was read as it would be now and came into the index, if it is there."""
        folder = dataclasses.replace(self._settings, collection=entry.collection).collection_dir
        if self._full or folder not in list_collections(self._settings.index_dir).values():
            return None
        try:
            if entry.source not in live_sources(folder):
                return None
        except IndexerError:  # missing, damaged or out of reach for now, which the build says
            return None
        return self._readings.age(entry.collection, entry.source, self._digest(entry))

    def _config_of(self, entries: Sequence[ScheduledSource]) -> BuildConfig:
        """The config with what each of some entries of one collection has of its own."""
        own = {entry.source: self._own.get((entry.collection, entry.source), {}) for entry in entries}
        return dataclasses.replace(self._config, crawl=dataclasses.replace(self._config.crawl, own=own))

    def _digest(self, entry: ScheduledSource) -> str:
        """Stands for the settings that decide what comes of reading an entry."""
        model = (self._settings.model, self._settings.revision, self._settings.precision)
        made = [READER_VERSION, model, self._config_of([entry]).as_dict(), sorted(self._metadata[entry].items())]
        made += map(repr, self._config.credentials)  # which say where secrets are, and not what they are
        return hashlib.sha256(json.dumps(made, default=list).encode()).hexdigest()

    def as_dict(self) -> dict[str, Any]:
        """Return, JSON-ready, how often `keep` has built, published, held back and failed."""
        names = "runs", "published", "held_back", "failed"
        return {name: getattr(self, name) for name in names}


@contextmanager
def _stopping() -> Iterator[None]:
    """End the block without an error on SIGTERM or Ctrl-C; a build under way leaves the live index as it was."""

    def stop(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)


def _print(text: str) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    print(f"{now} {text}", file=sys.stderr, flush=True)


def scheduled_sources(
    sources: Sequence[ConfiguredSource], collection: str, *, every: float | None = None, watch: bool = False
) -> dict[ScheduledSource, Mapping[str, tuple[str, ...]]]:
    """Return when each source is to be read, with its metadata.

    Args:
        sources: what says how often it is to be read, or that it is to be watched, keeps to that.
        collection: of the sources that name none.
        every: seconds for the others; with `watch`, for those among them that are no paths.
        watch: whether the paths among them are watched.

    Raises:
        SourceError: `watch` is asked for, and a source that is no path has no interval.
    """
    entries = {}
    for one in sources:
        kind = address_kind(one.source)
        watched = kind is None and (one.watch or (watch and one.every is None))
        interval = one.every or (None if watched else every)
        if kind is not None and watch and interval is None:
            raise SourceError(f"{one.source} is a {kind} and cannot be watched: set an interval, such as --every 6h")
        entries[ScheduledSource(one.source, one.collection or collection, interval, watched)] = one.metadata
    return entries
