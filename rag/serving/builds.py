"""Builds of collections: of their sources, once or whenever folders and files change, and of what is pushed to them."""

import dataclasses
import gc
import logging
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from embedder.errors import PilotlightError
from embedder.protocol import Embedder
from indexer import memory
from indexer.config import BuildConfig
from indexer.errors import NothingToIndex, SourceError
from indexer.generation.layout import GENERATIONS, collection_dir, current_id
from indexer.generation.manifest import read_manifest
from indexer.generation.previous import live_sources
from indexer.pipeline.build import build
from indexer.pipeline.progress import Progress, progress_for
from indexer.pipeline.report import BuildReport
from indexer.publish.publish import list_collections, live_id
from indexer.publish.source_settings import config_of
from indexer.sources.addresses import address_kind
from indexer.sources.folder import Watcher
from indexer.sources.pushed_store import PushedStore
from rag.query.served_model import check_fingerprint
from rag.serving.jobs import pushed_folders
from rag.settings import Settings
from rag.settings_file import ConfiguredSource

if TYPE_CHECKING:
    from indexer.pipeline.cluster import Cluster

RETRY = 60.0  # seconds after which a source is tried again that could not be read
_TOGETHER = 0.2  # seconds for what comes together
_LOOK = 0.1  # seconds between two looks at what waits
_IDLE = 60.0  # seconds without work after which the process ends: starting it anew takes one or two
_LIFE = 100  # builds after which it ends likewise, so that what libraries leak does not add up
_LONGEST_RETRY = 60.0  # seconds until what was pushed is tried again, which begins with one

log = logging.getLogger("pilotlight")


def _print(text: str) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    print(f"{now} {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class SourceBuilds:
    """Builds the collections that sources belong to."""

    settings: Settings
    config: BuildConfig
    embedder: Embedder
    sources: Sequence[ConfiguredSource]  # those without a collection belong to that of the settings
    _: KW_ONLY
    full: bool = False  # whether unchanged pages are read and cut again, the first time
    progress: Callable[[], Progress]  # made for each build
    cluster: "Cluster | None" = None  # whose machines embed; None: this one
    on_published: Callable[[Path], None] | None = None  # given the folder after every build that ended well
    log_line: Callable[[str], None] = _print  # given a line on every run of `watch`
    totals: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("runs", "published", "failed"), 0))
    _done: set[str] = field(default_factory=set)  # collections that were built once

    def once(self) -> dict[str, BuildReport]:
        """Read everything; return reports by collection. Raises what `build` raises."""
        return {name: self._build(name, refresh) for name, refresh in self._all().items()}

    def watch(self) -> None:
        """Read everything, then folders and files whenever they change, until the process is told to stop.

        What could not be read is tried again after a minute.
        """
        due = self._all()
        paths = {source for sources in due.values() for source in sources if address_kind(source) is None}
        # a build under way leaves the live index as it was
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        watcher = Watcher(paths, self.settings.index_dir)
        with suppress(KeyboardInterrupt):
            while True:
                failed = {name: self._try(name, refresh) for name, refresh in due.items() if refresh}
                changed = watcher.wait(RETRY if any(failed.values()) else None)
                due = {
                    name: [source for source in sources if source in changed or source in failed.get(name, ())]
                    for name, sources in self._all().items()
                }
        signal.signal(signal.SIGTERM, before)

    def _all(self) -> dict[str, list[str]]:
        """Return the sources by collection, in the order of the alphabet."""
        return {
            name: [one.source for one in self._sources(name)] for name in sorted(set(map(self._home, self.sources)))
        }

    def _home(self, source: ConfiguredSource) -> str:
        return source.collection or self.settings.collection

    def _sources(self, collection: str) -> list[ConfiguredSource]:
        return [one for one in self.sources if self._home(one) == collection]

    def _try(self, collection: str, refresh: Sequence[str]) -> list[str]:
        """Read sources of one collection; return those that failed. One that cannot be read keeps no other."""
        try:
            report = self._build(collection, refresh)
        except PilotlightError as error:
            if isinstance(error, SourceError | NothingToIndex) and len(refresh) > 1:
                return [source for source in refresh if self._try(collection, [source])]
            self.totals["failed"] += 1
            said, failed = f"failed, will retry: {error}", list(refresh)
        else:
            self.totals["published"] += report.published
            said, failed = report.line(), []
        self.totals["runs"] += 1
        self.log_line(f"{collection}: {said}")
        return failed

    def _build(self, collection: str, refresh: Collection[str]) -> BuildReport:
        folder, sources = collection_dir(self.settings.index_dir, collection), self._sources(collection)
        live = live_sources(folder) if folder in list_collections(self.settings.index_dir).values() else []
        config = dataclasses.replace(
            self.config,
            crawl=dataclasses.replace(self.config.crawl, own={one.source: one.own for one in sources}),
            full=self.full and collection not in self._done,
            refresh=set(refresh),
            metadata={one.source: one.metadata for one in sources if one.metadata},
        )
        self._done.add(collection)
        named = [one.source for one in sources if one.source in refresh or one.source in live]
        report = build(named, folder, self.embedder, config, progress=self.progress(), cluster=self.cluster)
        if self.on_published:
            self.on_published(folder)
        return report


