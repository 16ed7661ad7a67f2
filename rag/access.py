"""Access control: the documents that each key and each user may read and write.

`rag.serving.live` restricts every search to the documents that its caller may read. The scores of these documents still
depend on all documents of the collection, so put documents whose existence is secret into a separate collection.

Only SHA-256 hashes of keys are stored. Such a fast hash is enough, because keys are random and cannot be guessed.
"""

import fcntl
import hashlib
import hmac
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

from msgspec import Meta, MsgspecError, Struct, json

from indexer.generation.manifest import is_collection_name
from indexer.network.urls import is_loopback as is_loopback  # re-exported: `web` may not import `indexer`
from indexer.text.cleaning import load_toml
from rag.errors import KeysError, SettingsError
from rag.query.request import Filter, FilterError
from rag.settings import Settings, refuse_unknown

T = TypeVar("T")

ROLES = ("read", "write")
WRITE_ADVICE = "writing needs a whole collection: use a separate collection for the documents that are written"
ORIGIN_ADVICE = "write it as https://docs.example.org or http://localhost:3000, without a path"
_PREFIX = "pl_"  # lets secret scanners recognise leaked keys
_MIN_KEY_BYTES = 16
_MAX_FILE_BYTES = 1_000_000
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_ORIGIN = re.compile(r"https?://[a-z0-9.-]+(:[0-9]{1,5})?|https?://\[[0-9a-f:]+\](:[0-9]{1,5})?")
_SUBJECTS = ("user", "group", "everybody")
_OBJECTS = ("collections", "filter", "everything")


@dataclass(frozen=True, slots=True)
class Grant:
    """The documents of `collections` that match `filter` and that at least one of `readers` may read."""

    collections: frozenset[str] | None = None  # names of existing or future collections; None for all
    filter: Filter | None = None
    readers: frozenset[str] | None = None  # such as user:ann or group:staff; None ignores the access lists of documents

    @property
    def is_whole(self) -> bool:
        """Return whether the grant includes every document of its collections."""
        return self.filter is None and self.readers is None


ANYTHING = Grant()


@dataclass(frozen=True, slots=True)
class Scope:
    """The documents that at least one of its grants includes. Without grants, the scope is empty."""

    grants: tuple[Grant, ...] = (ANYTHING,)

    @property
    def is_all(self) -> bool:
        """Return whether the scope includes every document."""
        return ANYTHING in self.grants

    def has(self, collection: str) -> bool:
        """Return whether a grant of the scope includes the collection, in whole or in part."""
        return bool(self._of(collection))

    def has_whole(self, collection: str) -> bool:
        """Return whether the scope includes every document of a collection."""
        return any(grant.is_whole for grant in self._of(collection))

    def narrowed(self, collection: str, requested: Filter | None) -> Filter | None:
        """Combine the filter of a request with the filter of the scope. Returns None if both allow every document."""
        if (allowed := _allowed(self, collection)) is None:
            return requested
        return requested & allowed if requested else allowed

    def without_lists(self) -> "Scope":
        """Return a copy of the scope that ignores the access lists of documents."""
        return Scope(tuple(Grant(grant.collections, grant.filter) for grant in self.grants))

    def _of(self, collection: str) -> list[Grant]:
        return [grant for grant in self.grants if grant.collections is None or collection in grant.collections]


@lru_cache(1000)
def _allowed(scope: Scope, collection: str) -> Filter | None:
    """Return the filter of a scope for a collection, or None if the scope includes the whole collection."""
    if scope.has_whole(collection):
        return None
    allowed = []
    for grant in scope._of(collection):
        readers = Filter() if grant.readers is None else Filter(readers=grant.readers)
        allowed.append(grant.filter & readers if grant.filter and readers else grant.filter or readers)
    return Filter.any_of(allowed)


EVERYTHING = Scope()
UNLISTED = Scope((Grant(readers=frozenset()),))  # only documents without an access list
NOTHING = Scope(())


def reader_names(users: Iterable[str], groups: Iterable[str]) -> frozenset[str]:
    """Return the names that access lists use for users and groups, such as user:ann and group:staff."""
    return frozenset([f"user:{name}" for name in users] + [f"group:{name}" for name in groups])


