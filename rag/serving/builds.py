"""Builds of collections with what is pushed to them."""

import dataclasses
import gc
import logging
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from embedder.errors import PilotlightError
from embedder.text_embedder import Embedder
from indexer import memory
from indexer.generation.manifest import GENERATIONS, current_id, read_manifest
from indexer.pipeline.build import build
from indexer.pipeline.progress import BuildReport, Progress
from indexer.publish.publish import live_id
from indexer.publish.source_settings import config_of
from indexer.sources.pushed_store import PushedStore
from rag.query.fingerprint import check_fingerprint
from rag.serving.jobs import pushed_folders
from rag.settings import Settings

_TOGETHER = 0.2  # seconds for what comes together
_LOOK = 0.1  # seconds between two looks at what waits
_IDLE = 60.0  # seconds without work after which the process ends: starting it anew takes one or two
_LIFE = 100  # builds after which it ends likewise, so that what libraries leak does not add up
_RETRY = 5.0  # seconds until what was pushed is tried again

log = logging.getLogger("pilotlight")


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
        self._retry: dict[str, float] = {}  # by collection: when to try it again
        self._pause = threading.Event()  # never set: it can be interrupted

    def keep(self, is_needed: Callable[[], bool], idle: float = _IDLE) -> None:
        """Index what waits, until nothing has come for so many seconds, or is not needed any more and nothing waits."""
        worked, builds = time.monotonic(), 0
        while time.monotonic() < worked + idle and builds < _LIFE:
            due = [
                (name, folder)
                for name, folder in pushed_folders(self._settings.index_dir).items()
                if self._retry.get(name, 0.0) <= time.monotonic() and PushedStore(folder).is_waiting()
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
            build_config, sources = config_of(live), live.sources
            crawl = dataclasses.replace(build_config.crawl, http_proxy=self._settings.http_proxy)
            config = dataclasses.replace(build_config, crawl=crawl)
        config = dataclasses.replace(config, refresh=(), keep_generations=self._settings.keep_generations)
        progress = Progress(sys.stderr, quiet=True)
        report = build(sources, folder, self._embedder, config, progress=progress, is_brief=True)
        if self._on_published:
            self._on_published(folder)
        return report

    def _try(self, name: str, folder: Path) -> bool:
        """Index what waits in a collection; note why it could not be done, and return whether it was."""
        try:
            report = self.build(folder)
        except (PilotlightError, OSError, sqlite3.Error) as error:
            self._retry[name] = time.monotonic() + _RETRY
            log.warning("collection %s: %s", name, error)
            PushedStore(folder).trouble(str(error))
            return False
        log.info("collection %s: %s", name, report.line())
        return True
