"""Choose where the index is stored, in folders or in Milvus, and publish builds of the index to Milvus."""

import os
import shlex
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedder.config import EmbedderConfig
from embedder.errors import PilotlightError
from indexer.errors import IndexCorrupt, IndexMissing, StoreAddressError, StoreError, StoreUnreachable
from indexer.generation.manifest import (
    DEFAULT,
    TOKENS,
    Manifest,
    current_id,
    differing_fields,
    generation_folder,
    read_manifest,
)
from indexer.generation.previous import scan
from indexer.pipeline.progress import step_timer
from indexer.publish.publish import Check, list_collections, verify, writer_lock
from indexer.stores import FolderStore, Store
from rag import deadline
from rag.errors import FingerprintMismatch, NotPublished, SettingsError
from rag.settings import Settings

if TYPE_CHECKING:
    from indexer.pipeline.progress import BuildReport
    from indexer.stores.milvus_store import MilvusStore

TOKEN = "PILOTLIGHT_MILVUS_TOKEN"  # noqa: S105 - a variable's name, not a token


def milvus_at(address: str) -> "MilvusStore":
    """Return the store at `milvus://HOST:PORT/NAME`, not connected yet. Raises StoreAddressError if it is invalid."""
    if "://" not in address or address.lower().startswith("milvus+lite:"):
        raise StoreAddressError(
            f"{address[:80]} is not an address of Milvus, such as milvus://HOST:19530/NAME; use --index for a folder"
        )
    from indexer.stores.milvus_store import MilvusStore

    def seconds_left() -> float:
        deadline.check()
        return deadline.remaining()

    return MilvusStore(address, seconds_left=seconds_left, token=os.environ.get(TOKEN, ""))


def stores_of(settings: Settings) -> dict[str, Store]:
    """Return the store of each collection by name. Milvus has only the default collection."""
    if settings.store:
        return {DEFAULT: milvus_at(settings.store)}
    return {name: FolderStore(folder) for name, folder in list_collections(settings.index_dir).items()}


def chosen_store(settings: Settings) -> Store:
    """Return Milvus if `store` is set, or else the folder of `collection`. Raises SettingsError if both are set."""
    if not settings.store:
        return FolderStore(settings.collection_dir)
    if settings.collection != DEFAULT:
        raise SettingsError(
            f"{settings.store} has only one collection: use --store or --collection {settings.collection}, not both"
        )
    return milvus_at(settings.store)


def roll_back(store: Store, generation_id: str | None = None) -> str:
    """Make another index generation live, and return its id.

    Args:
        generation_id: generation to make live; None for the generation published before the live one.

    Raises:
        IndexMissing: the generation does not exist.
        IndexCorrupt: the generation cannot be opened.
        StoreError: the store cannot be reached.
    """
    ids = older_ids(store) if generation_id is None else [each.id for each in store.published()]
    if not ids or generation_id not in (None, *ids):
        generation_name = f"generation {generation_id!r}" if generation_id else "generation older than the live one"
        raise IndexMissing(f"there is no {generation_name} in {store.name}; there are: {', '.join(ids) or 'none'}")
    store.make_live(generation_id or ids[0])
    return generation_id or ids[0]


def live_id(store: Store) -> str | None:
    """Return the id of the live index generation, or None if there is none or its id is unreadable."""
    try:
        return store.live_id()
    except (IndexMissing, IndexCorrupt):
        return None


def older_ids(store: Store) -> list[str]:
    """Return the ids of the index generations before the live one, newest first, or all ids if none is live."""
    live, ids = live_id(store), [each.id for each in store.published()]
    if live in ids:
        return ids[ids.index(live) + 1 :]
    return [name for name in ids if live is None or name < live]


def verify_generation(store: Store, generation_id: str) -> list[Check]:
    """Check the files of an index generation (in Milvus, only its counts). Raises IndexMissing or StoreError."""
    if isinstance(store, FolderStore):
        return verify(generation_folder(store.folder, generation_id))
    try:
        with closing(store.open(generation_id)) as generation:
            counts = generation.manifest.counts
    except IndexCorrupt as error:
        return [Check("counts", False, str(error))]
    return [Check("counts", True, f"{counts.documents:,} documents, {counts.chunks:,} chunks")]


