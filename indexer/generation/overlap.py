"""Removes the text that overlapping passages share, so that it is shown once."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any


def overlaps(settings: Mapping[str, Any]) -> bool:
    """Return whether a build with these settings makes overlapping passages."""
    return bool(settings.get("chunk", {}).get("overlap"))


def once(texts: Sequence[str], whole: int | None = None) -> list[str]:
    """Return consecutive passages, each without the beginning that it shares with the one before it.

    The passage at index `whole` keeps its beginning; the one before it loses its end instead.
    """
    kept = list(texts)
    for place, (before, text) in enumerate(pairwise(texts), 1):
        length = shared(before, text)
        if length and place == whole:
            kept[place - 1] = kept[place - 1][:-length].rstrip()
        elif length:
            kept[place] = _after(text, length)
    return kept


def joined(texts: list[str], settings: Mapping[str, Any]) -> str:
    """Join the passages of one section, from a build with these settings."""
    return "\n".join(once(texts) if overlaps(settings) else texts)


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
