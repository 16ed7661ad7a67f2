"""What a caller may see: named collections, and within them the documents that a filter allows."""

from collections.abc import Iterable
from dataclasses import dataclass

from rag.query.filters import Filter


@dataclass(frozen=True, slots=True)
class Scope:
    """A part of what is indexed. Whatever is outside of it does not exist for those who have it."""

    collections: frozenset[str] | None = None  # by name, whether or not they are there; None: all
    filter: Filter | None = None  # for the documents of all of these; None: all

    @property
    def is_all(self) -> bool:
        """Whether nothing is outside."""
        return self.collections is None and self.filter is None

    def has(self, collection: str) -> bool:
        """Return whether a collection of this name may be seen, should it be there."""
        return self.collections is None or collection in self.collections

    def among(self, collections: Iterable[str]) -> list[str]:
        """Return those of some collections that may be seen, in the same order."""
        return [name for name in collections if self.has(name)]

    def narrowed(self, wanted: Filter | None) -> Filter | None:
        """Return a filter for the documents that another allows and that may be seen; None for all."""
        if self.filter is None or wanted is None:
            return wanted or self.filter
        return wanted & self.filter


EVERYTHING = Scope()
NOTHING = Scope(frozenset())