class _CachedFile(Generic[T]):
    """Caches the parsed content of a file until the file changes. Safe to share between threads."""

    def __init__(self, path: Path, read: Callable[[], T]) -> None:
        self._path = path
        self._read = read
        self._cached: tuple[tuple[int, int, int], T] | None = None

    def content(self) -> T:
        """Return the current content of the file. Raises OSError and the errors of the function `read`."""
        now = self._path.stat()
        version = (now.st_ino, now.st_mtime_ns, now.st_size)
        if self._cached is None or self._cached[0] != version:
            self._cached = version, self._read()
        return self._cached[1]


class Key(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, dict=True):
    """A key in the key file, stored as a hash. The file omits empty fields."""

    name: Annotated[str, Meta(pattern=rf"\A{_NAME}\Z")]
    role: Annotated[str, Meta(pattern=r"\A(read|write)\Z")]
    sha256: Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
    created: str  # ISO 8601, UTC
    origins: tuple[str, ...] = ()  # sites whose pages contain the key; empty for a secret key
    collections: list[str] | None = None
    filter: dict[str, Any] | None = None
    readers: list[str] | None = None

    @cached_property
    def grant(self) -> Grant:
        """The documents that the key was created for. Raises FilterError if the filter in the key file is invalid."""
        collections, readers = (None if of is None else frozenset(of) for of in (self.collections, self.readers))
        return Grant(collections, Filter.parse(self.filter) or None if self.filter is not None else None, readers)

    @cached_property
    def readable(self) -> Scope:
        """The documents that the key may read. A key without origins, filter and readers ignores access lists."""
        has_limits = self.origins or self.grant.filter
        return Scope((replace(self.grant, readers=self.grant.readers or frozenset()) if has_limits else self.grant,))


class _Content(Struct):
    version: Literal[1]
    keys: tuple[Key, ...]


