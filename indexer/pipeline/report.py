"""The report of a build, for people and for programs."""

import heapq
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec

from indexer.crawl.fetch import Traffic
from indexer.decoding import one_line
from indexer.errors import counted
from indexer.generation.manifest import Counts
from indexer.publish.source_settings import SettingChange
from indexer.records import NO_SCANS, Failure, Host, ScanCounts, Skip

_EXAMPLES = 3
_FAILURES_SHOWN = 10
_BIGGEST = 5
_HOSTS = 5
STAGES = ("fetch", "parse", "model", "chunk", "embed", "write", "publish")


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
            self.add({stage: time.perf_counter() - began})

    def add(self, seconds: Mapping[str, float]) -> None:
        """Add what stages took elsewhere."""
        for stage, some in seconds.items():
            self._seconds[stage] += some

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


@dataclass(frozen=True, slots=True, order=True)
class DocumentSize:
    """How much a page that was read is, and came to."""

    chunks: int
    bytes: int
    url: str


@dataclass(frozen=True, slots=True)
class BuildReport:
    """The summary of one build; new, changed, gone and unchanged are documents, compared with the build before."""

    generation: str  # the live one; not a new one if nothing was published
    documents: int
    chunks: int
    fetched: int  # pages and files whose content was read, whether or not it was kept
    unchanged: int
    skipped: tuple[ReasonGroup, ...]  # the largest group first
    failed: tuple[Failure, ...]
    seconds: dict[str, float]  # fetch, parse, chunk, embed, write, publish, total; fetch is time spent waiting for it
    published: bool = True  # False if nothing had changed
    new: Tally = field(default_factory=Tally)
    changed: Tally = field(default_factory=Tally)
    gone: Tally = field(default_factory=Tally)
    kept: tuple[Failure, ...] = ()  # could not be read this time, so that the version from before stays
    embedded: int = 0  # chunks
    carried: int = 0  # chunks whose vectors were taken over from the build before
    settings: tuple[SettingChange, ...] = ()  # of sources that were there before
    ocr: ScanCounts = NO_SCANS  # of the documents that were read this time
    hosts: tuple[Host, ...] = ()  # that were asked, the slowest first
    biggest: tuple[DocumentSize, ...] = ()  # of the documents that were read this time; the one of most chunks first
    notes: tuple[ReasonGroup, ...] = ()  # on documents of this generation; the largest group first

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON-ready form."""
        report: dict[str, Any] = json.loads(json.dumps(msgspec.to_builtins(self)))  # with lists instead of tuples
        report["ocr"] = {"pages": self.ocr.pages, "lines": self.ocr.lines, "left_out": self.ocr.left_out}
        report["hosts"] = [_host(host) for host in self.hosts]
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
        note = "" if self.published else " (live; nothing has changed)"
        lines = [
            f"generation   {self.generation}{note}",
            f"documents    {self.documents:,}",
            f"chunks       {self.chunks:,} ({self.embedded:,} embedded, {self.carried:,} reused)",
            f"fetched      {self.fetched:,}",
            f"unchanged    {self.unchanged:,}",
        ]
        for name, tally in (("new", self.new), ("changed", self.changed), ("gone", self.gone)):
            lines.append(f"{name:<13}{tally.count:,}{f', such as {tally.examples[0]}' if tally.count else ''}")
        if self.kept:
            lines += _failures("kept", self.kept)
        lines.append(f"skipped      {sum(group.count for group in self.skipped):,}")
        lines += _grouped(self.skipped)
        if self.notes:
            lines += [f"noted        {sum(group.count for group in self.notes):,}", *_grouped(self.notes)]
        lines += _failures("failed", self.failed)
        if self.ocr.pages:
            lines.append(
                f"OCR          {counted(self.ocr.pages, 'page')} read; "
                f"{self.ocr.left_out:,} of {counted(self.ocr.lines, 'line')} left out as uncertain"
            )
        if self.settings:
            lines.append("settings     changed since the last build")
            lines += [f"  {change}" for change in self.settings]
        if self.hosts:
            lines.append("hosts        slowest first")
            lines += [
                f"  {counted(host.requests, 'request'):>17}, {host.failed:,} failed, {host.bytes / 1e6:,.1f} MB, "
                f"{host.seconds / host.requests * 1e3:,.0f} ms each, at most {host.slowest * 1e3:,.0f} ms   {host.host}"
                for host in self.hosts[:_HOSTS]
            ]
        if self.biggest:
            lines.append("biggest      documents read this time")
            lines += [
                f"  {counted(size.chunks, 'chunk'):>15}, {size.bytes / 1e3:,.0f} kB   {size.url}"
                for size in self.biggest
            ]
        stages = ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in self.seconds.items() if stage != "total")
        lines.append(f"seconds      {self.seconds.get('total', 0.0):.1f} ({stages})")
        return "\n".join(lines)


def _host(host: Host) -> dict[str, Any]:
    seconds = {"seconds": round(host.seconds, 3), "slowest": round(host.slowest, 3)}
    return asdict(host) | seconds


def _grouped(groups: tuple[ReasonGroup, ...]) -> list[str]:
    return [f"  {group.count:>8,}   {group.reason}, such as {group.examples[0]}" for group in groups]


def _failures(name: str, failures: tuple[Failure, ...]) -> list[str]:
    lines = [f"{name:<13}{len(failures):,}"]
    lines += [f"  {failure.url}: {failure.reason}" for failure in failures[:_FAILURES_SHOWN]]
    if len(failures) > _FAILURES_SHOWN:
        lines.append(f"  and {len(failures) - _FAILURES_SHOWN:,} more")
    return lines


class Ledger:
    """Gathers what goes into the report of a build."""

    def __init__(self) -> None:
        self.stopwatch = Stopwatch()
        self.traffic = Traffic()
        self.fetched = self.unchanged = 0
        self.new, self.changed, self.gone = Tally(), Tally(), Tally()
        self.kept: list[Failure] = []
        self._skips: dict[str, Tally] = {}  # by reason: of a hostile site they are too many to keep
        self._notes: dict[str, Tally] = {}  # by text
        self.failures: list[Failure] = []
        self.biggest: list[DocumentSize] = []
        self.ocr = NO_SCANS
        self.settings: tuple[SettingChange, ...] = ()

    def size(self, url: str, size: int, chunks: int) -> None:
        """Note how many bytes and chunks a document has that was read."""
        self.biggest = heapq.nlargest(_BIGGEST, [*self.biggest, DocumentSize(chunks, size, url)])

    def scanned(self, scans: ScanCounts) -> None:
        """Note what OCR found in a document."""
        before = self.ocr
        self.ocr = ScanCounts(before.pages + scans.pages, before.lines + scans.lines, before.left_out + scans.left_out)

    def skip(self, skip: Skip) -> None:
        """Note what was left out."""
        self._skips.setdefault(skip.reason, Tally()).add(skip.url)

    def note(self, url: str, text: str) -> None:
        """Count a note on a page."""
        self._notes.setdefault(one_line(text), Tally()).add(url)

    def why_nothing(self, sources: Iterable[str], *, is_live: bool) -> str:
        """Return the message for a build in which no page gave any text."""
        reasons = [group.reason for group in _groups(self._notes)[:2]]
        reasons += [f"{group.count:,} skipped ({group.reason})" for group in _groups(self._skips)[:3]]
        reasons += [f"{failure.url} failed ({failure.reason})" for failure in self.failures[:2]]
        found = "; ".join(reasons) or "no pages or files at all"
        rest = "; the live index has not changed" if is_live else ""
        return f"nothing to index in {', '.join(sources)}: {found}{rest}"

    def report(
        self, generation: str, counts: Counts, *, embedded: int = 0, carried: int = 0, published: bool = True
    ) -> BuildReport:
        """Make the report of a generation."""
        return BuildReport(
            generation=generation,
            published=published,
            documents=counts.documents,
            chunks=counts.chunks,
            fetched=self.fetched,
            new=self.new,
            changed=self.changed,
            gone=self.gone,
            unchanged=self.unchanged,
            kept=tuple(self.kept),
            embedded=embedded,
            carried=carried,
            skipped=_groups(self._skips),
            notes=_groups(self._notes),
            failed=tuple(self.failures),
            settings=self.settings,
            ocr=self.ocr,
            hosts=self.traffic.hosts(),
            biggest=tuple(self.biggest),
            seconds=self.stopwatch.read(),
        )


def _groups(tallies: Mapping[str, Tally]) -> tuple[ReasonGroup, ...]:
    """Return tallies by reason, the largest first."""
    ordered = sorted(tallies.items(), key=lambda group: (-group[1].count, group[0]))
    return tuple(ReasonGroup(reason, tally.count, tuple(tally.examples)) for reason, tally in ordered)
