"""The memory that is left for one more model."""

from collections.abc import Iterator
from pathlib import Path

from indexer.memory import limits

RESERVE = 64 << 20  # bytes that a model takes besides its weights: its tokenizer, and what a run needs
_MEMINFO = Path("/proc/meminfo")


def room() -> tuple[int, str]:
    """Return the bytes that are free, and what sets the limit to them."""
    return min(_rooms(), default=(1 << 62, "nothing"))


def _rooms() -> Iterator[tuple[int, str]]:
    for limit in limits():
        try:
            yield max(0, limit.bytes - limit.used()), limit.name
        except (OSError, ValueError):  # what is not told here
            continue
    try:
        lines = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
        yield int(lines["MemAvailable"].split()[0]) * 1024, "this machine"
    except (OSError, ValueError, KeyError):  # of Linux alone
        return
