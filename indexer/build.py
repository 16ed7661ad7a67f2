"""The build: sources in, a published generation out."""

import errno
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt

from embedder.protocol import Embedder
from indexer.chunking import Chunker
from indexer.config import BuildConfig
from indexer.documents import DocumentWriter
from indexer.errors import IndexUnwritable, NothingToIndex, ParseError, SourceError
from indexer.lock import writer_lock
from indexer.manifest import DOCUMENTS, VECTORS, Counts, Manifest, record_file
from indexer.parsing import LinkList, parse
from indexer.progress import Progress
from indexer.publish import prepare, publish, remove_old, start
from indexer.records import Chunk, Failure, Page, Skip
from indexer.report import BuildReport, group_skips
from indexer.sources import full_name, read_sources
from indexer.vectors import VectorWriter

_TOGETHER = 512  # chunks embedded at once: sorted by length, batches of these are padded by under 5 %


def build(
    sources: Sequence[str],
    index_dir: Path,
    embedder: Embedder,
    config: BuildConfig,
    *,
    progress: Progress,
) -> BuildReport:
    """Read the sources, index them, and make the result the live generation of `index_dir`.

    Whatever goes wrong, and wherever the process is stopped, the generation that was live stays live.

    Args:
        sources: http or https addresses, folders or files.
        index_dir: folder of the index; made if it is missing.
        embedder: makes the vectors; its fingerprint goes into the index.
        config: limits, chunk sizes, how many generations to keep.
        progress: told how far the build is; closed at the end.

    Raises:
        SourceError: a source cannot be read at all.
        NothingToIndex: none of them gave any text.
        BuildLocked: another build is writing this index.
        IndexUnwritable: the folder cannot be written, is full, or holds something else.
        ConfigError, VectorError: the embedder cannot be used for this.
    """
    if not sources:
        raise SourceError("no source was given; name an http or https address, a folder or a file")
    sources = [full_name(source) for source in sources]
    try:
        prepare(index_dir)
        with writer_lock(index_dir):
            folder = start(index_dir)
            try:
                report = _Build(sources, folder, embedder, config, progress).run(index_dir)
            finally:
                progress.close()
                shutil.rmtree(folder, ignore_errors=True)
            remove_old(index_dir, config.keep_generations)
            return report
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise IndexUnwritable(f"{index_dir}: the disk is full; free some space and build again") from error
        where = f" ({error.filename})" if error.filename else ""
        raise IndexUnwritable(f"cannot write {index_dir}: {error.strerror or error}{where}") from error
    except sqlite3.Error as error:
        raise IndexUnwritable(f"cannot write {index_dir}: {error}; is the disk full?") from error


