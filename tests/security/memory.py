"""The memory of a process and all that it has started, as the kernel counts it: what is shared counts once."""

import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PAUSE = 0.1  # seconds between two looks
_PAGE = resource.getpagesize()


class Peak:
    """The most there was so far."""

    megabytes = 0.0


@contextmanager
def watch(pid: int) -> Iterator[Peak]:
    """Look at a process and its descendants until the end of the block."""
    peak, done = Peak(), threading.Event()

    def look() -> None:
        while not done.wait(_PAUSE):
            # to count what is shared once takes a tenth of a second of a large process, and only lowers the sum
            if sum(map(_resident, descendants(pid))) > peak.megabytes:
                peak.megabytes = max(peak.megabytes, megabytes(pid))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def megabytes(pid: int) -> float:
    """Return what a process and its descendants have now."""
    return sum(map(_proportional, descendants(pid)))


def descendants(pid: int) -> list[int]:
    """Return the ids of a process and of all that it has started."""
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            with suppress(OSError):
                found += map(int, children.read_text().split())
    return found


def _resident(pid: int) -> float:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / 2**20
    return 0.0


def _proportional(pid: int) -> float:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0
