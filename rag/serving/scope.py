"""Scopes: the collections, and in them the documents, that a caller may read; and the rules that give them to users.

A scope is a filter that is ANDed to every request of its caller (`web.guards.scoped_retriever`), nothing more: scores
and counts of words are those of the whole collection. Only a collection of its own tells nothing of its documents.
"""

import threading
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from indexer.generation.layout import is_collection_name
from rag.errors import KeysError, SettingsError
from rag.query.request import Filter, FilterError
from rag.settings import refuse_unknown

T = TypeVar("T")

MUST_BE_WHOLE = "writing needs an unrestricted role: give what is written there a collection of its own"
MOST_GROUPS = 256  # of a user; each is a term of every search
LONGEST = 256  # characters of a name
ROLES = ("read", "write")  # who may write may read too
_WHO = ("user", "group", "everybody")
_KEYS = (*_WHO, "collections", "filter", "role", "everything")


class FollowedFile(Generic[T]):
    """The content of a file, read again when it has changed. Safe to share between threads."""

    def __init__(self, path: Path, read: Callable[[], T]) -> None:
        self._path = path
        self._read = read
        self._lock = threading.Lock()
        self._seen: tuple[tuple[int, int, int], T] | None = None

    def content(self) -> T:
        """Return the content of this moment; raises OSError, and as reading it does."""
        now = self._path.stat()
        version = (now.st_ino, now.st_mtime_ns, now.st_size)
        with self._lock:
            if self._seen is None or self._seen[0] != version:
                self._seen = version, self._read()
            return self._seen[1]


@dataclass(frozen=True, slots=True)
class Part:
    """The documents of some collections that a filter allows and whose access lists have one of some names."""

    collections: frozenset[str] | None = None  # names, whether or not these collections exist; None: all
    filter: Filter | None = None  # None: all documents
    readers: frozenset[str] | None = None  # such as group:staff; None: whatever access lists documents have

    @property
    def is_whole(self) -> bool:
        """Return whether it has every document of its collections."""
        return self.filter is None and self.readers is None

    def has(self, collection: str) -> bool:
        """Return whether it has documents of a collection of this name, if there are any."""
        return self.collections is None or collection in self.collections


@dataclass(frozen=True, slots=True)
class Scope:
    """The documents that any of its parts has; without parts, none."""

    parts: tuple[Part, ...] = (Part(),)

    @classmethod
    def of(cls, collections: Iterable[str] | None = None, filters: Iterable[Filter] = ()) -> "Scope":
        """Return the scope of some collections, None for all, and the documents that one of the filters allows."""
        names = None if collections is None else frozenset(collections)
        return cls(tuple(Part(names, each) for each in filters) or (Part(names),))

    @property
    def is_all(self) -> bool:
        """Return whether it has everything."""
        return Part() in self.parts

    @property
    def may_write(self) -> bool:
        """Return whether its caller may have the role write: whoever writes a collection reads all of it."""
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
        allowed = []
        for part in self.parts:
            if part.has(collection):
                readers = Filter() if part.readers is None else Filter(readers=part.readers)
                allowed.append(part.filter & readers if part.filter and readers else part.filter or readers)
        return wanted & Filter.any_of(allowed) if wanted else Filter.any_of(allowed)

    def without_lists(self) -> "Scope":
        """Return what it has where no document has an access list."""
        return Scope(tuple(Part(part.collections, part.filter) for part in self.parts))


EVERYTHING = Scope()
UNLISTED = Scope((Part(readers=frozenset()),))  # documents without an access list
NOTHING = Scope(())


def reader_names(users: Iterable[str], groups: Iterable[str]) -> frozenset[str]:
    """Return the names by which access lists know users and groups."""
    return frozenset([f"user:{name}" for name in users] + [f"group:{name}" for name in groups])


class User(NamedTuple):
    """A user as a proxy names them."""

    name: str
    groups: tuple[str, ...] = ()


class Rights(NamedTuple):
    """The role of a user and the documents that they read and write."""

    role: str
    sees: Scope
    writes: Scope  # nothing with the role read


