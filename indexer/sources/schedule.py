"""When each source is to be read again."""

import re
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from indexer.errors import ConfigError

_INTERVAL = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])", re.IGNORECASE)
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}  # seconds
_LEAST, _MOST = 1.0, 366 * 86_400.0  # seconds
RETRY = 60.0  # seconds after which a source without an interval is tried again that could not be read


def read_interval(text: str) -> float:
    """Seconds of `90s`, `15m`, `6h`, `1d` or `2w`. Raises ConfigError."""
    match = _INTERVAL.fullmatch(text.strip())
    seconds = float(match[1]) * _UNITS[match[2].lower()] if match else 0.0
    if not _LEAST <= seconds <= _MOST:
        raise ConfigError(
            f"an interval is a number and s, m, h, d or w, such as 6h, from 1s to 366d, not {text[:40]!r}"
        )
    return seconds


@dataclass(frozen=True, slots=True)
class ScheduledSource:
    """A source and when it is read again; without an interval, only when it is seen to change."""

    source: str
    collection: str = "default"
    every: float | None = None  # seconds from the end of one reading to the next
    watched: bool = False


class Schedule:
    """Knows which sources are due; all of them are at first but for those that were read not long ago."""

    def __init__(
        self,
        entries: Iterable[ScheduledSource],
        clock: Callable[[], float] = time.monotonic,
        *,
        age: Callable[[ScheduledSource], float | None] = lambda entry: None,
    ) -> None:
        """`age` tells how many seconds ago an entry with an interval was read, if that is known."""
        self._clock = clock
        self._due: dict[ScheduledSource, float | None] = dict.fromkeys(entries, clock())
        for entry in self._due:
            ago = age(entry) if entry.every is not None else None
            if entry.every is not None and ago is not None:
                self._due[entry] = clock() + max(0.0, entry.every - ago)

    def due(self) -> list[ScheduledSource]:
        """Entries whose time has come, in the order they were given."""
        now = self._clock()
        return [entry for entry, at in self._due.items() if at is not None and at <= now]

    def done(self, entry: ScheduledSource, *, failed: bool = False) -> None:
        """An entry was read, or could not be; say when it is next."""
        wait = entry.every or (RETRY if failed else None)
        self._due[entry] = None if wait is None else self._clock() + wait

    def changed(self, sources: Collection[str]) -> None:
        """Note that these sources have changed: the watched ones are due now."""
        self._due |= {entry: self._clock() for entry in self._due if entry.watched and entry.source in sources}

    def wait(self) -> float | None:
        """Seconds until an entry is due, 0 if one is, None if none will be by itself."""
        times = [at for at in self._due.values() if at is not None]
        return max(0.0, min(times) - self._clock()) if times else None
