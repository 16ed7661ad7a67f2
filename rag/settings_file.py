"""Read `pilotlight.toml`, which contains settings, credentials, and sources with individual limits."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from indexer.config import SOURCE_SETTINGS, CrawlLimits, settings_of
from indexer.errors import ConfigError, SourceError
from indexer.network.credentials import Basic, Credential, InEnvironment, InFile, SecretPlace, parse_origin
from indexer.network.urls import address_kind, full_name, refuse_secret
from indexer.read.extraction import collect
from indexer.text.cleaning import load_toml
from rag.errors import SettingsError
from rag.settings import BY_NAME, Settings, own_limits, refuse_unknown

_KEYS = ("url", "path", "metadata")
_CREDENTIAL_KEYS = ("origin", "bearer", "basic", "headers", "cookies")
_ALLOWED = {
    "url": "an http, https, git+https, git+file, s3, gs or az address",
    "path": "a folder or file, not an address",
}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
# Headers that users may not set, because the crawler sets them or because they define where a message ends.
_RESERVED = frozenset(
    "host connection content-length content-type transfer-encoding te trailer upgrade expect cookie user-agent accept "
    "accept-encoding if-none-match if-modified-since range proxy-authorization".split()
)


@dataclass(frozen=True, slots=True)
class ConfiguredSource:
    """A source in the file (table `[[source]]`), with its metadata and limits."""

    source: str  # address, or absolute path
    metadata: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)  # crawl settings by name; see `CrawlLimits.own`


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """The content of a `pilotlight.toml`."""

    settings: Mapping[str, object] = field(default_factory=dict)
    sources: tuple[ConfiguredSource, ...] = ()
    credentials: tuple[Credential, ...] = ()


def read_settings_file(path: Path) -> SettingsFile:
    """Read a configuration file. Raises SettingsError if it is invalid. Paths are relative to its folder."""
    try:
        content = load_toml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise SettingsError(f"{path} is not valid TOML: {error}") from error
    for name in BY_NAME.keys() & content.keys():
        raise SettingsError(f"{path}: move {name} into the table [settings]")
    refuse_unknown(content, ("settings", "source", "credentials", "access"), f"{path}")
    settings = content.get("settings", {})
    if not isinstance(settings, dict):
        raise SettingsError(f"{path}: settings must be a table: write [settings]")
    refuse_unknown(settings, list(BY_NAME), f"{path}: settings")
    for name in ("source", "credentials"):
        if not isinstance(content.setdefault(name, []), list) or any(not isinstance(t, dict) for t in content[name]):
            raise SettingsError(f"{path}: {name} must be a list of tables: write [[{name}]]")
    folder = path.absolute().parent
    sources = tuple(_source(t, folder, f"{path}: source {n}") for n, t in enumerate(content["source"], 1))
    if duplicate := _repeated([source.source for source in sources]):
        raise SettingsError(f"{path}: {duplicate} is listed twice")
    tables = enumerate(content["credentials"], 1)
    credentials = tuple(_credential(table, folder, f"{path}: credentials {n}") for n, table in tables)
    if origin := _repeated([one.origin for one in credentials]):
        raise SettingsError(f"{path}: credentials for {origin} are listed twice")
    if credentials or "access" in content:  # the server and its jobs read both from the file in `rules`
        if "rules" in settings:
            raise SettingsError(f"{path}: set either rules or [[credentials]] and [[access]], not both")
        settings = {**settings, "rules": str(path.absolute())}
    return SettingsFile(settings, sources, credentials)


def credentials_of(settings: Settings) -> tuple[Credential, ...]:
    """Return the credentials in the file `rules`, or () without this setting. Raises SettingsError if it is invalid."""
    return read_settings_file(settings.rules_path).credentials if settings.rules else ()


def _repeated(keys: Sequence[Any]) -> Any:
    return next((key for key, count in Counter(keys).items() if count > 1), None)


def _source(table: Mapping[str, Any], folder: Path, where: str) -> ConfiguredSource:
    refuse_unknown(table, (*_KEYS, *SOURCE_SETTINGS), where)
    if ("url" in table) == ("path" in table):
        raise SettingsError(f"{where} must have either url or path")
    kind = "url" if "url" in table else "path"
    name = table[kind]
    if not isinstance(name, str) or not name.strip():
        raise SettingsError(f"{where}: {kind} must be a text, not {name!r}")
    limits = {}
    try:
        refuse_secret(name)
        if (kind == "url") != (address_kind(name) is not None):
            raise SourceError(f"{kind} must be {_ALLOWED[kind]}, not {name!r}")
        for limit in filter(table.__contains__, SOURCE_SETTINGS):
            if kind == "path" and limit != "max_bytes":
                raise SourceError(f"{limit} limits a crawl: it needs a url, and this source is a path")
            if kind == "url" and limit not in settings_of(name):
                raise SourceError(f"{limit} does not apply to a {address_kind(name)}")
            limits[limit] = BY_NAME[limit].read(table[limit], f"{where}: {limit}")
        limits = own_limits(limits)
        CrawlLimits(own={where: limits})
    except (SourceError, ConfigError) as error:
        raise SettingsError(f"{where}: {error}") from None
    return ConfiguredSource(
        source=name if kind == "url" else full_name(str(folder / Path(name).expanduser())),
        metadata=_metadata(table.get("metadata", {}), where),
        limits=limits,
    )


def _metadata(values: object, where: str) -> Mapping[str, tuple[str, ...]]:
    tables = values.items() if isinstance(values, dict) else [("", None)]
    pairs: list[tuple[str, Any]] = []
    for name, value in tables:
        pairs += [(name, each) for each in (value if isinstance(value, list) else [value])]
    if not all(isinstance(value, str) for _, value in pairs):
        raise SettingsError(f"{where}: metadata must be a table of texts or lists of texts")
    values_by_name = collect(pairs)
    if invalid_count := len(pairs) - sum(map(len, values_by_name.values())):
        raise SettingsError(
            f"{where}: metadata has {invalid_count} names or values that are empty, too long, too many or repeated"
        )
    return values_by_name


def _credential(table: Mapping[str, Any], folder: Path, where: str) -> Credential:
    """Parse a table `[[credentials]]`. Error messages do not quote values, which may be secret."""
    refuse_unknown(table, _CREDENTIAL_KEYS, where)
    try:
        site = parse_origin(table["origin"] if isinstance(table.get("origin"), str) else "")
    except ConfigError as error:
        raise SettingsError(f"{where}: {error}") from None
    where = f"{where} ({site})"
    headers = _subtable(table.get("headers", {}), f"{where}: headers")
    if any(not _HEADER.fullmatch(name) or name.lower() in _RESERVED for name in headers):
        raise SettingsError(f"{where}: headers has an invalid name, or one that only the crawler may set")
    ways = [name for name in ("bearer", "basic") if name in table]
    ways += [name for name in headers if name.lower() == "authorization"]
    if len(ways) > 1:
        raise SettingsError(f"{where}: {' and '.join(ways)} would both set the header Authorization: use only one")

    def place(name: str, value: object) -> SecretPlace:
        return _secret_place(value, folder, f"{where}: {name}")

    basic = None
    if "basic" in table:
        fields = _subtable(table["basic"], f"{where}: basic", ("user", "password"))
        if missing := [name for name in ("user", "password") if name not in fields]:
            raise SettingsError(f"{where}: basic needs {', '.join(missing)}")
        user = fields["user"]
        if not isinstance(user, str) or not user or ":" in user:
            raise SettingsError(f"{where}: basic.user must be a name, without a colon")
        basic = Basic(user, place("basic.password", fields["password"]))
    return Credential(
        origin=site,
        bearer=place("bearer", table["bearer"]) if "bearer" in table else None,
        basic=basic,
        headers={name: place(f"headers.{name}", value) for name, value in headers.items()},
        cookies=place("cookies", table["cookies"]) if "cookies" in table else None,
    )


def _secret_place(value: object, folder: Path, where: str) -> SecretPlace:
    """Parse a reference to a secret: `{env = "NAME"}` or `{file = "PATH"}`. Refuses a literal secret."""
    if isinstance(value, str):
        advice = 'as others may read this file: write {env = "VARIABLE"} or {file = "PATH"}'
        raise SettingsError(f"{where} must not contain the secret itself, {advice}")
    fields = _subtable(value, where, ("env", "file"))
    if len(fields) != 1 or not all(isinstance(text, str) and text for text in fields.values()):
        raise SettingsError(f'{where} must be {{env = "VARIABLE"}} or {{file = "PATH"}}')
    if "env" in fields and not _VARIABLE.fullmatch(fields["env"]):
        raise SettingsError(f"{where}.env must be the name of a variable, not its value")
    try:
        return InEnvironment(fields["env"]) if "env" in fields else InFile(folder / Path(fields["file"]).expanduser())
    except RuntimeError:
        raise SettingsError(f"{where}: the path begins with ~ and the name of a user who does not exist") from None


def _subtable(value: object, where: str, names: tuple[str, ...] = ()) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise SettingsError(f"{where} must be a table")
    if names:
        refuse_unknown(value, names, where)
    return value
