"""Keys that callers of a server show, and the file that has their hashes.

A key is random, so its SHA-256 cannot be turned back by guessing, and no slow hash is needed.
"""

import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, MsgspecError, Struct
from msgspec.json import decode

from indexer.generation.layout import is_collection_name
from indexer.urls import is_loopback
from rag.clock import timestamp
from rag.errors import KeysError, SettingsError
from rag.query.request import Filter, FilterError
from rag.serving.scope import EVERYTHING, MUST_BE_WHOLE, ROLES, FollowedFile, Part, Scope
from rag.settings import Settings

__all__ = ["KeyFile", "KeyRing", "check_exposure", "is_loopback"]
MIN_BYTES = 16  # of a key that is brought along
PREFIX = "pl_"  # so that a key is known for one where it turns up by mistake
ORIGINS_ARE = "it is written as https://docs.example.org or http://localhost:3000, and nothing after that"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_ORIGIN = re.compile(r"https?://[a-z0-9.-]+(:[0-9]{1,5})?|https?://\[[0-9a-f:]+\](:[0-9]{1,5})?")
_MOST_BYTES = 1_000_000  # of the file


class _PartRow(Struct, forbid_unknown_fields=True):
    collections: list[str] | None = None
    filter: dict[str, Any] | None = None
    readers: list[str] | None = None


class _Row(_PartRow, kw_only=True):
    name: Annotated[str, Meta(pattern=rf"\A{_NAME}\Z")]
    role: Literal["read", "write"]
    sha256: Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
    created: str
    origins: tuple[str, ...] = ()
    any_of: Annotated[list[_PartRow], Meta(min_length=1)] | None = None


class _Content(Struct):
    version: Literal[1]
    keys: list[_Row]


@dataclass(frozen=True, slots=True)
class Key:
    """The record of a key, without the key itself."""

    name: str
    role: str
    sha256: str
    created: str  # ISO 8601, UTC
    origins: tuple[str, ...] = ()  # whose pages show it, to everybody: it is good for them alone; empty for a secret
    scope: Scope = EVERYTHING  # what it was made for

    @property
    def sees(self) -> Scope:
        """The documents that it reads: with an access list only by its readers, if it is in pages or has a filter."""
        if not self.origins and not any(part.filter for part in self.scope.parts):
            return self.scope
        return Scope(tuple(replace(part, readers=part.readers or frozenset()) for part in self.scope.parts))


class KeyFile:
    """The keys in a file; a file that is not there has none."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> tuple[Key, ...]:
        """Return the keys, oldest first. Raises KeysError if the file cannot be read or is not one of keys."""
        try:
            with self.path.open("rb") as file:
                keys = tuple(map(_key, decode(file.read(_MOST_BYTES), type=_Content).keys))
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise KeysError(f"{self.path} cannot be read: {error.strerror}") from error
        except (ValueError, MsgspecError, FilterError) as error:
            raise KeysError(
                f"{self.path} is not a valid key file: restore it, or delete it and create new keys"
            ) from error
        for key in keys:
            if key.role == "write" and not key.scope.may_write:
                raise KeysError(
                    f"{self.path}: key {key.name!r} writes below a filter, which was removed: {MUST_BE_WHOLE}"
                )
        return keys

    def add(
        self, name: str, role: str, key: str | None = None, origins: Iterable[str] = (), scope: Scope = EVERYTHING
    ) -> str:
        """Add a key, a new random one unless it is given; return it. Only its hash is kept: it cannot be shown again.

        With `origins`, it is one that pages of these sites may show: good for searches from them alone.
        With a `scope`, it is good for these collections and documents alone.

        Raises KeysError: something of it cannot be, the name or the key is there already, or the file cannot be
        written.
        """
        origins = tuple(dict.fromkeys(origins))
        key = PREFIX + secrets.token_urlsafe(32) if key is None else key
        size = len(key.encode("utf-8", "surrogatepass"))
        strange = [each for part in scope.parts for each in part.collections or () if not is_collection_name(each)]
        no_origins = [each for each in origins if not is_origin(each)]
        refusals = (
            (
                not re.fullmatch(_NAME, name),
                f"a key cannot be called {name[:80]!r}: 1 to 64 letters, digits, '.', '-' and '_' are allowed",
            ),
            (role not in ROLES, f"role must be one of {', '.join(ROLES)}, not {role[:80]!r}"),
            (origins and role != "read", "everybody can see a key in a page: with --origin, the role must be read"),
            (
                role == "write" and not scope.may_write,
                f"a key that sees some documents of a collection cannot have the role write: {MUST_BE_WHOLE}",
            ),
            (strange, f"{''.join(strange[:1])[:80]!r} is not a name that a collection can have"),
            (no_origins, f"{''.join(no_origins[:1])[:80]!r} is not an origin: {ORIGINS_ARE}"),
            (size < MIN_BYTES, f"the key has {size} bytes: it needs at least {MIN_BYTES}, preferably random"),
            (
                not re.fullmatch(r"[!-~]+", key),
                "the key contains white space or characters that are not printable ASCII",
            ),
        )
        for is_wrong, what in refusals:
            if is_wrong:
                raise KeysError(what)
        made = Key(name, role, digest(key), timestamp(datetime.now(UTC)), origins, scope)
        with self._changing() as keys:
            if any(other.name == name for other in keys):
                raise KeysError(f"a key called {name!r} already exists: remove it first, or choose another name")
            if any(other.sha256 == made.sha256 for other in keys):
                raise KeysError("this key already exists under another name")
            self._write([*keys, made])
        return key

    def remove(self, name: str) -> Key:
        """Remove a key; running servers refuse it from the next request on. Raises KeysError."""
        with self._changing() as keys:
            for key in keys:
                if key.name == name:
                    self._write([other for other in keys if other is not key])
                    return key
        known = ", ".join(key.name for key in keys) or "none"
        raise KeysError(f"there is no key called {name[:80]!r}; there are: {known}")

    @contextmanager
    def _changing(self) -> Iterator[tuple[Key, ...]]:
        """Keep others from changing the file meanwhile."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise KeysError(f"{self.path} cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield self.read()
        finally:
            os.close(folder)

    def _write(self, keys: Iterable[Key]) -> None:
        rows = []
        for key in keys:  # what one does not have is left out: earlier versions know none of it
            row: dict[str, Any] = {"name": key.name, "role": key.role, "sha256": key.sha256, "created": key.created}
            rows.append(row | ({"origins": list(key.origins)} if key.origins else {}) | scope_fields(key.scope))
        text = json.dumps({"version": 1, "keys": rows}, indent=1) + "\n"
        try:
            # a temporary file is readable by its owner only
            with tempfile.NamedTemporaryFile("w", dir=self.path.parent, prefix=self.path.name, delete=False) as file:
                try:
                    with suppress(FileNotFoundError):  # others may have been allowed to read it
                        os.fchmod(file.fileno(), stat.S_IMODE(self.path.stat().st_mode))
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                    os.replace(file.name, self.path)
                except BaseException:
                    Path(file.name).unlink(missing_ok=True)
                    raise
        except OSError as error:
            raise KeysError(f"{self.path} cannot be written: {error.strerror}") from error