@dataclass(frozen=True, slots=True)
class Rule:
    """One table `[[access]]`: the users that it is for, and what it gives them."""

    users: frozenset[str]
    groups: frozenset[str]
    is_for_everybody: bool  # who is known by name
    collections: frozenset[str] | None  # None: all
    filter: Filter | None  # None: all documents
    role: str
    everything: bool  # of these collections, also documents whose access list does not have them


class AccessRules:
    """`[[access]]` of a configuration file: what users and groups may read and change."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises SettingsError."""
        self._path = path
        self._file = FollowedFile(path, self._read)
        self.rules()

    def rules(self) -> tuple[Rule, ...]:
        """Return the rules of this moment. Raises SettingsError."""
        try:
            return self._file.content()
        except OSError as error:
            raise SettingsError(f"cannot read {self._path}: {error.strerror or error}") from error
        except ValueError as error:
            raise SettingsError(f"{self._path} is not valid TOML: {error}") from error

    def rights(self, user: User) -> Rights | None:
        """Return the rights that all rules that concern a user give together; None without any.

        Raises KeysError while the file cannot be used: rules that were good before are not, until it is mended.
        """
        try:
            rules = self.rules()
        except SettingsError as error:
            raise KeysError(str(error)) from error
        readers = reader_names([user.name], user.groups)
        seen: list[Part] = []
        written: list[Part] = []
        for rule in rules:
            if rule.is_for_everybody or user.name in rule.users or not rule.groups.isdisjoint(user.groups):
                seen.append(Part(rule.collections, rule.filter, None if rule.everything else readers))
                if rule.role == "write":
                    written.append(seen[-1])
        if not seen:
            return None
        sees, writes = (Scope(tuple(dict.fromkeys(parts))) for parts in (seen, written))
        return Rights("write" if written else "read", sees, writes)

    def _read(self) -> tuple[Rule, ...]:
        tables = tomllib.loads(self._path.read_text(encoding="utf-8")).get("access", [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise SettingsError(f"{self._path}: access must be a list of tables: write [[access]]")
        return tuple(_rule(table, f"{self._path}: access {place}") for place, table in enumerate(tables, 1))


def _rule(table: Mapping[str, Any], where: str) -> Rule:
    """Read a table. Raises SettingsError naming the file, the place in it and the allowed values."""
    refuse_unknown(table, _KEYS, where)
    everything, role = table.get("everything", False), table.get("role", "read")
    users, groups, collections = (
        _texts(table.get(name), f"{where}: {name}") for name in ("user", "group", "collections")
    )
    strange = next((name for name in sorted(collections) if not is_collection_name(name)), None)
    wanted = None
    try:
        if "filter" in table:
            wanted = Filter.parse(table["filter"])
    except FilterError as error:
        raise SettingsError(f"{where}: {error}") from error
    refusals = (
        (not isinstance(table.get("everybody", False), bool), "everybody must be true or false"),
        (not isinstance(everything, bool), "everything must be true or false"),
        (not any(table.get(name) for name in _WHO), "must say whom it is for: user, group, or everybody = true"),
        (
            not any(table.get(name) for name in ("collections", "filter", "everything")),
            "must say what may be seen: collections, filter, or everything = true",
        ),
        (everything and wanted is not None, "everything leaves no room for a filter"),
        (role not in ROLES, f"role must be one of {', '.join(ROLES)}, not {role!r}"),
        (strange is not None, f"{str(strange)[:80]!r} is not a name that a collection can have"),
        (wanted is not None and not wanted, "filter must have a field"),
        ([] in map(table.get, ("user", "group", "collections")), "an empty list names nobody and nothing"),
        (role == "write" and not everything, f"the role write needs everything = true: {MUST_BE_WHOLE}"),
    )
    for is_wrong, what in refusals:
        if is_wrong:
            raise SettingsError(f"{where}: {what}")
    named = collections if "collections" in table else None
    return Rule(users, groups, table.get("everybody", False), named, wanted, role, everything)


def _texts(value: object, where: str) -> frozenset[str]:
    texts: Sequence[object] = [value] if isinstance(value, str) else [] if value is None else value  # type: ignore[assignment]
    if not isinstance(texts, list) or not all(isinstance(text, str) and text.strip() for text in texts):
        raise SettingsError(f"{where} must be a text or a list of texts")
    return frozenset(text.strip() for text in texts)