class PushedBuilder:
    """Builds a collection again, with what was pushed to it; nothing else is read, nor embedded."""

    def __init__(
        self,
        settings: Settings,
        make_embedder: Callable[[Settings], Embedder],
        on_published: Callable[[Path], object] | None = None,
    ) -> None:
        """`on_published` is called with the folder of a collection after every build of it that ended well."""
        self._settings = settings
        self._make_embedder = make_embedder
        self._embedder: Embedder | None = None
        self._on_published = on_published
        self._failures: dict[str, tuple[int, float]] = {}  # by collection: how often, and when to try again
        self._pause = threading.Event()  # never set: it can be interrupted

    def keep(self, is_needed: Callable[[], bool], idle: float = _IDLE) -> None:
        """Index what waits, until nothing has come for so many seconds, or is not needed any more and nothing waits."""
        worked, builds = time.monotonic(), 0
        while time.monotonic() < worked + idle and builds < _LIFE:
            due = [
                (name, folder)
                for name, folder in pushed_folders(self._settings.index_dir).items()
                if self._failures.get(name, (0, 0.0))[1] <= time.monotonic() and PushedStore(folder).is_waiting()
            ]
            if due:
                self._pause.wait(_TOGETHER)
                for name, folder in due:
                    builds += 1
                    if self._try(name, folder):
                        worked = time.monotonic()
                    gc.collect()  # a build refers to itself in a circle, and holds the vectors of the generation before
                    memory.trim()
            elif not is_needed():
                return
            else:
                self._pause.wait(_LOOK)

    def build(self, folder: Path) -> BuildReport:
        """Index what waits in one collection; one that is there is built with the settings that it was built with.

        Raises FingerprintMismatch: it was built with another model; IndexCorrupt: the live generation cannot be read;
        and whatever else `build` raises.
        """
        if self._embedder is None:
            self._embedder = self._make_embedder(self._settings)
        config, sources = self._settings.build_config(), []
        if live_id(folder):
            live = read_manifest(folder / GENERATIONS / current_id(folder))
            check_fingerprint(live, self._embedder.fingerprint)
            config, sources = config_of(live), live.sources
        config = dataclasses.replace(config, refresh=(), keep_generations=self._settings.keep_generations)
        progress = progress_for(sys.stderr, quiet=True)
        report = build(sources, folder, self._embedder, config, progress=progress, is_brief=True)
        if self._on_published:
            self._on_published(folder)
        return report

    def _try(self, name: str, folder: Path) -> bool:
        """Index what waits in a collection; note why it could not be done, and return whether it was."""
        try:
            report = self.build(folder)
        except (PilotlightError, OSError, sqlite3.Error) as error:
            times = self._failures.get(name, (0, 0.0))[0] + 1
            self._failures[name] = (times, time.monotonic() + min(_LONGEST_RETRY, 0.5 * 2**times))
            log.warning("collection %s: %s", name, error)
            PushedStore(folder).trouble(str(error))
            return False
        self._failures.pop(name, None)
        log.info("collection %s: %s", name, report.line())
        return True
