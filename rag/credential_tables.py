"""`[[credentials]]` of a configuration file: the headers and cookies of origins, and where the secrets are."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from indexer.credentials import Basic, Credential, InEnvironment, InFile, Place, site_of
from indexer.errors import ConfigError
from rag.errors import SettingsError
from rag.removed import CREDENTIAL_KEYS, refuse_names
from rag.suggestions import refuse_unknown

_KEYS = ("origin", "bearer", "basic", "headers", "cookies")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
# headers that the crawler sets itself, or that frame a message
_RESERVED = frozenset(
    "host connection content-length content-type transfer-encoding te trailer upgrade expect cookie user-agent accept "
    "accept-encoding if-none-match if-modified-since range proxy-authorization".split()
)


def read_credentials(tables: object, folder: Path, path: str) -> tuple[Credential, ...]:
    """Read the tables, with relative paths from a folder. No secret is read, and no value quoted.

    Raises SettingsError naming the file, the place in it and what is allowed.
    """
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SettingsError(f"{path}: credentials must be a list of tables: write [[credentials]]")
    credentials = tuple(_read(table, folder, f"{path}: credentials {n}") for n, table in enumerate(tables, 1))
    for number, one in enumerate(credentials):
        if any(one.origin == other.origin for other in credentials[:number]):
            raise SettingsError(f"{path}: credentials for {one.origin} are given twice")
    return credentials


def _read(table: Mapping[str, Any], folder: Path, where: str) -> Credential:
    refuse_names(table, where, CREDENTIAL_KEYS)
    refuse_unknown(table, _KEYS, where)
    try:
        site = site_of(table["origin"] if isinstance(table.get("origin"), str) else "")
    except ConfigError as error:
        raise SettingsError(f"{where}: {error}") from None
    where = f"{where} ({site})"
    headers = _table(table.get("headers", {}), f"{where}: headers")
    if any(not _HEADER.fullmatch(name) or name.lower() in _RESERVED for name in headers):
        raise SettingsError(f"{where}: headers has a name that no header can have, or one that the crawler sets itself")
    ways = [name for name in ("bearer", "basic") if name in table]
    ways += [name for name in headers if name.lower() == "authorization"]
    if len(ways) > 1:
        raise SettingsError(f"{where}: {' and '.join(ways)} would both be the header Authorization: give one")

    def place(name: str, value: object) -> Place:
        return _place(value, folder, f"{where}: {name}")

    basic = None
    if "basic" in table:
        fields = _table(table["basic"], f"{where}: basic", ("user", "password"))
        if missing := [name for name in ("user", "password") if name not in fields]:
            raise SettingsError(f"{where}: basic needs {', '.join(missing)}")
        user = fields["user"] if isinstance(fields["user"], str) else place("basic.user", fields["user"])
        if isinstance(user, str) and (not user or ":" in user):
            raise SettingsError(f"{where}: basic.user must be a name, without a colon")
        basic = Basic(user, place("basic.password", fields["password"]))
    return Credential(
        origin=site,
        bearer=place("bearer", table["bearer"]) if "bearer" in table else None,
        basic=basic,
        headers={name: place(f"headers.{name}", value) for name, value in headers.items()},
        cookies=place("cookies", table["cookies"]) if "cookies" in table else None,
    )


def _place(value: object, folder: Path, where: str) -> Place:
    """Read `{env = "NAME"}` or `{file = "PATH"}`; a secret itself is refused, and not quoted."""
    if isinstance(value, str):
        advice = 'as others may read this file: write {env = "VARIABLE"} or {file = "PATH"}'
        raise SettingsError(f"{where} must not hold the secret itself, {advice}")
    fields = _table(value, where, ("env", "file"))
    if len(fields) != 1 or not all(isinstance(text, str) and text for text in fields.values()):
        raise SettingsError(f'{where} must be {{env = "VARIABLE"}} or {{file = "PATH"}}')
    if "env" in fields and not _VARIABLE.fullmatch(fields["env"]):
        raise SettingsError(f"{where}.env must be the name of a variable, not what is in it")
    try:
        return InEnvironment(fields["env"]) if "env" in fields else InFile(folder / Path(fields["file"]).expanduser())
    except RuntimeError:
        raise SettingsError(f"{where}: a path begins with ~ and the name of a user who does not exist") from None


def _table(value: object, where: str, known: tuple[str, ...] = ()) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise SettingsError(f"{where} must be a table")
    if known:
        refuse_unknown(value, known, where)
    return value
