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
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from indexer.generation.layout import is_collection_name
from indexer.urls import is_loopback
from rag.clock import timestamp
from rag.errors import KeysError, SettingsError
from rag.query.request import Filter, FilterError
from rag.serving.scope import EVERYTHING, MUST_BE_WHOLE, Part, Scope
from rag.settings import Settings

__all__ = ["KeyFile", "KeyRing", "check_exposure", "is_loopback"]
ROLES = ("read", "write")  # who may write may read too
MIN_BYTES = 16  # of a key that is brought along
PREFIX = "pl_"  # so that a key is known for one where it turns up by mistake
ORIGINS_ARE = "it is written as https://docs.example.org or http://localhost:3000, and nothing after that"
_RANDOM_BYTES = 32
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ORIGIN = re.compile(r"https?://[a-z0-9.-]+(:[0-9]{1,5})?|https?://\[[0-9a-f:]+\](:[0-9]{1,5})?")
_PART_FIELDS = ("collections", "filter", "readers")
_VERSION = 1
_MOST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Key:
    """The record of a key, without the key itself."""

    name: str
    role: Literal["read", "write"]
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
                text = file.read(_MOST_BYTES)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise KeysError(f"{self.path} cannot be read: {error.strerror}") from error
        try:
            content = json.loads(text)
            keys = tuple(map(_key, content["keys"]))
            sound = content["version"] == _VERSION and all(
                _NAME.fullmatch(key.name)
                and key.role in (("read",) if key.origins else ROLES)
                and re.fullmatch("[0-9a-f]{64}", key.sha256)
                and all(map(is_origin, key.origins))
                for key in keys
            )
        except (ValueError, TypeError, KeyError, AttributeError, FilterError):
            sound = False
        if not sound:
            raise KeysError(f"{self.path} is not a valid key file: restore it, or delete it and create new keys")
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

        Raises KeysError: the name is taken or cannot be one, the role is unknown, the key is too short or there
        already, an origin is none, a key for pages or with a filter is to write, a collection cannot be called so, or
        the file cannot be written.
        """
        if not _NAME.fullmatch(name):
            raise KeysError(
                f"a key cannot be called {name[:80]!r}: 1 to 64 letters, digits, '.', '-' and '_' are allowed"
            )
        if role not in ROLES:
            raise KeysError(f"role must be one of {', '.join(ROLES)}, not {role[:80]!r}")
        origins = tuple(dict.fromkeys(origins))
        if origins and role != "read":
            raise KeysError("everybody can see a key in a page: with --origin, the role must be read")
        if role == "write" and not scope.may_write:
            raise KeysError(
                f"a key that sees some documents of a collection cannot have the role write: {MUST_BE_WHOLE}"
            )
        for collection in chain.from_iterable(part.collections or () for part in scope.parts):
            if not is_collection_name(collection):
                raise KeysError(f"{collection[:80]!r} is not a name that a collection can have")
        for origin in origins:
            if not is_origin(origin):
                raise KeysError(f"{origin[:80]!r} is not an origin: {ORIGINS_ARE}")
        if key is None:
            key = PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
        _check_key(key)
        created = timestamp(datetime.now(UTC))
        made = Key(name, role, digest(key), created, origins, scope)  # type: ignore[arg-type]  # the role has been checked
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

    def _write(self, keys: list[Key]) -> None:
        rows = list(map(_row, keys))
        text = json.dumps({"version": _VERSION, "keys": rows}, indent=1) + "\n"
        try:
            # a temporary file is readable by its owner only
            with tempfile.NamedTemporaryFile(
                "w", dir=self.path.parent, prefix=f"{self.path.name}.", delete=False
            ) as file:
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
        self._lock = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self._keys: tuple[Key, ...] = ()

    def keys(self) -> tuple[Key, ...] | None:
        """Return the keys of this moment; None without a file of keys, which is not the same as a file without keys.

        Raises KeysError; keys that were good before are not, until the file is mended.
        """
        try:
            now = self._file.path.stat()
        except FileNotFoundError:
            return None
        except OSError:
            return self._file.read()  # which says why
        seen = (now.st_ino, now.st_mtime_ns, now.st_size)
        with self._lock:
            if seen != self._seen:
                self._keys = self._file.read()
                self._seen = seen
            return self._keys

    def find(self, key: str) -> Key | None:
        """Return what is known of a key; None if it is not one of ours. Takes as long for any that is not."""
        wanted, found = digest(key), None
        for known in self.keys() or ():
            if hmac.compare_digest(known.sha256, wanted):
                found = known
        return found


def _key(fields: dict[str, Any]) -> Key:
    """Read a record of the file. Raises ValueError, TypeError, KeyError, AttributeError or FilterError."""
    together = {name: fields[name] for name in _PART_FIELDS if name in fields}
    several = fields.get("any_of")
    parts = [together] if several is None else [{**together, **each} for each in several]
    if not parts:
        raise ValueError("any_of must name parts")
    known = {name: value for name, value in fields.items() if name not in (*_PART_FIELDS, "any_of")}
    return Key(**{**known, "origins": tuple(fields.get("origins", ())), "scope": Scope(tuple(map(_part, parts)))})


def _part(fields: dict[str, Any]) -> Part:
    names, wanted, readers = map(fields.get, _PART_FIELDS)
    if fields.keys() - set(_PART_FIELDS) or not all(each is None or _are_texts(each) for each in (names, readers)):
        raise ValueError("collections and readers must be lists of names")
    return Part(
        None if names is None else frozenset(names),
        None if wanted is None else Filter.parse(wanted) or None,
        None if readers is None else frozenset(readers),
    )


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _row(key: Key) -> dict[str, Any]:
    """Return the record of a key; what it does not have is left out: earlier versions know none of it."""
    row: dict[str, Any] = {"name": key.name, "role": key.role, "sha256": key.sha256, "created": key.created}
    row |= {"origins": list(key.origins)} if key.origins else {}
    return row | scope_fields(key.scope)


def scope_fields(scope: Scope) -> dict[str, Any]:
    """Return the scope of a key as its record has it, JSON-ready."""
    parts = list(map(_part_fields, scope.parts))
    return parts[0] if len(parts) == 1 else {"any_of": parts}


def _part_fields(part: Part) -> dict[str, Any]:
    fields: dict[str, Any] = {} if part.collections is None else {"collections": sorted(part.collections)}
    fields |= {"filter": part.filter.as_dict()} if part.filter else {}
    return fields if part.readers is None else {**fields, "readers": sorted(part.readers)}


def is_origin(text: object) -> bool:
    """Return whether a text is an origin as browsers write it."""
    return isinstance(text, str) and bool(_ORIGIN.fullmatch(text))


def digest(key: str) -> str:
    """Return the SHA-256 of a key, in hexadecimal."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def check_exposure(settings: Settings) -> None:
    """Raise SettingsError if strangers could search: another address than loopback, no key, and nobody said so.

    Raises KeysError if the file of keys cannot be used.
    """
    keys = KeyRing(settings.keys_file).keys()
    if keys is not None or settings.anonymous != "auto" or settings.knows_users or is_loopback(settings.host):
        return
    raise SettingsError(
        f"--host {settings.host} lets others search without a key: make one with pilotlight keys add NAME, "
        "or allow it with --anonymous read"
    )


def _check_key(key: str) -> None:
    size = len(key.encode("utf-8", "surrogatepass"))
    if size < MIN_BYTES:
        raise KeysError(f"the key has {size} bytes: it needs at least {MIN_BYTES}, preferably random")
    if not re.fullmatch(r"[!-~]+", key):
        raise KeysError("the key contains white space or characters that are not printable ASCII")
