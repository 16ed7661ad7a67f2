"""Lists of files that are kept on the disk: in order, as often as they are wanted, with no more memory."""

from contextlib import closing

import pytest

from indexer.errors import SourceError
from indexer.sources.stored_files import Listing, StoredFile

FILES = [StoredFile(b"b.md", 1, "one"), StoredFile(b"a/\xff.md", 2, "tw\u00f6"), StoredFile(b"b.md", 3, "", "now")]


def test_files_come_by_path_and_then_as_they_came_as_often_as_wanted() -> None:
    with closing(Listing()) as listing:
        listing.add(FILES[:1])
        listing.add(iter(FILES[1:]))
        assert len(listing) == 3
        assert list(listing) == list(listing) == [FILES[1], FILES[0], FILES[2]]


def test_a_disk_that_is_full_is_said() -> None:
    with closing(Listing()) as listing:
        listing._database.execute("PRAGMA max_page_count = 10")
        with pytest.raises(SourceError, match=r"folder for temporary files .*SQLITE_TMPDIR"):
            listing.add(StoredFile(b"a" * 100 + b"%d" % number, number, "") for number in range(10_000))
