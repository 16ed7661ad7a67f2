"""Links of a line of text: what they say, and what stands around them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from indexer.read.html.html_tree import fold

_WORDS = re.compile(r"\w+")
_LABELS = re.compile(r"\w+(?: \w+){0,2}\s*:")
_BETWEEN = "|"  # stands for a link in what is around links
_MOST = 3  # links looked at from the end of a line


@dataclass(slots=True)
class Link:
    """A link, and where it stands among the pieces of its line."""

    target: str
    start: int
    end: int = -1  # -1: it goes on
    is_version: bool = False  # whether it leads to the page in another language
    text: str = ""  # with what follows it and is no word; only of links that end a line


def around_links(line: Sequence[str], links: Sequence[Link]) -> tuple[str, tuple[Link, ...]]:
    """Return the text of a line outside of its links, and the links that end it, the last first.

    Links that end a line stand after some other text; between them there are no words.
    """
    bare: list[str] = []
    place = 0
    for link in links:
        bare += line[place : link.start]
        bare.append(_BETWEEN)
        place = link.end if link.end >= 0 else len(line)
    bare += line[place:]
    tails: list[Link] = []
    last = len(line)
    for link in links[: -_MOST - 1 : -1]:
        if link.end < 0 or not link.start or any(map(_WORDS.search, line[link.end : last])):
            break
        link.text = fold("".join(line[link.start : last]))
        last = link.start
        tails.append(link)
    return "".join(bare), tuple(tails)


def labels_between(bare: str) -> int | None:
    """Return how many labels, like "Next:", are all the words around two or more links; None if there are others."""
    if bare.count(_BETWEEN) <= 1:
        return None
    rest, labels = _LABELS.subn("", bare)
    return None if _WORDS.search(rest) else labels


def leads_to_itself(link: Link, anchor: str | None) -> bool:
    """Return whether a link leads to the same name on another page, as to the source of what has this id."""
    page, _, name = link.target.partition("#")
    return bool(page and name and anchor) and unquote(anchor or "").endswith(unquote(name)) and name not in link.text
