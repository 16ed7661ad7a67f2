"""Suggests the word that was probably meant by one that is not known."""

from collections.abc import Iterable, Sequence

from rag.errors import SettingsError

_CLOSE = 0.6  # of `difflib`, 1 being equal


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Name what is nearest to a word, to be added to an error; empty where nothing is near."""
    near = nearest(word, known)
    return f", did you mean {near}?" if near else ""


def refuse_unknown(names: Iterable[str], known: Sequence[str], where: str) -> None:
    """Raise SettingsError for the first name that is not known, saying where it stands and what was meant."""
    for name in names:
        if name not in known:
            meant = did_you_mean(name, known) or f"; use one of: {', '.join(known)}"
            raise SettingsError(f"{where}: unknown name {name[:40]!r}{meant}")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return what is nearest to a word; None where nothing is near."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, list(known), n=1, cutoff=_CLOSE)), None)
