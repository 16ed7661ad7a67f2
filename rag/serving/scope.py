"""What a caller may see: named collections, and within them the documents that a filter allows."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from rag.query.filters import Filter


@dataclass(frozen=True, slots=True)
class Part:
    """Some collections, and the documents in them that a filter allows."""

    collections: frozenset[str] | None = None  # by name, whether or not they are there; None: all
    filter: Filter | None = None  # for the documents of all of these; None: all

    def has(self, collection: str) -> bool:
        """Return whether documents of a collection of this name may be seen, should there be any."""
        return self.collections is None or collection in self.collections


@dataclass(frozen=True, slots=True)
class Scope:
    """A part of what is indexed. Whatever is outside of it does not exist for those who have it."""

    parts: tuple[Part, ...] = (Part(),)  # what one of these has may be seen; none: nothing
    # names by which access lists know the caller, such as group:staff; None: it sees documents whatever list they have
    readers: frozenset[str] | None = None

    @classmethod
    def of(cls, collections: Iterable[str] | None = None, filters: Iterable[Filter] = ()) -> "Scope":
        """Return the scope of some collections, None for all, and the documents that one of the filters allows."""
        names, filters = None if collections is None else frozenset(collections), tuple(filters)
        return cls(tuple(Part(names, each) for each in filters) or (Part(names),))

    @property
    def is_all(self) -> bool:
        """Whether nothing is outside."""
        return self.readers is None and Part() in self.parts

    @property
    def may_write(self) -> bool:
        """Whether what is said of an address to who writes there follows from the address, whatever others have."""
        return all(part.filter is None or part.filter.url_prefix or part.filter.path for part in self.parts)

    def has(self, collection: str) -> bool:
        """Return whether a collection of this name may be seen, should it be there."""
        return any(part.has(collection) for part in self.parts)

    def has_whole(self, collection: str) -> bool:
        """Return whether all documents of a collection may be seen."""
        return self.has(collection) and self.narrowed(collection, None) is None

    def among(self, collections: Iterable[str]) -> list[str]:
        """Return those of some collections that may be seen, in the same order."""
        return [name for name in collections if self.has(name)]

    def narrowed(self, collection: str, wanted: Filter | None) -> Filter | None:
        """Return a filter for the documents of a collection that another allows and that may be seen; None for all."""
        filters = [part.filter for part in self.parts if part.has(collection)]
        own = None if None in filters else Filter.any_of(filter(None, filters))
        people = None if self.readers is None else Filter(readers=self.readers)
        found = wanted
        for each in filter(None, (own, people)):
            found = found & each if found else each
        return found

    def __or__(self, other: "Scope") -> "Scope":
        """Return what one of two scopes has; the names of their readers are those of one caller."""
        readers = None if self.readers is None or other.readers is None else self.readers | other.readers
        return Scope(tuple(dict.fromkeys(chain(self.parts, other.parts))), readers)


EVERYTHING = Scope()
AREAS = "each filter must have a url_prefix or path: the addresses below which documents are written"
UNLISTED = Scope(readers=frozenset())  # documents without an access list
NOTHING = Scope(())


def reader_names(users: Iterable[str], groups: Iterable[str]) -> frozenset[str]:
    """Return the names by which access lists know users and groups."""
    return frozenset([f"user:{name}" for name in users] + [f"group:{name}" for name in groups])
