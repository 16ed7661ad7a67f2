"""Searches answered in each minute of the last hour, by all workers together."""

import threading
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

MINUTES = 60
_COLUMNS = 3  # minute since 1970, searches, errors


class Minute(NamedTuple):
    """The searches and errors of one minute."""

    start: int  # seconds since 1970
    searches: int  # that were answered
    errors: int  # requests answered with a status of 500 or more


class Throughput:
    """Counts into a ring of minutes, which is a file of 1.5 kB where workers are to see each other's."""

    def __init__(self, folder: Path | None, number: int = 0) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        shape = (MINUTES, _COLUMNS)
        if folder is None:
            self._rows = np.zeros(shape, np.int64)
            return
        path = folder / f"minutes-{number}.ring"
        is_new = not path.exists()
        self._rows = np.memmap(path, np.int64, "w+" if is_new else "r+", shape=shape)

    def add(self, *, searches: int = 0, errors: int = 0) -> None:
        """Count something that happens now."""
        minute = int(time.time()) // 60
        with self._lock:
            row = self._rows[minute % MINUTES]
            if row[0] != minute:
                row[:] = minute, 0, 0
            row[1] += searches
            row[2] += errors

    def last_hour(self) -> list[Minute]:
        """Return the last sixty minutes, oldest first; the last one is not over yet."""
        now = int(time.time()) // 60
        sums = {minute: [0, 0] for minute in range(now - MINUTES + 1, now + 1)}
        for minute, searches, errors in np.concatenate(self._rings()).tolist():
            if minute in sums:
                sums[minute][0] += searches
                sums[minute][1] += errors
        return [Minute(minute * 60, searches, errors) for minute, (searches, errors) in sums.items()]

    def _rings(self) -> list[np.ndarray]:
        if self._folder is None:
            return [self._rows]
        return [np.fromfile(path, np.int64).reshape(-1, _COLUMNS) for path in self._folder.glob("minutes-*.ring")]
