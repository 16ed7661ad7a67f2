"""Who may do what: a key for each caller, and what callers without one may do.

A route says its role with `web.openapi.operation`: read, write, or None for what everybody may see. Writing takes a
bearer key always: a browser sends a saved password with any request to us, also with one that another site made it
send, but never a bearer key.
"""

import base64
import binascii
import re
from dataclasses import dataclass

from flask import Flask, current_app, g, request
from werkzeug.datastructures import WWWAuthenticate
from werkzeug.exceptions import Forbidden, Unauthorized
from werkzeug.routing import Rule

from rag.keys import KeyRing, is_loopback
from web.openapi import operation_of
from web.problems import wants_page
from web.retriever import Limits

PUBLIC = frozenset({"static"})  # endpoints of Flask's own, which nothing describes
REALM = "Pilotlight"
MAX_AUTHORIZATION = 1024  # characters
_PORT = re.compile(r":[0-9]*\Z")


@dataclass(frozen=True, slots=True)
class Caller:
    """Whom a request comes from."""

    name: str  # of the key; empty without one
    role: str | None  # None: may see what everybody may


NOBODY = Caller("", None)


def caller() -> Caller:
    """Who makes the request under way."""
    return g.get("caller", NOBODY)  # type: ignore[no-any-return]  # g has no types


class Access:
    """Decides about every request before its route sees it."""

    def __init__(self, settings: Limits) -> None:
        self._ring = KeyRing(settings.keys_file)
        self._anonymous = settings.anonymous
        self._is_private = is_loopback(settings.host)

    def check(self) -> None:
        """Unless the caller may use the route, raise Unauthorized or Forbidden; remember the caller.

        Raises KeysError while the file of keys cannot be used.
        """
        if request.url_rule is None or request.method == "OPTIONS":  # there is nothing to see
            return
        role = role_of(request.url_rule)
        if role is None:
            return
        g.caller = self._caller(role)
        if g.caller.role == "write" or g.caller.role == role:
            return
        if g.caller.name:
            raise Forbidden(f"The key {g.caller.name!r} may only read.")
        if role == "write":
            raise _unauthorized("This needs a key that may write, as Authorization: Bearer KEY.", role)
        raise _unauthorized("A key is needed, as Authorization: Bearer KEY, or as the password of any user.", role)

    def _caller(self, role: str) -> Caller:
        header = request.headers.get("Authorization")
        # without any keys none can be wrong, and there are clients that always send one
        if header is None or (role == "read" and self._ring.keys() is None):
            return Caller("", "read" if self._is_open() else None)
        scheme, _, credentials = header.partition(" ")
        key: str | None = None
        if scheme.lower() == "bearer":
            key = credentials.strip()
        elif scheme.lower() == "basic" and role == "read":
            key = _password(credentials.strip())
        if not key or len(header) > MAX_AUTHORIZATION:
            known = "Bearer KEY" if role == "write" else "Bearer KEY, or Basic with the key as the password"
            raise _unauthorized(f"The Authorization header is not of the form {known}.", role)
        found = self._ring.find(key)
        if found is None:
            raise _unauthorized("This key is not known here, or not any more.", role)
        return Caller(found.name, found.role)

    def _is_open(self) -> bool:
        if self._anonymous != "auto":
            return self._anonymous == "read"
        if not self._is_private or self._ring.keys() is not None:
            return False
        # a site that has its name resolve to this machine would else read the index in a visitor's browser
        if not is_loopback(_PORT.sub("", request.host)):
            raise Forbidden(
                "This server only answers to names of this machine. To serve it under another, behind a proxy, "
                "start it with --anonymous read, or make keys."
            )
        return True


def role_of(rule: Rule) -> str | None:
    """What a key must allow for a route; None where nobody needs one. A route that does not say it takes write."""
    if rule.endpoint in PUBLIC:
        return None
    described = operation_of(current_app.view_functions[rule.endpoint])
    return described.role if described else "write"


def register(app: Flask, settings: Limits) -> None:
    """Have every request checked."""
    app.before_request(Access(settings).check)


def _password(credentials: str) -> str | None:
    try:
        return base64.b64decode(credentials, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None


def _unauthorized(detail: str, role: str) -> Unauthorized:
    if role == "read" and wants_page():  # a browser then asks for user and password; the key is the password
        return Unauthorized(detail, www_authenticate=WWWAuthenticate("basic", {"realm": REALM, "charset": "UTF-8"}))
    return Unauthorized(detail, www_authenticate=WWWAuthenticate("bearer", {"realm": REALM}))
