import pytest

from indexer.errors import ConfigError
from indexer.schedule import RETRY, Entry, Schedule, read_interval


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
    site, folder, other = Entry("http://t.test/", every=60.0), Entry("notes", watched=True), Entry("once")
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
    entry = Entry("notes", watched=True)
    schedule = Schedule([entry])
    schedule.done(entry)
    assert schedule.wait() is None
