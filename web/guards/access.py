"""Control access by keys, by users that a reverse proxy names, and by the origin of web pages.

Routes must get their retriever from `web.api.requests.retriever`, which restricts it to the caller's scope. They must
call `may_write` before they change a collection.

A route requires the role read or write, or None if it is open to everybody (`web.openapi.Operation`). A key for writing
must be a bearer key. Browsers add saved passwords to requests that other sites trigger, but they never add bearer keys.
No response allows browsers to send credentials across origins, so `*` is safe as an allowed origin.

A reverse proxy can name users in headers. Because any client can forge these headers, they are ignored unless the
request proves that it comes from the proxy. The proof is the address of the connection, a secret, or both.
"""

import base64
import binascii
import hmac
import ipaddress
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flask import Flask, Request, Response, current_app, g, request
from werkzeug.datastructures import WWWAuthenticate
from werkzeug.exceptions import Forbidden, TooManyRequests, Unauthorized

from rag.access import EVERYTHING, NOTHING, ORIGIN_ADVICE, UNLISTED, AccessRules, KeyFile, Scope, is_loopback, is_origin
from rag.errors import KeysError, SettingsError
from rag.settings import Settings
from web.dispatch import PORT, network_of
from web.guards.limits import TokenBuckets, shared_file
from web.openapi import operation_for
from web.problems import this_request, wants_page

