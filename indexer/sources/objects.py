"""Pages of the objects of a bucket; an object of the same ETag as in the build before is not fetched again."""

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing

from indexer.errors import FetchError, SourceError
from indexer.read.container import with_parts
from indexer.read.formats import CONTAINER, CONTENT_TYPES, content_type_of
from indexer.records import Failure, Item, Skip
from indexer.source_context import SourceContext
from indexer.sources.addresses import BucketAddress
from indexer.sources.bucket import Bucket, brief
from indexer.sources.stored_files import Listing, StoredFile, StoredFiles

_MAX_FAILURES = 20  # objects in a row that the store does not give, after which it is taken to be down
Fetched = tuple[list[Item], str]  # the items of an object, and the error of the store in place of its content


def read_objects(context: SourceContext) -> Generator[Item, None, None]:
    """Read the objects below a prefix, or one of that name.

    All objects are listed before the first is read, so a listing that fails leaves out nothing. Of objects that cannot
    be read this time, the records are yielded.

    Raises SourceError: there is no such bucket or prefix, it may not be listed, or the store does not answer.
    """
    yield from _BucketReading(context, BucketAddress.read(context.source)).items()


class _BucketReading:
    """One reading of a bucket."""

    def __init__(self, context: SourceContext, address: BucketAddress) -> None:
        self._context, self._bucket = context, Bucket(address, context.limits)
        self._files = StoredFiles(
            context, f"{address.scheme}://{address.bucket}", read_anyway=(CONTAINER,)
        )  # no page that is known by itself
        self._failures = 0  # in a row

    def items(self) -> Generator[Item, None, None]:
        """Yield the items of each object. Raises SourceError."""
        context, source, manifest = self._context, self._context.source, self._context.earlier.manifest
        with closing(self._bucket.files()) as listing:
            if not listing and (manifest is None or source not in manifest.sources):
                raise SourceError(f"{source}: there are no objects of this name, or below it")
            self._files.note_lists(listing)
            sizes = [file.size for file in self._wanted(listing) if isinstance(file, StoredFile)]
            if sum(sizes) > context.limits.max_total_bytes:
                raise SourceError(f"{source}: larger than {context.limits.max_total_bytes:,} bytes")
            context.report_due(len(sizes))
            with closing(self._read_ahead(self._wanted(listing))) as items:
                for item in items:
                    yield from with_parts(item, context.limits.max_bytes, context.no_images)

    def _wanted(self, listing: Listing) -> Iterator[StoredFile | Skip | Failure]:
        empty = "empty, as what marks a folder is"
        return self._files.wanted(listing, lambda file: "" if file.size else empty, has_media_types=True)

    def _read_ahead(self, wanted: Iterable[StoredFile | Skip | Failure]) -> Generator[Item, None, None]:
        """Yield the items of each object in order, while the next ones are fetched."""
        concurrency = self._context.limits.concurrency
        ahead: deque[Future[Fetched] | list[Item]] = deque()
        with ThreadPoolExecutor(concurrency, thread_name_prefix="objects") as pool:
            try:
                for file in wanted:
                    if not isinstance(file, StoredFile):
                        ahead.append([file])
                    else:
                        known = self._files.known(file.path, file.version)
                        ahead.append([*known] or pool.submit(self._fetch, file))
                    if len(ahead) > concurrency:
                        yield from self._finish(ahead.popleft())
                while ahead:
                    yield from self._finish(ahead.popleft())
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _finish(self, started: Future[Fetched] | list[Item]) -> list[Item]:
        if isinstance(started, list):
            return started
        items, error = started.result()
        self._failures = self._failures + 1 if error else 0
        if self._failures >= _MAX_FAILURES:
            raise SourceError(f"{self._context.source}: {_MAX_FAILURES} objects in a row could not be read ({error})")
        return items

    def _fetch(self, file: StoredFile) -> Fetched:
        """Return the page of an object, or why there is none, or its records if the trouble may pass."""
        url = self._files.url(file.path)
        has_type = content_type_of(file.path.decode("utf-8", "replace")) is not None
        try:
            content = self._bucket.read(file.path, None if has_type else CONTENT_TYPES)
        except FetchError as error:
            return [Failure(url, str(error))], ""
        except FileNotFoundError:
            return [Skip(url, "not there under this name: it was removed meanwhile, or ends with a slash")], ""
        except self._bucket.errors as error:
            reason = brief(error)
            return [*self._files.kept(file.path, reason)] or [Failure(url, reason)], reason
        if isinstance(content, str):
            return [Skip(url, f"media type {content or 'unknown'} is not read")], ""
        found = file._replace(version=content.version)
        kind, modified = content.content_type, file.note
        page = self._files.page(found, content.body, content_type=kind, charset=content.charset, last_modified=modified)
        return [page], ""
