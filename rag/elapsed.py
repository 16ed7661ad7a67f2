"""Word of a long step on standard error: what is being done and for how long."""

import threading
import time
from types import TracebackType
from typing import Self, TextIO

_TERMINAL_EVERY = 0.1  # seconds between two looks of the line
_LINES_EVERY = 10.0
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Elapsed:
    """Shows the step under way: one line that keeps counting on a terminal, else a line a step and one now and then.

    The clock runs in a thread, because the step itself is one long call.
    """

    def __init__(self, stream: TextIO, title: str, *, quiet: bool = False) -> None:
        self._stream = stream
        self._title = title
        self._quiet = quiet
        self._terminal = stream.isatty()
        self._step = ""
        self._started = time.monotonic()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._tick, name="pilotlight-elapsed", daemon=True)

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._started

    def step(self, text: str) -> None:
        """Say what is done next. May be called from any thread."""
        with self._lock:
            self._step = text
        self._show(0)

    def __enter__(self) -> Self:
        self._started = time.monotonic()
        if not self._quiet:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
            if self._terminal:
                self._stream.write("\r\x1b[K")
                self._stream.flush()

    def _tick(self) -> None:
        frame = 0
        while not self._stop.wait(_TERMINAL_EVERY if self._terminal else _LINES_EVERY):
            frame += 1
            self._show(frame)

    def _show(self, frame: int) -> None:
        if self._quiet:
            return
        with self._lock:
            text = f"{self._title}: {self._step}, {self.seconds:.0f} s"
            self._stream.write(f"\r\x1b[K{_FRAMES[frame % len(_FRAMES)]} {text}" if self._terminal else f"{text}\n")
            self._stream.flush()
