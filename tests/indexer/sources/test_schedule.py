from pathlib import Path

import pytest

from indexer.errors import ConfigError
from indexer.sources.read_times import ReadTimes
from indexer.sources.schedule import RETRY, Schedule, ScheduledSource, read_interval


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("15m", 900), ("6h", 21_600), ("1.5 d", 129_600), ("2W", 1_209_600)]
)
def test_intervals(text: str, seconds: float) -> None:
    assert read_interval(text) == seconds


@pytest.mark.parametrize("text", ["", "6", "h", "-1h", "0s", "0.5s", "400d", "six hours", "1h30m", "9" * 400 + "h"])
def test_what_is_not_an_interval(text: str) -> None:
    with pytest.raises(ConfigError, match=r"such as 6h|like 6h"):
        read_interval(text)


def test_what_is_due_when() -> None:
    now = 1_000.0
    site, folder, other = (
        ScheduledSource("http://t.test/", every=60.0),
        ScheduledSource("notes", watched=True),
        ScheduledSource("once"),
    )
    schedule = Schedule([site, folder, other], clock=lambda: now)
    assert schedule.due() == [site, folder, other]
    assert schedule.wait() == 0
    for entry in schedule.due():
        schedule.done(entry)
    assert (schedule.due(), schedule.wait()) == ([], 60)
    schedule.changed({"notes", "once", "http://t.test/"})
    assert schedule.due() == [folder], "only what is watched is due by a change"
    schedule.done(folder, failed=True)
    assert schedule.wait() == min(60, RETRY)
    now += 60
    assert schedule.due() == [site, folder]
    schedule.done(site, failed=True)
    schedule.done(folder)
    assert (schedule.due(), schedule.wait()) == ([], 60)


def test_nothing_is_due_by_itself_any_more() -> None:
    entry = ScheduledSource("notes", watched=True)
    schedule = Schedule([entry])
    schedule.done(entry)
    assert schedule.wait() is None


def test_what_was_read_lately_is_due_later() -> None:
    ages = {"new": None, "young": 20.0, "old": 500.0, "notes": 20.0}
    entries = [
        ScheduledSource("new", every=60.0),
        ScheduledSource("young", every=60.0),
        ScheduledSource("old", every=60.0),
        ScheduledSource("notes"),
    ]
    now = 1_000.0
    schedule = Schedule(entries, clock=lambda: now, age=lambda entry: ages[entry.source])
    assert [entry.source for entry in schedule.due()] == ["new", "old", "notes"]
    now += 40
    assert [entry.source for entry in schedule.due()] == ["new", "young", "old", "notes"]


def test_readings_are_remembered(tmp_path: Path) -> None:
    now = 1_000.0
    ReadTimes(tmp_path, lambda: now).note("default", [("https://t.test/", "a"), ("/notes", "b")])
    now += 30
    ReadTimes(tmp_path, lambda: now).note("team", [("/notes", "b")])
    readings = ReadTimes(tmp_path, lambda: now)
    assert readings.age("default", "https://t.test/", "a") == 30
    assert readings.age("team", "/notes", "b") == 0
    assert readings.age("default", "https://t.test/", "other settings") is None
    assert readings.age("team", "https://t.test/", "a") is None
    now -= 5_000
    assert readings.age("team", "/notes", "b") == 0, "a clock that was set back"


@pytest.mark.parametrize(
    "content", ["", "[]", "[" * 100_000, '{"c": 1}', '{"c": {"s": 1}}', '{"c": {"s": {"at": "x"}}}']
)
def test_a_file_of_readings_that_is_damaged_counts_as_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "readings.json").write_text(content)
    readings = ReadTimes(tmp_path)
    assert readings.age("c", "s", "a") is None
    readings.note("c", [("s", "a")])
    assert readings.age("c", "s", "a") is not None
