"""`[[access]]` of a configuration file: what users and groups may read and change."""

import threading
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from indexer.generation.layout import is_collection_name
from rag.errors import KeysError, SettingsError
from rag.query.request import Filter, FilterError
from rag.serving.scope import MUST_BE_WHOLE, Part, Scope, reader_names
from rag.settings import refuse_unknown

MOST_GROUPS = 256  # of a user; each is a term of every search
LONGEST = 256  # characters of a name
_WHO = ("user", "group", "everybody")
_KEYS = (*_WHO, "collections", "filter", "role", "everything")
_ROLES = ("read", "write")


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
    """One table: the users that it is for, and what it gives them."""

    users: frozenset[str]
    groups: frozenset[str]
    is_for_everybody: bool  # who is known by name
    collections: frozenset[str] | None  # None: all
    filter: Filter | None  # None: all documents
    role: str
    everything: bool  # of these collections, also documents whose access list does not have them

    def concerns(self, user: User) -> bool:
        """Return whether it is for a user."""
        return self.is_for_everybody or user.name in self.users or not self.groups.isdisjoint(user.groups)


class AccessRules:
    """The rules of a file, read again when it has changed. Safe to share between threads."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises SettingsError."""
        self._path = path
        self._lock = threading.Lock()
        self._version: tuple[int, int, int] | None = None
        self._rules: tuple[Rule, ...] = ()
        self.rules()

    def rules(self) -> tuple[Rule, ...]:
        """Return the rules of this moment. Raises SettingsError."""
        try:
            now = self._path.stat()
            version = (now.st_ino, now.st_mtime_ns, now.st_size)
            with self._lock:
                if version != self._version:
                    content = tomllib.loads(self._path.read_text(encoding="utf-8"))
                    self._rules = _read(content.get("access", []), str(self._path))
                    self._version = version
                return self._rules
        except OSError as error:
            raise SettingsError(f"cannot read {self._path}: {error.strerror or error}") from error
        except ValueError as error:
            raise SettingsError(f"{self._path} is not valid TOML: {error}") from error

    def rights(self, user: User) -> Rights | None:
        """Return the rights that all rules that concern a user give together; None without any.

        Raises KeysError while the file cannot be used: rules that were good before are not, until it is mended.
        """
        try:
            found = [rule for rule in self.rules() if rule.concerns(user)]
        except SettingsError as error:
            raise KeysError(str(error)) from error
        if not found:
            return None
        readers = reader_names([user.name], user.groups)
        writing = [rule for rule in found if rule.role == "write"]
        return Rights("write" if writing else "read", _scope(found, readers), _scope(writing, readers))


def _scope(rules: Sequence[Rule], readers: frozenset[str]) -> Scope:
    parts = [Part(rule.collections, rule.filter, None if rule.everything else readers) for rule in rules]
    return Scope(tuple(dict.fromkeys(parts)))


def _read(tables: object, path: str) -> tuple[Rule, ...]:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SettingsError(f"{path}: access must be a list of tables: write [[access]]")
    return tuple(_rule(table, f"{path}: access {place}") for place, table in enumerate(tables, 1))


def _rule(table: Mapping[str, Any], where: str) -> Rule:
    """Read a table. Raises SettingsError naming the file, the place in it and the allowed values."""

    def refuse(what: str) -> SettingsError:
        return SettingsError(f"{where}: {what}")

    refuse_unknown(table, _KEYS, where)
    everything, role = table.get("everything", False), table.get("role", "read")
    for name in ("everybody", "everything"):
        if not isinstance(table.get(name, False), bool):
            raise refuse(f"{name} must be true or false")
    if not any(table.get(name) for name in _WHO):
        raise refuse("must say whom it is for: user, group, or everybody = true")
    if not any(table.get(name) for name in ("collections", "filter", "everything")):
        raise refuse("must say what may be seen: collections, filter, or everything = true")
    if everything and "filter" in table:
        raise refuse("everything leaves no room for a filter")
    if role not in _ROLES:
        raise refuse(f"role must be one of {', '.join(_ROLES)}, not {role!r}")
    collections = _texts(table, "collections", where) if "collections" in table else None
    for name in collections or ():
        if not is_collection_name(name):
            raise refuse(f"{name[:80]!r} is not a name that a collection can have")
    try:
        wanted = Filter.parse(table["filter"]) if "filter" in table else None
    except FilterError as error:
        raise refuse(str(error)) from error
    if wanted is not None and not wanted:
        raise refuse("filter must have a field")
    if role == "write" and not everything:
        raise refuse(f"the role write needs everything = true: {MUST_BE_WHOLE}")
    users, groups = _texts(table, "user", where), _texts(table, "group", where)
    return Rule(users, groups, table.get("everybody", False), collections, wanted, role, everything)


def _texts(table: Mapping[str, Any], name: str, where: str) -> frozenset[str]:
    value = table.get(name, [])
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) and text.strip() for text in texts):
        raise SettingsError(f"{where}: {name} must be a text or a list of texts")
    if name in table and not texts:
        raise SettingsError(f"{where}: {name} must not be empty")
    return frozenset(text.strip() for text in texts)
