"""Publishes a generation of an index to a remote collection, where other machines fetch it."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from indexer.errors import IndexCorrupt
from indexer.generation.current import current_id, generation_folder
from indexer.generation.layout import CURRENT
from indexer.generation.manifest import MANIFEST, FileRecord, Manifest, check_files, read_manifest
from indexer.stores.remote.remote_collection import RemoteCollection, path_of


@dataclass(frozen=True, slots=True)
class Upload:
    """The result of publishing a generation."""

    manifest: Manifest
    sent: int  # bytes of its files that were not there already
    removed: list[str]  # ids of the generations that were taken away


def upload(index_dir: Path, remote: RemoteCollection, *, keep: int, generation_id: str | None = None) -> Upload:
    """Make a generation the live one of a remote collection, in the order files, manifest, `CURRENT`.

    What is there is read back and compared with its checksum, so files that an interrupted upload left there are
    not sent again, and nothing becomes live that did not arrive.

    Args:
        index_dir: the index, or the folder of a collection.
        remote: of the collection; one process at a time should write there.
        keep: how many generations it keeps, this one included.
        generation_id: which; the live one unless it is given.

    Raises:
        IndexMissing: there is no such generation.
        IndexCorrupt: it is not as it was published, or an object is not after it was sent; the message names it.
        StoreUnreachable, StoreRefused: it cannot be written. What was live there still is.
    """
    folder = generation_folder(index_dir, generation_id or current_id(index_dir))
    manifest = read_manifest(folder)
    check_files(folder, manifest)
    remote.make()
    sent = 0
    for name, record in manifest.files.items():
        if not _arrived(remote, manifest.id, name, record):
            remote.put(path_of(manifest.id, name), folder / name)
            sent += record.size
            if not _arrived(remote, manifest.id, name, record):
                raise remote.corrupt(path_of(manifest.id, name), "is not what was sent")
    remote.put(path_of(manifest.id, MANIFEST), manifest.to_bytes())
    remote.manifest(manifest.id)
    remote.put(CURRENT, f"{manifest.id}\n".encode())
    return Upload(manifest, sent, _remove_old(remote, manifest.id, keep))


def _arrived(remote: RemoteCollection, generation_id: str, name: str, record: FileRecord) -> bool:
    digest = sha256()
    try:
        for block in remote.blocks(generation_id, name, record):
            digest.update(block)
    except IndexCorrupt:  # missing, or of another size
        return False
    return digest.hexdigest() == record.sha256


def _remove_old(remote: RemoteCollection, live: str, keep: int) -> list[str]:
    """Remove all but the newest; what is newer than the live one may be on its way in, and stays."""
    removed, kept = [], 1
    for name in remote.generation_ids():
        if name < live:
            whole = True
            try:
                remote.manifest(name)
            except IndexCorrupt:  # of an upload that did not end
                whole = False
            if whole and kept < keep:
                kept += 1
            else:
                remote.remove(name)
                removed.append(name)
    return removed
