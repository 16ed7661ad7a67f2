"""Lists of files that are kept on the disk: in order, as often as they are wanted, with no more memory."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from indexer.errors import SourceError
from indexer.sources.stored_files import Listing


class File(NamedTuple):
    path: bytes
    size: int
    mark: str


FILES = [File(b"b.md", 1, "one"), File(b"a/\xff.md", 2, "tw\u00f6"), File(b"b.md", 3, "")]


def test_files_come_back_as_they_were_and_as_often_as_wanted() -> None:
    with closing(Listing(File)) as listing:
        assert not len(listing)
        listing.add(FILES[:2])
        listing.add(iter(FILES[2:]))
        assert len(listing) == 3
        assert list(listing) == list(listing) == FILES
        assert all(type(file) is File for file in listing)


def test_by_path_and_of_one_path_in_the_order_in_which_they_came() -> None:
    with closing(Listing(File, by_path=True)) as listing:
        listing.add(FILES)
        assert list(listing) == [FILES[1], FILES[0], FILES[2]]


def test_what_came_last_can_be_forgotten() -> None:
    with closing(Listing(File)) as listing:
        listing.add(FILES)
        listing.cut(1)
        listing.add([FILES[1]])
        assert (len(listing), list(listing)) == (2, FILES[:2])


def test_memory_does_not_grow_with_what_is_listed(tmp_path: Path) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4 >> 10  # MB

    def many(count: int) -> Iterator[File]:
        return (File(b"%030d" % number, number, f"{number:064}") for number in range(count))

    with closing(Listing(File, by_path=True)) as listing:
        before = resident()
        listing.add(many(300_000))
        assert sum(file.size for file in listing) == 300_000 * 299_999 // 2
        assert resident() - before < 40, "in memory they would take 70 MB and more"


def test_a_disk_that_is_full_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Listing(File)) as listing:
        listing._database.execute("PRAGMA max_page_count = 10")
        with pytest.raises(SourceError, match=r"folder for temporary files .*SQLITE_TMPDIR"):
            listing.add(File(b"a" * 100, number, "") for number in range(10_000))


def test_nothing_of_it_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQLITE_TMPDIR", str(tmp_path))
    listing = Listing(File)
    listing.add(File(b"%0200d" % number, number, "") for number in range(100_000))
    listing.close()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(sqlite3.ProgrammingError):
        list(listing)