def facts_of(manifest: Manifest) -> dict[str, Any]:
    """Return the id, build time and counts of an index generation, JSON-ready."""
    counts = {"documents": manifest.counts.documents, "chunks": manifest.counts.chunks}
    return {"generation": manifest.id, "created_at": manifest.created_at, **counts}


def check_fingerprint(manifest: Manifest, fingerprint: Mapping[str, object]) -> None:
    """Raise FingerprintMismatch if the index was built with another embedder. The message names the differences."""
    built = manifest.fingerprint
    fields = differing_fields(built, fingerprint)
    if not fields:
        return
    details = "; ".join(f"{name}: index {built.get(name)!r:.16}, here {fingerprint.get(name)!r:.16}" for name in fields)
    flags = ""
    if isinstance(model := manifest.settings.get("model"), dict):
        options = model | {"precision": built.get("precision", "")}
        names = [name for name in EmbedderConfig.__dataclass_fields__ if options.get(name)]
        words = [word for name in names for word in (f"--{name.replace('_', '-')}", str(options[name]))]
        flags = f" ({shlex.join(words)})"
    raise FingerprintMismatch(
        f"index generation {manifest.id} was built by another embedder ({details}): use the settings it was built "
        f"with{flags}, or build an index with these settings in another folder (--index) and serve that"
    )


def check_servable(settings: Settings, fingerprint: Mapping[str, object]) -> None:
    """Raise an error if the embedder with this fingerprint cannot serve any collection.

    If Milvus is unreachable, print a warning on stderr instead, because Milvus may become reachable later.
    """
    stores = stores_of(settings)
    if not stores:
        current_id(settings.index_dir)  # raises IndexMissing, which says how to build an index
    wrong: list[PilotlightError] = []
    try:
        for store in stores.values():
            for generation_id in (None, *older_ids(store)):
                try:
                    with closing(store.open(generation_id)) as generation:
                        check_fingerprint(generation.manifest, fingerprint)
                        return
                except StoreError:
                    raise
                except PilotlightError as error:
                    wrong.append(error)
    except StoreUnreachable as error:
        print(f"pilotlight: {error}; the server starts, and will answer once the store does", file=sys.stderr)
        return
    finally:
        for store in stores.values():
            store.close()
    raise wrong[0]


class Publisher:
    """Copies the live index of a folder to Milvus after each build. Nothing is embedded again."""

    def __init__(self, store: "MilvusStore", *, keep: int, quiet: bool = False) -> None:
        self._store = store
        self._keep = keep
        self._quiet = quiet
        self.done: dict[str, Any] | None = None

    def __call__(self, folder: Path) -> None:
        """Copy the live index of a folder to Milvus and make it live there, unless it already is.

        Raises NotPublished if this fails. The live index in Milvus does not change in this case.
        """
        store = self._store
        try:
            name = current_id(folder)
            self.done = {"generation": name, "target": store.name, "copied": False}
            if live_id(store) == name:
                return
            title = f"publishing to {store.name}"
            with step_timer(sys.stderr, title, quiet=self._quiet) as step, writer_lock(folder):
                manifest = read_manifest(generation_folder(folder, name))
                step("writing and comparing passages")
                store.write(manifest, scan(folder, name))
                store.make_live(name)
                store.keep(self._keep)
        except PilotlightError as error:
            raise NotPublished(
                f"{error}; the build is complete in {folder}; the next index with --store {store.name} "
                "publishes it, even if nothing has changed"
            ) from error
        lost = f"{store.name} does not keep tokens: its searches rank without late interaction"
        self.done |= {"copied": True, "warnings": [lost] if TOKENS in manifest.files else []}


def publisher_of(settings: Settings, *, quiet: bool = True) -> Publisher | None:
    """Return a publisher to the Milvus store in the settings, or None if they name no store."""
    if not settings.store:
        return None
    return Publisher(milvus_at(settings.store), keep=settings.keep_generations, quiet=quiet)


def report_of(report: "BuildReport", publisher: Publisher | None) -> tuple[dict[str, Any], str]:
    """Return a report on a build and its publication in two forms: JSON-ready, and as text for a terminal."""
    if publisher is None or publisher.done is None:
        return report.as_dict(), report.table()
    done = publisher.done
    lines = [f"store        generation {done['generation']} is live in {done['target']}"]
    lines += [f"warning: {warning}" for warning in done.get("warnings", ())]
    return report.as_dict() | {"store": done}, "\n".join([report.table(), *lines])
