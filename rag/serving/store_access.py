"""Access to stores: from a path or an address, as the command line has it, to the store that is there."""

import os
import re
from contextlib import closing
from pathlib import Path

from embedder.errors import PilotlightError
from indexer.errors import IndexCorrupt, IndexMissing, StoreAddressError
from indexer.generation.current import generation_folder
from indexer.generation.layout import DEFAULT
from indexer.generation.manifest import Manifest, read_manifest
from indexer.publish.collections import list_collections
from indexer.publish.publish import roll_back as roll_back_folder
from indexer.publish.verification import Check, verify
from indexer.stores.digest import digest_of
from indexer.stores.folder_store import FolderStore
from indexer.stores.milvus.address import SCHEMES
from indexer.stores.store import Store
from rag import deadline
from rag.errors import SettingsError
from rag.settings import Settings

TOKEN = "PILOTLIGHT_MILVUS_TOKEN"  # noqa: S105 - the name of the variable that has it
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)


def store_at(place: str) -> Store:
    """Return the store at a place: the path of an index folder, or `milvus://HOST:PORT/NAME`.

    Nothing is read or connected to yet. Raises StoreAddressError for an address that is none, or a missing extra.
    """
    if place.startswith("shards:"):
        raise StoreAddressError(f"{place[:80]}: shards were removed: Milvus holds what outgrows a machine")
    scheme = _SCHEME.match(place)
    if scheme is None:
        if not place:
            raise StoreAddressError("empty place: give the folder of an index, or milvus://HOST:PORT/NAME")
        return FolderStore(Path(place).expanduser())
    if scheme[1].lower() not in SCHEMES:
        known = ", ".join(f"{name}://" for name in SCHEMES)
        raise StoreAddressError(f"{scheme[0]} is not a kind of store; use a folder or {known}")
    from indexer.stores.milvus.milvus_store import MilvusStore

    return MilvusStore.at(place, seconds=_seconds, token=os.environ.get(TOKEN, ""))


def stores_of(settings: Settings) -> dict[str, Store]:
    """Return the stores a server answers from: that of the settings, as the default collection, or all of the index."""
    if settings.store:
        return {DEFAULT: store_at(settings.store)}
    return {name: FolderStore(folder) for name, folder in list_collections(settings.index_dir).items()}


def chosen_store(settings: Settings) -> Store:
    """Return the store of the settings, or the folder of their collection.

    Raises SettingsError where both are named: a store outside the folder holds one collection.
    """
    if not settings.store:
        return FolderStore(settings.collection_dir)
    if settings.collection != DEFAULT:
        raise SettingsError(
            f"{settings.store} holds one collection: give --store or --collection {settings.collection}, not both"
        )
    return store_at(settings.store)


def roll_back(store: Store, generation_id: str | None = None) -> str:
    """Make another generation the live one, the newest older one unless it is given; return its id.

    Raises IndexMissing if there is none, or IndexCorrupt if it cannot be opened; the live one stays.
    """
    if isinstance(store, FolderStore):
        return roll_back_folder(store.folder, generation_id)
    there = store.ids()
    if generation_id is None:
        older = older_ids(store)
        if not older:
            raise IndexMissing(f"{store.name} has no generation older than the live one ({live_id(store) or 'none'})")
        generation_id = older[0]
    elif generation_id not in there:
        raise IndexMissing(
            f"there is no generation {generation_id!r} in {store.name}; there are: {', '.join(there) or 'none'}"
        )
    store.open(generation_id).close()
    store.make_live(generation_id)
    return generation_id


def live_id(store: Store) -> str | None:
    """Return the id of the live generation, None where there is none, or its name cannot be read."""
    try:
        return store.live_id()
    except (IndexMissing, IndexCorrupt):
        return None


def older_ids(store: Store) -> list[str]:
    """Return the ids published before the live generation, newest first; all of them where none is live."""
    live, there = live_id(store), store.ids()
    if live in there:
        return there[there.index(live) + 1 :]
    return [name for name in there if live is None or name < live]


def manifest_of(store: Store, generation_id: str) -> Manifest | None:
    """Return the manifest of a generation, None where it cannot be read; nothing else of it is looked at."""
    try:
        if isinstance(store, FolderStore):
            return read_manifest(generation_folder(store.folder, generation_id))
        with closing(store.read(generation_id)) as reading:
            return reading.manifest
    except PilotlightError:
        return None


def verify_generation(store: Store, generation_id: str) -> list[Check]:
    """Check a generation: of a folder as `indexer.publish.verification.verify` does, elsewhere by reading all of it.

    Args:
        store: where it is.
        generation_id: which.

    Raises:
        IndexMissing: there is none of this id.
        StoreError: the store cannot be asked.
    """
    if isinstance(store, FolderStore):
        return verify(generation_folder(store.folder, generation_id))
    try:
        with closing(store.read(generation_id)) as reading:
            manifest, found = reading.manifest, digest_of(reading)
    except IndexCorrupt as error:
        return [Check("content", False, str(error))]
    kept = next(iter(manifest.files.values())).sha256  # the only one is that of the whole content
    wrong = (
        "" if found == kept else f"{store.name}: generation {generation_id} differs from its checksum; publish it again"
    )
    return [
        Check("counts", True, f"{manifest.counts.documents:,} documents, {manifest.counts.chunks:,} chunks"),
        Check("content", not wrong, wrong or f"SHA-256 {found[:12]}…"),
    ]


def _seconds() -> float:
    """Seconds that the request under way has left, infinity outside of one. Raises DeadlinePassed."""
    deadline.check()
    return deadline.remaining()
