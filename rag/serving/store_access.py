"""Access to the stores that the settings name: folders of the index, or a name in Milvus."""

import os
import sys
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from embedder.errors import PilotlightError
from indexer.errors import IndexCorrupt, IndexMissing, StoreAddressError, StoreError, StoreUnreachable
from indexer.generation.layout import DEFAULT, current_id, generation_folder
from indexer.publish.collections import list_collections
from indexer.publish.publish import roll_back as roll_back_folder
from indexer.publish.verification import Check, verify
from indexer.stores.store import FolderStore, Store
from rag import deadline
from rag.errors import SettingsError
from rag.query.served_model import check_fingerprint
from rag.settings import Settings

if TYPE_CHECKING:
    from indexer.stores.milvus.milvus_store import MilvusStore

TOKEN = "PILOTLIGHT_MILVUS_TOKEN"  # noqa: S105 - the name of the variable that has it


def milvus_at(address: str) -> "MilvusStore":
    """Return the store at `milvus://HOST:PORT/NAME`. Nothing is connected to yet; raises StoreAddressError."""
    if address.lower().startswith("milvus+lite:"):
        raise StoreAddressError("milvus+lite was removed: the index folder is the store of one machine")
    if "://" not in address:
        raise StoreAddressError(
            f"{address[:80]} is no address of Milvus, such as milvus://HOST:19530/NAME; a folder is named by --index"
        )
    from indexer.stores.milvus.milvus_store import MilvusStore

    return MilvusStore(address, seconds_left=_seconds_left, token=os.environ.get(TOKEN, ""))


def stores_of(settings: Settings) -> dict[str, Store]:
    """Return the stores a server answers from: that of the settings, as the default collection, or all of the index."""
    if settings.store:
        return {DEFAULT: milvus_at(settings.store)}
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
    return milvus_at(settings.store)


def roll_back(store: Store, generation_id: str | None = None) -> str:
    """Make another generation the live one, the newest older one unless it is given; return its id.

    Raises IndexMissing if there is none, or IndexCorrupt if it cannot be opened; the live one stays.
    """
    if isinstance(store, FolderStore):
        return roll_back_folder(store.folder, generation_id)
    ids = [each.id for each in store.published()]
    if generation_id is None:
        older = older_ids(store)
        if not older:
            raise IndexMissing(f"{store.name} has no generation older than the live one ({live_id(store) or 'none'})")
        generation_id = older[0]
    elif generation_id not in ids:
        raise IndexMissing(
            f"there is no generation {generation_id!r} in {store.name}; there are: {', '.join(ids) or 'none'}"
        )
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
    live, there = live_id(store), [each.id for each in store.published()]
    if live in there:
        return there[there.index(live) + 1 :]
    return [name for name in there if live is None or name < live]


def verify_generation(store: Store, generation_id: str) -> list[Check]:
    """Check a generation: of a folder as `indexer.publish.verification.verify` does, of Milvus by reading all of it.

    Args:
        store: where it is.
        generation_id: which.

    Raises:
        IndexMissing: there is none of this id.
        StoreError: the store does not answer.
    """
    if isinstance(store, FolderStore):
        return verify(generation_folder(store.folder, generation_id))
    try:
        with closing(store.open(generation_id)) as generation:
            manifest = generation.manifest
        digest = milvus_at(store.name).check(generation_id)
    except IndexCorrupt as error:
        return [Check("content", False, str(error))]
    return [
        Check("counts", True, f"{manifest.counts.documents:,} documents, {manifest.counts.chunks:,} chunks"),
        Check("content", True, f"SHA-256 {digest.sha256[:12]}…"),
    ]


def check_servable(settings: Settings, fingerprint: Mapping[str, object]) -> None:
    """Raise what is wrong if no collection could be served by the embedder of this fingerprint.

    A store that cannot be reached may come back, so that is only said, on stderr.
    """
    stores = stores_of(settings)
    if not stores:
        current_id(settings.index_dir)  # says that there is no index, and how to make one
    wrong: list[PilotlightError] = []
    try:
        if any(_can_serve(store, fingerprint, wrong) for store in stores.values()):
            return
    except StoreUnreachable as error:
        print(f"pilotlight: {error}; the server starts, and will answer once the store does", file=sys.stderr)
        return
    finally:
        for store in stores.values():
            store.close()
    raise wrong[0]


def _can_serve(store: Store, fingerprint: Mapping[str, object], wrong: list[PilotlightError]) -> bool:
    """Whether a store has a generation for the server to answer from; adds what is wrong with those before it.

    Raises StoreError: the others could not be asked either.
    """
    for generation_id in (None, *older_ids(store)):
        try:
            with closing(store.open(generation_id)) as generation:
                check_fingerprint(generation.manifest, fingerprint)
        except StoreError:
            raise
        except PilotlightError as error:
            wrong.append(error)
        else:
            return True
    return False


def _seconds_left() -> float:
    """Seconds that the request under way has left, infinity outside of one. Raises DeadlinePassed."""
    deadline.check()
    return deadline.remaining()
