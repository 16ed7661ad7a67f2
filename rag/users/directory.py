"""What users may do, whoever has said who they are: by the `[[access]]` of a configuration file."""

import threading
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rag.errors import KeysError, SettingsError
from rag.serving.scope import Part, Scope, reader_names
from rag.users.access_tables import Rule, read_access

MOST_GROUPS = 256  # of a user; each is a term of every search
LONGEST = 256  # characters of a name


class User(NamedTuple):
    """A user as a proxy or a token names them."""

    name: str
    groups: tuple[str, ...] = ()


class Rights(NamedTuple):
    """What a user may do."""

    role: str  # read or write
    sees: Scope
    writes: Scope  # nothing with the role read


class Directory:
    """The rules of a file, read again when it has changed. Safe to share between threads."""

    def __init__(self, path: Path) -> None:
        """Take the file; raises SettingsError if it cannot be read."""
        self._path = path
        self._lock = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self._rules: tuple[Rule, ...] = ()
        self.rules()

    def rules(self) -> tuple[Rule, ...]:
        """Return the rules of this moment. Raises SettingsError."""
        try:
            now = self._path.stat()
            seen = (now.st_ino, now.st_mtime_ns, now.st_size)
            with self._lock:
                if seen != self._seen:
                    content = tomllib.loads(self._path.read_text(encoding="utf-8"))
                    self._rules = read_access(content.get("access", []), str(self._path))
                    self._seen = seen
                return self._rules
        except OSError as error:
            raise SettingsError(f"cannot read {self._path}: {error.strerror or error}") from error
        except ValueError as error:
            raise SettingsError(f"{self._path} is not valid TOML: {error}") from error

    def rights(self, user: User) -> Rights | None:
        """Return what all rules that concern a user give them together; None without any.

        Raises KeysError while the file cannot be used: rules that were good before are not, until it is mended.
        """
        try:
            found = [rule for rule in self.rules() if rule.concerns(user.name, user.groups)]
        except SettingsError as error:
            raise KeysError(str(error)) from error
        if not found:
            return None
        readers = reader_names([user.name], user.groups)
        writing = [rule for rule in found if rule.role == "write"]
        return Rights("write" if writing else "read", _scope(found, readers), _scope(writing, readers))


def _scope(rules: Sequence[Rule], readers: frozenset[str]) -> Scope:
    """Return the scope that some rules give together."""
    parts = [Part(rule.collections, rule.filter, None if rule.everything else readers) for rule in rules]
    return Scope(tuple(dict.fromkeys(parts)))
