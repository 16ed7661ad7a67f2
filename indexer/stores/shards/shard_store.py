"""Index folders that are searched as one: `shards:FOLDER,FOLDER`.

Each part is an index of its own, built, updated and rolled back by itself. What is live is what is live in each. What
is written here as a whole is divided by the addresses of its documents, so that a document stays in its part.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self
from weakref import WeakValueDictionary

from indexer.errors import IndexCorrupt, IndexerError, IndexMissing, PartsDiffer, StoreAddressError, StoreConflict
from indexer.generation.catalogue import document_id
from indexer.generation.current import generation_folder
from indexer.generation.generation import Generation
from indexer.generation.manifest import Counts, Manifest, read_manifest
from indexer.publish.collections import Published, size_of
from indexer.publish.publish import roll_back
from indexer.records import PageRecord
from indexer.stores.folder_store import FolderScan, FolderStore
from indexer.stores.shards.joint_manifest import joint_id, joint_manifest
from indexer.stores.shards.sharded_generation import ShardedGeneration
from indexer.stores.store import ScannedDocument, check_counts

SCHEME = "shards:"


class ShardScan:
    """Generations of all parts, read from front to back."""

    def __init__(self, parts: Sequence[FolderScan], manifest: Manifest) -> None:
        self.manifest = manifest
        self._parts = parts

    def entries(self) -> Iterator[ScannedDocument]:
        """Yield every document, part by part. Raises IndexCorrupt, or PartsDiffer if one is in two parts."""
        seen: set[int] = set()
        for part in self._parts:
            for entry in part.entries():
                if (key := hash(entry.document.url)) in seen:
                    raise PartsDiffer(
                        f"{entry.document.url} is a document of two parts, which are no one index: "
                        "copy the parts one by one, or give each its own sources"
                    )
                seen.add(key)
                yield entry

    def pages(self) -> Iterator[PageRecord]:
        """Yield what the next build needs to know of every page. Raises IndexCorrupt."""
        return (page for part in self._parts for page in part.pages())

    def close(self) -> None:
        """Release the files."""
        for part in self._parts:
            part.close()


class ShardStore:
    """Index folders as one `Store`; safe to share between threads."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """Take the folders of the parts, each once."""
        self.parts = tuple(map(FolderStore, folders))
        self.name = SCHEME + ",".join(map(str, folders))
        self._open: WeakValueDictionary[Path, Generation] = WeakValueDictionary()

    @classmethod
    def at(cls, place: str) -> Self:
        """Take an address `shards:FOLDER,FOLDER`. Raises StoreAddressError."""
        names = [name.strip() for name in place[len(SCHEME) :].split(",")]
        folders = [Path(name).expanduser() for name in names]
        if not all(names) or len({folder.resolve() for folder in folders}) < len(folders):
            raise StoreAddressError(f"{place} names no parts: use {SCHEME}FOLDER,FOLDER with each folder once")
        return cls(folders)

    def live_id(self) -> str:
        """Return the id of what is live in all parts together. Raises IndexMissing where one has nothing live."""
        return joint_id(self._live())

    def ids(self) -> list[str]:
        """Return the ids of what is live, and of the generations that all parts have, newest first."""
        common = set.intersection(*(set(part.ids()) for part in self.parts))
        with suppress(IndexMissing, IndexCorrupt):
            common.add(self.live_id())
        return sorted(common, reverse=True)

    def published(self) -> list[Published]:
        """Describe what `ids` names, newest first."""
        try:
            live = self.live_id()
        except (IndexMissing, IndexCorrupt):
            live = None
        return [self._describe(id, id == live) for id in self.ids()]

    def folders(self, generation_id: str) -> list[Path]:
        """Return the folder of each part's generation, of one of the whole. Raises IndexMissing."""
        chosen = zip(self.parts, self._chosen(generation_id), strict=True)
        return [generation_folder(part.folder, id) for part, id in chosen]

    def open(self, generation_id: str | None = None) -> ShardedGeneration:
        """Open what is live, or a given generation, for searching; a part that is open already is not opened again.

        Raises as `Generation.open` and `ShardedGeneration` do.
        """
        while True:
            chosen = self._live() if generation_id is None else self._chosen(generation_id)
            try:
                pairs = zip(self.parts, chosen, strict=True)
                return ShardedGeneration([self._part(generation_folder(part.folder, id)) for part, id in pairs])
            except (IndexMissing, IndexCorrupt):
                if generation_id is not None or self._live() == chosen:
                    raise  # else a part has another live generation by now, and perhaps no more the one before

    def read(self, generation_id: str | None = None) -> ShardScan:
        """Open what is live, or a given generation, to be copied. Raises as `Store.read` does, and PartsDiffer."""
        with ExitStack() as opened:
            chosen = self._chosen(generation_id or self.live_id())
            parts = [part.read(id) for part, id in zip(self.parts, chosen, strict=True)]
            for part in parts:
                opened.callback(part.close)
            manifest = joint_manifest(
                {store.name: part.manifest for store, part in zip(self.parts, parts, strict=True)}
            )
            opened.pop_all()
            return ShardScan(parts, manifest)

    def write(self, manifest: Manifest, entries: Iterable[ScannedDocument], pages: Iterable[PageRecord] = ()) -> None:
        """Store a generation, divided among the parts, which is not live yet; see `Store.write`."""
        if manifest.id in self._live_or_none():
            raise StoreConflict(f"generation {manifest.id} is live in {self.name} already; nothing was written")
        with ExitStack() as filling:
            drafts = [filling.enter_context(part.filling(manifest)) for part in self.parts]
            for entry in entries:
                drafts[self._place(entry.document.url)].add(entry)
            for page in pages:
                drafts[self._place(page.url)].remember(page)
            documents, chunks = (
                sum(getattr(draft.counts, name) for draft in drafts) for name in ("documents", "chunks")
            )
            check_counts(manifest, Counts(documents, chunks, manifest.counts.dimension), self.name)

    def make_live(self, generation_id: str) -> None:
        """Verify a generation in every part, then publish it in one after the other. Raises as `roll_back` does."""
        chosen = self._chosen(generation_id)
        self.open(generation_id).close()
        for part, id in zip(self.parts, chosen, strict=True):
            roll_back(part.folder, id)

    def remove(self, generation_id: str) -> None:
        """Remove a generation that all parts have; raises StoreConflict if one has it live."""
        chosen = self._chosen(generation_id)
        if any(id == live for id, live in zip(chosen, self._live_or_none(), strict=True)):
            raise StoreConflict(f"generation {generation_id} is live in {self.name}; make another live first")
        for part in self.parts:
            part.remove(generation_id)

    def keep(self, most: int) -> None:
        """Remove all but the newest generations that all parts have; a live one, and a part's own, are always kept."""
        live = self._live_or_none()
        try:
            others = [id for id in self.ids() if id != self.live_id()]
        except IndexMissing:
            others = self.ids()
        for id in others[most - 1 :]:
            if id not in live:
                self.remove(id)

    def close(self) -> None:
        """Do nothing: folders hold nothing open."""

    def _place(self, url: str) -> int:
        """The part in which a document is: the same for every generation, as long as there are as many parts."""
        return int(document_id(url)[:8], 16) % len(self.parts)

    def _live(self) -> list[str]:
        return [part.live_id() for part in self.parts]

    def _live_or_none(self) -> list[str | None]:
        found: list[str | None] = []
        for part in self.parts:
            try:
                found.append(part.live_id())
            except (IndexMissing, IndexCorrupt):
                found.append(None)
        return found

    def _chosen(self, generation_id: str) -> list[str]:
        """The generation of each part that an id of the whole names. Raises IndexMissing."""
        if all(generation_id in part.ids() for part in self.parts):
            return [generation_id] * len(self.parts)
        live = self._live_or_none()
        known = [id for id in live if id is not None]
        if len(known) == len(live) and joint_id(known) == generation_id:
            return known
        raise IndexMissing(f"not every part of {self.name} has a generation {generation_id!r}")

    def _part(self, folder: Path) -> Generation:
        generation = self._open.get(folder)
        if generation is None:
            generation = self._open[folder] = Generation(folder)
        return generation

    def _describe(self, id: str, live: bool) -> Published:
        try:
            manifests = {str(folder): read_manifest(folder) for folder in self.folders(id)}
            manifest = joint_manifest(manifests)
        except IndexerError as error:
            return Published(id, live, None, None, None, None, str(error))
        size, counts = sum(map(size_of, manifests.values())), manifest.counts
        return Published(id, live, manifest.created_at, counts.documents, counts.chunks, size, "")
