"""The memory of a process and all that it has started, as the kernel counts it: what is shared counts once."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PAUSE = 0.05  # seconds between two looks


class Peak:
    """The most there was so far."""

    megabytes = 0.0


@contextmanager
def watch(pid: int) -> Iterator[Peak]:
    """Look at a process and its descendants until the end of the block."""
    peak, done = Peak(), threading.Event()

    def look() -> None:
        while not done.wait(_PAUSE):
            peak.megabytes = max(peak.megabytes, sum(map(_proportional, _descendants(pid))))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def _descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = status.read_text().rpartition(")")[2].split()[1]
            children.setdefault(int(parent), []).append(int(status.parent.name))
    found = [pid]
    for parent_pid in found:
        found += children.get(parent_pid, [])
    return found


def _proportional(pid: int) -> float:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0
