"""Publishes a generation of an index at a place, where other machines fetch it."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from indexer.errors import IndexCorrupt
from indexer.generation.generation import current_id, generation_folder
from indexer.generation.layout import CURRENT
from indexer.generation.manifest import MANIFEST, FileRecord, Manifest, check_files, read_manifest
from indexer.stores.remote.remote import Place, path_of


@dataclass(frozen=True, slots=True)
class Upload:
    """What was done to publish a generation."""

    manifest: Manifest
    sent: int  # bytes of its files that were not there already
    removed: list[str]  # ids of the generations that were taken away


def upload(index_dir: Path, place: Place, *, keep: int, generation_id: str | None = None) -> Upload:
    """Make a generation the live one at a place, in the order files, manifest, `CURRENT`.

    What is at the place is read back and compared with its checksum, so files that an interrupted upload left there are
    not sent again, and nothing becomes live that did not arrive.

    Args:
        index_dir: the index, or the folder of a collection.
        place: of the collection; one process at a time should write there.
        keep: how many generations the place keeps, this one included.
        generation_id: which; the live one unless it is given.

    Raises:
        IndexMissing: there is no such generation.
        IndexCorrupt: it is not as it was published, or an object is not after it was sent; the message names it.
        StoreUnreachable, StoreRefused: the place cannot be written. What was live there still is.
    """
    folder = generation_folder(index_dir, generation_id or current_id(index_dir))
    manifest = read_manifest(folder)
    check_files(folder, manifest)
    place.make()
    sent = 0
    for name, record in manifest.files.items():
        if not _arrived(place, manifest.id, name, record):
            place.put(path_of(manifest.id, name), folder / name)
            sent += record.size
            if not _arrived(place, manifest.id, name, record):
                raise place.corrupt(path_of(manifest.id, name), "is not what was sent")
    place.put(path_of(manifest.id, MANIFEST), manifest.to_bytes())
    place.manifest(manifest.id)
    place.put(CURRENT, f"{manifest.id}\n".encode())
    return Upload(manifest, sent, _remove_old(place, manifest.id, keep))


def _arrived(place: Place, generation_id: str, name: str, record: FileRecord) -> bool:
    digest = sha256()
    try:
        for block in place.blocks(generation_id, name, record):
            digest.update(block)
    except IndexCorrupt:  # missing, or of another size
        return False
    return digest.hexdigest() == record.sha256


def _remove_old(place: Place, live: str, keep: int) -> list[str]:
    """Remove all but the newest; what is newer than the live one may be on its way in, and stays."""
    removed, kept = [], 1
    for name in place.generation_ids():
        if name < live:
            whole = True
            try:
                place.manifest(name)
            except IndexCorrupt:  # of an upload that did not end
                whole = False
            if whole and kept < keep:
                kept += 1
            else:
                place.remove(name)
                removed.append(name)
    return removed
