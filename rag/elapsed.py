"""Word of a long step on standard error: what is being done and for how long."""

import time
from types import TracebackType
from typing import Self, TextIO

from indexer.display import Display


class Elapsed:
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
        """Since the beginning."""
        return time.monotonic() - self._started

    def step(self, text: str) -> None:
        """Say what is done next. May be called from any thread."""
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
        return f"{self._title}: {self._step}, {self.seconds:.0f} s"
