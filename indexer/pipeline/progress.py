"""Progress of a build: a line that is rewritten on a terminal, a new line every ten seconds elsewhere, or nothing."""

import shutil
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Literal, TextIO

from indexer.errors import counted

Style = Literal["shown", "quiet"]
READING = "reading"  # the phase that has pages and chunks
_WINDOW = 30.0  # seconds over which rates are taken
_LEAST = 3.0  # seconds of a window that give a rate
_SETTLED = 0.1  # pages found for each one done, up to which the number left counts as known


class Rate:
    """The growth of a count per second, over the last half minute."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def note(self, count: int, now: float) -> None:
        """Record the count; `now` in seconds."""
        while len(self._seen) > 1 and self._seen[1][0] <= now - _WINDOW:
            self._seen.popleft()
        self._seen.append((now, count))

    def read(self) -> float | None:
        """Return the growth per second, or None while too little is known."""
        if not self._seen:
            return None
        (first, before), (last, count) = self._seen[0], self._seen[-1]
        return (count - before) / (last - first) if last - first >= _LEAST else None


class Progress:
    """Counts pages and chunks of one build; safe to call from several threads.

    The number of pages due is the number known so far: in a crawl it grows as links are found.
    """

    def __init__(self, stream: TextIO, style: Style, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._style = style
        self._clock = clock
        self._started = self._began = clock()
        self._phase = ""
        self._pages = self._due = self._embedded = self._waiting = self._tokens = self._tokens_waiting = 0
        self._rates = {name: Rate() for name in ("pages", "due", "chunks", "tokens")}
        self._lock = threading.RLock()
        self._display: Display | None = None

    def phase(self, name: str) -> None:
        """Begin a phase; `name` is shown from now on."""
        with self._lock:
            self._phase, self._began = name, self._clock()
        if self._style == "shown" and self._display is None:
            self._display = Display(self._stream, self.line)
        self._changed()

    def found(self, pages: int) -> None:
        """Set the number of pages due in all, as far as known."""
        with self._lock:
            self._due = max(pages, self._pages)
            self._rates["due"].note(self._due, self._clock())
        self._changed()

    def page(self) -> None:
        """Count one more page as done, whatever its outcome."""
        with self._lock:
            self._pages += 1
            self._due = max(self._due, self._pages)
            self._rates["pages"].note(self._pages, self._clock())
            self._rates["due"].note(self._due, self._clock())
        self._changed()

    def chunks(self, *, waiting: int, embedded: int, tokens: int, tokens_waiting: int) -> None:
        """Set the numbers of chunks and tokens that are embedded, and that wait to be embedded."""
        with self._lock:
            self._waiting, self._embedded = waiting, embedded
            self._tokens, self._tokens_waiting = tokens, tokens_waiting
            self._rates["chunks"].note(embedded, self._clock())
            self._rates["tokens"].note(tokens, self._clock())
        self._changed()

    def waiting(self, chunks: int, tokens: int) -> None:
        """Set the numbers of chunks and tokens that wait to be embedded."""
        with self._lock:
            self._waiting, self._tokens_waiting = chunks, tokens
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
        """Return the phase, the counts, the rate and the time left, in one line."""
        with self._lock:
            now = self._clock()
            if self._phase != READING:
                return f"{self._phase}, {_duration(now - self._began)}"
            if not self._due:
                return f"{self._phase}: looking for pages, {_duration(now - self._began)}"
            text = f"{self._phase}: {self._pages:,} of {counted(self._due, 'page')}"
            if self._waiting:
                text += f", {self._embedded:,} of {counted(self._embedded + self._waiting, 'chunk')} embedded"
            elif self._embedded:
                text += f", {counted(self._embedded, 'chunk')} embedded"
            rates = {name: rate.read() for name, rate in self._rates.items()}
            if chunks := rates["chunks"]:
                text += f" ({chunks:,.0f} chunks/s, {rates['tokens'] or 0:,.0f} tokens/s)"
            elif not self._waiting and (pages := rates["pages"]):
                text += f" ({pages:,.0f} pages/s)"
            return f"{text}, {self._left(rates)}"

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON-ready form."""
        with self._lock:
            return {
                "phase": self._phase,
                "pages": self._pages,
                "pages_due": self._due,
                "chunks_embedded": self._embedded,
                "chunks_waiting": self._waiting,
                "seconds": round(self._clock() - self._started, 1),
            }

    def _left(self, rates: dict[str, float | None]) -> str:
        """Return the estimated time left, or the time so far if there is no estimate."""
        pages, found, tokens = rates["pages"], rates["due"] or 0.0, rates["tokens"]
        if pages and found > _SETTLED * pages:
            return "and more are being found"
        left = self._due - self._pages
        embeds = self._embedded or self._waiting  # which takes longer than reading, so that tells nothing
        if tokens and self._pages:  # not chunks: the longest of a block are embedded first
            a_page = (self._tokens + self._tokens_waiting) / self._pages
            return f"about {_duration((left * a_page + self._tokens_waiting) / tokens)} left"
        if pages and not embeds:
            return f"about {_duration(left / pages)} left"
        return _duration(self._clock() - self._began)

    def _changed(self) -> None:
        """Do nothing; subclasses that report every change override this."""


def progress_for(stream: TextIO, *, quiet: bool = False) -> Progress:
    """Return a progress that is shown on a stream, or not at all if `quiet`."""
    return Progress(stream, "quiet" if quiet else "shown")


def _duration(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole} s" if whole < 120 else f"{whole // 60} min"


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
