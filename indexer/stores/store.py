"""Stores of generations: the index folder, and Milvus, which a build in the folder publishes to.

A build always writes a generation into the index folder, which remembers pages and vectors for the next one.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Union

from indexer.generation.manifest import current_id
from indexer.publish.publish import Published, list_generations, roll_back

if TYPE_CHECKING:  # `generation` loads FAISS
    from indexer.generation.generation import Generation
    from indexer.stores.milvus.milvus_store import MilvusGeneration, MilvusStore

Store = Union["FolderStore", "MilvusStore"]
"""Generations of one collection; both have the methods of `FolderStore`."""
Searchable = Union["Generation", "MilvusGeneration"]
"""A generation open for searching from many threads; both have the methods of `Generation`, which describes them.

Those of Milvus may also raise StoreUnreachable or StoreRefused."""


class FolderStore:
    """Generations of one collection, at most one of them live; one that is not complete is never seen.

    The methods raise IndexMissing for a generation that is not there, or where none is live.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder  # an index folder, or a collection's
        self.name = str(folder)  # for messages; never with a secret

    def live_id(self) -> str:
        """Return the id of the live generation: cheap enough to call every second. Raises as `current_id` does."""
        return current_id(self.folder)

    def published(self) -> list[Published]:
        """Describe the complete generations, newest first."""
        return list_generations(self.folder)

    def open(self, generation_id: str | None = None) -> "Generation":
        """Open a generation for searching. Raises as `Generation.open` does."""
        from indexer.generation.generation import Generation  # loads FAISS

        return Generation.open(self.folder, generation_id)

    def make_live(self, generation_id: str) -> None:
        """Publish a complete generation, or go back to it, in one step. Raises as `roll_back` does."""
        roll_back(self.folder, generation_id)

    def close(self) -> None:
        """Do nothing: a folder holds nothing open."""
