"""Time as people read it: timestamps, and how long the step under way has taken."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TextIO

from indexer.pipeline.progress import Display


def timestamp(moment: datetime) -> str:
    """Return a moment in UTC as ISO 8601, to the second, with Z for the zone."""
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


@contextmanager
def step_timer(stream: TextIO, title: str, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show the step under way: one line that keeps counting on a terminal, else a line a step and one now and then.

    Gives the function that names the next step, which may be called from any thread.
    """
    began, step = time.monotonic(), ""
    display: Display | None = None

    def name_step(text: str) -> None:
        nonlocal step
        step = f": {text}"
        if display is not None:
            display.show()

    if not quiet:
        display = Display(stream, lambda: f"{title}{step}, {time.monotonic() - began:.0f} s")
    try:
        yield name_step
    finally:
        if display is not None:
            display.close()
