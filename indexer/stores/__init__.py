"""Store index generations in a folder or on a Milvus server. The classes for both have the same methods.

Every build writes to an index folder, because only the folder has the data for the next build. Afterwards, the build
may also publish the generation to Milvus. This package may import `generation` and `publish`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Union

from indexer.generation.manifest import current_id
from indexer.publish.publish import Published, list_generations, roll_back

if TYPE_CHECKING:
    from indexer.generation.generation import Generation
    from indexer.stores.milvus_store import MilvusGeneration, MilvusStore

Store = Union["FolderStore", "MilvusStore"]
"""A store with the generations of one collection. Both classes have the methods of `FolderStore`."""
Searchable = Union["Generation", "MilvusGeneration"]
"""A generation open for searching from many threads. `Generation` describes the methods, which both classes have.

The methods of `MilvusGeneration` may also raise StoreUnreachable or StoreRefused."""


class FolderStore:
    """The complete index generations in a folder. At most one generation is live."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = str(folder)

    def live_id(self) -> str:
        """Return the id of the live index generation. Servers call this every second. Raises errors of `current_id`."""
        return current_id(self.folder)

    def published(self) -> list[Published]:
        """Describe the complete index generations, newest first."""
        return list_generations(self.folder)

    def open(self, generation_id: str | None = None) -> "Generation":
        """Open an index generation for searching, by default the live one. Raises the errors of `Generation.open`."""
        from indexer.generation.generation import Generation

        return Generation.open(self.folder, generation_id)

    def make_live(self, generation_id: str) -> None:
        """Make a complete index generation live. Raises the errors of `roll_back`."""
        roll_back(self.folder, generation_id)

    def close(self) -> None:
        """Do nothing, because a folder needs no connection."""
