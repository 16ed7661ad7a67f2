"""`[[credentials]]` of a configuration file: what origins are asked with, and where the secrets are."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from indexer.credentials import (
    Basic,
    ClientCertificate,
    Credential,
    InEnvironment,
    InFile,
    Login,
    Place,
    Success,
    site_of,
)
from indexer.errors import ConfigError
from indexer.urls import normalise, origin
from rag.errors import SettingsError
from rag.suggestions import refuse_unknown

_KEYS = ("origin", "bearer", "basic", "headers", "cookies", "login", "client_certificate")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
# headers that the crawler writes itself, or that say how a message is framed
_OURS = frozenset(
    "host connection content-length content-type transfer-encoding te trailer upgrade expect cookie user-agent accept "
    "accept-encoding if-none-match if-modified-since range proxy-authorization".split()
)
_SOUNDS_SECRET = re.compile("pass|pwd|secret|token|pin$|otp|code|key", re.IGNORECASE)


def read_credentials(tables: object, folder: Path, path: str) -> tuple[Credential, ...]:
    """Read the tables; relative paths in them start at a folder. No secret is read, and no value quoted.

    Raises SettingsError naming the file, the place in it and what is allowed.
    """
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SettingsError(f"{path}: credentials must be a list of tables: write [[credentials]]")
    found = tuple(_Table(table, folder, f"{path}: credentials {n}").read() for n, table in enumerate(tables, 1))
    for place, one in enumerate(found):
        if any(one.origin == other.origin for other in found[:place]):
            raise SettingsError(f"{path}: credentials for {one.origin} are given twice")
    return found


class _Table:
    def __init__(self, table: Mapping[str, Any], folder: Path, where: str) -> None:
        self._table = table
        self._folder = folder
        self._where = where

    def read(self) -> Credential:
        table = self._table
        refuse_unknown(table, _KEYS, self._where)
        try:
            site = site_of(table["origin"] if isinstance(table.get("origin"), str) else "")
        except ConfigError as error:
            raise self._wrong(str(error)) from None
        self._where += f" ({site})"
        headers = self._headers(table["headers"]) if "headers" in table else {}
        ways = [name for name in ("bearer", "basic") if name in table]
        ways += [name for name in headers if name.lower() == "authorization"]
        if len(ways) > 1:
            raise self._wrong(f"{' and '.join(ways)} would both be the header Authorization: give one")
        return Credential(
            origin=site,
            bearer=self._place("bearer", table["bearer"]) if "bearer" in table else None,
            basic=self._basic(table["basic"]) if "basic" in table else None,
            headers=headers,
            cookies=self._place("cookies", table["cookies"]) if "cookies" in table else None,
            login=self._login(table["login"], site) if "login" in table else None,
            client_certificate=self._certificate(table["client_certificate"], site)
            if "client_certificate" in table
            else None,
        )

    def _basic(self, value: object) -> Basic:
        given = self._subtable("basic", value, ("user", "password"), needed=("user", "password"))
        user = given["user"] if isinstance(given["user"], str) else self._place("basic.user", given["user"])
        if isinstance(user, str) and (not user or ":" in user):
            raise self._wrong("basic.user must be a name, without a colon")
        return Basic(user, self._place("basic.password", given["password"]))

    def _headers(self, value: object) -> dict[str, Place]:
        given = self._subtable("headers", value, None)
        for name in given:
            if not _HEADER.fullmatch(name) or name.lower() in _OURS:
                raise self._wrong("headers has a name that no header can have, or one that the crawler sets itself")
        return {name: self._place(f"headers.{name}", place) for name, place in given.items()}

    def _login(self, value: object, site: str) -> Login:
        given = self._subtable("login", value, ("url", "fields", "success"), needed=("url", "fields", "success"))
        url = normalise(f"{site}/", given["url"]) if isinstance(given["url"], str) else None
        if url is None or origin(url) != site:
            raise self._wrong(f"login.url must be an address or path on {site}: secrets are sent to no other origin")
        fields = {
            name: value if self._is_plain(name, value) else self._place(f"login.fields.{name}", value)
            for name, value in self._subtable("login.fields", given["fields"], None).items()
        }
        if all(isinstance(place, str) for place in fields.values()):
            raise self._wrong("login.fields has no secret: write password = {env = …} or {file = …}")
        success = self._subtable("login.success", given["success"], ("cookie", "text", "path"))
        if not success or not all(isinstance(sign, str) and sign for sign in success.values()):
            raise self._wrong("login.success must say how to know that it worked: cookie, text or path, each a text")
        return Login(url, fields, Success(**success))

    @staticmethod
    def _is_plain(name: str, value: object) -> bool:
        return isinstance(value, str) and not _SOUNDS_SECRET.search(name)

    def _certificate(self, value: object, site: str) -> ClientCertificate:
        given = self._subtable("client_certificate", value, ("file", "key", "key_password"), needed=("file",))
        if not site.startswith("https:"):
            raise self._wrong("client_certificate needs an origin with https")
        files = [given[name] for name in ("file", "key") if name in given]
        if not all(isinstance(file, str) and file for file in files):
            raise self._wrong("client_certificate.file and key must be paths of files")
        certificate, *key = (self._path(file) for file in files)
        password = given.get("key_password")
        return ClientCertificate(
            certificate,
            key[0] if key else None,
            None if password is None else self._place("client_certificate.key_password", password),
        )

    def _place(self, name: str, value: object) -> Place:
        """Read `{env = "NAME"}` or `{file = "PATH"}`; a secret itself is refused, and not quoted."""
        if isinstance(value, str):
            raise self._wrong(
                f"{name} must not hold the secret itself, as others may read this file: "
                'write {env = "VARIABLE"} or {file = "PATH"}'
            )
        given = self._subtable(name, value, ("env", "file"))
        if len(given) != 1 or not all(isinstance(text, str) and text for text in given.values()):
            raise self._wrong(f'{name} must be {{env = "VARIABLE"}} or {{file = "PATH"}}')
        if "file" in given:
            return InFile(self._path(given["file"]))
        if not _VARIABLE.fullmatch(given["env"]):
            raise self._wrong(f"{name}.env must be the name of a variable, not what is in it")
        return InEnvironment(given["env"])

    def _subtable(
        self, name: str, value: object, known: tuple[str, ...] | None, needed: tuple[str, ...] = ()
    ) -> Mapping[str, Any]:
        if not isinstance(value, dict) or (known is None and not value):
            raise self._wrong(f"{name} must be a table")
        if known is not None:
            refuse_unknown(value, known, f"{self._where}: {name}")
        if missing := [key for key in needed if key not in value]:
            raise self._wrong(f"{name} needs {', '.join(missing)}")
        return value

    def _path(self, text: str) -> Path:
        try:
            return self._folder / Path(text).expanduser()
        except RuntimeError:
            raise self._wrong("a path begins with ~ and the name of a user who does not exist") from None

    def _wrong(self, why: str) -> SettingsError:
        return SettingsError(f"{self._where}: {why}")
