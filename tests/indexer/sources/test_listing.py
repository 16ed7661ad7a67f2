"""Lists of files that are kept on the disk: in order, as often as they are wanted, with no more memory."""

from contextlib import closing
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


def test_a_disk_that_is_full_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Listing(File)) as listing:
        listing._database.execute("PRAGMA max_page_count = 10")
        with pytest.raises(SourceError, match=r"folder for temporary files .*SQLITE_TMPDIR"):
            listing.add(File(b"a" * 100, number, "") for number in range(10_000))
