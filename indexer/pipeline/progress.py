"""Progress of a build: a line that is rewritten on a terminal, a new line every ten seconds elsewhere, or nothing."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TextIO

from indexer.errors import counted

READING = "reading"  # the phase that has pages and chunks
_LEAST = 3.0  # seconds of a phase that give a rate


class Progress:
    """Counts pages and chunks of one build; safe to call from several threads.

    The number of pages due is the number known so far: in a crawl it grows as links are found.
    """

    def __init__(self, stream: TextIO, style: Literal["shown", "quiet"]) -> None:
        self._stream = stream
        self._style = style
        self._started = self._began = time.monotonic()
        self._phase = ""
        self._pages = self._due = self._embedded = self._waiting = 0
        self._lock = threading.Lock()
        self._display: Display | None = None

    def phase(self, name: str) -> None:
        """Begin a phase; `name` is shown from now on."""
        with self._lock:
            self._phase, self._began = name, time.monotonic()
        if self._style == "shown" and self._display is None:
            self._display = Display(self._stream, self.line)
        self._changed()

    def found(self, pages: int) -> None:
        """Set the number of pages due in all, as far as known."""
        with self._lock:
            self._due = max(self._due, pages)
        self._changed()

    def page(self) -> None:
        """Count one more page as done, whatever its outcome."""
        with self._lock:
            self._pages += 1
            self._due = max(self._due, self._pages)
        self._changed()

    def chunks(self, *, waiting: int = 0, embedded: int = 0) -> None:
        """Count more chunks that wait to be embedded, and more of these that now are."""
        with self._lock:
            self._waiting += waiting - embedded
            self._embedded += embedded
        self._changed()

    def message(self, text: str) -> None:
        """Print one line that is not overwritten."""
        if self._display is not None:
            self._display.message(text)
        elif self._style == "shown":
            print(text, file=self._stream, flush=True)

    def close(self) -> None:
        """Stop showing progress."""
        if self._display is not None:
            self._display.close()
            self._display = None

    def line(self) -> str:
        """Return the phase, the counts and mean rates, and the time so far, in one line."""
        with self._lock:
            text, seconds = self._phase, time.monotonic() - self._began
            if text == READING:
                pages, chunks = self._pages, self._embedded
                text += f": {pages:,} of {counted(self._due, 'page')}" if self._due else ": looking for pages"
                if total := chunks + self._waiting:
                    text += f", {chunks:,} of {counted(total, 'chunk')} embedded"
                if seconds >= _LEAST and pages:
                    rate, unit = (chunks, "chunks") if total else (pages, "pages")
                    text += f" ({rate / seconds:,.0f} {unit}/s)"
        return f"{text}, {seconds:.0f} s" if seconds < 120 else f"{text}, {seconds / 60:.0f} min"

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON-ready form."""
        with self._lock:
            return {
                "phase": self._phase,
                "pages": self._pages,
                "pages_due": self._due,
                "chunks_embedded": self._embedded,
                "chunks_waiting": self._waiting,
                "seconds": round(time.monotonic() - self._started, 1),
            }

    def _changed(self) -> None:
        """Do nothing; subclasses that report every change override this."""


def progress_for(stream: TextIO, *, quiet: bool = False) -> Progress:
    """Return a progress that is shown on a stream, or not at all if `quiet`."""
    return Progress(stream, "quiet" if quiet else "shown")


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
        """Start to show what `text` returns, which is called in any thread."""
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
