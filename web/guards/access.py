"""Access: a key for each caller, and what callers without one may do.

A route says its role with `web.openapi.operation`: read, write, or None for what everybody may see. Writing takes a
bearer key always: a browser sends a saved password with any request to us, also with one that another site made it
send, but never a bearer key.
"""

import base64
import binascii
import ipaddress
import math
import re
from typing import TYPE_CHECKING

from flask import Flask, current_app, g, request
from werkzeug.datastructures import WWWAuthenticate
from werkzeug.exceptions import Forbidden, TooManyRequests, Unauthorized
from werkzeug.routing import Rule

from rag.errors import KeysError
from rag.serving.api_keys import KeyRing, is_loopback
from rag.serving.scope import EVERYTHING, NOTHING, UNLISTED, Scope
from rag.settings import Settings
from web.guards.scoped_retriever import Caller, caller, sees_all
from web.guards.token_buckets import TokenBuckets
from web.observe.worker_folder import shared_file
from web.openapi import operation_of
from web.problems import wants_page

if TYPE_CHECKING:
    from web.guards.users import Users

PUBLIC = frozenset({"static", "assets.branding", "assets.script"})  # files that pages are made of
# what a key in a page is good for
FOR_PAGES = frozenset(
    {"search.search_by_query_string", "search.search_by_body", "search.suggest", "search.add_feedback"}
)
REALM = "Pilotlight"
MAX_AUTHORIZATION = 1024  # characters
BARRED = "Too many requests without a valid key came from this address: try again later."
REFUSALS_S = 5.0  # of an address, to callers without a good key; twice as many may come at once
_PORT = re.compile(r":[0-9]*\Z")


class Access:
    """Checks every request before its route sees it."""

    def __init__(self, settings: Settings) -> None:
        self._ring = KeyRing(settings.keys_file)
        self._anonymous = settings.anonymous
        self._is_private = is_loopback(settings.host)
        self._refused = TokenBuckets(REFUSALS_S, shared_file("refusals"))
        self._users = _users(settings)

    def check(self) -> None:
        """Raise Unauthorized or Forbidden unless the caller may use the route; remember the caller.

        Raises KeysError while the file of keys cannot be used, and TooManyRequests where wrong ones come too often.
        """
        if request.url_rule is None or request.method == "OPTIONS":  # there is nothing to see
            return
        role = role_of(request.url_rule)
        if role is None:
            g.caller = Caller("", None, scope=self._of_everybody())
            return
        try:
            self._check(role)
            if is_for_operators(request.url_rule):
                _check_operator()
            if needs_all(request.url_rule) and not sees_all():
                shown = caller().shown if caller().name else "Whoever has no key"
                raise Forbidden(f"{shown} may see a part alone, and this tells of the whole server.")
        except (Unauthorized, Forbidden) as error:
            wait = 0.0 if caller().name or caller().role else self._refused.take(network_of(request.remote_addr))
            if wait > 0:
                raise TooManyRequests(BARRED, retry_after=math.ceil(wait)) from error
            raise

    def origins(self) -> frozenset[str]:
        """Return the origins whose pages have a key; none while the file of keys cannot be used."""
        try:
            return frozenset(origin for key in self._ring.keys() or () for origin in key.origins)
        except KeysError:
            return frozenset()  # which says why when a key is looked for

    def _check(self, role: str) -> None:
        g.caller = self._caller(role)
        if g.caller.role == "write" or g.caller.role == role:
            return
        if g.caller.name and g.caller.role is None:
            raise Forbidden(f"{g.caller.shown} has no access: no [[access]] is for this user or a group of theirs.")
        if g.caller.name:
            raise Forbidden(f"{g.caller.shown} has the role read; this requires the role write.")
        if role == "write":
            raise _unauthorized("This requires a key with the role write: send Authorization: Bearer KEY.", role)
        raise _unauthorized("A key is required: send Authorization: Bearer KEY, or give it as the password.", role)

    def _caller(self, role: str) -> Caller:
        header = request.headers.get("Authorization")
        if self._users and (found_user := self._users.caller(role)):
            return found_user
        # without any keys none can be wrong, and there are clients that always send one
        if header is None or (role == "read" and self._ring.keys() is None):
            return self._without_key()
        key = _key_of(header, role)
        if not key:
            known = "Bearer KEY" if role == "write" else "Bearer KEY, or Basic with the key as the password"
            raise _unauthorized(f"The Authorization header must be {known}.", role)
        found = self._ring.find(key)
        if found is None:
            raise _unauthorized("This key is unknown or has been removed.", role)
        if found.origins:
            if request.endpoint not in FOR_PAGES:
                raise Forbidden(f"The key {found.name!r} stands in pages of other sites, and is for searching alone.")
            # which the script of a page cannot change; a program can, so this keeps other sites out, not people
            if request.headers.get("Origin") not in found.origins:
                raise Forbidden(f"The key {found.name!r} is only for pages of the sites that it was made for.")
        writes = found.sees if found.role == "write" else NOTHING
        return Caller(found.name, found.role, is_shown=bool(found.origins), scope=found.sees, writes=writes)

    def _of_everybody(self) -> Scope:
        """What is seen without any key: once a caller may see a part alone, which parts there are is not told."""
        if self._users:
            return NOTHING
        try:
            keys = self._ring.keys() or ()
        except KeysError:
            return NOTHING  # which keys there were is not known
        return (
            UNLISTED if self._anonymous == "read" else EVERYTHING if all(key.scope.is_all for key in keys) else NOTHING
        )

    @property
    def _is_open_to_this_machine(self) -> bool:
        """Whether all on this machine may read, as long as there are no keys; a proxy of users passes on the world."""
        return self._anonymous == "auto" and self._is_private and self._users is None

    def _without_key(self) -> Caller:
        """The caller that shows nothing: anybody, or, where all on this machine may read, its owner."""
        if not self._is_open():
            return Caller("", None)
        return Caller("", "read", scope=UNLISTED if self._anonymous == "read" else EVERYTHING)

    def _is_open(self) -> bool:
        if self._anonymous != "auto":
            return self._anonymous == "read"
        if not self._is_open_to_this_machine or self._ring.keys() is not None:
            return False
        # a site that has its name resolve to this machine would else read the index in a visitor's browser
        if not is_loopback(_PORT.sub("", request.headers.get("Host", ""))):
            raise Forbidden(
                "This server only answers to names of this machine. To serve it under another, behind a proxy, "
                "start it with --anonymous read, or make keys."
            )
        return True


