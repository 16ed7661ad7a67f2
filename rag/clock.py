"""Time as people are told it: timestamps, and how long the step under way has taken."""

import time
from datetime import datetime
from types import TracebackType
from typing import Self, TextIO

from indexer.pipeline.progress import Display


def timestamp(moment: datetime) -> str:
    """Return a moment in UTC as ISO 8601, to the second, with Z for the zone."""
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


class StepTimer:
    """Shows the step under way: one line that keeps counting on a terminal, else a line a step and one now and then."""

    def __init__(self, stream: TextIO, title: str, *, quiet: bool = False) -> None:
        self._stream = stream
        self._title = title
        self._quiet = quiet
        self._step = ""
        self._started = time.monotonic()
        self._display: Display | None = None

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._started

    def step(self, text: str) -> None:
        """Show what is done next. May be called from any thread."""
        self._step = text
        if self._display is not None:
            self._display.show()

    def __enter__(self) -> Self:
        self._started = time.monotonic()
        if not self._quiet:
            self._display = Display(self._stream, self._text)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._display is not None:
            self._display.close()

    def _text(self) -> str:
        step = f": {self._step}" if self._step else ""
        return f"{self._title}{step}, {self.seconds:.0f} s"
