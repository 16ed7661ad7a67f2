"""Settings: how one is declared at its field, what it is called, and how its value is read."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from indexer.errors import plain
from rag.errors import SettingsError

TYPE_NAMES = {str: "text", int: "whole number", float: "number", bool: "yes-or-no"}
WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
_CLOSE = 0.6  # of `difflib`, 1 being equal

T = TypeVar("T", str, int, float, bool)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, as its field declares it."""

    name: str
    kind: type[Any]
    default: Any
    help: str
    group: str  # which part reads it, and its heading in docs/reference.md
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    bare: str = ""  # what the flag means without a value; empty where it needs one

    @property
    def variable(self) -> str:
        """Name of the environment variable."""
        return f"PILOTLIGHT_{self.name.upper()}"

    @property
    def flag(self) -> str:
        """Name of the command-line flag."""
        return f"--{self.name.replace('_', '-')}"

    def read(self, value: object, origin: str) -> Any:
        """Return the value in its type; `origin` says in an error where it was given. Raises SettingsError."""
        parsed = read_value(value, origin, self.kind, self.choices)
        if self.low is not None and self.high is not None and not self.low <= parsed <= self.high:
            raise SettingsError(f"{origin} must be from {plain(self.low)} to {plain(self.high)}, not {value!r}")
        return parsed


def setting(default: T, help: str, group: str, *, secret: bool = False, **rules: Any) -> T:
    """Declare a setting at its field; `rules` are further fields of `Setting`, and a secret is not shown."""
    return field(default=default, repr=not secret, metadata={"help": help, "group": group, **rules})


def read_value(value: object, origin: str, kind: type, choices: tuple[str, ...] = ()) -> Any:
    """Return a value that a user gave, in its type; `origin` says in an error where. Raises SettingsError."""
    try:
        parsed = _READERS[kind](value)
    except (ValueError, TypeError, KeyError):
        raise SettingsError(f"{origin} must be a {TYPE_NAMES[kind]}, not {value!r}") from None
    if choices and parsed not in choices:
        raise SettingsError(f"{origin} must be one of {', '.join(choices)}, not {value!r}")
    return parsed


_READERS: dict[type, Callable[[object], object]] = {
    str: lambda value: ",".join(map(str, value)) if isinstance(value, list) else str(value),
    int: lambda value: int(str(value)),
    float: lambda value: float(str(value)),
    bool: lambda value: WORDS[str(value).lower()],
}


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
