"""Display the progress of a build, and report its results."""

import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TextIO

import msgspec

from indexer.errors import counted
from indexer.generation.languages import LanguageStats, languages_of
from indexer.generation.manifest import Counts, Manifest
from indexer.records import Failure, ScanCounts, Skip
from indexer.text.cleaning import one_line, shorten

READING = "reading"
_TERMINAL_SECONDS = 0.2
_FIRST_LINE_SECONDS, _LINE_SECONDS = 1.0, 10.0
_MIN_ESTIMATE_SECONDS = 2.0
_CLEAR = "\r\x1b[K"
_MAX_EXAMPLES = 3
_MAX_FAILURES_SHOWN, _MAX_FAILURES = 10, 1_000
_MAX_REASONS = 300  # a hostile site could cause a different reason for each page
_MAX_REASON_CHARACTERS = 300
BY_HAND = "as the setting says"
WITHOUT = "the index has none; --tokens yes adds them, and embeds every passage again"
STAGES = ("fetch", "read", "model", "chunk", "embed", "write", "publish")
_FIELDS = (
    "generation published documents chunks languages unknown tokens fetched unchanged kept embedded carried skipped "
    "notes failed sections ocr"
).split()


class Progress:
    """Counts the pages and chunks of a build, and shows them in one line. Safe to share between threads.

    On a terminal, the line is updated five times a second. On other streams, it is printed after one second, and then
    every ten seconds. During a crawl, the expected total increases with the links in the fetched pages. If `quiet` is
    True, nothing is printed.
    """

    def __init__(self, stream: TextIO, *, quiet: bool = False) -> None:
        self._stream = stream
        self._quiet = quiet
        self._began = time.monotonic()
        self._phase = ""
        self._pages = self._due = self._embedded = self._waiting = 0
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def phase(self, name: str) -> None:
        """Begin a phase and show its name."""
        with self._lock:
            self._phase, self._began = name, time.monotonic()
        if not self._quiet and self._thread is None:
            self._thread = threading.Thread(target=self._show, name="pilotlight-progress", daemon=True)
            self._thread.start()

    def raise_total(self, pages: int) -> None:
        """Set the expected number of pages to `pages`, unless it is already higher."""
        with self._lock:
            self._due = max(self._due, pages)

    def page(self) -> None:
        """Count one processed page."""
        with self._lock:
            self._pages += 1
            self._due = max(self._due, self._pages)

    def chunks(self, *, waiting: int = 0, embedded: int = 0) -> None:
        """Count chunks that are waiting for the embedder, and chunks that it has embedded."""
        with self._lock:
            self._waiting += waiting - embedded
            self._embedded += embedded

    def message(self, text: str) -> None:
        """Print a line above the progress."""
        if not self._quiet:
            _print(self._stream, text)

    def close(self) -> None:
        """Stop showing progress, and clear the line."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def line(self) -> str:
        """Return the phase, the counts, the elapsed time and the estimated remaining time."""
        with self._lock:
            text, seconds = self._phase, time.monotonic() - self._began
            if text == READING:
                text += f": {self._pages:,} of {counted(self._due, 'page')}" if self._due else ": looking for pages"
                done = self._pages / self._due if self._due else 0.0
                if total := self._embedded + self._waiting:
                    text += f", {self._embedded:,} of {counted(total, 'chunk')} embedded"
                    done *= self._embedded / total
                if done and seconds >= _MIN_ESTIMATE_SECONDS:
                    return f"{text}, {_clock(seconds)}, about {_clock(seconds / done - seconds)} left"
        return f"{text}, {_clock(seconds)}"

    def _show(self) -> None:
        is_terminal = self._stream.isatty()
        pause = _TERMINAL_SECONDS if is_terminal else _FIRST_LINE_SECONDS
        while not self._closed.wait(pause):
            if is_terminal:
                self._stream.write(_CLEAR + self.line()[: shutil.get_terminal_size().columns - 1])
                self._stream.flush()
            else:
                _print(self._stream, self.line())
                pause = _LINE_SECONDS
        if is_terminal:
            self._stream.write(_CLEAR)
            self._stream.flush()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes:,} min {rest:02} s" if minutes >= 2 else f"{seconds:.0f} s"


@contextmanager
def step_timer(stream: TextIO, title: str, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Print the title and the duration of a long task. Yields a function that prints the name of a step."""

    def name_step(text: str) -> None:
        if not quiet:
            _print(stream, f"{title}{text}")

    began = time.monotonic()
    name_step("")
    yield lambda text: name_step(f": {text}")
    name_step(f": done in {time.monotonic() - began:.0f} s")


