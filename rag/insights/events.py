"""What is told to the store: a search that was answered, and what became of one."""

import json
import os
from typing import Any, Literal, NamedTuple

from rag.query.filters import Filter
from rag.query.results import Hit
from rag.serving.scope import Scope

Via = Literal["page", "api", "batch", "answer", "mcp", "box"]
What = Literal["seen", "opened", "good", "bad", "none"]
WHATS: tuple[What, ...] = ("seen", "opened", "good", "bad", "none")
VERDICTS = {"good": 1, "bad": -1, "none": 0}
_NOISE_BITS = 21  # of the number, below its milliseconds, so that numbers go up with time
_SECRET = (1 << 63) - 1  # what SQLite's numbers hold


class SearchId(NamedTuple):
    """The id of a search, which nobody guesses; as text, 32 hexadecimal digits."""

    number: int  # milliseconds since 1970, and noise
    secret: int  # 63 random bits

    @classmethod
    def new(cls, at: float) -> "SearchId":
        """Make the id of a search at a time in seconds since 1970."""
        noise = int.from_bytes(os.urandom(11), "little")
        return cls(first_number(at) | noise & ((1 << _NOISE_BITS) - 1), noise >> _NOISE_BITS & _SECRET)

    @classmethod
    def parse(cls, text: str) -> "SearchId | None":
        """Read an id; None where it cannot be one."""
        try:
            found = cls(int(text[:16], 16), int(text[16:], 16))
        except ValueError:
            return None
        return found if text == str(found) and max(found) <= _SECRET else None

    def __str__(self) -> str:
        return f"{self.number:016x}{self.secret:016x}"


def first_number(at: float) -> int:
    """Return the least number that the id of a search at a time can have."""
    return int(at * 1000) << _NOISE_BITS


def time_of(number: int) -> float:
    """Return when the search of a number was made, in seconds since 1970."""
    return (number >> _NOISE_BITS) / 1000


class Shown(NamedTuple):
    """A passage that a search found, without its texts, which could fill the memory while the disk is full."""

    id: str
    document: str
    url: str
    title: str
    cosine: float | None

    @classmethod
    def of(cls, hit: Hit) -> "Shown":
        """Return what is noted of a hit."""
        return cls(hit.id, hit.document, hit.url, hit.title, hit.scores["dense"])


class Searched(NamedTuple):
    """A search that was answered."""

    id: SearchId
    query: str
    shown: tuple[Shown, ...]
    close: bool
    ms: float  # that the answer took
    collection: str
    mode: str
    via: Via
    who: str  # who asked; empty where nobody knows
    scope: Scope  # what they may see
    seen: bool  # whether it counts at once, or only when it is told to have been looked at: one while typing


class Feedback(NamedTuple):
    """What became of a search."""

    id: SearchId
    what: What
    passage: str  # a hit of it; empty for "seen"
    scope: Scope  # of who says so


def parts_of(scope: Scope) -> list[Any]:
    """Return the parts of a scope, each its collections and its filter, JSON-ready.

    Equal scopes give the same, in every process.
    """
    return _plain(frozenset((part.collections, part.filter) for part in scope.parts))  # type: ignore[no-any-return]


def _plain(value: Any) -> Any:
    """A value of JSON's kinds, with sets in order."""
    if isinstance(value, Filter):
        named = {name: getattr(value, name) for name in value.__slots__}
        return {name: _plain(each) for name, each in named.items() if each or each == frozenset()}
    if isinstance(value, frozenset):
        return sorted(map(_plain, value), key=json.dumps)
    return [_plain(each) for each in value] if isinstance(value, tuple) else value
