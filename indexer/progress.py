"""How far a build is: bars on a terminal, a line every few seconds elsewhere, or nothing."""

import time
from typing import Any, Literal, TextIO

from tqdm import tqdm

Style = Literal["bars", "lines", "quiet"]
_LINE_EVERY = 5.0  # seconds


class _Bar(tqdm):  # type: ignore[misc]  # tqdm ships no type information
    monitor_interval = 0  # no thread of its own


class Progress:
    """Counts pages and chunks of one build; not for use from several threads.

    The number of pages due is what is known so far: on a crawl it grows as links are found.
    """

    def __init__(self, stream: TextIO, style: Style) -> None:
        self._stream = stream
        self._style = style
        self._started = self._last_line = time.monotonic()
        self._pages = self._due = self._embedded = self._waiting = self._tokens = 0
        self._bars: tuple[Any, Any] | None = None

    def found(self, pages: int) -> None:
        """So many pages are due in all, as far as is known."""
        self._due = max(pages, self._pages)
        self._show()

    def page(self) -> None:
        """One more page is done with, whatever came of it."""
        self._pages += 1
        self._due = max(self._due, self._pages)
        self._show()

    def chunks(self, *, waiting: int, embedded: int, tokens: int) -> None:
        """So many chunks, of so many tokens together, are embedded, and so many more chunks wait for it."""
        self._waiting, self._embedded, self._tokens = waiting, embedded, tokens
        self._show()

    def message(self, text: str) -> None:
        """Print one line without disturbing the bars."""
        if self._style == "bars":
            _Bar.write(text, file=self._stream)
        elif self._style == "lines":
            print(text, file=self._stream, flush=True)

    def close(self) -> None:
        """Leave the bars as they are and end their lines."""
        if self._bars is not None:
            for bar in self._bars:
                bar.close()
            self._bars = None

    def _show(self) -> None:
        if self._style == "bars":
            self._show_bars()
        elif self._style == "lines" and time.monotonic() - self._last_line >= _LINE_EVERY:
            self._last_line = time.monotonic()
            print(self._line(), file=self._stream, flush=True)

    def _show_bars(self) -> None:
        if self._bars is None:
            self._bars = (
                _Bar(desc="pages", unit=" pages", file=self._stream, position=0, dynamic_ncols=True),
                _Bar(desc="chunks", unit=" chunks", file=self._stream, position=1, dynamic_ncols=True),
            )
        pages, chunks = self._bars
        pages.total = self._due
        pages.update(self._pages - pages.n)
        chunks.total = self._embedded + self._waiting
        chunks.set_postfix_str(f"{self._rate(self._tokens)} tokens/s", refresh=False)
        chunks.update(self._embedded - chunks.n)

    def _line(self) -> str:
        text = f"{self._pages:,} of {self._due:,} pages, {self._embedded:,} chunks embedded"
        text += f", {self._rate(self._embedded)} chunks/s, {self._rate(self._tokens)} tokens/s"
        if self._pages:
            left = (time.monotonic() - self._started) / self._pages * (self._due - self._pages)
            text += f", about {_duration(left)} left"
        return text

    def _rate(self, count: int) -> str:
        return f"{count / max(time.monotonic() - self._started, 1e-9):,.0f}"


def progress_for(stream: TextIO, *, quiet: bool = False) -> Progress:
    """The style that suits a stream: bars if it is a terminal, otherwise lines."""
    return Progress(stream, "quiet" if quiet else "bars" if stream.isatty() else "lines")


def _duration(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole} s" if whole < 120 else f"{whole // 60} min"
