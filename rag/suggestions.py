"""Suggests the word that was probably meant by one that is not known."""

from collections.abc import Iterable

_CLOSE = 0.6  # of `difflib`, 1 being equal


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Name what is nearest to a word, to be added to an error; empty where nothing is near."""
    near = nearest(word, known)
    return f", did you mean {near}?" if near else ""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return what is nearest to a word; None where nothing is near."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, list(known), n=1, cutoff=_CLOSE)), None)
