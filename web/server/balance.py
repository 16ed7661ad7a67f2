"""Which worker takes a new connection: connections stay where they are, so one worker could have most of the work."""

import mmap

_SLOTS = 256  # more than there are workers; they are numbered for ever


class Balance:
    """How many connections each worker has, in memory that workers share with the process that forks them."""

    def __init__(self) -> None:
        """Make it before the fork."""
        self._counts = memoryview(mmap.mmap(-1, _SLOTS * 4)).cast("i")  # 0 is nobody, 1 a worker without connections

    def note(self, worker: int, connections: int) -> None:
        """Say how many connections a worker has that would take more."""
        self._counts[worker % _SLOTS] = connections + 1

    def leave(self, worker: int) -> None:
        """Say that a worker takes no more, or is gone."""
        self._counts[worker % _SLOTS] = 0

    def has_more(self, connections: int) -> bool:
        """Whether somebody with so many connections has clearly more than the worker with fewest: over a quarter more.

        To the last one would be too strict: each connection of a burst of hundreds would wait for the other worker.
        """
        fewest = min(filter(None, self._counts), default=1) - 1
        return connections > fewest + fewest // 4
