"""Select the files of a commit or bucket, compare them with the previous build, and convert them to pages."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import NamedTuple
from urllib.parse import quote

from indexer.config import link_of
from indexer.errors import SourceError
from indexer.read.access_list import UNSUPPORTED_LIST, closed_paths, has_list
from indexer.read.formats import content_type_of, refusal_of, type_by_content
from indexer.records import Failure, Page, PageRecord, Skip
from indexer.source_context import SourceContext

_MAX_FILES, _MAX_PATH_BYTES = 200_000, 32_000_000


class StoredFile(NamedTuple):
    """A file in a listing. `version` changes with its content. `refusal` is the reason to skip it, or empty."""

    path: bytes
    size: int  # bytes
    version: str
    refusal: str = ""
    last_modified: str | None = None

    @property
    def name(self) -> str:
        """Return the path as text."""
        return self.path.decode("utf-8", "replace")


def listing(batches: Iterable[Iterable[StoredFile]]) -> list[StoredFile]:
    """Return the files of a source, sorted by path. Raises SourceError if there are too many."""
    files, path_bytes = list[StoredFile](), 0
    for batch in map(list, batches):
        files += batch
        path_bytes += sum(len(file.path) for file in batch)
        if len(files) > _MAX_FILES or path_bytes > _MAX_PATH_BYTES:
            raise SourceError(f"over {_MAX_FILES:,} files, or over {_MAX_PATH_BYTES:,} bytes in the names of its files")
    return sorted(files, key=lambda file: file.path)


class StoredFiles:
    """The files of a source, with their addresses and their records in the previous build."""

    def __init__(
        self,
        context: SourceContext,
        files: Sequence[StoredFile],
        *,
        root: str,
        ref: str = "",
        closed: Collection[str] = (),
    ) -> None:
        """Store the listing of a source, and collect its access lists.

        Args:
            root: address of the root folder.
            ref: value of `{ref}` in a link template.
            closed: result of `closed_paths` for access lists outside the source; files below these paths are skipped.
        """
        self._context, self._files, self._root, self._ref = context, files, root, ref
        self._limits, self._earlier, self._source = context.limits, context.earlier, context.source
        self._closed = closed_paths(file.name for file in files).union(closed)
        self._fetched_at = datetime.now(UTC).isoformat(timespec="seconds")

    def select(self, *, has_media_types: bool = False) -> Iterator[StoredFile | Skip | Failure]:
        """Yield the files to read, a Skip or Failure for each other file, and a Skip for each hidden folder.

        With `has_media_types`, files without a suffix are not refused, because the source knows their media types.
        """
        hidden: set[bytes] = set()
        for file in self._files:
            steps = file.path.split(b"/")
            dotted = next((place for place, step in enumerate(steps, 1) if step.startswith(b".")), 0)
            is_typed = bool(PurePosixPath(file.name).suffix) or not has_media_types
            if dotted:
                top = b"/".join(steps[:dotted])
                if top not in hidden:
                    hidden.add(top)
                    yield Skip(self.url(top), "hidden")
                continue
            if self._closed and has_list(file.name, self._closed):
                reason: str | None = UNSUPPORTED_LIST
            else:
                is_by_name = has_media_types or file.size > self._limits.max_bytes
                refusal = refusal_of(file.name, self._context.no_images, is_by_name=is_by_name) if is_typed else ""
                reason = file.refusal or refusal or self._limits.scope.refusal(f"file:///{quote(file.path)}")
            if reason:
                yield Skip(self.url(file.path), reason)
            elif file.size > self._limits.max_bytes:
                yield Failure(self.url(file.path), f"larger than {self._limits.max_bytes:,} bytes")
            else:
                yield file

    def unchanged(self, file: StoredFile) -> list[PageRecord]:
        """Return the previous records of a file and its archive members, or an empty list if the file has changed."""
        record = self._earlier.page(self.url(file.path)) if self._earlier.is_trusted else None
        if record is None or record.source != self._source or record.etag != f'"{file.version}"':
            return []
        return [record, *self._earlier.pages(f"{record.url}!/")]

    def records_after_failure(self, path: bytes, reason: str) -> list[PageRecord]:
        """Return the previous records of an unreadable file and its archive members, with `reason` as their failure."""
        url = self.url(path)
        records = filter(None, [self._earlier.page(url), *self._earlier.pages(f"{url}!/")])
        return [replace(record, source=self._source, failure=reason) for record in records]

    def page(self, file: StoredFile, body: bytes, content_type: str = "", charset: str | None = None) -> Page | Skip:
        """Return a file as a page, or a Skip. If the file name implies a media type, `content_type` is ignored."""
        content_type = content_type_of(file.name) or content_type or type_by_content(file.name, body) or ""
        if not content_type:
            return Skip(self.url(file.path), refusal_of(file.name, is_by_name=True))
        return Page(
            url=self.url(file.path),
            source=self._source,
            body=body,
            content_type=content_type,
            charset=charset,
            etag=f'"{file.version}"',
            last_modified=file.last_modified,
            fetched_at=self._fetched_at,
        )

    def url(self, path: bytes) -> str:
        """Return the address of a file, as search results show it."""
        template = self._limits.link_template
        return link_of(template, path, self._ref) if template else f"{self._root}/{quote(path)}"
