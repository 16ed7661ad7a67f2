"""The charts of the status page and of what people ask: their geometry and labels; the templates draw them as SVG."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from rag.insights.report import Group
from web.observe.metrics import Minute

HUNDREDTHS = 100.0  # width of a row's drawing, and height of a column's
SHARES = (0.5, 0.95, 0.99)

Buckets = Sequence[tuple[float, int]]  # upper bound in seconds, how many between it and the bound before


class Bar(NamedTuple):
    """One row of a lying bar chart."""

    label: str
    value: str
    width: float  # of HUNDREDTHS


class Column(NamedTuple):
    """One column of a chart over time; heights are of HUNDREDTHS."""

    label: str
    lower: float
    upper: float


def histogram(buckets: Buckets) -> list[Bar]:
    """Lay out a histogram, from the first to the last bucket that has anything in it."""
    filled = [place for place, (_, count) in enumerate(buckets) if count]
    if not filled:
        return []
    shown = buckets[filled[0] : filled[-1] + 1]
    most = max(count for _, count in shown)
    return [Bar(_bound(bound, buckets), f"{count:,}", HUNDREDTHS * count / most) for bound, count in shown]


def quantiles(buckets: Buckets) -> list[str]:
    """Return the durations within which SHARES of all fall, interpolated within a bucket; none if there are none."""
    total = sum(count for _, count in buckets)
    return [_spell(_quantile(buckets, share * total)) for share in SHARES] if total else []


def throughput(minutes: Sequence[Minute]) -> tuple[list[Column], int]:
    """Lay out the searches and errors of some minutes; also return how many the highest column stands for."""
    return _columns([(_minute(one), one.searches, one.errors) for one in minutes])


def days(groups: Sequence[tuple[str, Group]]) -> tuple[list[Column], int]:
    """Lay out the searches of some days, those without a good answer above; also return the most of one day."""
    return _columns([(_day(name, group), group.asked - group.unanswered, group.unanswered) for name, group in groups])


def durations(seconds: Iterable[tuple[str, float]]) -> list[Bar]:
    """Lay out how long the stages of a build took, in seconds."""
    pairs = list(seconds)
    most = max((value for _, value in pairs), default=0) or 1
    return [Bar(name, f"{value:,.1f} s", HUNDREDTHS * value / most) for name, value in pairs]


def age(moment: str, now: datetime) -> str:
    """Say how long ago a moment was, given by ISO 8601."""
    minutes = int((now - datetime.fromisoformat(moment)).total_seconds()) // 60
    for unit, size in (("day", 1440), ("hour", 60), ("minute", 1)):
        if minutes >= size:
            count = minutes // size
            return f"{count} {unit}{'s' * (count > 1)} ago"
    return "just now"


def _columns(counts: Sequence[tuple[str, int, int]]) -> tuple[list[Column], int]:
    """Lay out labels with two counts each, the second above the first; also return the most of both together."""
    most = max((lower + upper for _, lower, upper in counts), default=0)
    scale = HUNDREDTHS / max(most, 1)
    return [Column(label, lower * scale, upper * scale) for label, lower, upper in counts], most


def _bound(bound: float, buckets: Buckets) -> str:
    if bound == float("inf"):
        return f"> {_spell(buckets[-2][0])}" if len(buckets) > 1 else "any"
    return f"≤ {_spell(bound)}"


def _spell(seconds: float) -> str:
    value, unit = (seconds, "s") if seconds >= 1 else (seconds * 1000, "ms")
    return f"{value:.0f} {unit}" if value >= 10 else f"{round(value, 1):g} {unit}"


def _quantile(buckets: Buckets, rank: float) -> float:
    below, lower = 0, 0.0
    for bound, count in buckets:
        if count and below + count >= rank:
            # nothing is known of how far those over the last bound are over it
            return lower if bound == float("inf") else lower + (bound - lower) * (rank - below) / count
        below, lower = below + count, bound
    return lower


def _minute(minute: Minute) -> str:
    searches = "search" if minute.searches == 1 else "searches"
    errors = f", {minute.errors:,} failed" if minute.errors else ""
    return f"{datetime.fromtimestamp(minute.start, UTC):%H:%M} UTC: {minute.searches:,} {searches}{errors}"


def _day(name: str, group: Group) -> str:
    return f"{name}: {group.asked:,} asked, {group.unanswered:,} without a good answer"
