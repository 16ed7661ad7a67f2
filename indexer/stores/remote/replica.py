"""A folder that is kept in step with a remote collection: the copy that a server answers from.

What a killed process had fetched is gone on with, block by block; a file that another generation of the folder has
already is linked. A generation is told by its manifest: one of the same name with another manifest is another one.
"""

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from indexer.errors import BuildLocked, IndexCorrupt, IndexerError, IndexMissing, StoreError
from indexer.generation.layout import BUILDING, DEFAULT, GENERATIONS, collection_dir
from indexer.generation.manifest import MANIFEST, FileRecord, Manifest, check_files, is_generation_id, read_manifest
from indexer.publish.collections import drop_collection, generation_ids, list_collections, live_id
from indexer.publish.lock import writer_lock
from indexer.publish.publish import check_space, disk_errors, flush, install, make_live, prepare, remove, remove_old
from indexer.stores.remote.remote_collection import RemoteCollection, path_of

_READ = 1 << 20  # bytes of a file read at once


class Replica:
    """Fetches live generations into a folder. Several processes may share the folder: one at a time fetches."""

    def __init__(self, remote: RemoteCollection, index_dir: Path, *, keep: int) -> None:
        """Keep so many generations of each collection in the folder, the live one included."""
        self.doing = ""  # what is being fetched, and how far it is; empty while nothing is
        self._remote = remote
        self._index_dir = index_dir
        self._keep = keep
        self._checked: set[Path] = set()  # folders whose live generation was compared with its checksums

    def update(self) -> None:
        """Fetch every remote collection's live generation, and make it live here; the others go on if one fails.

        Raises:
            IndexMissing: there is nothing there; what was fetched before stays.
            IndexCorrupt: an object is missing or not what its manifest says; the message names it.
            StoreUnreachable, StoreRefused: it cannot be asked.
            BuildLocked: another process is fetching.
            IndexUnwritable: the folder cannot be written, or the disk is full.
        """
        there: set[str] = set()
        failed: list[IndexerError] = []
        for name in self._remote.collections():
            remote, folder = self._remote.collection(name), collection_dir(self._index_dir, name)
            try:
                generation_id = remote.live_id()
                there.add(name)
                self._update(remote, folder, generation_id)
            except StoreError:
                raise
            except IndexMissing as error:
                missing = error
            except IndexerError as error:
                there.add(name)
                failed.append(error)
            finally:
                self.doing = ""
        if not there:
            raise missing
        for name in list_collections(self._index_dir).keys() - there - {DEFAULT}:
            with disk_errors(self._index_dir):
                drop_collection(self._index_dir, name)
        if failed:
            raise failed[0]

    def _update(self, remote: RemoteCollection, folder: Path, generation_id: str) -> None:
        if live_id(folder) == generation_id and folder in self._checked:
            return
        try:
            with disk_errors(folder):
                prepare(self._index_dir)
                prepare(folder)
                with writer_lock(folder):
                    (folder / GENERATIONS).mkdir(exist_ok=True)
                    (folder / BUILDING).mkdir(exist_ok=True)
                    self._bring(remote, folder, generation_id)
                    remove_old(folder, self._keep)
        except BuildLocked:
            if live_id(folder) != generation_id:  # else the other process only compares checksums
                raise
        self._checked.add(folder)

    def _bring(self, remote: RemoteCollection, folder: Path, generation_id: str) -> None:
        raw, manifest = remote.manifest(generation_id)
        published = folder / GENERATIONS / generation_id
        if _is_whole(published, raw, manifest):
            if live_id(folder) != generation_id:
                make_live(folder, generation_id)
            return
        building = _begin(folder, generation_id, raw)
        missing = sum(max(0, record.size - _size(building / name)) for name, record in manifest.files.items())
        check_space(folder, missing)
        here = _files_by_checksum(folder)
        total = sum(record.size for record in manifest.files.values())
        done = 0
        for name, record in manifest.files.items():
            target = building / name
            target.parent.mkdir(exist_ok=True)
            if not target.exists() and record.sha256 in here:
                with suppress(OSError):  # a file system without links; it is fetched then
                    os.link(here[record.sha256], target)
            for size in _fetch(remote, generation_id, name, record, target):
                megabytes = f"{(done + size) / 1e6:,.0f} of {total / 1e6:,.0f} MB"
                self.doing = f"fetching generation {generation_id} from {remote.url}: {megabytes}"
            done += record.size
        flush(building, manifest)
        if published.exists():  # damaged, or another one of the same name
            remove(folder, generation_id)
        install(folder, building)


def _fetch(remote: RemoteCollection, generation_id: str, name: str, record: FileRecord, target: Path) -> Iterator[int]:
    """Complete a file, of which a part or all may be there; yield how many bytes there are as they become more."""
    for is_new in (not target.exists(), True):
        digest, size = hashlib.sha256(), 0
        if not is_new:
            with target.open("rb") as file:
                while block := file.read(_READ):
                    digest.update(block)
                    size += len(block)
        if size < record.size or is_new:
            with target.open("ab") as file:
                for block in remote.blocks(generation_id, name, record, size):
                    file.write(block)
                    file.flush()  # so that nothing of it is lost with the process
                    digest.update(block)
                    size += len(block)
                    yield size
        if digest.hexdigest() == record.sha256:
            return
        target.unlink()
        if is_new:
            raise remote.corrupt(path_of(generation_id, name), "differs from its checksum")


def _begin(folder: Path, generation_id: str, raw: bytes) -> Path:
    """Folder in which a generation is put together, with what was fetched of it before; leftovers of others go."""
    building = folder / BUILDING / generation_id
    for leftover in (folder / BUILDING).iterdir():
        is_same = leftover == building and _read(leftover / MANIFEST) == raw
        if is_generation_id(leftover.name) and not is_same:
            shutil.rmtree(leftover)
    building.mkdir(exist_ok=True)
    (building / MANIFEST).write_bytes(raw)
    return building


def _is_whole(published: Path, raw: bytes, manifest: Manifest) -> bool:
    if _read(published / MANIFEST) != raw:
        return False
    try:
        check_files(published, manifest)
    except IndexCorrupt:
        return False
    return True


def _files_by_checksum(folder: Path) -> dict[str, Path]:
    """Files of the generations in a folder that have the size they should, by the checksum they should have."""
    found = {}
    for name in generation_ids(folder):
        generation = folder / GENERATIONS / name
        with suppress(IndexerError):
            for file, record in read_manifest(generation).files.items():
                if _size(generation / file) == record.size:
                    found[record.sha256] = generation / file
    return found


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
