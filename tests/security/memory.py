"""The memory of a process and all that it has started, as the kernel counts it: what is shared counts once."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PAUSE = 0.1  # seconds between two looks, of which one at a large process takes a tenth


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
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            with suppress(OSError):
                found += map(int, children.read_text().split())
    return found


def _proportional(pid: int) -> float:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0
