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
_RATED = ("pages", "due", "embedded", "tokens")  # counts whose growth is shown
_WINDOW = 30.0  # seconds over which rates are taken
_LEAST = 3.0  # seconds of a window that give a rate
_SETTLED = 0.1  # pages found for each one done, up to which the number left counts as known


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
        self._counts = dict.fromkeys((*_RATED, "waiting", "tokens_waiting"), 0)
        self._history: dict[str, deque[tuple[float, int]]] = {name: deque() for name in _RATED}
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
            self._set(due=max(pages, self._counts["pages"]))

    def page(self) -> None:
        """Count one more page as done, whatever its outcome."""
        with self._lock:
            pages = self._counts["pages"] + 1
            self._set(pages=pages, due=max(pages, self._counts["due"]))

    def chunks(self, *, waiting: int, embedded: int, tokens: int, tokens_waiting: int) -> None:
        """Set the numbers of chunks and tokens that are embedded, and that wait to be embedded."""
        self._set(waiting=waiting, embedded=embedded, tokens=tokens, tokens_waiting=tokens_waiting)

    def _set(self, **counts: int) -> None:
        with self._lock:
            now = self._clock()
            self._counts |= counts
            for name in counts.keys() & self._history.keys():
                history = self._history[name]
                while len(history) > 1 and history[1][0] <= now - _WINDOW:
                    history.popleft()
                history.append((now, counts[name]))
        self._changed()

    def _rate(self, name: str) -> float:
        """Return the growth of a count per second, over the last half minute; 0 while too little is known."""
        if not self._history[name]:
            return 0.0
        (first, before), (last, count) = self._history[name][0], self._history[name][-1]
        return (count - before) / (last - first) if last - first >= _LEAST else 0.0

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
        """Return the phase, the counts, the rate and the time left, or the time so far, in one line."""
        with self._lock:
            count, elapsed = self._counts, _duration(self._clock() - self._began)
            if self._phase != READING:
                return f"{self._phase}, {elapsed}"
            if not count["due"]:
                return f"{self._phase}: looking for pages, {elapsed}"
            pages, found, embedded, tokens = (self._rate(name) for name in _RATED)
            text = f"{self._phase}: {count['pages']:,} of {counted(count['due'], 'page')}"
            if count["waiting"]:
                due = counted(count["embedded"] + count["waiting"], "chunk")
                text += f", {count['embedded']:,} of {due} embedded"
            elif count["embedded"]:
                text += f", {counted(count['embedded'], 'chunk')} embedded"
            if embedded:
                text += f" ({embedded:,.0f} chunks/s, {tokens:,.0f} tokens/s)"
            elif pages and not count["waiting"]:
                text += f" ({pages:,.0f} pages/s)"
            if pages and found > _SETTLED * pages:
                return f"{text}, and more are being found"
            left = count["due"] - count["pages"]
            if tokens and count["pages"]:  # not chunks: the longest of a block are embedded first
                a_page = (count["tokens"] + count["tokens_waiting"]) / count["pages"]
                return f"{text}, about {_duration((left * a_page + count['tokens_waiting']) / tokens)} left"
            if pages and not (count["embedded"] or count["waiting"]):  # else embedding takes longer than reading
                return f"{text}, about {_duration(left / pages)} left"
            return f"{text}, {elapsed}"

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON-ready form."""
        with self._lock:
            return {
                "phase": self._phase,
                "pages": self._counts["pages"],
                "pages_due": self._counts["due"],
                "chunks_embedded": self._counts["embedded"],
                "chunks_waiting": self._counts["waiting"],
                "seconds": round(self._clock() - self._started, 1),
            }

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
