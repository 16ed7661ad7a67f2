"""Builds of the collections that sources belong to: once, or whenever folders and files change."""

import dataclasses
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import KW_ONLY, dataclass
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from embedder.errors import PilotlightError
from embedder.protocol import Embedder
from indexer.config import BuildConfig
from indexer.errors import NothingToIndex, SourceError
from indexer.generation.layout import collection_dir
from indexer.generation.previous import live_sources
from indexer.pipeline.build import build
from indexer.pipeline.progress import Progress
from indexer.pipeline.report import BuildReport
from indexer.publish.collections import list_collections
from indexer.sources.addresses import address_kind
from indexer.sources.watch import Watcher
from rag.settings import Settings
from rag.settings_file import ConfiguredSource

if TYPE_CHECKING:
    from indexer.pipeline.cluster import Cluster

RETRY = 60.0  # seconds after which a source is tried again that could not be read


def _print(text: str) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    print(f"{now} {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class BuildOrder:
    """The collections to build, and how."""

    settings: Settings
    config: BuildConfig
    embedder: Embedder
    sources: Sequence[ConfiguredSource]  # those without a collection belong to that of the settings
    _: KW_ONLY
    full: bool = False  # whether unchanged pages are read and cut again, the first time
    progress: Callable[[], Progress]  # made for each build
    cluster: "Cluster | None" = None  # whose machines read, cut and embed; None: this one
    on_published: Callable[[Path], None] | None = None  # given the folder after every build that ended well


class SourceBuilds:
    """Builds the collections of an order."""

    def __init__(self, order: BuildOrder, log_line: Callable[[str], None] = _print) -> None:
        """Take the order, and what is given a line on every run of `watch`."""
        self._order = order
        self._log_line = log_line
        self._sources: dict[str, list[ConfiguredSource]] = {}
        for one in order.sources:
            self._sources.setdefault(one.collection or order.settings.collection, []).append(one)
        self._full = set(self._sources) if order.full else set()  # collections that are still to be read in full
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
        with _stopping(), closing(Watcher(paths, self._order.settings.index_dir)) as watcher:
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
        except PilotlightError as error:
            if isinstance(error, SourceError | NothingToIndex) and len(refresh) > 1:
                return [source for source in refresh if self._try(collection, [source])]
            self.runs += 1
            self.failed += 1
            self._log_line(f"{collection}: failed, will retry: {error}")
            return list(refresh)
        self.runs += 1
        self.published += report.published
        self._log_line(f"{collection}: {report.line()}")
        return []

    def _build(self, collection: str, refresh: Collection[str]) -> BuildReport:
        order = self._order
        folder = collection_dir(order.settings.index_dir, collection)
        sources = self._sources[collection]
        live = live_sources(folder) if folder in list_collections(order.settings.index_dir).values() else []
        config = dataclasses.replace(
            order.config,
            crawl=dataclasses.replace(order.config.crawl, own={one.source: one.own for one in sources}),
            full=collection in self._full,
            refresh=set(refresh),
            metadata={one.source: one.metadata for one in sources if one.metadata},
        )
        self._full.discard(collection)
        named = [one.source for one in sources if one.source in refresh or one.source in live]
        report = build(named, folder, order.embedder, config, progress=order.progress(), cluster=order.cluster)
        if order.on_published:
            order.on_published(folder)
        return report

    def as_dict(self) -> dict[str, int]:
        """Return, JSON-ready, how often `watch` has built, published and failed."""
        return {"runs": self.runs, "published": self.published, "failed": self.failed}


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
