"""What people ask, added up: the most asked, what is asked without a good answer, and days; also as CSV."""

import csv
import io
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
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
_KEYS = {"asked": "question", "unanswered": "question", "days": "day"}  # name of the first column, by table
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


class Group(NamedTuple):
    """The figures of searches that belong together."""

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

    def reasons(self) -> list[tuple[str, int]]:
        """Return the reasons in words, and of how many searches each."""
        return [(words, count) for name, words in REASONS.items() if (count := getattr(self, name))]


def _grouped(searches: Sequence[_Search]) -> Group:
    reasons = [search.reasons() for search in searches]
    cosines = [search.cosine for search in searches if search.cosine is not None]
    times = sorted(search.ms for search in searches) or [0.0]
    return Group(
        asked=len(searches),
        unanswered=sum(map(bool, reasons)),
        **{name: sum(name in each for each in reasons) for name in REASONS},
        opened=sum(search.opened for search in searches),
        good=sum(search.best > 0 for search in searches),
        cosine=round(sum(cosines) / len(cosines), 3) if cosines else None,
        p50_ms=round(times[(len(times) - 1) // 2], 2),
        p95_ms=round(times[int(0.95 * (len(times) - 1))], 2),
    )


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
        found["total"] = self.total._asdict()
        for table, name in _KEYS.items():
            found[table] = [{name: key, **group._asdict()} for key, group in getattr(self, table)]
        return found

    def as_csv(self, table: str) -> str:
        """Return the table asked, unanswered or days as CSV with a heading line and no formula."""
        out = io.StringIO()
        writer = csv.writer(out)
        writer.writerow([_KEYS[table], *Group._fields])
        writer.writerows([no_formula(one_line(key)), *group] for key, group in getattr(self, table))
        return out.getvalue()


def report(folder: Path, days: int, collection: str | None = None, *, now: datetime | None = None) -> Report:
    """Add up the searches of some days in a store, today's included. Raises InsightsError, sqlite3.Error or OSError."""
    today = (now or datetime.now(UTC)).replace(hour=0, minute=0, second=0, microsecond=0)
    since = today - timedelta(days=days - 1)
    by_question: dict[str, list[_Search]] = {}
    by_day: dict[str, list[_Search]] = {f"{since + timedelta(days=place):%Y-%m-%d}": [] for place in range(days)}
    searches: list[_Search] = []
    collections: list[str] = []
    if (folder / DATABASE).exists() or not folder.is_dir():  # where there is only a folder, nothing was asked yet
        first = first_id(since.timestamp())
        with closing(open_to_read(folder)) as connection:
            rows = connection.execute(_SEARCHES, (first, collection, collection, MOST_READ))
            searches = [_Search._make(row) for row in rows]
            names = connection.execute("SELECT DISTINCT collection FROM searches WHERE id >= ? ORDER BY 1", (first,))
            collections = [name for (name,) in names]
    for search in searches:
        by_question.setdefault(question_key(search.query), []).append(search)
        day = f"{datetime.fromtimestamp(time_of(search.id), UTC):%Y-%m-%d}"
        by_day.setdefault(day, []).append(search)
    questions = [(some[-1].query, _grouped(some)) for some in by_question.values()]

    def by_need(question: tuple[str, Group]) -> tuple[int, int, str]:
        text, group = question  # what was shown but not opened may have been the answer
        return -(group.empty + group.far + group.bad), -group.unanswered, text

    return Report(
        since=f"{since:%Y-%m-%d}",
        collection=collection,
        collections=collections,
        total=_grouped(searches),
        asked=sorted(questions, key=lambda each: (-each[1].asked, each[0]))[:LISTED],
        unanswered=sorted((each for each in questions if each[1].unanswered), key=by_need)[:LISTED],
        days=[(day, _grouped(some)) for day, some in sorted(by_day.items())],
    )


def question_key(query: str) -> str:
    """Return what two spellings of one question have in common."""
    return fold(query).strip(" ?!.")


def no_formula(text: str) -> str:
    """Return a text with an apostrophe before what a spreadsheet would run as a formula."""
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) or text.startswith(_FORMULA) else text
