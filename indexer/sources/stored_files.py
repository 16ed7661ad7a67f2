"""Files with a path and a version, as in a commit or a bucket: which are read, and what is known of them."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Protocol, TypeVar
from urllib.parse import quote

from indexer.config import CrawlLimits, LinkTemplate
from indexer.generation.previous import PreviousGeneration
from indexer.read.access_list import FILE
from indexer.read.formats import MAIL, OCR_OFF, content_type_of, is_source_code, reader_of, refusal_of
from indexer.records import Failure, Known, Page, Skip


class StoredFile(Protocol):
    """A path, and how many bytes are there."""

    @property
    def path(self) -> bytes:
        """Steps with / between them."""

    @property
    def size(self) -> int:
        """Bytes."""


_LIST = FILE.encode()


def _listed_by(path: bytes) -> Iterator[bytes]:
    """What stands before `FILE` in the names of lists that would concern a file."""
    yield path
    steps = path.split(b"/")
    yield from (b"".join(step + b"/" for step in steps[:place]) for place in range(len(steps)))


T = TypeVar("T", bound=StoredFile)


class StoredFiles:
    """Names the files of one source, and looks them up in what an earlier build knows."""

    def __init__(
        self,
        source: str,
        root: str,
        limits: CrawlLimits,
        earlier: PreviousGeneration | None,
        *,
        ref: str = "",
        commit: str = "",
        no_images: str = OCR_OFF,
        read_anyway: Collection[str] = (),
    ) -> None:
        """Ask for nothing yet.

        Args:
            source: as the user gave it.
            root: what comes before the path in an address of a file that is the same over all versions.
            limits: which files are wanted, how large they may be, and where a person can see them.
            earlier: what an earlier build knows.
            ref: for the template of addresses.
            commit: the same.
            no_images: why images are not read, if they are not.
            read_anyway: readers of files that are read although they have not changed.
        """
        self._source = source
        self._root = root
        self._limits = limits
        self._earlier = earlier
        self._no_images = no_images
        self._read_anyway = read_anyway
        self._lists: set[bytes] = set()  # what stands before `FILE` in their paths
        self._template = LinkTemplate(limits.link_template) if limits.link_template else None
        self._ref, self._commit = ref, commit
        self._fetched_at = datetime.now(UTC).isoformat(timespec="seconds")

    def note_lists(self, paths: Iterable[bytes]) -> None:
        """Look for access lists among all files of the source: what one is for is left out, not opened to everybody."""
        self._lists = {path.removesuffix(_LIST) for path in paths if path.endswith(_LIST)}

    def wanted(
        self, files: Iterable[T], special: Callable[[T], str], *, types_are_told: bool = False
    ) -> Iterator[T | Skip | Failure]:
        """Yield the files that are to be read, and of the others why not; of a hidden folder that is said once.

        Args:
            files: in order.
            special: says of one why it is none to read, or nothing.
            types_are_told: whether a name without an ending may be of any type, which is to be asked for.
        """
        hidden: set[bytes] = set()
        for file in files:
            name = file.path.decode("utf-8", "replace")
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
            elif reason := special(file) or self._refusal(file.path, name, types_are_told):
                yield Skip(self.url(file.path), reason)
            elif file.size > self._limits.max_bytes:
                yield Failure(self.url(file.path), f"larger than {self._limits.max_bytes:,} bytes")
            else:
                yield file

    def _refusal(self, path: bytes, name: str, types_are_told: bool) -> str | None:
        has_type = bool(PurePosixPath(name).suffix) or not types_are_told
        of_type = refusal_of(name, self._no_images) if has_type else ""
        return of_type or self._limits.scope.refusal(f"file:///{quote(path)}")

    def known(self, path: bytes, version: str) -> list[Known]:
        """Return what is known of a file of this version, and of what comes with it; nothing if it is to be read."""
        reader = reader_of(content_type_of(path.decode("utf-8", "replace")) or "")
        if self._earlier is None or not self._earlier.is_trusted or reader in self._read_anyway:
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
        """Return what is known of a file, and of what was in it, that cannot be read this time."""
        own = self._earlier.page_behind(self._name(path)) if self._earlier else None
        below = self._earlier.pages(f"{own.url if own else self.url(path)}!/") if self._earlier else ()
        records = [*([own] if own else []), *below]
        return [Known(replace(one, source=self._source), kept=reason) for one in records]

    def kept_below(self, folder: bytes, reason: str) -> list[Known]:
        """Return what is known of all files of a folder that cannot be listed this time."""
        if self._earlier is None:
            return []
        begins = f"{self._name(folder)}/"
        return [
            Known(record, kept=reason)
            for record in self._earlier.pages()
            if record.source == self._source and record.requested.startswith(begins)
        ]

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
        """Return the page of a file; its type is told by its name, or else by what is given."""
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
        """Return the address of a file as a hit has it."""
        return self._template.url(path, self._ref, self._commit) if self._template else self._name(path)

    def _name(self, path: bytes) -> str:
        return f"{self._root}/{quote(path)}"

    def _validator(self, path: bytes, version: str) -> str:
        """Stands for all that decides what is read from a file at one address."""
        fragment = self._fragment(content_type_of(path.decode("utf-8", "replace")) or "")
        return f'"{version}{fragment and f"#{fragment}"}"'

    def _fragment(self, content_type: str) -> str:
        return self._template.fragment if self._template and is_source_code(content_type) else ""