class KeyFile:
    """The key file, which may be missing. Safe to share between threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._cached_keys = _CachedFile(path, self.read)

    def current(self) -> tuple[Key, ...] | None:
        """Return the current keys. A missing file gives None, and a file without keys gives ().

        A changed file is read again. Raises KeysError if the file is invalid.
        """
        try:
            return self._cached_keys.content()
        except FileNotFoundError:
            return None
        except OSError:
            return self.read()

    def find(self, key: str) -> Key | None:
        """Return the key with this secret text, or None if it is unknown. The comparison takes constant time."""
        key_digest, match = digest(key), None
        for candidate in self.current() or ():
            if hmac.compare_digest(candidate.sha256, key_digest):
                match = candidate
        return match

    def read(self) -> tuple[Key, ...]:
        """Return the keys in the file, oldest first. Raises KeysError if the file is unreadable or invalid."""
        try:
            with self.path.open("rb") as file:
                keys = json.decode(file.read(_MAX_FILE_BYTES), type=_Content).keys
            if any(not all(map(is_origin, key.origins)) or (key.origins and key.role != "read") for key in keys):
                raise ValueError("a key has an invalid origin, or has origins and the role write")
            writers = [key.name for key in keys if not key.grant.is_whole and key.role == "write"]
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise KeysError(f"{self.path} cannot be read: {error.strerror}") from error
        except (ValueError, MsgspecError, FilterError) as error:
            raise KeysError(
                f"{self.path} is not a valid key file: restore it, or delete it and create new keys"
            ) from error
        if writers:
            raise KeysError(f"{self.path}: key {writers[0]!r} has limits and the role write: {WRITE_ADVICE}")
        return keys

    def add(
        self, name: str, role: str, key: str | None = None, origins: Iterable[str] = (), grant: Grant = ANYTHING
    ) -> str:
        """Add a key, and return its secret text. The file stores only a hash, so the text cannot be shown again.

        Args:
            name: unique name of the key.
            role: `read` or `write`.
            key: secret text of the key; None to generate one at random.
            origins: sites whose pages contain the key. If set, only these sites can use the key, and only to search.
            grant: documents that the key may read.

        Raises:
            KeysError: an argument is invalid, or the file cannot be read or written.
        """
        origins = tuple(dict.fromkeys(origins))
        key = _PREFIX + secrets.token_urlsafe(32) if key is None else key
        size = len(key.encode("utf-8", "surrogatepass"))
        invalid_names = [each for each in grant.collections or () if not is_collection_name(each)]
        invalid_origins = [each for each in origins if not is_origin(each)]
        refusals = (
            (not re.fullmatch(_NAME, name), f"{name[:80]!r} is not a key name: use 1 to 64 letters, digits, . - _"),
            (role not in ROLES, f"role must be one of {', '.join(ROLES)}, not {role[:80]!r}"),
            (origins and role != "read", "a key with --origin is visible in pages, so its role must be read"),
            (
                role == "write" and not grant.is_whole,
                f"a key that reads only part of a collection cannot have the role write: {WRITE_ADVICE}",
            ),
            (invalid_names, f"{''.join(invalid_names[:1])[:80]!r} is not a valid collection name"),
            (invalid_origins, f"{''.join(invalid_origins[:1])[:80]!r} is not an origin: {ORIGIN_ADVICE}"),
            (size < _MIN_KEY_BYTES, f"the key has {size} bytes: it needs at least {_MIN_KEY_BYTES}, preferably random"),
            (not re.fullmatch(r"[!-~]+", key), "the key contains white space or characters that are not ASCII"),
        )
        for is_wrong, problem in refusals:
            if is_wrong:
                raise KeysError(problem)
        collections, readers = (None if of is None else sorted(of) for of in (grant.collections, grant.readers))
        filter_fields = grant.filter.as_dict() if grant.filter else None
        at = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        record = Key(name, role, digest(key), at, origins, collections, filter_fields, readers)
        with self._locked_keys() as keys:
            if any(other.name == name for other in keys):
                raise KeysError(f"a key called {name!r} already exists: remove it first, or choose another name")
            if any(other.sha256 == record.sha256 for other in keys):
                raise KeysError("this key already exists under another name")
            self._write([*keys, record])
        return key

    def remove(self, name: str) -> Key:
        """Remove a key and return it. Running servers refuse the key immediately. Raises KeysError if it is unknown."""
        with self._locked_keys() as keys:
            if name not in (by_name := {key.name: key for key in keys}):
                raise KeysError(f"there is no key called {name[:80]!r}; there are: {', '.join(by_name) or 'none'}")
            self._write(key for key in keys if key.name != name)
        return by_name[name]

    @contextmanager
    def _locked_keys(self) -> Iterator[tuple[Key, ...]]:
        """Lock the key file until the `with` block ends, and yield its keys. Readers need no lock."""
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
        new = None
        try:
            # Only its owner can read a file that NamedTemporaryFile creates.
            with tempfile.NamedTemporaryFile(dir=self.path.parent, prefix=self.path.name, delete=False) as file:
                new = Path(file.name)
                with suppress(FileNotFoundError):
                    os.fchmod(file.fileno(), stat.S_IMODE(self.path.stat().st_mode))
                file.write(json.format(json.encode(_Content(1, tuple(keys))), indent=1) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.path)
        except OSError as error:
            raise KeysError(f"{self.path} cannot be written: {error.strerror}") from error
        finally:
            if new:
                new.unlink(missing_ok=True)


def is_origin(text: str) -> bool:
    """Return whether a text is an origin as in the header `Origin`, such as https://docs.example.org."""
    return bool(_ORIGIN.fullmatch(text))


