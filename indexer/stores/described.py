"""A generation as its manifest describes it."""

from indexer.generation.manifest import Manifest


class Described:
    """The part of `indexer.stores.store.Searchable` that a manifest answers, for generations of several places."""

    manifest: Manifest

    @property
    def id(self) -> str:
        """Name of the generation; later ones sort after it."""
        return self.manifest.id

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self.manifest.counts.dimension

    @property
    def document_count(self) -> int:
        """Documents in the generation."""
        return self.manifest.counts.documents

    @property
    def chunk_count(self) -> int:
        """Chunks in the generation."""
        return self.manifest.counts.chunks
