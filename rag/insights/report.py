"""What people ask, added up: the most asked, what is asked without a good answer, times, and days."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from indexer.generation.lexical.analysis import fold, terms_in
from indexer.generation.lexical.languages import STOP_WORDS
from rag.errors import InsightsError
from rag.insights.events import first_number, time_of
from rag.insights.store import DATABASE, open_to_read

MOST_READ = 200_000  # searches, the latest
LISTED = 50  # questions
AGAIN_S = 120.0  # within which another question of the same caller is the same one in other words
BOUNDS_MS = (1, 2, 3, 4, 6, 8, 12, 16, 25, 35, 50, 75, 100, 250, 500, 1000, 2500, 5000, 10_000)
MOST_DAYS = 3650
REASONS = {  # why a search had no good answer, in words
    "empty": "no hit",
    "far": "nothing close",
    "bad": "judged bad",
    "again": "asked again",
    "unopened": "not opened",
}
_UNSURE = "unopened"  # may have been answered by what was shown
_SHOWN = ("page", "box")  # ways in which hits can be opened
_SEARCHES = """
SELECT s.id, s.query, s.via, s.hits, s.cosine, s.close, s.ms, s.caller, s.collection,
    coalesce(max(f.opened), 0), coalesce(max(f.verdict), 0), coalesce(min(f.verdict), 0)
FROM (SELECT * FROM searches WHERE seen AND id >= ? AND (? IS NULL OR collection = ?) ORDER BY id DESC LIMIT ?) s
LEFT JOIN feedback f ON f.search = s.id GROUP BY s.id ORDER BY s.id
"""


class _Search(NamedTuple):
    """A row of the query above."""

    number: int
    query: str
    via: str
    hits: int
    cosine: float | None
    close: int
    ms: float
    caller: int | None
    collection: str
    opened: int
    best: int  # verdict on one of its hits
    worst: int


@dataclass(slots=True)
class Group:
    """Searches that belong together."""

    asked: int = 0
    unanswered: int = 0  # for one of REASONS, of which a search may have several
    empty: int = 0  # no hit
    far: int = 0  # hits, but none close to the query
    bad: int = 0  # a hit was judged to be no answer, and none to be one
    again: int = 0  # the same caller asked in other words soon after, and had opened nothing
    unopened: int = 0  # shown on a page, and nothing opened or judged
    opened: int = 0
    good: int = 0
    callers: int = 0
    cosine: float | None = None  # mean of the best of each search
    p50_ms: float = 0.0
    p95_ms: float = 0.0
    _callers: set[int] = field(default_factory=set)
    _cosines: list[float] = field(default_factory=list)
    _times: list[float] = field(default_factory=list)

    def add(self, search: _Search, reasons: Sequence[str]) -> None:
        """Count a search."""
        self.asked += 1
        self.unanswered += bool(reasons)
        for reason in reasons:
            setattr(self, reason, getattr(self, reason) + 1)
        self.opened += search.opened
        self.good += search.best > 0
        self._times.append(search.ms)
        if search.caller is not None:
            self._callers.add(search.caller)
        if search.cosine is not None:
            self._cosines.append(search.cosine)

    def finish(self) -> None:
        """Work out what follows from all that was counted."""
        self.callers = len(self._callers)
        self.cosine = round(sum(self._cosines) / len(self._cosines), 3) if self._cosines else None
        times = sorted(self._times)
        if times:
            self.p50_ms, self.p95_ms = (round(times[int(share * (len(times) - 1))], 2) for share in (0.5, 0.95))

    def reasons(self) -> list[tuple[str, int]]:
        """Return the reasons that there were, in words, and of how many searches each."""
        return [(words, count) for name, words in REASONS.items() if (count := getattr(self, name))]

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON-ready form."""
        return {name: value for name, value in asdict(self).items() if not name.startswith("_")}


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of some days."""

    since: str  # YYYY-MM-DD, UTC
    collection: str | None  # None: all
    collections: list[str]  # that anything was asked of in these days
    total: Group
    asked: list[tuple[str, Group]]  # questions as they were last spelled, the most asked first
    unanswered: list[tuple[str, Group]]  # those that most often had no good answer first
    days: list[tuple[str, Group]]  # oldest first, none left out
    times: list[tuple[float, int]]  # upper bound in ms, searches up to it and over the last

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON-ready form."""

        def listed(groups: Iterable[tuple[str, Group]], name: str) -> list[dict[str, Any]]:
            return [{name: key, **group.as_dict()} for key, group in groups]

        return {
            "since": self.since,
            "collection": self.collection,
            "collections": self.collections,
            "total": self.total.as_dict(),
            "asked": listed(self.asked, "question"),
            "unanswered": listed(self.unanswered, "question"),
            "days": listed(self.days, "day"),
            "times": [
                {"up_to_ms": None if bound == float("inf") else bound, "searches": count} for bound, count in self.times
            ],
        }


