"""The choice of a worker for a new connection: connections stay where they are, so one could get most of the work."""

import mmap

_SLOTS = 256  # more than there are workers; they are numbered for ever


class LoadBalance:
    """The number of connections of each worker, in memory that workers share with the process that forks them."""

    def __init__(self) -> None:
        """Make it before the fork."""
        self._counts = memoryview(mmap.mmap(-1, _SLOTS * 4)).cast("i")  # 0 is nobody, 1 a worker without connections

    def note(self, worker: int, connections: int) -> None:
        """Note how many connections a worker has that would take more."""
        self._counts[worker % _SLOTS] = connections + 1

    def leave(self, worker: int) -> None:
        """Note that a worker takes no more, or is gone."""
        self._counts[worker % _SLOTS] = 0

    def has_more(self, connections: int) -> bool:
        """Return whether a worker with so many connections has clearly more, over a quarter, than the one with fewest.

        To the last one would be too strict: each connection of a burst of hundreds would wait for the other worker.
        """
        fewest = min(filter(None, self._counts), default=1) - 1
        return connections > fewest + fewest // 4
