"""The caller that a request comes from, as every part of the application asks for it."""

from dataclasses import dataclass

from flask import g

from rag.serving.scope import EVERYTHING, NOTHING, Scope

USER = "user:"  # before the name of a user in that of a caller; no key has a colon in its name


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller that a request comes from."""

    name: str  # of the key, or `user:` and that of the user; empty without either
    role: str | None  # None: may see what everybody may
    is_shown: bool = False  # its key stands in pages, so that many share it
    scope: Scope = EVERYTHING  # what it may see
    writes: Scope = NOTHING  # what it may change

    @property
    def shown(self) -> str:
        """What it is called in an answer to it."""
        user = self.name.removeprefix(USER)
        return f"The key {user!r}" if user == self.name else f"The user {user!r}"


NOBODY = Caller("", None)


def caller() -> Caller:
    """Return who makes the request under way."""
    return g.get("caller", NOBODY)  # type: ignore[no-any-return]  # g has no types
