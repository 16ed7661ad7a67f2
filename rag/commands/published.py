"""The collection that the settings name, as verbs find and describe it."""

from pathlib import Path
from typing import Any

from indexer.errors import IndexMissing
from indexer.generation.current import current_id
from indexer.generation.layout import DEFAULT
from indexer.generation.manifest import Manifest
from indexer.publish.collections import list_collections, size_of
from rag.errors import CollectionMissing
from rag.settings import Settings


def published(settings: Settings) -> Path:
    """Return the folder of the collection. Raises IndexMissing; CollectionMissing where others have been published."""
    folders = list_collections(settings.index_dir)
    folder = settings.collection_dir
    if folder in folders.values():
        return folder
    if settings.collection != DEFAULT or folders:
        raise CollectionMissing(settings.collection, folders)
    current_id(folder)  # says that there is no index, and how to make one
    raise IndexMissing(f"there is no index in {folder}")


def described(manifest: Manifest) -> dict[str, Any]:
    """Return what reports say of a generation, JSON-ready."""
    counts = manifest.counts
    return {
        "generation": manifest.id,
        "created_at": manifest.created_at,
        "documents": counts.documents,
        "chunks": counts.chunks,
        "bytes": size_of(manifest),
    }
