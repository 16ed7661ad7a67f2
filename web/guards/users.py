"""Users as callers: whom a trusted proxy names, with what the rules give them."""

from urllib.parse import urlsplit

from flask import request
from werkzeug.exceptions import Forbidden

from rag.errors import SettingsError
from rag.settings import Settings
from rag.users.directory import Directory, User
from web.guards.callers import USER, Caller
from web.guards.proxy_users import ProxyUsers


class Users:
    """Says which user makes a request."""

    def __init__(self, settings: Settings) -> None:
        """Take the settings; raises SettingsError for some that cannot be, or a file of rules that cannot be read."""
        if not settings.rules:
            raise SettingsError("users need rules: write [[access]] into the file of --config")
        self._directory = Directory(settings.rules_path)
        self._proxies = ProxyUsers(settings)

    def caller(self, role: str) -> Caller | None:
        """Return the user of the request under way, for a route of a role; None where it names none.

        Raises Unauthorized for a user that cannot be read, Forbidden where another site may have made a browser send
        it, and KeysError while there are no rules.
        """
        user = self._proxies.user_of(request.environ)
        if user is not None and role == "write" and _is_from_another_site():
            raise Forbidden("A page of another site may not change anything in the name of a user.")
        return None if user is None else self._with_rights(user)

    def knows(self, head: bytes, address: str) -> bool:
        """Return whether a head that has come from an address names a user."""
        return self._proxies.is_named(head, address)

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
