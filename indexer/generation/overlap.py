"""Removes the text that overlapping passages share, so that it is shown once."""

from collections.abc import Mapping, Sequence
from itertools import pairwise, takewhile
from typing import Any

from indexer.records import COLUMNS


def overlaps(settings: Mapping[str, Any]) -> bool:
    """Return whether a build with these settings makes overlapping passages."""
    return bool(settings.get("chunk", {}).get("overlap"))


def once(texts: Sequence[str], settings: Mapping[str, Any], whole: int | None = None) -> list[str]:
    """Return consecutive passages of a build, each without the beginning that it shares with the one before it.

    That is where they overlap, and the names of columns that stand again above a table that goes on. The passage at
    index `whole` keeps its beginning; the one before it loses its end instead where they overlap.
    """
    kept, overlapping = list(texts), overlaps(settings)
    for place, (before, text) in enumerate(pairwise(texts), 1):
        head = _head(before, text)
        length = shared(before, text[head:]) if overlapping else 0
        if place != whole:
            kept[place] = _after(text, head + length) if length else text[head:]
        elif length:
            kept[place - 1] = kept[place - 1][:-length].rstrip()
    return kept


def joined(texts: Sequence[str], settings: Mapping[str, Any]) -> str:
    """Join the passages of one section, from a build with these settings."""
    return "\n".join(once(texts, settings))


def _head(before: str, text: str) -> int:
    """Return the length of the names of columns that a passage repeats because a table goes on in it."""
    rows = _rows(before.split("\n")[::-1])[::-1]  # those it ends with, the names of columns among them
    again = _rows(text.split("\n"))
    while again and rows[: len(again)] != again:
        again.pop()
    length = sum(len(row) + 1 for row in again)
    return length if 0 < length < len(text) else 0


def _rows(lines: Sequence[str]) -> list[str]:
    return list(takewhile(lambda line: COLUMNS in line, lines))


def shared(before: str, text: str) -> int:
    """Return the length of the overlap: the beginning of a text that ends the passage before it, in whole words.

    Never the length of the whole text.
    """
    start = max(0, len(before) - len(text) + 1)
    while text and 0 <= (start := before.find(text[0], start)) < len(before):
        length = len(before) - start
        if text.startswith(before[start:]) and _is_edge(before, start) and _is_edge(text, length):
            return length
        start += 1
    return 0


def _after(text: str, length: int) -> str:
    """Return the text after `length` characters, from its next word or line on; a line keeps its indentation."""
    rest = text[length:]
    return rest.lstrip("\n") if rest.startswith("\n") else rest.lstrip()


def _is_edge(text: str, place: int) -> bool:
    """Whether no word continues across a place."""
    return not (0 < place < len(text) and text[place - 1].isalnum() and text[place].isalnum())
