"""A document to be drawn, and what came of it: what the build and the browser's process tell each other."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

MOST_ASKED = 200  # requests of one document


@dataclass(frozen=True, slots=True)
class Ask:
    """A request of a document's scripts."""

    url: str  # as the browser says it
    is_script: bool  # else it is data
    headers: Mapping[str, str]  # by name in lower case


@dataclass(frozen=True, slots=True)
class Given:
    """The answer to one."""

    status: int
    content_type: str
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Order:
    """A document to be drawn."""

    url: str
    content_type: str  # with its charset, if there is one
    body: bytes = field(repr=False)
    seconds: float  # it may take
    delay: float  # seconds more for each request, which the crawler waits
    most: int  # characters it may come to
    load: Callable[[Ask], Given | None]  # gives what its scripts ask for, None to refuse it; called in other threads


@dataclass(frozen=True, slots=True)
class Drawn:
    """The document that scripts made."""

    html: bytes = field(repr=False)  # in UTF-8
    moves: tuple[str, ...]  # addresses that a script wanted to lead to instead
    is_late: bool  # whether it was taken because its time was up