# Endpoints that accept public keys, which web pages contain.
FOR_PAGES = frozenset(
    {"search.search_by_query_string", "search.search_by_body", "search.suggest", "search.add_feedback"}
)
NOT_WRITABLE = "is not one that this caller may write"
USER = "user:"  # names of keys have no colon, so the prefix distinguishes users
REALM = "Pilotlight"
MAX_AUTHORIZATION = 1024
TOO_MANY_REFUSALS = "Too many requests without a valid key came from this address: try again later."
MAX_REFUSALS_PER_SECOND = 5.0  # per client address
CORS_PATHS = ("/api/", "/v1/", "/openapi.json")
PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST, DELETE",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, X-Request-Id",
    "Access-Control-Max-Age": "600",
}
_HEADER = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?")  # WSGI cannot tell _ from -
_MIN_SECRET_CHARS = 16
_MAX_GROUPS = 256  # per user; each makes the filter of a search longer
_MAX_NAME_CHARS = 256
_SECRET = "HTTP_X_PROXY_SECRET"  # noqa: S105 - the name of a header


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request.

    Args:
        name: name of the key, or `user:` and the name of the user. Empty for a caller without key or user.
        role: read or write; None for the routes that are open to everybody.
        is_public: whether the key is in web pages, where all visitors can see it.
        scope: documents that the caller may read.
        writable: documents that the caller may change.
    """

    name: str
    role: str | None
    is_public: bool = False
    scope: Scope = EVERYTHING
    writable: Scope = NOTHING

    @property
    def display_name(self) -> str:
        """The caller as the subject of an error message, such as "The key 'ci'"."""
        user = self.name.removeprefix(USER)
        return f"The key {user!r}" if user == self.name else f"The user {user!r}"


NOBODY = Caller("", None)
_ANYBODY = Caller("", "read", scope=UNLISTED)
_LOCAL = Caller("", "read")


def caller() -> Caller:
    """Return the caller of the current request."""
    return g.get("caller", NOBODY)  # type: ignore[no-any-return]  # g has no types


def name_caller(http_request: Request) -> str:
    """Return the name by which rate limits identify the current caller."""
    client = caller()
    # All visitors of a web page share its public key, so count each address separately.
    is_known = client.name and not client.is_public
    return f"key {client.name}" if is_known else f"address {network_of(http_request.remote_addr)}"


def may_write(collection: str) -> bool:
    """Return whether the current caller may change a collection."""
    return caller().writable.has_whole(collection)


def may_read_all() -> bool:
    """Return whether the current caller may read every document of the server."""
    scope = caller().scope
    if scope.is_all:
        return True
    collections = current_app.extensions["retriever"].status().get("collections", [])
    return not any(each.get("restricted") for each in collections) and scope.without_lists().is_all


class AccessControl:
    """Checks the access rights of every request before its route runs."""

    def __init__(self, settings: Settings) -> None:
        self._keys = KeyFile(settings.keys_file)
        self._anonymous = settings.anonymous
        self._is_private = is_loopback(settings.host)
        self._refused = TokenBuckets(MAX_REFUSALS_PER_SECOND, shared_file("refusals"))
        self._users = Users(settings) if settings.user_header else None

    def check(self, http_request: Request) -> None:
        """Identify the caller and store it in `g`. Raises Unauthorized, Forbidden, KeysError or TooManyRequests."""
        if http_request.url_rule is None or http_request.method == "OPTIONS":
            return
        route = operation_for(http_request.url_rule)
        if route.role is None:
            g.caller = Caller("", None, scope=self._scope_at_probe(http_request))
            return
        try:
            client = g.caller = self._caller(http_request, route.role)
            _check_role(client, route.role)
            if route.operator and not (client.role == "write" and client.writable.is_all):
                detail = "This is for operators: it requires a key that may write everything."
                if client.name and not wants_page():
                    raise Forbidden(detail)
                raise _unauthorized(detail, "read")
            if route.needs_everything and not may_read_all():
                display_name = client.display_name if client.name else "A caller without a key"
                raise Forbidden(f"{display_name} may see only part of the documents; this shows the whole server.")
        except (Unauthorized, Forbidden) as error:
            if caller().name or caller().role:
                raise
            wait = self._refused.take(network_of(http_request.remote_addr))
            if wait > 0:
                raise TooManyRequests(TOO_MANY_REFUSALS, retry_after=math.ceil(wait)) from error
            raise

    def origins(self) -> frozenset[str]:
        """Return the origins whose pages may use a key, or an empty set if the key file is invalid."""
        try:
            return frozenset(origin for key in self._keys.current() or () for origin in key.origins)
        except KeysError:
            return frozenset()

    def _caller(self, http_request: Request, role: str) -> Caller:
        header = http_request.environ.get("HTTP_AUTHORIZATION")
        if self._users and (user := self._users.caller(role)):
            return user
        # Some clients always send a key. If the server has no keys, ignore the key for reading.
        if header is None or (role == "read" and self._keys.current() is None):
            if not self._is_open(http_request):
                return NOBODY
            return _ANYBODY if self._anonymous == "read" else _LOCAL
        key = _key_of(header, role)
        if not key:
            schemes = "Bearer KEY" if role == "write" else "Bearer KEY, or Basic with the key as the password"
            raise _unauthorized(f"The Authorization header must be {schemes}.", role)
        key_record = self._keys.find(key)
        if key_record is None:
            raise _unauthorized("This key is unknown or has been removed.", role)
        if key_record.origins:
            if http_request.endpoint not in FOR_PAGES:
                raise Forbidden(
                    f"The key {key_record.name!r} is shown in pages of other sites, and only allows searches."
                )
            # Scripts in web pages cannot forge this header, but other programs can.
            if http_request.headers.get("Origin") not in key_record.origins:
                raise Forbidden(f"The key {key_record.name!r} only allows requests from the pages of its sites.")
        scope = key_record.readable
        writable = scope if key_record.role == "write" else NOTHING
        return Caller(key_record.name, key_record.role, bool(key_record.origins), scope, writable)

    def _scope_at_probe(self, http_request: Request) -> Scope:
        """Return the scope of a caller on a public route. It is empty if the caller may not search."""
        try:
            client = self._caller(http_request, "read")
        except (Unauthorized, Forbidden, KeysError):
            return NOTHING
        return client.scope if client.role else NOTHING

    def _is_open(self, http_request: Request) -> bool:
        """Return whether callers without a key may read. By default, only a local server without keys allows this."""
        if self._anonymous != "auto":
            return self._anonymous == "read"
        # Behind an authenticating proxy, all requests come from this machine, so they must name a user or a key.
        if not self._is_private or self._users or self._keys.current() is not None:
            return False
        # Prevents DNS rebinding: a website whose name resolves to this machine could otherwise read the index.
        if not is_loopback(PORT.sub("", http_request.environ.get("HTTP_HOST", ""))):
            raise Forbidden(
                "This server only answers to names of this machine. To serve it under another name, behind a proxy, "
                "start it with --anonymous read, or create keys."
            )
        return True


class Users:
    """Identifies users by the headers of a trusted proxy."""

    def __init__(self, settings: Settings) -> None:
        """Load the access rules. Raises SettingsError if settings are invalid or the rules cannot be read."""
        if not settings.rules:
            raise SettingsError("user_header needs access rules: add [[access]] to the file of --config")
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
                "they send: otherwise anybody could send that header"
            )
        if self._secret and len(self._secret) < _MIN_SECRET_CHARS:
            raise SettingsError(f"proxy_secret needs at least {_MIN_SECRET_CHARS} characters, preferably random")
        names = (settings.user_header, settings.groups_header)
        for name in names:
            if not _HEADER.fullmatch(name):
                raise SettingsError(f"{name[:80]!r} is not the name of a header, such as X-Forwarded-User")
        self._user, self._groups = (f"HTTP_{name.upper().replace('-', '_')}" for name in names)
        if len({self._user, self._groups, _SECRET}) < 3:
            raise SettingsError("user_header and groups_header must name two headers, neither of them X-Proxy-Secret")
        self._shown = settings.user_header

    def caller(self, role: str) -> Caller | None:
        """Return the user that a proxy names in the request, or None. Raises Unauthorized, Forbidden or KeysError."""
        user = self._user_of(request.environ)
        if user is None:
            return None
        if role == "write" and is_from_another_site():
            raise Forbidden("Pages of other sites may not make changes on behalf of a user.")
        readable, writable = self._rules.rights(*user)
        role_of_user = "write" if writable.grants else "read" if readable.grants else None
        return Caller(USER + user[0], role_of_user, scope=readable, writable=writable)

    def _user_of(self, environ: Mapping[str, Any]) -> tuple[str, list[str]] | None:
        """Return the user and groups that a trusted proxy names, or None. Raises Unauthorized if a name is invalid."""
        before = environ.get("werkzeug.proxy_fix.orig", environ)
        if not environ.get(self._user) or not self._is_trusted(environ, str(before.get("REMOTE_ADDR") or "")):
            return None
        name = _decode_name(environ[self._user])
        if name is None or "," in name:
            raise Unauthorized(f"The proxy sent an invalid {self._shown}: it must be the name of one user.")
        groups = [_decode_name(group) for group in str(environ.get(self._groups, "")).split(",") if group.strip()]
        if None in groups or len(groups) > _MAX_GROUPS:
            raise Unauthorized(f"The proxy sent groups that are invalid, or more than {_MAX_GROUPS}.")
        return name, list(filter(None, groups))

    def _is_trusted(self, environ: Mapping[str, Any], address: str) -> bool:
        if self._networks:
            try:
                peer = ipaddress.ip_address(address.partition("%")[0])
            except ValueError:
                return False
            peer = getattr(peer, "ipv4_mapped", None) or peer
            if not any(peer in network for network in self._networks):
                return False
        if not self._secret:
            return True
        sent_secret = str(environ.get(_SECRET, "")).encode("latin-1", "replace")
        return hmac.compare_digest(sent_secret, self._secret.encode())


def _check_role(client: Caller, role: str) -> None:
    if client.role in ("write", role):
        return
    if client.name and client.role is None:
        raise Forbidden(f"{client.display_name} has no access: no [[access]] names this user or one of their groups.")
    if client.name:
        raise Forbidden(f"{client.display_name} has the role read; this requires the role write.")
    if role == "write":
        raise _unauthorized("This requires a key with the role write: send Authorization: Bearer KEY.", role)
    raise _unauthorized("A key is required: send Authorization: Bearer KEY, or the key as the password.", role)


def _key_of(header: str, role: str) -> str | None:
    """Return the key in an Authorization header, or None if it is invalid or its scheme is not allowed for the role."""
    scheme, _, credentials = header.partition(" ")
    if len(header) > MAX_AUTHORIZATION:
        return None
    if scheme.lower() == "bearer":
        return credentials.strip()
    if scheme.lower() != "basic" or role != "read":
        return None
    try:
        return base64.b64decode(credentials.strip(), validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None


def _unauthorized(detail: str, role: str) -> Unauthorized:
    if role == "read" and wants_page():  # browsers then prompt for the key as a password
        return Unauthorized(detail, www_authenticate=WWWAuthenticate("basic", {"realm": REALM, "charset": "UTF-8"}))
    return Unauthorized(detail, www_authenticate=WWWAuthenticate("bearer", {"realm": REALM}))


def _decode_name(value: str) -> str | None:
    """Decode the UTF-8 name in a header that WSGI has decoded as Latin-1. Returns None if the name is invalid."""
    try:
        text = value.encode("latin-1").decode("utf-8").strip()
    except UnicodeError:
        return None
    return text if text and len(text) <= _MAX_NAME_CHARS and text.isprintable() else None


def is_from_another_site() -> bool:
    """Return whether a page of another site made the browser send this request."""
    if request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
        return True
    origin = request.headers.get("Origin")
    return origin is not None and origin.partition("://")[2].lower() != request.host.lower()


def parse_origins(text: str) -> frozenset[str]:
    """Parse the setting `cors_origins`. Raises SettingsError if an origin is invalid."""
    origins = frozenset(filter(None, map(str.strip, text.split(","))))
    for origin in origins:
        if origin != "*" and not is_origin(origin):
            raise SettingsError(f"--cors-origins: {origin!r} is not an origin: {ORIGIN_ADVICE}")
    return origins


def register(app: Flask, settings: Settings) -> None:
    """Register hooks that check access and handle CORS. Raises SettingsError if a setting is invalid."""
    access = AccessControl(settings)
    allowed = parse_origins(settings.cors_origins)

    def is_allowed(http_request: Request) -> bool:
        origin = http_request.environ.get("HTTP_ORIGIN")
        if origin is None or not http_request.path.startswith(CORS_PATHS):
            return False
        if "*" in allowed or origin in allowed:
            return True
        return http_request.endpoint in FOR_PAGES and origin in access.origins()

    def check() -> Response | None:
        http_request = this_request()
        access.check(http_request)
        is_preflight = http_request.method == "OPTIONS" and "Access-Control-Request-Method" in http_request.headers
        return Response(status=204, headers=PREFLIGHT) if is_preflight and is_allowed(http_request) else None

    def mark(response: Response) -> Response:
        http_request = this_request()
        if http_request.path.startswith(CORS_PATHS) and "*" not in allowed:
            response.headers.add("Vary", "Origin")
        if is_allowed(http_request):
            response.headers["Access-Control-Allow-Origin"] = "*" if "*" in allowed else http_request.headers["Origin"]
            response.headers["Access-Control-Expose-Headers"] = "Retry-After, X-Request-Id"
            response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
        return response

    app.before_request(check)
    app.after_request(mark)
