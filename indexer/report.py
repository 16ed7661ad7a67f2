"""What a build did, for people and for programs."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from indexer.records import Failure, Skip

_EXAMPLES = 3
_FAILURES_SHOWN = 10


@dataclass(frozen=True, slots=True)
class SkipGroup:
    """Pages left out for one reason."""

    reason: str
    count: int
    examples: tuple[str, ...]  # addresses, the first few


@dataclass(frozen=True, slots=True)
class BuildReport:
    """The summary of one build."""

    generation: str
    documents: int
    chunks: int
    fetched: int  # pages and files read, whether or not they were kept
    unchanged: int  # pages carried over from the last generation
    skipped: tuple[SkipGroup, ...]  # the largest group first
    failed: tuple[Failure, ...]
    seconds: dict[str, float]  # fetch, parse, chunk, embed, write, publish, total; fetch is time spent waiting for it

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        return {
            "generation": self.generation,
            "documents": self.documents,
            "chunks": self.chunks,
            "fetched": self.fetched,
            "unchanged": self.unchanged,
            "skipped": [
                {"reason": group.reason, "count": group.count, "examples": list(group.examples)}
                for group in self.skipped
            ],
            "failed": [{"url": failure.url, "reason": failure.reason} for failure in self.failed],
            "seconds": {stage: round(seconds, 3) for stage, seconds in self.seconds.items()},
        }

    def table(self) -> str:
        """A summary to print, several lines."""
        lines = [
            f"generation   {self.generation}",
            f"documents    {self.documents:,}",
            f"chunks       {self.chunks:,}",
            f"fetched      {self.fetched:,}",
            f"unchanged    {self.unchanged:,}",
            f"skipped      {sum(group.count for group in self.skipped):,}",
        ]
        lines += [f"  {group.count:>8,}   {group.reason}, such as {group.examples[0]}" for group in self.skipped]
        lines.append(f"failed       {len(self.failed):,}")
        lines += [f"  {failure.url}: {failure.reason}" for failure in self.failed[:_FAILURES_SHOWN]]
        if len(self.failed) > _FAILURES_SHOWN:
            lines.append(f"  and {len(self.failed) - _FAILURES_SHOWN:,} more")
        stages = ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in self.seconds.items() if stage != "total")
        lines.append(f"seconds      {self.seconds.get('total', 0.0):.1f} ({stages})")
        return "\n".join(lines)


def group_skips(skips: Iterable[Skip]) -> tuple[SkipGroup, ...]:
    """Group by reason, the largest group first."""
    groups: dict[str, list[str]] = {}
    for skip in skips:
        groups.setdefault(skip.reason, []).append(skip.url)
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    return tuple(SkipGroup(reason, len(urls), tuple(urls[:_EXAMPLES])) for reason, urls in ordered)
