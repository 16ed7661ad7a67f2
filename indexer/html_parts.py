"""Parts of a page while they are gathered, and how they become sections."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from indexer.records import Section

_SHORT = 200  # characters; a shorter definition stays with its neighbours
_LINK_SHARE = 0.8  # of a short part's text inside links above which it is only a pointer elsewhere
_SHORT_LINKS = 300  # characters


@dataclass(slots=True)
class Part:
    """A section while it is being filled."""

    path: tuple[str, ...]
    anchor: str | None
    list_path: tuple[str, ...] | None = None  # of a term: path of the section its list stands in
    resumes: bool = False  # goes on with the section before a list of terms
    defined: bool = False  # whether a term has had its definition
    leads: bool = False  # says in a line what the page is about, and belongs to what follows
    text_length: int = 0  # characters
    link_length: int = 0  # of these, characters inside links
    blocks: list[tuple[str, bool]] = field(default_factory=list)  # text, whether no blank line goes before it

    @property
    def size(self) -> int:
        """Characters in all blocks."""
        return sum(len(text) for text, _ in self.blocks)

    @property
    def only_points(self) -> bool:
        """Whether it is a few links and nothing else, like "See also"."""
        return self.size < _SHORT_LINKS and self.link_length > _LINK_SHARE * self.text_length

    @property
    def only_announces(self) -> bool:
        """Whether it is one sentence that introduces a list, like "The module defines:"."""
        return len(self.blocks) == 1 and self.size < _SHORT and self.blocks[0][0].endswith(":")

    def text(self) -> str:
        """All blocks as one text."""
        pieces: list[str] = []
        for text, tight in self.blocks:
            pieces += ("\n" if tight else "\n\n", text)
        return "".join(pieces[1:])


def join_parts(parts: Iterable[Part]) -> tuple[Section, ...]:
    """Make sections of parts, in order; what is too short to stand alone joins its neighbours.

    A part that only points or announces is left out, unless there is nothing else.
    """
    filled = [part for part in parts if part.blocks]
    pairs = zip(filled, [*filled[1:], None], strict=False)
    kept: list[Part] = []
    homes: dict[tuple[str, ...], Part] = {}
    for part, following in pairs:
        if part.only_points and len(filled) > 1:
            continue
        if part.leads and following is not None:
            following.blocks[:0] = part.blocks
            following.anchor = following.anchor or part.anchor
            continue
        announced = following is not None and following.list_path is not None
        if part.only_announces and announced and part.list_path is None:
            continue
        short = part.size < _SHORT
        path = part.list_path if short and not part.resumes and part.list_path is not None else part.path
        home = homes.get(path) if part.resumes and short else None
        if home is None and kept and kept[-1].path == path and (part.resumes or path != part.path):
            home = kept[-1]
        if home is None:
            home = Part(path, part.anchor)
            kept.append(home)
            homes.setdefault(path, home)
        home.blocks += part.blocks
    return tuple(Section(part.path, part.anchor, part.text()) for part in kept)
