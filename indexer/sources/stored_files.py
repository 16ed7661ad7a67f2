"""Files with a path and a version, as in a commit or a bucket: which are read, and which are unchanged."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import quote

from indexer.config import LinkTemplate
from indexer.errors import SourceError
from indexer.read.access_list import FILE
from indexer.read.formats import HTML, MAIL, content_type_of, is_source_code, reader_of, refusal_of
from indexer.records import Failure, Item, Known, Page, Skip
from indexer.source_context import SourceContext
from indexer.sources.templates import spread

_CACHE = 8_192  # kB of SQLite's cache; a smaller listing is never written to the disk
_LIST = FILE.encode()


class StoredFile(Protocol):
    """A file of a listing."""

    @property
    def path(self) -> bytes:
        """Return the steps, with / between them."""

    @property
    def size(self) -> int:
        """Return the bytes of its content."""


T = TypeVar("T", bound=StoredFile)
Row = TypeVar("Row", bound=tuple[Any, ...])


class Listing(Generic[Row]):
    """The files of a source, maybe a million, in a temporary file: in the order of arrival, or ordered by path."""

    def __init__(self, kind: type[Row], *, by_path: bool = False) -> None:
        """Create an empty listing.

        Args:
            kind: a class of named tuples of values that SQLite can store, with a field `path`.
            by_path: the order; of the same path, in order of arrival.
        """
        named: Any = kind
        self._make: Callable[[Iterable[Any]], Row] = named._make
        self._columns = ", ".join(named._fields)
        self._values = ", ".join("?" * len(named._fields))
        self._order = "path, place" if by_path else "place"
        self._size = 0
        # the files of a source may be taken from one thread or another, though never from two at a time
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        for line in (f"PRAGMA cache_size = -{_CACHE}", "PRAGMA journal_mode = OFF", "BEGIN"):
            self._database.execute(line)
        self._database.execute(f"CREATE TABLE files (place INTEGER PRIMARY KEY, {self._columns})")
        if by_path:
            self._database.execute("CREATE INDEX by_path ON files (path, place)")

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Row]:
        rows = self._database.execute(f"SELECT {self._columns} FROM files ORDER BY {self._order}")  # noqa: S608
        return map(self._make, rows)

    def add(self, files: Iterable[Row]) -> None:
        """Append files. Raises SourceError: the disk has no room for them."""
        statement = f"INSERT INTO files ({self._columns}) VALUES ({self._values})"  # noqa: S608 - names of fields
        try:
            self._size += self._database.executemany(statement, files).rowcount
        except sqlite3.OperationalError as error:
            what = f"the list of its files cannot be kept in the folder for temporary files ({error})"
            raise SourceError(f"{what}: make room there, or name another one in SQLITE_TMPDIR") from error

    def cut(self, size: int) -> None:
        """Remove all but the first files."""
        self._database.execute("DELETE FROM files WHERE place > ?", (size,))
        self._size = size

    def close(self) -> None:
        """Remove the listing."""
        self._database.close()


class StoredFiles:
    """The files of one source: which are read, their addresses, and their records of the build before."""

    def __init__(
        self, context: SourceContext, root: str, *, ref: str = "", commit: str = "", read_anyway: Collection[str] = ()
    ) -> None:
        """Take a source.

        Args:
            context: the source.
            root: what comes before the path in an address of a file that is the same over all versions.
            ref: for the template of addresses.
            commit: for the template of addresses.
            read_anyway: readers of files that are read although they have not changed.
        """
        self._context = context
        self._limits, self._earlier, self._source = context.limits, context.earlier, context.source
        self._root = root
        self._read_anyway = read_anyway
        self._lists: set[bytes] = set()  # paths of access lists, without `FILE`
        self._template = LinkTemplate(self._limits.link_template) if self._limits.link_template else None
        self._ref, self._commit = ref, commit
        self._fetched_at = datetime.now(UTC).isoformat(timespec="seconds")

    def note_lists(self, paths: Iterable[bytes]) -> None:
        """Find the access lists among all files: their files are left out, not opened to everybody."""
        self._lists = {path.removesuffix(_LIST) for path in paths if path.endswith(_LIST)}

    def survey(self, wanted: Callable[[], Iterable[T | Skip | Failure]], read: Callable[[T], Iterable[Item]]) -> None:
        """Report how many files are due, and let the template be learnt from HTML files of all parts.

        Args:
            wanted: yields the files in order, each time.
            read: reads one of them.
        """
        kinds = Counter(_reader_of(file.path) for file in wanted() if not isinstance(file, Skip | Failure))
        self._context.report_due(kinds.total())
        if self._context.study is not None and kinds[HTML]:
            files = (file for file in wanted() if not isinstance(file, Skip | Failure))
            pages = (file for file in files if _reader_of(file.path) == HTML)
            self._context.study(item for file in spread(pages, kinds[HTML]) for item in read(file))

    def wanted(
        self, files: Iterable[T], refusal: Callable[[T], str], *, has_media_types: bool = False
    ) -> Iterator[T | Skip | Failure]:
        """Yield the files that are to be read, and why others are not; a hidden folder is told once.

        Args:
            files: in order.
            refusal: returns why a file is not read, or nothing.
            has_media_types: whether the source knows the type of a file whose name has no ending.
        """
        hidden: set[bytes] = set()
        for file in files:
            steps = file.path.split(b"/")
            dotted = next((place for place, step in enumerate(steps, 1) if step.startswith(b".")), 0)
            if dotted:
                top = b"/".join(steps[:dotted])
                if top not in hidden:
                    hidden.add(top)
                    yield Skip(self.url(top), "hidden")
            elif file.path.endswith(_LIST):
                yield Skip(self.url(file.path), "an access list, which only folders can have")
            elif self._lists and not self._lists.isdisjoint(_listed_by(file.path)):
                yield Skip(self.url(file.path), "has an access list, which only files of folders can have")
            elif reason := refusal(file) or self._refusal(file.path, has_media_types):
                yield Skip(self.url(file.path), reason)
            elif file.size > self._limits.max_bytes:
                yield Failure(self.url(file.path), f"larger than {self._limits.max_bytes:,} bytes")
            else:
                yield file

    def _refusal(self, path: bytes, has_media_types: bool) -> str | None:
        name = path.decode("utf-8", "replace")
        is_typed = bool(PurePosixPath(name).suffix) or not has_media_types
        of_type = refusal_of(name, self._context.no_images) if is_typed else ""
        return of_type or self._limits.scope.refusal(f"file:///{quote(path)}")

    def known(self, path: bytes, version: str) -> list[Known]:
        """Return the records of a file of this version, and of its attachments; nothing if it is to be read."""
        reader = _reader_of(path)
        if not self._earlier.is_trusted or reader in self._read_anyway:
            return []
        record = self._earlier.page_behind(self._name(path))
        if record is None or record.source != self._source or record.etag != self._validator(path, version):
            return []
        is_there = self._template.is_of(record.url, path, self._ref) if self._template else record.url == self.url(path)
        if not is_there:
            return []
        below = self._earlier.pages(f"{record.url}!/") if reader == MAIL else ()
        return [Known(each) for each in (record, *below)]

    def kept(self, path: bytes, reason: str) -> list[Known]:
        """Return the records of a file, and of its members, that cannot be read this time."""
        record = self._earlier.page_behind(self._name(path))
        below = self._earlier.pages(f"{record.url if record else self.url(path)}!/")
        records = [*([record] if record else []), *below]
        return [Known(replace(one, source=self._source), kept=reason) for one in records]

    def kept_below(self, folder: bytes, reason: str) -> list[Known]:
        """Return the records of all files of a folder that cannot be listed this time."""
        prefix = f"{self._name(folder)}/"
        of_source = (record for record in self._earlier.pages() if record.source == self._source)
        return [Known(record, kept=reason) for record in of_source if record.requested.startswith(prefix)]

    def page(
        self,
        path: bytes,
        body: bytes,
        version: str,
        *,
        content_type: str = "",
        charset: str | None = None,
        last_modified: str | None = None,
    ) -> Page:
        """Return the page of a file, with the media type of its name, or else the one given."""
        content_type = content_type_of(path.decode("utf-8", "replace")) or content_type
        return Page(
            url=self.url(path),
            source=self._source,
            body=body,
            content_type=content_type,
            charset=charset,
            etag=self._validator(path, version),
            last_modified=last_modified,
            fetched_at=self._fetched_at,
            requested=self._name(path),
            line_fragment=self._fragment(content_type),
        )

    def url(self, path: bytes) -> str:
        """Return the address of a file in hits."""
        return self._template.url(path, self._ref, self._commit) if self._template else self._name(path)

    def _name(self, path: bytes) -> str:
        return f"{self._root}/{quote(path)}"

    def _validator(self, path: bytes, version: str) -> str:
        """Return a validator that changes with all that decides what is read from a file at one address."""
        fragment = self._fragment(content_type_of(path.decode("utf-8", "replace")) or "")
        return f'"{version}{fragment and f"#{fragment}"}"'

    def _fragment(self, content_type: str) -> str:
        return self._template.fragment if self._template and is_source_code(content_type) else ""


def _reader_of(path: bytes) -> str | None:
    return reader_of(content_type_of(path.decode("utf-8", "replace")) or "")


def _listed_by(path: bytes) -> Iterator[bytes]:
    """Yield the paths, without `FILE`, of access lists that would concern a file."""
    yield path
    steps = path.split(b"/")
    yield from (b"".join(step + b"/" for step in steps[:place]) for place in range(len(steps)))
