"""Users as callers: named by a trusted reverse proxy in headers, with the rights that the rules give them.

Anybody can send such headers, so they are believed of named peers only: by the address of the connection itself, which
no header can change, by a secret that the proxy adds, or by both.
"""

import hmac
import ipaddress
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from flask import request
from werkzeug.exceptions import Forbidden, Unauthorized

from rag.errors import SettingsError
from rag.serving.scope import LONGEST, MOST_GROUPS, AccessRules, User
from rag.settings import Settings
from web.guards.scoped_retriever import USER, Caller

_HEADER = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?")  # no _, which WSGI cannot tell from -
_LEAST_SECRET = 16  # characters
_SECRET_HEADER = "X-Proxy-Secret"  # noqa: S105 - its name


class Users:
    """Says which user makes a request."""

    def __init__(self, settings: Settings) -> None:
        """Take the settings; raises SettingsError for some that cannot be, or a file of rules that cannot be read."""
        if not settings.rules:
            raise SettingsError("users need rules: write [[access]] into the file of --config")
        self._rules = AccessRules(settings.rules_path)
        self._networks = []
        for text in filter(None, map(str.strip, settings.user_proxies.split(","))):
            try:
                self._networks.append(ipaddress.ip_network(text))
            except ValueError as error:
                message = f"--user-proxies: {text[:80]!r} is not an address or a network: {error}"
                raise SettingsError(message) from None
        self._secret = settings.proxy_secret
        if not self._networks and not self._secret:
            raise SettingsError(
                "--user-header needs --user-proxies, the networks that proxies connect from, or a proxy_secret that "
                "they send: anybody else could write that header"
            )
        if self._secret and len(self._secret) < _LEAST_SECRET:
            raise SettingsError(f"proxy_secret needs at least {_LEAST_SECRET} characters, preferably random")
        names = (settings.user_header, settings.groups_header, _SECRET_HEADER)
        for name in names:
            if not _HEADER.fullmatch(name):
                raise SettingsError(f"{name[:80]!r} is not the name of a header, such as X-Forwarded-User")
        if len({name.lower() for name in names}) < len(names):
            raise SettingsError(f"user_header, groups_header and {_SECRET_HEADER} must differ")
        self._user, self._groups, self._secret_header = (f"HTTP_{n.upper().replace('-', '_')}" for n in names)
        self._shown = settings.user_header

    def caller(self, role: str) -> Caller | None:
        """Return the user of the request under way, for a route of a role; None where it names none.

        Raises Unauthorized for a user that cannot be read, Forbidden where another site may have made a browser send
        it, and KeysError while there are no rules.
        """
        user = self._user_of(request.environ)
        if user is None:
            return None
        if role == "write" and _is_from_another_site():
            raise Forbidden("A page of another site may not change anything in the name of a user.")
        rights = self._rules.rights(user)
        if rights is None:
            return Caller(USER + user.name, None)
        return Caller(USER + user.name, rights.role, scope=rights.sees, writes=rights.writes)

    def _user_of(self, environ: Mapping[str, Any]) -> User | None:
        """Return the user whom a trusted proxy names; None where it names none, or is none.

        Raises Unauthorized for a name that cannot be one: then nobody knows who asks.
        """
        before = environ.get("werkzeug.proxy_fix.orig", environ)  # of the connection, whatever X-Forwarded-For says
        if not environ.get(self._user) or not self._is_trusted(environ, str(before.get("REMOTE_ADDR") or "")):
            return None
        name = _text(environ[self._user])
        if name is None or "," in name:  # as where a second header of the name came through
            raise Unauthorized(f"The proxy hands over a {self._shown} that is not the name of one user.")
        groups = [_text(part) for part in str(environ.get(self._groups, "")).split(",") if part.strip()]
        if None in groups or len(groups) > MOST_GROUPS:
            raise Unauthorized(f"The proxy hands over groups that cannot be read, or more than {MOST_GROUPS}.")
        return User(name, tuple(dict.fromkeys(filter(None, groups))))

    def _is_trusted(self, environ: Mapping[str, Any], address: str) -> bool:
        if self._networks:
            try:
                found = ipaddress.ip_address(address.partition("%")[0])
            except ValueError:  # of a Unix socket there is none
                return False
            found = getattr(found, "ipv4_mapped", None) or found
            if not any(found in network for network in self._networks):
                return False
        if not self._secret:
            return True
        given = str(environ.get(self._secret_header, "")).encode("latin-1", "replace")
        return hmac.compare_digest(given, self._secret.encode())


def _text(value: str) -> str | None:
    """Return what a header says, of which WSGI gives each byte as a character; None if it is no text for a name."""
    try:
        text = value.encode("latin-1").decode("utf-8").strip()
    except UnicodeError:
        return None
    return text if text and len(text) <= LONGEST and text.isprintable() else None


def _is_from_another_site() -> bool:
    """Whether a page of another site had the browser send a request, in which a proxy then finds its own cookie."""
    if request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
        return True
    origin = request.headers.get("Origin")
    return origin is not None and urlsplit(origin).netloc.lower() != request.host.lower()
