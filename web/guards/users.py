"""Users as callers: whom a trusted proxy names, or a token of the provider is of, with what the rules give them."""

from urllib.parse import urlsplit

from flask import request
from werkzeug.datastructures import WWWAuthenticate
from werkzeug.exceptions import Forbidden, Unauthorized

from rag.errors import SettingsError, TokenRefused
from rag.settings import Settings
from rag.users.directory import Directory, User
from web.guards.callers import USER, Caller
from web.guards.proxy_users import ProxyUsers


class Users:
    """Says which user makes a request."""

    def __init__(self, settings: Settings) -> None:
        """Take the settings; raises SettingsError for some that cannot be, or a file of rules that cannot be read."""
        if not settings.access_file:
            raise SettingsError("users need rules: write [[access]] into the file of --config, or name an access_file")
        self._directory = Directory(settings.access_path)
        self._proxies = ProxyUsers(settings) if settings.user_header else None
        self._tokens = None
        if settings.oidc_issuer:
            from rag.users.id_tokens import Provider, TokenVerifier, is_token  # brings cryptography

            self._tokens = TokenVerifier(Provider.of(settings))
            self._tokens.prepare()
            self._is_token = is_token

    def caller(self, authorization: str | None, role: str) -> Caller | None:
        """Return the user of the request under way, for a route of a role; None where it names none.

        Raises Unauthorized for a user or token that cannot be read, Forbidden where another site may have made a
        browser send it, KeysError while there are no rules, and ProviderUnreachable.
        """
        user = self._proxies.user_of(request.environ) if self._proxies else None
        if user is not None and role == "write" and _is_from_another_site():
            raise Forbidden("A page of another site may not change anything in the name of a user.")
        if user is None and self._tokens and (token := self._token_in(authorization)):
            try:
                user = self._tokens.verify(token)
            except TokenRefused as error:
                challenge = WWWAuthenticate("bearer", {"error": "invalid_token"})
                raise Unauthorized(f"This token is not accepted: {error}.", www_authenticate=challenge) from error
        return None if user is None else self._with_rights(user)

    def knows(self, authorization: bytes | None, head: bytes, address: str) -> bool:
        """Return whether a head that has come from an address names a user, as far as that can be told at once."""
        if self._proxies and self._proxies.is_named(head, address):
            return True
        token = self._token_in(authorization.decode("latin-1")) if authorization else None
        return bool(token and self._tokens and self._tokens.knows(token))

    def _token_in(self, header: str | None) -> str | None:
        scheme, _, credentials = (header or "").partition(" ")
        token = credentials.strip()
        return token if self._tokens and scheme.lower() == "bearer" and self._is_token(token) else None

    def _with_rights(self, user: User) -> Caller:
        rights = self._directory.rights(user)
        if rights is None:
            return Caller(USER + user.name, None)
        return Caller(USER + user.name, rights.role, scope=rights.sees, writes=rights.writes)


def _is_from_another_site() -> bool:
    """Whether a page of another site had the browser send a request, in which a proxy then finds its own cookie."""
    if request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
        return True
    origin = request.headers.get("Origin")
    return origin is not None and urlsplit(origin).netloc.lower() != request.host.lower()
