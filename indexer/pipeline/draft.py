"""A generation on its way: new documents go in, and ones of the earlier generation; it ends published or unused."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from indexer.errors import IndexCorrupt, IndexMissing
from indexer.generation.manifest import Counts, Manifest
from indexer.generation.previous import PreviousGeneration
from indexer.generation.writer import GenerationWriter
from indexer.pipeline.context import BuildContext
from indexer.pipeline.progress import Progress
from indexer.pipeline.report import BuildReport
from indexer.pipeline.vector_queue import VectorQueue
from indexer.publish.collections import live_id
from indexer.publish.lock import writer_lock
from indexer.publish.publish import disk_errors, prepare, publish, remove_old, start
from indexer.records import Chunk, Document, PageRecord

_DRIFT = 0.1  # share of the vectors that may have come or gone since an index was trained, until it is trained anew


@contextmanager
def drafting(index_dir: Path, keep: int, progress: Progress, *, is_brief: bool = False) -> Iterator[Path]:
    """Hold the writer lock and give a folder for a draft; afterwards remove it, if it is still there, and old ones.

    Args:
        index_dir: folder of the index; made if it is missing.
        keep: generations kept, the live one included.
        progress: closed at the end.
        is_brief: see `writer_lock`.

    Raises:
        BuildLocked: another build is writing this index.
        IndexUnwritable: the folder cannot be written, is full, or holds something else.
    """
    with disk_errors(index_dir):
        prepare(index_dir)
        with writer_lock(index_dir, is_brief=is_brief):
            folder = start(index_dir)
            try:
                progress.phase("checking the live index" if live_id(index_dir) else "starting")
                yield folder
            finally:
                progress.close()
                shutil.rmtree(folder, ignore_errors=True)
            remove_old(index_dir, keep)


def open_earlier(index_dir: Path, progress: Progress) -> PreviousGeneration:
    """Return what the live generation has for the next one: nothing, which is said, if it is damaged."""
    try:
        return PreviousGeneration.open(index_dir)
    except IndexMissing:
        return PreviousGeneration.nothing()
    except IndexCorrupt as error:
        progress.message(f"reading and embedding everything again, as the live generation cannot be used: {error}")
        return PreviousGeneration.nothing()


class Draft:
    """Keeps the files of a new generation and the vectors on their way in step."""

    def __init__(self, folder: Path, dimension: int, context: BuildContext, *, may_stay: bool = False) -> None:
        """Take the folder to fill.

        Args:
            folder: as `publish.start` gave it; its name is the id of the generation.
            dimension: length of a vector.
            context: the build; vectors of its earlier generation must be of its embedder.
            may_stay: whether the live generation is to stay if the draft turns out to be the same. Its documents are
                copied only when something differs.
        """
        self._folder = folder
        self._context = context
        self._earlier = context.earlier
        self._stopwatch = context.ledger.stopwatch
        self._created = datetime.now(UTC)
        config = context.config
        self._writer = GenerationWriter(folder, dimension, vector_index=config.vector_index, tokens=bool(config.tokens))
        self._vectors = VectorQueue(context, self._writer)
        self._to_copy: list[tuple[int, str]] | None = [] if may_stay else None  # None once something differs

    @property
    def counts(self) -> Counts:
        """Numbers of documents and chunks added so far."""
        return self._writer.counts

    @property
    def is_unchanged(self) -> bool:
        """Whether it has what the live generation has and nothing else, unless something of that is missing here."""
        live = self._earlier.manifest
        return self._to_copy is not None and (bool(self._to_copy) or (live is not None and not live.counts.documents))

    def differ(self) -> None:
        """Note that it is not what the live generation is, and copy what was not copied for that reason."""
        unchanged, self._to_copy = self._to_copy, None
        for document_id, source in unchanged or ():
            self.carry(document_id, source)

    def add(self, document: Document, chunks: Sequence[Chunk]) -> None:
        """Add a document that was read anew; passages whose embedded text was there before keep their vectors."""
        self.differ()
        with self._stopwatch.timed("write"):
            self._writer.add(document, chunks)
            rows = [self._earlier.row_of(chunk.content_hash) for chunk in chunks]
        self._vectors.put(chunks, rows)

    def carry(self, document_id: int, source: str) -> None:
        """Add a document of the earlier generation as it was, except for the source that led to it."""
        if self._to_copy is not None:
            self._to_copy.append((document_id, source))
            return
        with self._stopwatch.timed("write"):
            document, chunks, rows = self._earlier.read(document_id)
            self._writer.add(replace(document, source=source), chunks, self._earlier.signatures(rows))
        self._vectors.put(chunks, rows)

    def remember(self, page: PageRecord) -> None:
        """Note what the next build needs to know of a page."""
        self._writer.documents.remember(page)

    def finish(self) -> None:
        """Complete every file; raises VectorError if the vectors do not match the chunks."""
        self._vectors.finish()
        self._context.progress.phase("writing the index")
        with self._stopwatch.timed("write"):
            self._trained = self._training()
            self._files = self._writer.finish()

    def publish(
        self,
        index_dir: Path,
        *,
        fingerprint: dict[str, Any],
        settings: dict[str, Any],
        sources: Sequence[str],
    ) -> BuildReport:
        """Make the finished draft the live generation; see `indexer.publish.publish.publish`. Returns the report."""
        self._context.progress.phase("publishing")
        with self._stopwatch.timed("publish"):
            manifest = Manifest(
                id=self._folder.name,
                created_at=self._created.isoformat(timespec="seconds"),
                fingerprint=fingerprint,
                counts=self.counts,
                files=self._files,
                languages=self._writer.languages,
                schema_version=self._writer.schema_version,
                settings=settings | {"trained": self._trained},
                sources=list(sources),
                report=self._report().as_dict(),  # can only know the time until now
            )
            publish(index_dir, self._folder, manifest)
        return self._report()

    def close(self) -> None:
        """Release the files, published or not."""
        self._vectors.close()
        self._writer.close()

    def _training(self) -> dict[str, int]:
        """Have the index of vectors train as the one before, unless much has changed since that was trained.

        Returns how many vectors it was trained for, and how many have come or gone since.
        """
        count, live = self.counts.chunks, self._earlier.manifest
        before = live.settings.get("trained") if live is not None else None
        if live is not None and before and not self._context.config.full:
            gone = live.counts.chunks - self._vectors.carried
            changed = before["changed"] + self._vectors.embedded + max(0, gone)
            if changed <= _DRIFT * before["vectors"]:
                self._writer.vectors.train_as(self._earlier.vector_index)
                return {"vectors": before["vectors"], "changed": changed}
        return {"vectors": count, "changed": 0}

    def _report(self) -> BuildReport:
        vectors = self._vectors
        return self._context.ledger.report(
            self._folder.name, self.counts, embedded=vectors.embedded, carried=vectors.carried
        )