def _users(settings: Settings) -> "Users | None":
    if not settings.knows_users:
        return None
    from web.guards.users import Users  # which a server without users can do without

    return Users(settings)


def role_of(rule: Rule) -> str | None:
    """Return the role that a key needs for a route; None where nobody needs one. A route without a role takes write."""
    if rule.endpoint in PUBLIC:
        return None
    described = operation_of(current_app.view_functions[rule.endpoint])
    return described.role if described else "write"


def needs_all(rule: Rule) -> bool:
    """Return whether a route tells of everything, so that a key for a part cannot be let in."""
    described = operation_of(current_app.view_functions[rule.endpoint])
    return described is not None and described.whole


def is_for_operators(rule: Rule) -> bool:
    """Return whether a route is for callers with the role write alone, though it changes nothing."""
    described = operation_of(current_app.view_functions[rule.endpoint])
    return described is not None and described.operator


def _check_operator() -> None:
    who = caller()
    if who.role == "write" and who.writes.is_all:
        return
    detail = "This is for operators: it requires a key with the role write, for everything."
    if who.name and not wants_page():
        raise Forbidden(detail)
    raise _unauthorized(detail, "read")  # a browser then asks for another key


def register(app: Flask, settings: Settings) -> None:
    """Have every request checked."""
    access = Access(settings)
    app.extensions["access"] = access
    app.before_request(access.check)


def network_of(address: str | None) -> str:
    """Return what counts as one address: an IPv6 customer has a whole /64, and a proxy may name a port too."""
    text = (address or "").strip()
    host = _PORT.sub("", text).strip("[]") if text.startswith("[") or text.count(":") == 1 else text
    try:
        found = ipaddress.ip_address(host)
    except ValueError:  # a proxy may send anything
        return text[:100]
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))


def _key_of(header: str, role: str) -> str | None:
    """Return the key in an Authorization header; None if it has none that is good for a role."""
    scheme, _, credentials = header.partition(" ")
    if len(header) > MAX_AUTHORIZATION:
        return None
    if scheme.lower() == "bearer":
        return credentials.strip()
    return _password(credentials.strip()) if scheme.lower() == "basic" and role == "read" else None


def _password(credentials: str) -> str | None:
    try:
        return base64.b64decode(credentials, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None


def _unauthorized(detail: str, role: str) -> Unauthorized:
    if role == "read" and wants_page():  # a browser then asks for user and password; the key is the password
        return Unauthorized(detail, www_authenticate=WWWAuthenticate("basic", {"realm": REALM, "charset": "UTF-8"}))
    return Unauthorized(detail, www_authenticate=WWWAuthenticate("bearer", {"realm": REALM}))
