"""What a source holds, listed on the disk rather than in memory: it may be a million files."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from indexer.errors import SourceError

_MEMORY = 8_192  # kB that SQLite keeps; a listing that fits is never written


T = TypeVar("T", bound=tuple[Any, ...])


class Listing(Generic[T]):
    """Files, given as often as they are wanted: in the order in which they came, or ordered by path."""

    def __init__(self, kind: type[T], *, by_path: bool = False) -> None:
        """Begin an empty one, in a temporary file that goes with it.

        Args:
            kind: a class of named tuples of what SQLite can keep; one of its fields is `path`.
            by_path: the order; of one path, what came first is first.
        """
        named: Any = kind
        self._make: Callable[[Iterable[Any]], T] = named._make
        self._columns = ", ".join(named._fields)
        self._values = ", ".join("?" * len(named._fields))
        self._order = "path, place" if by_path else "place"
        self._size = 0
        # whoever takes the files of a source may do so from one thread or another, though never from two at a time
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        for line in (f"PRAGMA cache_size = -{_MEMORY}", "PRAGMA journal_mode = OFF", "BEGIN"):
            self._database.execute(line)
        self._database.execute(f"CREATE TABLE files (place INTEGER PRIMARY KEY, {self._columns})")
        if by_path:
            self._database.execute("CREATE INDEX by_path ON files (path, place)")

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[T]:
        rows = self._database.execute(f"SELECT {self._columns} FROM files ORDER BY {self._order}")  # noqa: S608
        return map(self._make, rows)

    def add(self, files: Iterable[T]) -> None:
        """Take more. Raises SourceError: the disk has no room for them."""
        statement = f"INSERT INTO files ({self._columns}) VALUES ({self._values})"  # noqa: S608 - names of fields
        try:
            self._size += self._database.executemany(statement, files).rowcount
        except sqlite3.OperationalError as error:
            what = f"the list of its files cannot be kept in the folder for temporary files ({error})"
            raise SourceError(f"{what}: make room there, or name another one in SQLITE_TMPDIR") from error

    def cut(self, size: int) -> None:
        """Forget all but the first that came."""
        self._database.execute("DELETE FROM files WHERE place > ?", (size,))
        self._size = size

    def close(self) -> None:
        """Remove it."""
        self._database.close()