class KeyRing:
    """The keys as a server asks for them: read again when the file has changed. Safe to share between threads."""

    def __init__(self, path: Path) -> None:
        self._file = KeyFile(path)
        self._followed = FollowedFile(path, self._file.read)

    def keys(self) -> tuple[Key, ...] | None:
        """Return the keys of this moment; None without a file of keys, which is not the same as a file without keys.

        Raises KeysError; keys that were good before are not, until the file is mended.
        """
        try:
            return self._followed.content()
        except FileNotFoundError:
            return None
        except OSError:
            return self._file.read()  # which says why

    def find(self, key: str) -> Key | None:
        """Return what is known of a key; None if it is not one of ours. Takes as long for any that is not."""
        wanted, found = digest(key), None
        for known in self.keys() or ():
            if hmac.compare_digest(known.sha256, wanted):
                found = known
        return found


def _key(row: _Row) -> Key:
    """Read a record of the file. Raises ValueError or FilterError."""
    if not all(map(is_origin, row.origins)) or (row.origins and row.role != "read"):
        raise ValueError("origins are those of pages, for a key that reads")
    parts = []
    for each in row.any_of or [row]:  # what a part leaves out is as in the row
        collections, readers = (
            row_names if names is None else names
            for names, row_names in ((each.collections, row.collections), (each.readers, row.readers))
        )
        wanted = row.filter if each.filter is None else each.filter
        parts.append(
            Part(
                None if collections is None else frozenset(collections),
                None if wanted is None else Filter.parse(wanted) or None,
                None if readers is None else frozenset(readers),
            )
        )
    return Key(row.name, row.role, row.sha256, row.created, row.origins, Scope(tuple(parts)))


def scope_fields(scope: Scope) -> dict[str, Any]:
    """Return the scope of a key as its record has it, JSON-ready."""
    parts: list[dict[str, Any]] = []
    for part in scope.parts:
        fields: dict[str, Any] = {} if part.collections is None else {"collections": sorted(part.collections)}
        fields |= {"filter": part.filter.as_dict()} if part.filter else {}
        parts.append(fields | ({} if part.readers is None else {"readers": sorted(part.readers)}))
    return parts[0] if len(parts) == 1 else {"any_of": parts}


def is_origin(text: str) -> bool:
    """Return whether a text is an origin as browsers write it."""
    return bool(_ORIGIN.fullmatch(text))


def digest(key: str) -> str:
    """Return the SHA-256 of a key, in hexadecimal."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def check_exposure(settings: Settings) -> None:
    """Raise SettingsError if strangers could search: another address than loopback, no key, and nobody said so.

    Raises KeysError if the file of keys cannot be used.
    """
    keys = KeyRing(settings.keys_file).keys()
    if keys is None and settings.anonymous == "auto" and not settings.knows_users and not is_loopback(settings.host):
        raise SettingsError(
            f"--host {settings.host} lets others search without a key: make one with pilotlight keys add NAME, "
            "or allow it with --anonymous read"
        )
