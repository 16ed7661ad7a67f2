"""The report of a build, for people and for programs; it is filled while the build runs."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from indexer.decoding import one_line, shorten
from indexer.errors import counted
from indexer.generation.manifest import Counts
from indexer.records import NO_SCANS, Failure, ScanCounts, Skip

_EXAMPLES = 3
_FAILURES_SHOWN = 10
_MOST_LISTED = 1_000  # pages that failed, and that were kept
_MOST_GROUPS = 300  # reasons, and notes: a hostile site can make one for each page
_LONGEST = 300  # characters of one
STAGES = ("fetch", "parse", "model", "chunk", "embed", "write", "publish")
_FIELDS = (
    "generation published documents chunks fetched new changed gone unchanged kept embedded carried "
    "skipped notes failed"
).split()


class Stopwatch:
    """Seconds that the stages of a build took; stages may run at the same time, in threads of their own."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._seconds = dict.fromkeys(STAGES, 0.0)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the time that the block takes to a stage."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.add(stage, time.perf_counter() - began)

    def add(self, stage: str, seconds: float) -> None:
        """Add what a stage took elsewhere."""
        self._seconds[stage] += seconds

    def read(self) -> dict[str, float]:
        """Return seconds by stage so far, and in `total` since the beginning."""
        return {**self._seconds, "total": time.perf_counter() - self._started}


@dataclass(slots=True)
class Tally:
    """How many pages, and the addresses of the first few."""

    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, url: str) -> None:
        """Count one page."""
        self.count += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(url)


@dataclass(frozen=True, slots=True)
class ReasonGroup:
    """Pages left out for one reason, or with the same note."""

    reason: str
    count: int
    examples: tuple[str, ...]  # addresses, the first few


class BuildReport:
    """The summary of one build; new, changed, gone and unchanged are documents, compared with the build before."""

    def __init__(self) -> None:
        self.generation = ""  # the live one; not a new one if nothing was published
        self.published = True  # False if nothing had changed
        self.documents = self.chunks = 0
        self.fetched = 0  # pages and files whose content was read, whether or not it was kept
        self.unchanged = 0
        self.embedded = self.carried = 0  # chunks; those whose vectors were taken over from the build before
        self.new, self.changed, self.gone = Tally(), Tally(), Tally()
        self.failed: list[Failure] = []
        self.kept: list[Failure] = []  # could not be read this time, so that the version from before stays
        self.ocr = NO_SCANS  # of the documents that were read this time
        self.seconds = dict.fromkeys(STAGES, 0.0)  # and in total; fetch is time spent waiting for it
        self.stopwatch = Stopwatch()
        self._skips: dict[str, Tally] = {}  # by reason
        self._notes: dict[str, Tally] = {}  # by text

    @property
    def skipped(self) -> tuple[ReasonGroup, ...]:
        """Return what was left out, the largest group first."""
        return _groups(self._skips)

    @property
    def notes(self) -> tuple[ReasonGroup, ...]:
        """Return the notes on documents of this generation, the largest group first."""
        return _groups(self._notes)

    def skip(self, skip: Skip) -> None:
        """Note what was left out."""
        _count(self._skips, skip.reason, skip.url)

    def fail(self, failure: Failure) -> None:
        """Note a page that could not be read; those over the most that are listed are counted as left out."""
        self._list(self.failed, failure, "failed")

    def keep(self, failure: Failure) -> None:
        """Note a page that could not be read and stays as it was before."""
        self._list(self.kept, failure, "kept")

    def _list(self, failures: list[Failure], failure: Failure, name: str) -> None:
        if len(failures) < _MOST_LISTED:
            failures.append(Failure(failure.url, shorten(one_line(failure.reason), _LONGEST)))
        else:
            self.skip(Skip(failure.url, f"{name}, after the first {_MOST_LISTED:,}"))

    def note(self, url: str, texts: Iterable[str]) -> None:
        """Count notes on a page."""
        for text in texts:
            _count(self._notes, text, url)

    def scanned(self, scans: ScanCounts) -> None:
        """Note what OCR found in a document."""
        before = self.ocr
        self.ocr = ScanCounts(before.pages + scans.pages, before.lines + scans.lines, before.left_out + scans.left_out)

    def finish(self, generation: str, counts: Counts, *, published: bool = True) -> "BuildReport":
        """Note the live generation and the time until now; return the report."""
        self.generation, self.published, self.seconds = generation, published, self.stopwatch.read()
        self.documents, self.chunks = counts.documents, counts.chunks
        return self

    def why_nothing(self, sources: Iterable[str], *, is_live: bool) -> str:
        """Return the message for a build in which no page gave any text."""
        reasons = [group.reason for group in self.notes[:2]]
        reasons += [f"{group.count:,} skipped ({group.reason})" for group in self.skipped[:3]]
        reasons += [f"{failure.url} failed ({failure.reason})" for failure in self.failed[:2]]
        found = "; ".join(reasons) or "no pages or files at all"
        rest = "; the live index has not changed" if is_live else ""
        return f"nothing to index in {', '.join(sources)}: {found}{rest}"

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON-ready form."""
        fields = {name: getattr(self, name) for name in _FIELDS}
        report: dict[str, Any] = json.loads(json.dumps(msgspec.to_builtins(fields)))  # with lists instead of tuples
        report["ocr"] = {"pages": self.ocr.pages, "lines": self.ocr.lines, "left_out": self.ocr.left_out}
        report["seconds"] = {stage: round(seconds, 3) for stage, seconds in self.seconds.items()}
        return report

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
            f"fetched      {self.fetched:,}",
            f"unchanged    {self.unchanged:,}",
        ]
        for name, tally in (("new", self.new), ("changed", self.changed), ("gone", self.gone)):
            lines.append(f"{name:<13}{tally.count:,}{f', such as {tally.examples[0]}' if tally.count else ''}")
        if self.kept:
            lines += _failures("kept", self.kept)
        for name, groups in (("skipped", self.skipped), ("noted", self.notes)):
            if groups or name == "skipped":
                lines.append(f"{name:<13}{sum(group.count for group in groups):,}")
            lines += [f"  {group.count:>8,}   {group.reason}, such as {group.examples[0]}" for group in groups]
        lines += _failures("failed", self.failed)
        if self.ocr.pages:
            left_out = f"{self.ocr.left_out:,} of {counted(self.ocr.lines, 'line')} left out as uncertain"
            lines.append(f"OCR          {counted(self.ocr.pages, 'page')} read; {left_out}")
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
    tallies.setdefault(text, Tally()).add(url)


def _groups(tallies: Mapping[str, Tally]) -> tuple[ReasonGroup, ...]:
    """Return tallies by reason, the largest first."""
    ordered = sorted(tallies.items(), key=lambda group: (-group[1].count, group[0]))
    return tuple(ReasonGroup(reason, tally.count, tuple(tally.examples)) for reason, tally in ordered)
