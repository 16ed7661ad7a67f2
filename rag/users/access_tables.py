"""`[[access]]` of a configuration file: what users and groups may see and change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from indexer.generation.layout import is_collection_name
from rag.declaration import refuse_unknown
from rag.errors import SettingsError
from rag.query.filters import Filter, FilterError
from rag.serving.scope import MUST_BE_WHOLE

_WHO = ("user", "group", "everybody")
_KEYS = (*_WHO, "collections", "filter", "role", "everything")
_ROLES = ("read", "write")


@dataclass(frozen=True, slots=True)
class Rule:
    """One table: whom it is for, and what it gives them; whoever several are for has what all of them give."""

    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    everybody: bool = False  # whoever is known by name
    collections: frozenset[str] | None = None  # None: all
    filter: Filter | None = None  # None: all documents
    role: Literal["read", "write"] = "read"
    everything: bool = False  # of these collections, also documents whose access list does not have them

    def concerns(self, user: str, groups: Sequence[str]) -> bool:
        """Return whether it is for a user of these groups."""
        return self.everybody or user in self.users or not self.groups.isdisjoint(groups)


def read_access(tables: object, path: str) -> tuple[Rule, ...]:
    """Read the tables. Raises SettingsError naming the file, the place in it and what is allowed."""
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SettingsError(f"{path}: access must be a list of tables: write [[access]]")
    return tuple(_rule(table, f"{path}: access {place}") for place, table in enumerate(tables, 1))


def _rule(table: Mapping[str, Any], where: str) -> Rule:
    refuse_unknown(table, _KEYS, where)
    for name in ("everybody", "everything"):
        if not isinstance(table.get(name, False), bool):
            raise SettingsError(f"{where}: {name} must be true or false")
    if not any(table.get(name) for name in _WHO):
        raise SettingsError(f"{where} must say whom it is for: user, group, or everybody = true")
    if not any(table.get(name) for name in ("collections", "filter", "everything")):
        raise SettingsError(f"{where} must say what may be seen: collections, filter, or everything = true")
    if table.get("everything") and "filter" in table:
        raise SettingsError(f"{where}: everything leaves no room for a filter")
    role = table.get("role", "read")
    if role not in _ROLES:
        raise SettingsError(f"{where}: role must be one of {', '.join(_ROLES)}, not {role!r}")
    collections = _texts(table, "collections", where) if "collections" in table else None
    for name in collections or ():
        if not is_collection_name(name):
            raise SettingsError(f"{where}: {name[:80]!r} is not a name that a collection can have")
    try:
        wanted = Filter.parse(table["filter"]) if "filter" in table else None
    except FilterError as error:
        raise SettingsError(f"{where}: {error}") from error
    if wanted is not None and not wanted:
        raise SettingsError(f"{where}: filter must have a field")
    if role == "write" and not table.get("everything"):
        raise SettingsError(f"{where}: the role write needs everything = true: {MUST_BE_WHOLE}")
    return Rule(
        users=_texts(table, "user", where),
        groups=_texts(table, "group", where),
        everybody=table.get("everybody", False),
        collections=collections,
        filter=wanted,
        role=role,
        everything=table.get("everything", False),
    )


def _texts(table: Mapping[str, Any], name: str, where: str) -> frozenset[str]:
    value = table.get(name, [])
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) and text.strip() for text in texts):
        raise SettingsError(f"{where}: {name} must be a text or a list of texts")
    if name in table and not texts:
        raise SettingsError(f"{where}: {name} must not be empty")
    return frozenset(text.strip() for text in texts)
