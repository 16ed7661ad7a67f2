"""Builds of the collections that sources belong to: once, or whenever folders and files change."""

import dataclasses
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from embedder.errors import PilotlightError
from embedder.protocol import Embedder
from indexer.config import BuildConfig
from indexer.errors import NothingToIndex, SourceError
from indexer.generation.previous import live_sources
from indexer.pipeline.build import build
from indexer.pipeline.progress import Progress, progress_for
from indexer.pipeline.report import BuildReport
from indexer.publish.collections import list_collections
from indexer.sources.names import address_kind
from indexer.sources.watch import Watcher
from rag.settings import Settings
from rag.settings_file import ConfiguredSource

if TYPE_CHECKING:
    from indexer.pipeline.ray.driver import Cluster

RETRY = 60.0  # seconds after which a source is tried again that could not be read


class SourceBuilds:
    """Builds the collections that sources belong to."""

    def __init__(
        self,
        settings: Settings,
        config: BuildConfig,
        embedder: Embedder,
        sources: Sequence[ConfiguredSource],
        *,
        full: bool = False,
        quiet: bool = False,
        say: Callable[[str], None] | None = None,
        progress: Progress | None = None,
        cluster: "Cluster | None" = None,
        then: Callable[[Path], None] | None = None,
    ) -> None:
        """Take what to build; sources that name no collection belong to that of the settings.

        With a `cluster`, its machines read, cut and embed. `progress` is shown on stderr by default. `say` is told what
        came of every run of `watch`; by default it prints a line on stderr. `then` is given the folder of a collection
        after every build of it that ended well.
        """
        self._settings = settings
        self._config = config
        self._embedder = embedder
        self._sources: dict[str, list[ConfiguredSource]] = {}
        for one in sources:
            self._sources.setdefault(one.collection or settings.collection, []).append(one)
        self._full = set(self._sources) if full else set()  # collections that are still to be read anew
        self._quiet = quiet
        self._say = say or _print
        self._progress = progress
        self._cluster = cluster
        self._then = then
        self.runs = self.published = self.failed = 0

    def once(self) -> dict[str, BuildReport]:
        """Read everything; return reports by collection. Raises what `build` raises."""
        return {name: self._build(name, refresh) for name, refresh in self._all().items()}

    def watch(self) -> None:
        """Read everything, then folders and files whenever they change, until the process is told to stop.

        What could not be read is tried again after a minute.
        """
        due = self._all()
        paths = {source for sources in due.values() for source in sources if address_kind(source) is None}
        with _stopping(), closing(Watcher(paths, self._settings.index_dir)) as watcher:
            while True:
                failed = {name: self._try(name, refresh) for name, refresh in due.items() if refresh}
                for source in paths.intersection(chain.from_iterable(failed.values())):
                    watcher.renew(source)  # as it may have been taken away and put back
                changed = watcher.wait(RETRY if any(failed.values()) else None)
                due = {
                    name: [source for source in sources if source in changed or source in failed.get(name, ())]
                    for name, sources in self._all().items()
                }

    def _all(self) -> dict[str, list[str]]:
        return {name: [one.source for one in self._sources[name]] for name in sorted(self._sources)}

    def _try(self, collection: str, refresh: Sequence[str]) -> list[str]:
        """Read sources of one collection; return those that failed. One that cannot be read keeps no other."""
        try:
            report = self._build(collection, refresh)
        except (SourceError, NothingToIndex) as error:
            if len(refresh) > 1:
                return [source for source in refresh if self._try(collection, [source])]
            return self._failed(collection, refresh, error)
        except PilotlightError as error:
            return self._failed(collection, refresh, error)
        self.runs += 1
        self.published += report.published
        self._say(f"{collection}: {report.line()}")
        return []

    def _failed(self, collection: str, refresh: Sequence[str], error: PilotlightError) -> list[str]:
        self.runs += 1
        self.failed += 1
        self._say(f"{collection}: failed, will retry: {error}")
        return list(refresh)

    def _build(self, collection: str, refresh: Collection[str]) -> BuildReport:
        settings = dataclasses.replace(self._settings, collection=collection)
        folder, sources = settings.collection_dir, self._sources[collection]
        live = live_sources(folder) if folder in list_collections(settings.index_dir).values() else []
        full = collection in self._full
        self._full.discard(collection)
        config = dataclasses.replace(
            self._config,
            crawl=dataclasses.replace(self._config.crawl, own={one.source: one.own for one in sources}),
            full=full,
            refresh=set(refresh),
            metadata={one.source: one.metadata for one in sources if one.metadata},
        )
        report = build(
            [one.source for one in sources if one.source in refresh or one.source in live],
            folder,
            self._embedder,
            config,
            progress=self._progress or progress_for(sys.stderr, quiet=self._quiet),
            cluster=self._cluster,
        )
        if self._then:
            self._then(folder)
        return report

    def as_dict(self) -> dict[str, Any]:
        """Return, JSON-ready, how often `watch` has built, published and failed."""
        names = "runs", "published", "failed"
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
