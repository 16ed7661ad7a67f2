"""A generation on its way: new documents go in, and ones of the earlier generation; it ends published or unused."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from embedder.protocol import Embedder
from indexer.collections import live_id
from indexer.earlier import Earlier
from indexer.errors import IndexCorrupt, IndexMissing
from indexer.lock import writer_lock
from indexer.machines import Machines
from indexer.manifest import Counts, Manifest
from indexer.progress import Progress
from indexer.publish import disk_errors, prepare, publish, remove_old, start
from indexer.records import Chunk, Document, PageRecord
from indexer.report import BuildReport, Ledger, Stopwatch
from indexer.vector_queue import VectorQueue
from indexer.writer import GenerationWriter


@contextmanager
def drafting(index_dir: Path, keep: int, progress: Progress) -> Iterator[Path]:
    """Hold the writer lock and give a folder for a draft; afterwards remove it, if it is still there, and old ones.

    Args:
        index_dir: folder of the index; made if it is missing.
        keep: generations kept, the live one included.
        progress: closed at the end.

    Raises:
        BuildLocked: another build is writing this index.
        IndexUnwritable: the folder cannot be written, is full, or holds something else.
    """
    with disk_errors(index_dir):
        prepare(index_dir)
        with writer_lock(index_dir):
            folder = start(index_dir)
            try:
                progress.phase("checking the live index" if live_id(index_dir) else "starting")
                yield folder
            finally:
                progress.close()
                shutil.rmtree(folder, ignore_errors=True)
            remove_old(index_dir, keep)


def open_earlier(index_dir: Path, progress: Progress) -> Earlier:
    """Return what the live generation has for the next one: nothing, which is said, if it is damaged."""
    try:
        return Earlier.open(index_dir)
    except IndexMissing:
        return Earlier.nothing()
    except IndexCorrupt as error:
        progress.message(f"reading and embedding everything again, as the live generation cannot be used: {error}")
        return Earlier.nothing()


class Draft:
    """Keeps the files of a new generation and the vectors on their way in step."""

    def __init__(
        self,
        folder: Path,
        dimension: int,
        vector_index: str,
        *,
        earlier: Earlier,
        embedder: Embedder | None,
        stopwatch: Stopwatch,
        progress: Progress,
        cluster: Machines | None = None,
    ) -> None:
        """Take the folder to fill.

        Args:
            folder: as `publish.start` gave it; its name is the id of the generation.
            dimension: length of a vector.
            vector_index: kind of the vector index.
            earlier: where documents and vectors may be taken from; its vectors must be of the same embedder.
            embedder: makes the other vectors; None if there will be none.
            stopwatch: told what time goes into.
            progress: told how many chunks are embedded.
            cluster: makes the vectors instead of the embedder, if there is one.
        """
        self._folder = folder
        self._progress = progress
        self._earlier = earlier
        self._stopwatch = stopwatch
        self._created = datetime.now(UTC)
        self._writer = GenerationWriter(folder, dimension, vector_index=vector_index)
        self.vectors = VectorQueue(embedder, earlier, self._writer.add_vectors, stopwatch, progress, cluster)

    @property
    def id(self) -> str:
        """The id of the generation, if it is published."""
        return self._folder.name

    @property
    def counts(self) -> Counts:
        """What has been added so far."""
        return self._writer.counts

    def add(self, document: Document, chunks: Sequence[Chunk]) -> None:
        """Add a document that was read anew; passages whose embedded text was there before keep their vectors."""
        with self._stopwatch.timed("write"):
            self._writer.add(document, chunks)
            rows = [self._earlier.row_of(chunk.content_hash) for chunk in chunks]
        self.vectors.put(chunks, rows)

    def carry(self, document_id: int, source: str) -> None:
        """Add a document of the earlier generation as it was, except for the source that led to it."""
        with self._stopwatch.timed("write"):
            document, chunks, rows = self._earlier.read(document_id)
            self._writer.add(replace(document, source=source), chunks, self._earlier.signatures(rows))
        self.vectors.put(chunks, rows)

    def remember(self, page: PageRecord) -> None:
        """Note what the next build needs to know of a page."""
        self._writer.documents.remember(page)

    def finish(self) -> None:
        """Complete every file; raises VectorError if the vectors do not match the chunks."""
        self.vectors.finish()
        self._progress.phase("writing the index")
        with self._stopwatch.timed("write"):
            self._files = self._writer.finish()

    def publish(
        self,
        index_dir: Path,
        *,
        fingerprint: dict[str, Any],
        settings: dict[str, Any],
        sources: Sequence[str],
        ledger: Ledger,
    ) -> None:
        """Make the finished draft the live generation; see `indexer.publish.publish`."""
        self._progress.phase("publishing")
        with self._stopwatch.timed("publish"):
            manifest = Manifest(
                id=self.id,
                created_at=self._created.isoformat(timespec="seconds"),
                fingerprint=fingerprint,
                counts=self.counts,
                files=self._files,
                settings=settings,
                sources=list(sources),
                report=self.report(ledger).as_dict(),  # can only know the time until now
            )
            publish(index_dir, self._folder, manifest)

    def report(self, ledger: Ledger) -> BuildReport:
        """What the build that made the draft did."""
        return ledger.report(self.id, self.counts, embedded=self.vectors.embedded, carried=self.vectors.carried)

    def close(self) -> None:
        """Release the files, published or not."""
        self.vectors.close()
        self._writer.close()
