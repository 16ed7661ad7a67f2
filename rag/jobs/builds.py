"""Rebuild collections after clients have pushed documents to them."""

import dataclasses
import gc
import logging
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path

from embedder.errors import PilotlightError
from embedder.text_embedder import Embedder
from indexer import memory
from indexer.config import config_of
from indexer.generation.manifest import GENERATIONS, current_id, read_manifest
from indexer.pipeline.build import build
from indexer.pipeline.progress import BuildReport, Progress
from indexer.publish.publish import live_id
from indexer.sources.pushed_store import PushedStore
from rag.jobs.pushes import pushed_folders
from rag.settings import Settings
from rag.stores import check_fingerprint

_BATCH_SECONDS = 0.2  # wait before a build, so that documents pushed in this time are included
_POLL_SECONDS = 0.1
_IDLE_SECONDS = 60.0  # time without a build after which the process ends
_MAX_BUILDS = 100  # per process, because libraries leak memory
_RETRY_SECONDS = 5.0

log = logging.getLogger("pilotlight")


class PushedBuilder:
    """Rebuilds collections to include newly pushed documents. Other documents are neither read nor embedded again."""

    def __init__(
        self,
        settings: Settings,
        make_embedder: Callable[[Settings], Embedder],
        on_published: Callable[[Path], object] | None = None,
    ) -> None:
        """Create a builder. After each build, `on_published` is called with the folder of the collection."""
        self._settings = settings
        self._make_embedder = make_embedder
        self._embedder: Embedder | None = None
        self._on_published = on_published
        self._retry: dict[str, float] = {}

    def run_until_idle(self, is_needed: Callable[[], bool], idle: float = _IDLE_SECONDS) -> None:
        """Index newly pushed documents until there has been no successful build for `idle` seconds.

        Returns earlier after `_MAX_BUILDS` builds, or if no documents are waiting and `is_needed` returns False.
        """
        last_success, builds = time.monotonic(), 0
        while time.monotonic() < last_success + idle and builds < _MAX_BUILDS:
            due = [
                (name, folder)
                for name, folder in pushed_folders(self._settings.index_dir).items()
                if self._retry.get(name, 0.0) <= time.monotonic() and PushedStore(folder).is_waiting()
            ]
            if due:
                time.sleep(_BATCH_SECONDS)
                for name, folder in due:
                    builds += 1
                    if self._try(name, folder):
                        last_success = time.monotonic()
                    gc.collect()  # reference cycles would keep vectors in memory
                    memory.trim()
            elif not is_needed():
                return
            else:
                time.sleep(_POLL_SECONDS)

    def build(self, folder: Path) -> BuildReport:
        """Index the documents that were pushed to a collection, with the settings of its last build.

        Raises:
            FingerprintMismatch: the collection was built with another model.
            IndexCorrupt: the live index cannot be read.
            PilotlightError: see `pipeline.build.build`.
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
        """Call `build`, and record its error if it fails. Returns whether the build succeeded."""
        try:
            report = self.build(folder)
        except (PilotlightError, OSError, sqlite3.Error) as error:
            self._retry[name] = time.monotonic() + _RETRY_SECONDS
            log.warning("collection %s: %s", name, error)
            PushedStore(folder).record_error(str(error))
            return False
        log.info("collection %s: %s", name, report.line())
        return True