def report(folder: Path, days: int, collection: str | None = None, *, now: datetime | None = None) -> Report:
    """Add up the searches of some days in a store, today's included. Raises InsightsError, sqlite3.Error or OSError."""
    today = (now or datetime.now(UTC)).replace(hour=0, minute=0, second=0, microsecond=0)
    since = today - timedelta(days=days - 1)
    total, counts = Group(), [0] * (len(BOUNDS_MS) + 1)
    by_question: defaultdict[str, Group] = defaultdict(Group)
    spelled: dict[str, str] = {}
    by_day = {f"{since + timedelta(days=place):%Y-%m-%d}": Group() for place in range(days)}
    found, names = _read(folder, first_number(since.timestamp()), collection)
    for search, reasons in _judged(found):
        key = question_key(search.query)
        spelled[key] = search.query
        day = f"{datetime.fromtimestamp(time_of(search.number), UTC):%Y-%m-%d}"
        for group in (total, by_question[key], by_day.setdefault(day, Group())):
            group.add(search, reasons)
        counts[bisect_left(BOUNDS_MS, search.ms)] += 1
    for group in (total, *by_question.values(), *by_day.values()):
        group.finish()
    questions = [(spelled[key], group) for key, group in by_question.items()]
    poor = [each for each in questions if each[1].unanswered]
    sure = [name for name in REASONS if name != _UNSURE]
    poor.sort(key=lambda each: (-sum(getattr(each[1], name) for name in sure), -each[1].unanswered, each[0]))
    return Report(
        since=f"{since:%Y-%m-%d}",
        collection=collection,
        collections=names,
        total=total,
        asked=sorted(questions, key=lambda each: (-each[1].asked, each[0]))[:LISTED],
        unanswered=poor[:LISTED],
        days=sorted(by_day.items()),
        times=list(zip((*BOUNDS_MS, float("inf")), counts, strict=True)),
    )


def question_key(query: str) -> str:
    """Return what two spellings of one question have in common."""
    return fold(query).strip(" ?!.")


def is_reworded(first: str, second: str) -> bool:
    """Return whether two questions differ, but share a third of the words of the shorter one that carry meaning."""
    if question_key(first) == question_key(second):
        return False
    one, other = ({term for term in terms_in(text) if term not in STOP_WORDS} for text in (first, second))
    return bool(one & other) and 3 * len(one & other) >= min(len(one), len(other))


def _read(folder: Path, first: int, collection: str | None) -> tuple[list[_Search], list[str]]:
    if folder.is_dir() and not (folder / DATABASE).exists():
        return [], []  # nothing was asked yet
    with closing(open_to_read(folder)) as connection:
        rows = connection.execute(_SEARCHES, (first, collection, collection, MOST_READ))
        found = [_Search._make(row) for row in rows]
        names = connection.execute("SELECT DISTINCT collection FROM searches WHERE id >= ? ORDER BY 1", (first,))
        return found, [name for (name,) in names]


def _judged(searches: Sequence[_Search]) -> Iterator[tuple[_Search, list[str]]]:
    """Each search with the reasons why it had no good answer; none where one of its hits was opened or judged good."""
    later: dict[tuple[int, str], _Search] = {}
    reasons: list[list[str]] = []
    for search in reversed(searches):
        found = []
        if not search.hits:
            found.append("empty")
        elif not search.close:
            found.append("far")
        if search.worst < 0:
            found.append("bad")
        if search.caller is not None:
            after = later.get((search.caller, search.collection))
            is_soon = after is not None and time_of(after.number) - time_of(search.number) <= AGAIN_S
            if after and is_soon and is_reworded(search.query, after.query):
                found.append("again")
            later[search.caller, search.collection] = search
        if search.via in _SHOWN and search.hits and not search.worst:
            found.append("unopened")
        reasons.append([] if search.opened or search.best > 0 else found)
    return zip(searches, reversed(reasons), strict=True)


def check_days(days: int) -> int:
    """Return the number if a report can be of so many days. Raises InsightsError."""
    if not 1 <= days <= MOST_DAYS:
        raise InsightsError(f"days must be from 1 to {MOST_DAYS}, not {days}")
    return days