def digest(key: str) -> str:
    """Return the SHA-256 of a key, in hexadecimal."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def check_exposure(settings: Settings) -> None:
    """Refuse settings that let anyone on the network search.

    Raises SettingsError if the host is not loopback, there is no key file, and neither `anonymous` nor `user_header`
    is set. Raises KeysError if the key file is unreadable or invalid.
    """
    keys = KeyFile(settings.keys_file).current()
    if keys is None and settings.anonymous == "auto" and not settings.user_header and not is_loopback(settings.host):
        raise SettingsError(
            f"--host {settings.host} lets others search without a key: create one with pilotlight keys add NAME, "
            "or allow it with --anonymous read"
        )


class AccessRules:
    """The access rules for users and groups: the tables `[[access]]` of a configuration file."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises SettingsError if it is unreadable or invalid."""
        self._path = path
        self._file = _CachedFile(path, self._read)
        self.rules()

    def rules(self) -> tuple["_Rule", ...]:
        """Return the current rules. A changed file is read again. Raises SettingsError if it is invalid."""
        try:
            return self._file.content()
        except OSError as error:
            raise SettingsError(f"cannot read {self._path}: {error.strerror}") from error
        except ValueError as error:
            raise SettingsError(f"{self._path} is not valid TOML: {error}") from error

    def rights(self, user: str, groups: Iterable[str] = ()) -> tuple[Scope, Scope]:
        """Return two scopes: the documents that a user may read, and the documents that the user may write.

        Args:
            user: name of the user, without the prefix `user:`.
            groups: names of the user's groups, without the prefix `group:`.

        Raises:
            KeysError: the configuration file has become unreadable or invalid.
        """
        try:
            rules = self.rules()
        except SettingsError as error:
            raise KeysError(str(error)) from error
        readers = reader_names([user], groups)
        read_grants: list[Grant] = []
        write_grants: list[Grant] = []
        for rule in rules:
            if rule.is_for_everybody or not rule.names.isdisjoint(readers):
                read_grants.append(rule.grant if rule.everything else replace(rule.grant, readers=readers))
                write_grants += read_grants[-1:] if rule.role == "write" else []
        return Scope(tuple(dict.fromkeys(read_grants))), Scope(tuple(dict.fromkeys(write_grants)))

    def _read(self) -> tuple["_Rule", ...]:
        tables = load_toml(self._path.read_text(encoding="utf-8")).get("access", [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise SettingsError(f"{self._path}: access must be a list of tables: write [[access]]")
        return tuple(_rule(table, f"{self._path}: access {number}") for number, table in enumerate(tables, 1))


class _Rule(NamedTuple):
    """One table `[[access]]`: a grant, and the users and groups that receive it."""

    names: frozenset[str]
    is_for_everybody: bool
    grant: Grant
    role: str
    everything: bool


def _rule(table: Mapping[str, Any], where: str) -> _Rule:
    """Parse one table `[[access]]`. `where` names the file and the table in the message of a SettingsError."""
    refuse_unknown(table, (*_SUBJECTS, *_OBJECTS, "role"), where)
    everything, role, everybody = table.get("everything", False), table.get("role", "read"), table.get("everybody")
    users, groups, collections = (_texts(table, name, where) for name in ("user", "group", "collections"))
    try:
        filter = Filter.parse(table["filter"]) if "filter" in table else None
    except FilterError as error:
        raise SettingsError(f"{where}: {error}") from error
    invalid_names = [name for name in sorted(collections) if not is_collection_name(name)]
    refusals = (
        (not isinstance(everybody, bool | None), "everybody must be true or false"),
        (not isinstance(everything, bool), "everything must be true or false"),
        (not any(map(table.get, _SUBJECTS)), "needs user, group, or everybody = true"),
        (not any(map(table.get, _OBJECTS)), "needs collections, filter, or everything = true"),
        (everything and filter is not None, "everything cannot be combined with filter"),
        (role not in ROLES, f"role must be one of {', '.join(ROLES)}, not {role!r}"),
        (invalid_names, f"{''.join(invalid_names[:1])[:80]!r} is not a valid collection name"),
        (filter is not None and not filter, "filter must have a field"),
        ([] in map(table.get, ("user", "group", "collections")), "a list must not be empty"),
        (role == "write" and not everything, f"the role write needs everything = true: {WRITE_ADVICE}"),
    )
    for is_wrong, problem in refusals:
        if is_wrong:
            raise SettingsError(f"{where}: {problem}")
    grant = Grant(frozenset(collections) if "collections" in table else None, filter)
    return _Rule(reader_names(users, groups), bool(everybody), grant, role, everything)


def _texts(table: Mapping[str, Any], name: str, where: str) -> list[str]:
    value = table.get(name, [])
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) and text.strip() for text in texts):
        raise SettingsError(f"{where}: {name} must be a text or a list of texts")
    return [text.strip() for text in texts]
