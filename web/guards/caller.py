"""The caller of a request: its name, its role, and the scopes that it may read and change.

Routes get their retriever from `web.api.requests.retriever`, which is narrowed to the caller's scope, and call
`may_write` before they change a collection.
"""

from dataclasses import dataclass

from flask import current_app, g

from rag.serving.access import EVERYTHING, NOTHING, Scope

OUTSIDE = "is none that this caller may write"
USER = "user:"  # prefix of the names of users; no key has a colon in its name


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request.

    Args:
        name: name of the key, or `user:` and the name of the user; empty without either.
        role: read or write; None for the routes that are open to everybody.
        is_shown: whether pages show its key, so that many share it.
        scope: documents that it reads.
        writes: documents that it changes.
    """

    name: str
    role: str | None
    is_shown: bool = False
    scope: Scope = EVERYTHING
    writes: Scope = NOTHING

    @property
    def shown(self) -> str:
        """Name of the caller in an error that it gets."""
        user = self.name.removeprefix(USER)
        return f"The key {user!r}" if user == self.name else f"The user {user!r}"


NOBODY = Caller("", None)


def caller() -> Caller:
    """Return who makes the request under way."""
    return g.get("caller", NOBODY)  # type: ignore[no-any-return]  # g has no types


def may_write(collection: str) -> bool:
    """Return whether the caller of this request may change a collection."""
    return caller().writes.has_whole(collection)


def sees_all() -> bool:
    """Return whether the caller of this request may read every document of the server."""
    scope = caller().scope
    if scope.is_all:
        return True
    collections = current_app.extensions["retriever"].status().get("collections", [])
    return not any(each.get("restricted") for each in collections) and scope.without_lists().is_all
