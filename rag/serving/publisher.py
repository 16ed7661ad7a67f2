"""Publishes to Milvus what was built in an index folder: nothing is embedded, nothing is live before it is checked."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedder.errors import PilotlightError
from indexer.generation.layout import current_id, generation_folder
from indexer.generation.manifest import TOKENS, read_manifest
from indexer.generation.previous import scan
from indexer.pipeline.report import BuildReport
from indexer.publish.collections import writer_lock
from rag.clock import StepTimer
from rag.errors import NotPublished
from rag.serving.store_access import live_id, milvus_at
from rag.settings import Settings

if TYPE_CHECKING:
    from indexer.stores.milvus.milvus_store import MilvusStore


class Publisher:
    """Brings the live generation of an index folder into Milvus, after every build."""

    def __init__(self, store: "MilvusStore", *, keep: int, quiet: bool = False) -> None:
        self._store = store
        self._keep = keep
        self._quiet = quiet
        self.done: dict[str, Any] | None = None  # report of the last call, JSON-ready

    def __call__(self, folder: Path) -> None:
        """Publish the live generation of a folder, unless it is live in the store already.

        Raises NotPublished; the generation is in the folder, and what was live in the store is so still.
        """
        try:
            name = current_id(folder)
            self.done = {"generation": name, "target": self._store.name, "copied": False}
            if live_id(self._store) != name:
                title = f"publishing to {self._store.name}"
                with StepTimer(sys.stderr, title, quiet=self._quiet) as elapsed, writer_lock(folder):
                    self.done |= self._publish(folder, name, elapsed)
        except PilotlightError as error:
            raise NotPublished(
                f"{error}; the build is complete in {folder}; the next index with --store {self._store.name} "
                "publishes it, also where nothing has changed"
            ) from error

    def _publish(self, folder: Path, name: str, elapsed: StepTimer) -> dict[str, Any]:
        start, manifest = time.monotonic(), read_manifest(generation_folder(folder, name))
        elapsed.step("writing and comparing passages")
        self._store.write(manifest, scan(folder, name))
        self._store.make_live(name)
        self._store.keep(self._keep)
        lost = f"{self._store.name} does not keep tokens: its searches rank without late interaction"
        return {
            "copied": True,
            "documents": manifest.counts.documents,
            "chunks": manifest.counts.chunks,
            "seconds": round(time.monotonic() - start, 2),
            "warnings": [lost] if TOKENS in manifest.files else [],
        }


def publisher_of(settings: Settings, *, quiet: bool = True) -> Publisher | None:
    """Return the publisher to the store of the settings, None where that is the index folder."""
    if not settings.store:
        return None
    return Publisher(milvus_at(settings.store), keep=settings.keep_generations, quiet=quiet)


def reported(report: BuildReport, publisher: Publisher | None) -> tuple[dict[str, Any], str]:
    """Return the report of a build and of its publishing: JSON-ready, and for a terminal."""
    if publisher is None or publisher.done is None:
        return report.as_dict(), report.table()
    done = publisher.done
    lines = [f"store        generation {done['generation']} is live in {done['target']}"]
    lines += [f"warning: {warning}" for warning in done.get("warnings", ())]
    return report.as_dict() | {"store": done}, "\n".join([report.table(), *lines])
