"""One line that says what is under way: rewritten in place on a terminal, elsewhere a line now and then."""

import shutil
import threading
from collections.abc import Callable
from typing import TextIO

_TERMINAL_EVERY = 0.1  # seconds between two looks of the line
_LINES_EVERY = 10.0
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_CLEAR = "\r\x1b[K"
_shown: list["Display"] = []  # the last one has the word; the others wait until it is closed
_lock = threading.RLock()


class Display:
    """Keeps showing a text until it is closed, from a thread of its own: what is shown may be one long call.

    Where one is opened while another is shown, as when a model is compiled in the middle of a build, it takes its place
    until it is closed.
    """

    def __init__(self, stream: TextIO, text: Callable[[], str]) -> None:
        """Begin; `text` is asked for the line, from any thread."""
        self._stream = stream
        self._text = text
        self._terminal = stream.isatty()
        self._frame = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._tick, name="pilotlight-display", daemon=True)
        with _lock:
            _shown.append(self)
        self._thread.start()

    def show(self) -> None:
        """Show the line as it is now."""
        with _lock:
            if not _shown or _shown[-1] is not self:
                return
            if not self._terminal:
                self._stream.write(f"{self._text()}\n")
            else:
                width = shutil.get_terminal_size().columns - 3  # of the frame, and the cursor
                self._frame += 1
                self._stream.write(f"{_CLEAR}{_FRAMES[self._frame % len(_FRAMES)]} {self._text()[:width]}")
            self._stream.flush()

    def message(self, text: str) -> None:
        """Print a line that stays."""
        with _lock:
            print(f"{_CLEAR if self._terminal else ''}{text}", file=self._stream, flush=True)

    def close(self) -> None:
        """Stop, and leave no half line behind."""
        self._stop.set()
        self._thread.join()
        with _lock:
            _shown.remove(self)
            if self._terminal:
                self._stream.write(_CLEAR)
                self._stream.flush()

    def _tick(self) -> None:
        while not self._stop.wait(_TERMINAL_EVERY if self._terminal else _LINES_EVERY):
            self.show()
