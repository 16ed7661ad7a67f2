"""The embedded store: an index folder, or a collection's, with FAISS, Tantivy and SQLite in each generation."""

import shutil
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from indexer.errors import IndexMissing, StoreConflict
from indexer.generation.current import current_id, generation_folder
from indexer.generation.generation import Generation
from indexer.generation.manifest import ANALYSIS, TOKENS, Counts, Manifest, read_manifest
from indexer.generation.previous import PreviousGeneration
from indexer.generation.writer import GenerationWriter
from indexer.publish.collections import Published, generation_ids, list_generations, live_id
from indexer.publish.lock import writer_lock
from indexer.publish.publish import complete, disk_errors, move_in, prepare, remove, remove_old, roll_back, start
from indexer.publish.source_settings import without_leave
from indexer.records import PageRecord
from indexer.stores.store import ScannedDocument, check_counts


class FolderScan:
    """A generation of a folder, read from front to back."""

    def __init__(self, folder: Path, generation_id: str) -> None:
        """Check and open it; raises IndexMissing, IndexCorrupt or IndexUnreadable."""
        self.manifest: Manifest = read_manifest(generation_folder(folder, generation_id))
        self._earlier = PreviousGeneration.open(folder, generation_id)

    def entries(self) -> Iterator[ScannedDocument]:
        """Yield every document in the order of the index. Raises IndexCorrupt."""
        for number, _, _ in self._earlier.documents():
            document, chunks, rows = self._earlier.read(number)
            places = np.arange(rows.start, rows.stop)
            vectors, tokens = self._earlier.vectors(places), self._earlier.tokens(places)
            yield ScannedDocument(document, chunks, self._earlier.signatures(rows), vectors, tokens)

    def pages(self) -> Iterator[PageRecord]:
        """Yield what the next build needs to know of every page. Raises IndexCorrupt."""
        return self._earlier.pages()

    def close(self) -> None:
        """Release the files."""
        self._earlier.close()


class FolderDraft:
    """A generation on its way into a folder."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        """Take the folder to write into, and what the generation is but for its files and counts."""
        self._manifest = manifest
        kind, tokens = manifest.settings.get("vector_index", "auto"), TOKENS in manifest.files
        self._writer = GenerationWriter(folder, manifest.counts.dimension, vector_index=kind, tokens=tokens)

    @property
    def counts(self) -> Counts:
        """Numbers of documents and chunks that have come in."""
        return self._writer.counts

    def add(self, entry: ScannedDocument) -> None:
        """Take in the next document."""
        self._writer.add(entry.document, entry.chunks, entry.signatures)
        self._writer.add_vectors(entry.vectors)
        if entry.tokens is not None:
            self._writer.add_tokens(*entry.tokens)

    def remember(self, page: PageRecord) -> None:
        """Take in what the next build needs to know of a page."""
        self._writer.documents.remember(page)

    def finish(self) -> Manifest:
        """Write every file but the manifest, which is returned."""
        files = self._writer.finish()
        return replace(
            without_leave(self._manifest),
            files=files,
            counts=self.counts,
            languages=self._writer.languages,
            schema_version=self._writer.schema_version,
            analysis=ANALYSIS,
        )

    def close(self) -> None:
        """Release the files."""
        self._writer.close()


class FolderStore:
    """An index folder as a `Store`; methods that write take the writer lock themselves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = str(folder)

    def live_id(self) -> str:
        """Return the id of the live generation. Raises as `current.current_id` does."""
        return current_id(self.folder)

    def ids(self) -> list[str]:
        """Return the ids of the published generations, newest first."""
        return generation_ids(self.folder)

    def published(self) -> list[Published]:
        """Describe the published generations, newest first."""
        return list_generations(self.folder)

    def open(self, generation_id: str | None = None) -> Generation:
        """Open a generation for searching. Raises as `Generation.open` does."""
        return Generation.open(self.folder, generation_id)

    def read(self, generation_id: str | None = None) -> FolderScan:
        """Open a generation to be copied. Raises IndexMissing, IndexCorrupt or IndexUnreadable."""
        return FolderScan(self.folder, generation_id or current_id(self.folder))

    def write(self, manifest: Manifest, entries: Iterable[ScannedDocument], pages: Iterable[PageRecord] = ()) -> None:
        """Store a generation, which is not live yet; see `Store.write`."""
        with self.filling(manifest) as draft:
            for entry in entries:
                draft.add(entry)
            for page in pages:
                draft.remember(page)
            check_counts(manifest, draft.counts, self.name)

    @contextmanager
    def filling(self, manifest: Manifest) -> Iterator["FolderDraft"]:
        """Take in a generation in the block, after which it is stored, though not live; its counts are what came in.

        Raises StoreConflict if it is live here, and as `Store` says.
        """
        with disk_errors(self.folder):
            prepare(self.folder)
            with writer_lock(self.folder):
                if live_id(self.folder) == manifest.id:
                    raise StoreConflict(f"generation {manifest.id} is live in {self.name} already; nothing was written")
                folder = start(self.folder, manifest.id)
                try:
                    with closing(FolderDraft(folder, manifest)) as draft:
                        yield draft
                        complete(folder, draft.finish())
                    if manifest.id in self.ids():
                        remove(self.folder, manifest.id)
                    move_in(self.folder, folder)
                finally:
                    shutil.rmtree(folder, ignore_errors=True)

    def make_live(self, generation_id: str) -> None:
        """Verify a generation and publish it. Raises as `publish.roll_back` does."""
        roll_back(self.folder, generation_id)

    def remove(self, generation_id: str) -> None:
        """Remove a generation; raises StoreConflict if it is live, IndexMissing if it is not there."""
        with self._writing():
            generation_folder(self.folder, generation_id)
            if live_id(self.folder) == generation_id:
                raise StoreConflict(f"generation {generation_id} is live in {self.name}; make another live first")
            remove(self.folder, generation_id)

    def keep(self, most: int) -> None:
        """Remove all but the newest generations; the live one is always kept."""
        with self._writing():
            remove_old(self.folder, most)

    def close(self) -> None:
        """Do nothing: a folder holds nothing open."""

    @contextmanager
    def _writing(self) -> Iterator[None]:
        if not self.folder.is_dir():
            raise IndexMissing(f"there is no index in {self.folder}")
        with disk_errors(self.folder), writer_lock(self.folder):
            yield
