"""Scopes: the collections, and in them the documents, that a caller may read.

A scope is a filter that is ANDed to every request of its caller (`web.guards.scoped_retriever`), nothing more: scores
and counts of words are those of the whole collection. Only a collection of its own tells nothing of its documents.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from rag.query.request import Filter

MUST_BE_WHOLE = "writing needs an unrestricted role: give what is written there a collection of its own"


@dataclass(frozen=True, slots=True)
class Part:
    """The documents of some collections that a filter allows and whose access lists have one of some names."""

    collections: frozenset[str] | None = None  # names, whether or not these collections exist; None: all
    filter: Filter | None = None  # None: all documents
    readers: frozenset[str] | None = None  # such as group:staff; None: whatever access lists documents have

    @property
    def is_whole(self) -> bool:
        """Whether it has every document of its collections."""
        return self.filter is None and self.readers is None

    def has(self, collection: str) -> bool:
        """Return whether it has documents of a collection of this name, if there are any."""
        return self.collections is None or collection in self.collections

    def conditions(self) -> Filter:
        """Return its filter and its readers as one filter; it is not whole."""
        readers = None if self.readers is None else Filter(readers=self.readers)
        if self.filter is None or readers is None:
            return self.filter or readers or Filter()
        return self.filter & readers


@dataclass(frozen=True, slots=True)
class Scope:
    """The documents that any of its parts has; without parts, none."""

    parts: tuple[Part, ...] = (Part(),)

    @classmethod
    def of(cls, collections: Iterable[str] | None = None, filters: Iterable[Filter] = ()) -> "Scope":
        """Return the scope of some collections, None for all, and the documents that one of the filters allows."""
        names, filters = None if collections is None else frozenset(collections), tuple(filters)
        return cls(tuple(Part(names, each) for each in filters) or (Part(names),))

    @property
    def is_all(self) -> bool:
        """Whether it has everything."""
        return Part() in self.parts

    @property
    def may_write(self) -> bool:
        """Whether its caller may have the role write: whoever writes a collection reads all of it."""
        return all(part.is_whole for part in self.parts)

    def has(self, collection: str) -> bool:
        """Return whether it has documents of a collection of this name, if there are any."""
        return any(part.has(collection) for part in self.parts)

    def has_whole(self, collection: str) -> bool:
        """Return whether it has every document of a collection."""
        return any(part.is_whole and part.has(collection) for part in self.parts)

    def among(self, collections: Iterable[str]) -> list[str]:
        """Return the collections of which it has documents, in the same order."""
        return [name for name in collections if self.has(name)]

    def narrowed(self, collection: str, wanted: Filter | None) -> Filter | None:
        """Return a filter of a request to a collection, ANDed with that of the scope; None for all documents."""
        if self.has_whole(collection):
            return wanted
        allowed = Filter.any_of(part.conditions() for part in self.parts if part.has(collection))
        return wanted & allowed if wanted else allowed

    def without_lists(self) -> "Scope":
        """Return what it has where no document has an access list."""
        return Scope(tuple(Part(part.collections, part.filter) for part in self.parts))


EVERYTHING = Scope()
UNLISTED = Scope((Part(readers=frozenset()),))  # documents without an access list
NOTHING = Scope(())


def reader_names(users: Iterable[str], groups: Iterable[str]) -> frozenset[str]:
    """Return the names by which access lists know users and groups."""
    return frozenset([f"user:{name}" for name in users] + [f"group:{name}" for name in groups])