class _Build:
    def __init__(
        self,
        sources: Sequence[str],
        folder: Path,
        embedder: Embedder,
        config: BuildConfig,
        progress: Progress,
    ) -> None:
        self._sources = sources
        self._folder = folder
        self._embedder = embedder
        self._config = config
        self._progress = progress
        self._created = datetime.now(UTC)
        self._started = time.perf_counter()
        self._seconds = dict.fromkeys(("fetch", "parse", "chunk", "embed", "write", "publish", "total"), 0.0)
        self._chunker = Chunker(embedder, config.chunk)
        self._documents = DocumentWriter(folder / DOCUMENTS)
        self._vectors = VectorWriter(embedder.dimension)
        self._waiting: list[Chunk] = []  # chunks to embed
        self._tokens = 0  # of the chunks embedded so far
        # Pages are read and cut while the chunks before them are embedded; one batch at a time, so memory stays flat.
        self._pending: Future[npt.NDArray[np.float32]] | None = None
        self._fetched = 0
        self._skips: list[Skip] = []
        self._failures: list[Failure] = []

    def run(self, index_dir: Path) -> BuildReport:
        try:
            for item in self._items():
                if isinstance(item, Page):
                    self._fetched += 1
                    self._page(item)
                    self._progress.page()
                elif isinstance(item, Skip):
                    self._skips.append(item)
                else:
                    self._failures.append(item)
                    self._progress.page()
            self._embed()
            self._collect()
            if not self._documents.chunks:
                raise NothingToIndex(self._why_nothing())
            with self._timed("write"):
                self._documents.finish()
        finally:
            self._documents.close()
        with self._timed("write"):
            self._vectors.write(self._folder / VECTORS)
        return self._publish(index_dir)

    def _items(self) -> Iterator[Page | Skip | Failure]:
        items = read_sources(self._sources, self._config.crawl, self._progress.found)
        while True:
            with self._timed("fetch"):
                item = next(items, None)
            if item is None:
                return
            yield item

    def _page(self, page: Page) -> None:
        try:
            with self._timed("parse"):
                document = parse(page)
        except LinkList as error:
            self._skips.append(Skip(page.url, str(error)))
            return
        except ParseError as error:
            self._failures.append(Failure(page.url, str(error)))
            return
        with self._timed("chunk"):
            chunks = self._chunker.split(document)
        if not chunks:
            self._skips.append(Skip(page.url, "no text"))
            return
        with self._timed("write"):
            self._documents.add(document, chunks)
        self._waiting += chunks
        while len(self._waiting) >= _TOGETHER:
            self._embed(_TOGETHER)

    def _embed(self, most: int | None = None) -> None:
        """Start to embed chunks that wait, once those before them are done."""
        self._collect()
        batch = self._waiting[:most]
        if batch:
            self._tokens += sum(chunk.tokens for chunk in batch)
            self._pending = Future()
            texts = [chunk.embedded_text for chunk in batch]
            # A daemon, and not a pool, so that an interrupt need not wait for the batch.
            threading.Thread(target=self._encode, args=(texts, self._pending), daemon=True).start()
            del self._waiting[:most]

    def _encode(self, texts: list[str], result: Future[npt.NDArray[np.float32]]) -> None:
        try:
            with self._timed("embed"):
                result.set_result(self._embedder.encode(texts, role="document"))
        except BaseException as error:  # noqa: BLE001 - raised again where the result is collected
            result.set_exception(error)

    def _collect(self) -> None:
        """Store the vectors that are being made."""
        if self._pending is not None:
            vectors = self._pending.result()
            self._pending = None
            with self._timed("write"):
                self._vectors.add(vectors)
        self._progress.chunks(waiting=len(self._waiting), embedded=self._vectors.count, tokens=self._tokens)

    def _publish(self, index_dir: Path) -> BuildReport:
        """Publish; the report inside the manifest can only know the time until then."""
        with self._timed("publish"):
            manifest = Manifest(
                id=self._folder.name,
                created_at=self._created.isoformat(timespec="seconds"),
                fingerprint=dict(self._embedder.fingerprint),
                counts=Counts(self._documents.documents, self._documents.chunks, self._embedder.dimension),
                files={name: record_file(self._folder / name) for name in (DOCUMENTS, VECTORS)},
                settings=self._config.as_dict(),
                sources=list(self._sources),
                report=self._report().as_dict(),
            )
            publish(index_dir, self._folder, manifest)
        return self._report()

    def _report(self) -> BuildReport:
        self._seconds["total"] = time.perf_counter() - self._started
        return BuildReport(
            generation=self._folder.name,
            documents=self._documents.documents,
            chunks=self._documents.chunks,
            fetched=self._fetched,
            unchanged=0,
            skipped=group_skips(self._skips),
            failed=tuple(self._failures),
            seconds=dict(self._seconds),
        )

    def _why_nothing(self) -> str:
        reasons = [f"{group.count:,} skipped ({group.reason})" for group in group_skips(self._skips)[:3]]
        reasons += [f"{failure.url} failed ({failure.reason})" for failure in self._failures[:2]]
        found = "; ".join(reasons) or "no pages or files at all"
        return f"nothing to index in {', '.join(self._sources)}: {found}; the live index is as it was"

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[stage] += time.perf_counter() - began
