"""What a build says of itself: its progress while it runs, and the report that it fills meanwhile."""

import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TextIO

import msgspec

from indexer.errors import counted
from indexer.generation.languages import Spoken, languages_of
from indexer.generation.manifest import TOKEN_OFFSETS, TOKENS, Counts, Manifest
from indexer.records import Failure, ScanCounts, Skip
from indexer.text.cleaning import one_line, shorten

READING = "reading"  # the phase that has pages and chunks
_TERMINAL_EVERY = 0.2  # seconds between two looks of the line
_FIRST_LINE, _LINES_EVERY = 1.0, 10.0  # seconds, where there is no terminal
_ESTIMATED_AFTER = 2.0  # seconds; a shorter time says little of the rest
_CLEAR = "\r\x1b[K"
_EXAMPLES = 3
_FAILURES_SHOWN = 10
_MOST_LISTED = 1_000  # pages that failed, and that were kept
_MOST_GROUPS = 300  # reasons, and notes: a hostile site can make one for each page
_LONGEST = 300  # characters of one
BY_HAND = "as the setting says"
WITHOUT = "the index has none; --tokens yes embeds every passage again"
STAGES = ("fetch", "read", "model", "chunk", "embed", "write", "publish")
_FIELDS = (
    "generation published documents chunks languages unknown tokens fetched unchanged kept embedded carried skipped "
    "notes failed sections ocr"
).split()


class Progress:
    """Counts pages and chunks of one build; safe to call from several threads.

    A thread shows them in a line: rewritten on a terminal, elsewhere a new one after a second and then every ten. The
    number of pages due is the number known so far: in a crawl it grows as links are found, and so does the time left.
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
        """Begin a phase; `name` is shown from now on."""
        with self._lock:
            self._phase, self._began = name, time.monotonic()
        if not self._quiet and self._thread is None:
            self._thread = threading.Thread(target=self._show, name="pilotlight-progress", daemon=True)
            self._thread.start()

    def found(self, pages: int) -> None:
        """Set the number of pages due in all, as far as known."""
        with self._lock:
            self._due = max(self._due, pages)

    def page(self) -> None:
        """Count one more page as done, whatever its outcome."""
        with self._lock:
            self._pages += 1
            self._due = max(self._due, self._pages)

    def chunks(self, *, waiting: int = 0, embedded: int = 0) -> None:
        """Count more chunks that wait to be embedded, and more of these that now are."""
        with self._lock:
            self._waiting += waiting - embedded
            self._embedded += embedded

    def message(self, text: str) -> None:
        """Print one line that is not overwritten."""
        if not self._quiet:
            _print(self._stream, text)

    def close(self) -> None:
        """Stop showing progress, and leave no half line behind."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def line(self) -> str:
        """Return the phase, the counts, the time so far and an estimate of the time left, in one line."""
        with self._lock:
            text, seconds = self._phase, time.monotonic() - self._began
            if text == READING:
                text += f": {self._pages:,} of {counted(self._due, 'page')}" if self._due else ": looking for pages"
                done = self._pages / self._due if self._due else 0.0
                if total := self._embedded + self._waiting:
                    text += f", {self._embedded:,} of {counted(total, 'chunk')} embedded"
                    done *= self._embedded / total
                if done and seconds >= _ESTIMATED_AFTER:
                    return f"{text}, {_clock(seconds)}, about {_clock(seconds / done - seconds)} left"
        return f"{text}, {_clock(seconds)}"

    def _show(self) -> None:
        is_terminal = self._stream.isatty()
        pause = _TERMINAL_EVERY if is_terminal else _FIRST_LINE
        while not self._closed.wait(pause):
            if is_terminal:
                self._stream.write(_CLEAR + self.line()[: shutil.get_terminal_size().columns - 1])
                self._stream.flush()
            else:
                _print(self._stream, self.line())
                pause = _LINES_EVERY
        if is_terminal:
            self._stream.write(_CLEAR)
            self._stream.flush()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes:,} min {rest:02} s" if minutes >= 2 else f"{seconds:.0f} s"


