import csv
import io
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rag.commands.cli import main
from rag.insights.report import Report, is_reworded, report
from rag.insights.store import InsightsStore
from rag.insights.tables import as_csv, harmless
from tests.rag.insights.records import DAY_S, searched, told

NOON = datetime(2026, 5, 20, 12, tzinfo=UTC)
AT = NOON.timestamp()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store in which each reason has a question of its own."""
    found = tmp_path / "insights"
    asked = [
        ("How do I vacuum?", {"who": "key a", "ms": 1.5}),
        ("how do i vacuum", {"who": "key b", "at": AT - DAY_S}),
        ("vacuum full tables", {"who": "key c", "at": AT}),
        ("nothing there", {"hits": 0, "who": "key d"}),
        ("far away", {"close": False, "who": "key e"}),
        ("judged", {"who": "key f"}),
        ("partial index build", {"who": "key g", "at": AT + 10, "via": "api"}),
        ("build an index in parts", {"who": "key g", "at": AT + 40, "via": "api"}),
        ("unlike that", {"who": "key g", "at": AT + 50, "via": "api"}),
        ("=cmd|'x'", {"who": "key h", "via": "api", "collection": "notes", "ms": 90.0}),
        ("typing", {"seen": False}),
        ("old", {"at": AT - 8 * DAY_S}),
    ]
    searches = [searched(query, **{"at": AT + place, **more}) for place, (query, more) in enumerate(asked)]
    with closing(InsightsStore(found, period="day")) as store:
        opened = [told(each, "opened") for each in searches[:2]]
        store.write(searches, [*opened, told(searches[1], "good"), told(searches[5], "bad", rank=2)])
    return found


def made(folder: Path, days: int = 7, collection: str | None = None) -> Report:
    return report(folder, days, collection, now=NOON)


def test_what_is_asked(folder: Path) -> None:
    found = made(folder)
    assert (found.total.asked, found.total.opened, found.total.good) == (10, 2, 1)
    text, group = found.asked[0]
    assert (text, group.asked, group.callers, group.opened) == ("How do I vacuum?", 2, 2, 2)
    assert found.collections == ["default", "notes"]
    assert [day for day, _ in found.days] == [f"2026-05-{number}" for number in range(14, 21)]
    assert [group.asked for _, group in found.days] == [0, 0, 0, 0, 0, 1, 9]
    assert sum(count for _, count in found.times) == 10
    assert (found.total.p50_ms, found.total.p95_ms) == (3.0, 3.0)
    assert [text for text, _ in made(folder, collection="notes").asked] == ["=cmd|'x'"]
    assert made(folder, days=30).total.asked == 11


def test_what_had_no_good_answer(folder: Path) -> None:
    reasons = {
        text: [name for name in ("empty", "far", "bad", "again", "unopened") if getattr(group, name)]
        for text, group in made(folder).unanswered
    }
    assert reasons == {
        "nothing there": ["empty"],
        "far away": ["far", "unopened"],
        "judged": ["bad"],
        "partial index build": ["again"],
        "vacuum full tables": ["unopened"],
    }
    assert list(reasons)[-1] == "vacuum full tables"  # which may have been answered by what was shown


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("how do I rebuild", "rebuilding every night", True),
        ("how do I rebuild", "how do I make a key", False),
        ("Rebuild?", "rebuild", False),
        ("the", "a", False),
    ],
)
def test_the_same_question_in_other_words(first: str, second: str, expected: bool) -> None:
    assert is_reworded(first, second) is expected


def test_csv_does_nothing_in_a_spreadsheet(folder: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(made(folder), "asked"))))
    assert rows[0]["question"] == "How do I vacuum?"
    assert rows[0]["asked"] == "2"
    assert "'=cmd|'x'" in {row["question"] for row in rows}
    for text in ("=1", "+1", "-1", "@x", "\tx", "\r=1", "  =1", "＝1"):
        assert harmless(text) == f"'{text}"
    assert harmless("a = b") == "a = b"
    assert len(as_csv(made(folder), "days").splitlines()) == 8


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = ["--index", str(tmp_path)]
    assert main(["insights", *index]) == 2
    assert "serve with --insights" in capsys.readouterr().err
    with closing(InsightsStore(tmp_path / "insights", period="day")) as store:
        store.write([searched("is \x1b[31mred\x1b[0m far away?", close=False, who="key alice", at=time.time())], [])
        store.write([searched("who knows", who="address 192.0.2.7", at=time.time() - DAY_S)], [])
    assert main(["insights", *index]) == 0
    out = capsys.readouterr().out
    assert "2 asked since" in out
    assert "nothing close 1" in out
    assert "\x1b" not in out
    assert main(["insights", *index, "--csv", "unanswered", "--days", "1"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 2
    assert "\x1b" not in out
    assert main(["insights", *index, "--delete-user", "alice", "--json"]) == 0
    assert capsys.readouterr().out == '{"deleted": 1}\n'
    yesterday = f"{datetime.fromtimestamp(time.time() - DAY_S, UTC):%Y-%m-%d}"
    assert main(["insights", *index, "--delete-day", yesterday]) == 0
    assert capsys.readouterr().out == "deleted 1 search\n"
    assert main(["insights", *index, "--collection", "notes"]) == 0
    assert "nothing was asked" in capsys.readouterr().out
    for wrong in (["--days", "0"], ["--delete-day", "x"], ["--csv", "x"], ["--csv", "days", "--delete-user", "a"]):
        assert main(["insights", *index, *wrong]) == 2
    (tmp_path / "insights" / "searches.sqlite").write_bytes(b"nonsense" * 1000)
    assert main(["insights", *index]) == 2
    assert "cannot be used" in capsys.readouterr().err
