"""What people ask, added up: the most asked, what is asked without a good answer, and days; also as CSV."""

import csv
import io
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from indexer.decoding import one_line
from indexer.generation.lexical.analysis import fold
from rag.insights.store import DATABASE, first_id, open_to_read, time_of

MOST_READ = 200_000  # searches, the latest
LISTED = 50  # questions
MOST_DAYS = 3650
REASONS = {"empty": "no hit", "far": "nothing close", "bad": "judged bad", "unopened": "not opened"}
TABLES = ("asked", "unanswered", "days")
COUNTS = ("asked", "unanswered", *REASONS, "opened", "good")
COLUMNS = (*COUNTS, "cosine", "p50_ms", "p95_ms")
_UNSURE = "unopened"  # what was shown may have been the answer
_VIA_PAGE = ("page", "box")  # where hits can be opened
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")  # of Chinese and Japanese keyboards too
_SEARCHES = """
SELECT s.id, s.query, s.via, s.hits, s.cosine, s.close, s.ms,
    coalesce(max(h.opened), 0), coalesce(max(h.verdict), 0), coalesce(min(h.verdict), 0)
FROM (SELECT * FROM searches WHERE seen AND id >= ? AND (? IS NULL OR collection = ?) ORDER BY id DESC LIMIT ?) s
LEFT JOIN hits h ON h.search = s.id GROUP BY s.id ORDER BY s.id
"""


class _Search(NamedTuple):
    """A row of the query above."""

    id: str
    query: str
    via: str
    hits: int
    cosine: float | None
    close: int
    ms: float
    opened: int
    best: int  # verdict on one of its hits
    worst: int

    def reasons(self) -> list[str]:
        """Return why it had no good answer; empty where one of its hits was opened or judged good."""
        if self.opened or self.best > 0:
            return []
        found = ["empty"] if not self.hits else [] if self.close else ["far"]
        if self.worst < 0:
            return [*found, "bad"]
        return [*found, "unopened"] if self.via in _VIA_PAGE and self.hits else found


@dataclass(slots=True)
class Group:
    """Searches that belong together."""

    asked: int = 0
    unanswered: int = 0  # for one of REASONS, of which a search may have several
    empty: int = 0  # no hit
    far: int = 0  # hits, but none close to the query
    bad: int = 0  # a hit was judged bad, and none good
    unopened: int = 0  # shown on a page, and nothing opened or judged
    opened: int = 0
    good: int = 0
    cosine: float | None = None  # mean of the best of each search
    p50_ms: float = 0.0
    p95_ms: float = 0.0
    _cosines: list[float] = field(default_factory=list)
    _times: list[float] = field(default_factory=list)

    def add(self, search: _Search) -> None:
        """Count a search."""
        reasons = search.reasons()
        self.asked += 1
        self.unanswered += bool(reasons)
        for reason in reasons:
            setattr(self, reason, getattr(self, reason) + 1)
        self.opened += search.opened
        self.good += search.best > 0
        self._times.append(search.ms)
        if search.cosine is not None:
            self._cosines.append(search.cosine)

    def finish(self) -> None:
        """Work out means and quantiles."""
        self.cosine = round(sum(self._cosines) / len(self._cosines), 3) if self._cosines else None
        times = sorted(self._times)
        if times:
            self.p50_ms, self.p95_ms = (round(times[int(share * (len(times) - 1))], 2) for share in (0.5, 0.95))

    def reasons(self) -> list[tuple[str, int]]:
        """Return the reasons in words, and of how many searches each."""
        return [(words, count) for name, words in REASONS.items() if (count := getattr(self, name))]

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON-ready form."""
        return {name: value for name, value in asdict(self).items() if not name.startswith("_")}


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of some days."""

    since: str  # YYYY-MM-DD, UTC
    collection: str | None  # None: all
    collections: list[str]  # that were searched in these days
    total: Group
    asked: list[tuple[str, Group]]  # questions as they were last spelled, the most asked first
    unanswered: list[tuple[str, Group]]  # without a good answer, the most often first
    days: list[tuple[str, Group]]  # oldest first, none left out

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON-ready form."""
        found = {name: getattr(self, name) for name in ("since", "collection", "collections")}
        found["total"] = self.total.as_dict()
        for table in TABLES:
            name = _key_name(table)
            found[table] = [{name: key, **group.as_dict()} for key, group in getattr(self, table)]
        return found

    def as_csv(self, table: str) -> str:
        """Return one of TABLES as CSV with a heading line; no cell is a formula for a spreadsheet."""
        out = io.StringIO()
        writer = csv.writer(out)
        writer.writerow([_key_name(table), *COLUMNS])
        for key, group in getattr(self, table):
            values = group.as_dict()
            writer.writerow([no_formula(one_line(key)), *(values[name] for name in COLUMNS)])
        return out.getvalue()


def report(folder: Path, days: int, collection: str | None = None, *, now: datetime | None = None) -> Report:
    """Add up the searches of some days in a store, today's included. Raises InsightsError, sqlite3.Error or OSError."""
    today = (now or datetime.now(UTC)).replace(hour=0, minute=0, second=0, microsecond=0)
    since = today - timedelta(days=days - 1)
    total = Group()
    by_question: defaultdict[str, Group] = defaultdict(Group)
    by_day = {f"{since + timedelta(days=place):%Y-%m-%d}": Group() for place in range(days)}
    spelling: dict[str, str] = {}
    searches, collections = _read(folder, first_id(since.timestamp()), collection)
    for search in searches:
        key = question_key(search.query)
        spelling[key] = search.query
        day = f"{datetime.fromtimestamp(time_of(search.id), UTC):%Y-%m-%d}"
        for group in (total, by_question[key], by_day.setdefault(day, Group())):
            group.add(search)
    for group in (total, *by_question.values(), *by_day.values()):
        group.finish()
    questions = [(spelling[key], group) for key, group in by_question.items()]
    return Report(
        since=f"{since:%Y-%m-%d}",
        collection=collection,
        collections=collections,
        total=total,
        asked=sorted(questions, key=lambda each: (-each[1].asked, each[0]))[:LISTED],
        unanswered=sorted((each for each in questions if each[1].unanswered), key=_by_need)[:LISTED],
        days=sorted(by_day.items()),
    )


def question_key(query: str) -> str:
    """Return what two spellings of one question have in common."""
    return fold(query).strip(" ?!.")


def no_formula(text: str) -> str:
    """Return a text with an apostrophe before what a spreadsheet would run as a formula."""
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) or text.startswith(_FORMULA) else text


def _read(folder: Path, first: str, collection: str | None) -> tuple[Sequence[_Search], list[str]]:
    if folder.is_dir() and not (folder / DATABASE).exists():
        return [], []  # nothing was asked yet
    with closing(open_to_read(folder)) as connection:
        rows = connection.execute(_SEARCHES, (first, collection, collection, MOST_READ))
        searches = [_Search._make(row) for row in rows]
        names = connection.execute("SELECT DISTINCT collection FROM searches WHERE id >= ? ORDER BY 1", (first,))
        return searches, [name for (name,) in names]


def _by_need(question: tuple[str, Group]) -> tuple[int, int, str]:
    text, group = question
    sure = sum(getattr(group, name) for name in REASONS if name != _UNSURE)
    return -sure, -group.unanswered, text


def _key_name(table: str) -> str:
    return "day" if table == "days" else "question"