@contextmanager
def step_timer(stream: TextIO, title: str, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Print a line where a long task begins, one for each of its steps, and one with its seconds at the end.

    Gives the function that names the next step, which may be called from any thread.
    """

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
    """How many pages, and the addresses of the first few."""

    reason: str  # why they were left out, a note on them, or what became of them
    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, url: str) -> None:
        """Count one page."""
        self.count += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(url)


@dataclass(slots=True)
class TokenUse:
    """Whether a generation keeps the tokens of passages for late interaction, why, and what they take."""

    kept: bool
    by_hand: bool  # that was asked for
    reason: str
    bytes: int = 0
    broken: tuple[int, int] = (0, 0)  # `Embedder.count_broken` of some passages of all builds so far

    def __str__(self) -> str:
        return f"yes, {self.bytes / 1e6:,.1f} MB: {self.reason}" if self.kept else f"no: {self.reason}"


def token_use(manifest: Manifest) -> TokenUse:
    """Return what a generation says of its tokens; versions that said nothing kept them only where they were told."""
    if stated := manifest.report.get("tokens"):
        return msgspec.convert(stated, TokenUse)
    sizes = [manifest.files[name].size for name in (TOKENS, TOKEN_OFFSETS) if name in manifest.files]
    return TokenUse(bool(sizes), bool(sizes), BY_HAND if sizes else WITHOUT, sum(sizes))


class BuildReport:
    """The summary of one build; new, changed, gone and unchanged are documents, compared with the build before."""

    def __init__(self) -> None:
        self.generation = ""  # the live one; not a new one if nothing was published
        self.published = True  # False if nothing had changed
        self.documents = self.chunks = 0
        self.fetched = 0  # pages and files whose content was read, whether or not it was kept
        self.unchanged = 0
        self.embedded = self.carried = 0  # chunks; those whose vectors were taken over from the build before
        self.languages: list[Spoken] = []
        self.unknown = ""  # a sentence on the languages that the model does not know
        self.tokens = TokenUse(kept=True, by_hand=False, reason="the model knows the language")
        self.new, self.changed, self.gone = Tally("new"), Tally("changed"), Tally("gone")
        self.failed: list[Failure] = []
        self.kept: list[Failure] = []  # could not be read this time, so that the version from before stays
        self.sections: dict[str, int] = {}  # that changed since the generation before, by kind of change
        self.ocr = {"pages": 0, "lines": 0, "left_out": 0}  # of the documents that were read this time
        self.seconds = dict.fromkeys(STAGES, 0.0)  # and in total; fetching and reading run at the same time
        self._started = time.perf_counter()
        self._skips: dict[str, Tally] = {}  # by reason
        self._notes: dict[str, Tally] = {}

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the seconds that the block takes to a stage."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] += time.perf_counter() - began

    @property
    def skipped(self) -> list[Tally]:
        """Return what was left out, the largest group first."""
        return _ordered(self._skips)

    @property
    def notes(self) -> list[Tally]:
        """Return the notes on documents of this generation, the largest group first."""
        return _ordered(self._notes)

    def skip(self, skip: Skip) -> None:
        """Note what was left out."""
        _count(self._skips, skip.reason, skip.url)

    def fail(self, failure: Failure, *, is_kept: bool = False) -> None:
        """Note a page that could not be read, and may stay as it was before; after a number of them, count them."""
        failures = self.kept if is_kept else self.failed
        if len(failures) < _MOST_LISTED:
            failures.append(Failure(failure.url, shorten(failure.reason, _LONGEST)))
        else:
            self.skip(Skip(failure.url, f"{'kept' if is_kept else 'failed'}, after the first {_MOST_LISTED:,}"))

    def note(self, url: str, texts: Iterable[str]) -> None:
        """Count notes on a page."""
        for text in texts:
            _count(self._notes, text, url)

    def scanned(self, scans: ScanCounts) -> None:
        """Note what OCR found in a document."""
        self.ocr = {name: count + getattr(scans, name) for name, count in self.ocr.items()}

    def take_languages(self, live: Manifest | None) -> None:
        """Take over what an earlier build found of languages."""
        if live is not None:
            self.languages, self.unknown = languages_of(live.report), str(live.report.get("unknown", ""))

    def finish(self, generation: str, counts: Counts, *, published: bool = True) -> "BuildReport":
        """Note the live generation and the time until now; return the report."""
        self.generation, self.published = generation, published
        self.documents, self.chunks = counts.documents, counts.chunks
        self.seconds["total"] = time.perf_counter() - self._started
        return self

    def troubles(self) -> str:
        """Return the most frequent reasons for which pages were left out so far, in brackets; empty for none."""
        reasons = [group.reason for group in self.notes[:2]]
        reasons += [f"{group.count:,} skipped ({group.reason})" for group in self.skipped[:3]]
        reasons += [f"{failure.url} failed ({failure.reason})" for failure in self.failed[:2]]
        return f" ({'; '.join(reasons)})" if reasons else ""

    def why_nothing(self, sources: Iterable[str], *, is_live: bool) -> str:
        """Return the message for a build in which no page gave any text."""
        observed = self.troubles()[2:-1] or "no pages or files at all"
        rest = "; the live index has not changed" if is_live else ""
        return f"nothing to index in {', '.join(sources)}: {observed}{rest}"

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON-ready form."""
        report = {name: msgspec.to_builtins(getattr(self, name)) for name in _FIELDS}
        for tally in self.new, self.changed, self.gone:
            report[tally.reason] = {"count": tally.count, "examples": tally.examples}
        return report | {"seconds": {stage: round(seconds, 3) for stage, seconds in self.seconds.items()}}

    def line(self) -> str:
        """Return what changed, in one line."""
        if not self.published:
            return f"nothing has changed: {counted(self.documents, 'document')}, generation {self.generation}"
        counts = f"{self.new.count:,} new, {self.changed.count:,} changed, {self.gone.count:,} gone"
        troubles = f", {len(self.kept):,} kept" * bool(self.kept) + f", {len(self.failed):,} failed" * bool(self.failed)
        return f"{counts}, {self.unchanged:,} unchanged{troubles}: generation {self.generation}"

    def table(self) -> str:
        """Return a summary to print, of several lines."""
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
    lines += [f"  {failure.url}: {failure.reason}" for failure in failures[:_FAILURES_SHOWN]]
    if len(failures) > _FAILURES_SHOWN:
        lines.append(f"  and {len(failures) - _FAILURES_SHOWN:,} more")
    return lines


def _count(tallies: dict[str, Tally], text: str, url: str) -> None:
    text = shorten(one_line(text), _LONGEST)
    if text not in tallies and len(tallies) >= _MOST_GROUPS:
        text = "other reasons"
    tallies.setdefault(text, Tally(text)).add(url)


def _ordered(tallies: dict[str, Tally]) -> list[Tally]:
    return sorted(tallies.values(), key=lambda tally: (-tally.count, tally.reason))