def _print(stream: TextIO, text: str) -> None:
    print(f"{_CLEAR if stream.isatty() else ''}{text}", file=stream, flush=True)


@dataclass(slots=True)
class Tally:
    """The number of pages with the same note or the same reason for being skipped, with examples."""

    reason: str
    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, url: str) -> None:
        """Count one page."""
        self.count += 1
        if len(self.examples) < _MAX_EXAMPLES:
            self.examples.append(url)


@dataclass(slots=True)
class TokenUse:
    """The decision whether to store the token vectors of passages for late interaction."""

    kept: bool
    by_hand: bool  # whether the user's setting made the decision
    reason: str
    bytes: int = 0
    broken: tuple[int, int] = (0, 0)  # result of `Embedder.count_broken` for sampled passages

    def __str__(self) -> str:
        return f"yes, {self.bytes / 1e6:,.1f} MB: {self.reason}" if self.kept else f"no: {self.reason}"


def token_use(manifest: Manifest) -> TokenUse:
    """Return whether a generation stores token vectors, and the reason, from the report in its manifest."""
    return msgspec.convert(manifest.report["tokens"], TokenUse)


class BuildReport:
    """The summary of a build. Documents are new, changed, gone or unchanged compared with the previous build."""

    def __init__(self) -> None:
        self.generation = ""
        self.published = True
        self.documents = self.chunks = 0
        self.fetched = 0
        self.unchanged = 0
        self.embedded = self.carried = 0  # chunks with new vectors, chunks with vectors of the previous build
        self.languages: list[LanguageStats] = []
        self.unknown = ""  # sentence about languages that the model does not know
        self.tokens = TokenUse(kept=True, by_hand=False, reason="the model knows the language")
        self.new, self.changed, self.gone = Tally("new"), Tally("changed"), Tally("gone")
        self.failed: list[Failure] = []
        self.kept: list[Failure] = []  # failed pages whose previous version remains in the index
        self.sections: dict[str, int] = {}
        self.ocr = {"pages": 0, "lines": 0, "left_out": 0}
        self.seconds = dict.fromkeys(STAGES, 0.0)  # stages overlap, so their sum exceeds the total
        self._started = time.perf_counter()
        self._skips: dict[str, Tally] = {}
        self._notes: dict[str, Tally] = {}

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the duration of the `with` block to the seconds of a stage."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] += time.perf_counter() - began

    @property
    def skipped(self) -> list[Tally]:
        """Return skipped pages by reason, the largest group first."""
        return _ordered(self._skips)

    @property
    def notes(self) -> list[Tally]:
        """Return each different note with the number of documents that have it, the most frequent first."""
        return _ordered(self._notes)

    def skip(self, skip: Skip) -> None:
        """Count a skipped page."""
        _count(self._skips, skip.reason, skip.url)

    def fail(self, failure: Failure, *, is_kept: bool = False) -> None:
        """Record a page that could not be read. If `is_kept`, the index keeps its previous version."""
        failures = self.kept if is_kept else self.failed
        if len(failures) < _MAX_FAILURES:
            failures.append(Failure(failure.url, shorten(failure.reason, _MAX_REASON_CHARACTERS)))
        else:
            self.skip(Skip(failure.url, f"{'kept' if is_kept else 'failed'}, beyond the first {_MAX_FAILURES:,}"))

    def note(self, url: str, texts: Iterable[str]) -> None:
        """Count the notes on a page."""
        for text in texts:
            _count(self._notes, text, url)

    def scanned(self, scans: ScanCounts) -> None:
        """Add the page and line counts of a document on which OCR was run."""
        self.ocr = {name: count + getattr(scans, name) for name, count in self.ocr.items()}

    def take_languages(self, live: Manifest | None) -> None:
        """Copy the languages from the report of the previous build."""
        if live is not None:
            self.languages, self.unknown = languages_of(live.report), str(live.report.get("unknown", ""))

    def finish(self, generation: str, counts: Counts, *, published: bool = True) -> "BuildReport":
        """Set the id and the counts of the live generation and the total time, and return the report."""
        self.generation, self.published = generation, published
        self.documents, self.chunks = counts.documents, counts.chunks
        self.seconds["total"] = time.perf_counter() - self._started
        return self

    def problems(self) -> str:
        """Return the most frequent notes, skips and failures in parentheses, or an empty string."""
        reasons = [group.reason for group in self.notes[:2]]
        reasons += [f"{group.count:,} skipped ({group.reason})" for group in self.skipped[:3]]
        reasons += [f"{failure.url} failed ({failure.reason})" for failure in self.failed[:2]]
        return f" ({'; '.join(reasons)})" if reasons else ""

    def why_nothing(self, sources: Iterable[str], *, is_live: bool) -> str:
        """Return the error message of a build without documents."""
        reasons = self.problems()[2:-1] or "no pages or files at all"
        rest = "; the live index has not changed" if is_live else ""
        return f"nothing to index in {', '.join(sources)}: {reasons}{rest}"

    def as_dict(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        report = {name: msgspec.to_builtins(getattr(self, name)) for name in _FIELDS}
        for tally in self.new, self.changed, self.gone:
            report[tally.reason] = {"count": tally.count, "examples": tally.examples}
        return report | {"seconds": {stage: round(seconds, 3) for stage, seconds in self.seconds.items()}}

    def line(self) -> str:
        """Return a summary of the build in one line."""
        if not self.published:
            return f"nothing has changed: {counted(self.documents, 'document')}, generation {self.generation}"
        counts = f"{self.new.count:,} new, {self.changed.count:,} changed, {self.gone.count:,} gone"
        problems = f", {len(self.kept):,} kept" * bool(self.kept) + f", {len(self.failed):,} failed" * bool(self.failed)
        return f"{counts}, {self.unchanged:,} unchanged{problems}: generation {self.generation}"

    def table(self) -> str:
        """Return a summary of the build in several lines."""
        lines = [
            f"generation   {self.generation}{'' if self.published else ' (live; nothing has changed)'}",
            f"documents    {self.documents:,}",
            f"chunks       {self.chunks:,} ({self.embedded:,} embedded, {self.carried:,} reused)",
            *([f"languages    {self.unknown}"] if self.unknown else []),
            f"tokens       {self.tokens}",
            f"fetched      {self.fetched:,}",
            f"unchanged    {self.unchanged:,}",
        ]
        lines += [
            f"{tally.reason:<13}{tally.count:,}{f', such as {tally.examples[0]}' if tally.count else ''}"
            for tally in (self.new, self.changed, self.gone)
        ]
        if self.sections:
            kinds = ", ".join(f"{count:,} {kind}" for kind, count in self.sections.items())
            lines.append(f"sections     {kinds}; pilotlight compare --documents shows them")
        if self.kept:
            lines += _failures("kept", self.kept)
        for name, groups in (("skipped", self.skipped), ("noted", self.notes)):
            if groups or name == "skipped":
                lines.append(f"{name:<13}{sum(group.count for group in groups):,}")
            lines += [f"  {group.count:>8,}   {group.reason}, such as {group.examples[0]}" for group in groups]
        lines += _failures("failed", self.failed)
        if pages := self.ocr["pages"]:
            left_out = f"{self.ocr['left_out']:,} of {counted(self.ocr['lines'], 'line')} left out as uncertain"
            lines.append(f"OCR          {counted(pages, 'page')} read; {left_out}")
        stages = ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in self.seconds.items() if stage != "total")
        lines.append(f"seconds      {self.seconds.get('total', 0.0):.1f} ({stages})")
        return "\n".join(lines)


def _failures(name: str, failures: Sequence[Failure]) -> list[str]:
    lines = [f"{name:<13}{len(failures):,}"]
    lines += [f"  {failure.url}: {failure.reason}" for failure in failures[:_MAX_FAILURES_SHOWN]]
    if len(failures) > _MAX_FAILURES_SHOWN:
        lines.append(f"  and {len(failures) - _MAX_FAILURES_SHOWN:,} more")
    return lines


def _count(tallies: dict[str, Tally], text: str, url: str) -> None:
    text = shorten(one_line(text), _MAX_REASON_CHARACTERS)
    if text not in tallies and len(tallies) >= _MAX_REASONS:
        text = "other reasons"
    tallies.setdefault(text, Tally(text)).add(url)


def _ordered(tallies: dict[str, Tally]) -> list[Tally]:
    return sorted(tallies.values(), key=lambda tally: (-tally.count, tally.reason))
