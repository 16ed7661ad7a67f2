"""Pages of the objects of a bucket; an object of the same ETag as in the build before is not fetched again."""

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from indexer.errors import FetchError, SourceError
from indexer.read.container import with_parts
from indexer.read.formats import CONTAINER, CONTENT_TYPES, content_type_of
from indexer.records import Failure, Item, Skip
from indexer.source_context import SourceContext
from indexer.sources.addresses import BucketAddress
from indexer.sources.bucket import Bucket, Entry, brief
from indexer.sources.stored_files import Listing, StoredFiles

_MAX_FAILURES = 20  # objects in a row that the store does not give, after which it is taken to be down


def read_objects(context: SourceContext) -> Generator[Item, None, None]:
    """Read the objects below a prefix, or one of that name.

    All objects are listed before the first is read, so a listing that fails leaves out nothing. Of objects that cannot
    be read this time, the records are yielded.

    Args:
        context: the source, see `BucketAddress`.

    Raises:
        SourceError: there is no such bucket or prefix, it may not be listed, or the store does not answer.
    """
    address = BucketAddress.read(context.source)
    yield from _BucketReading(context, address, Bucket(address, context.limits)).items()


class _Fetched(NamedTuple):
    """The items of an object, and the error of the store in place of its content."""

    items: list[Item]
    error: str = ""


class _BucketReading:
    """One reading of a bucket."""

    def __init__(self, context: SourceContext, address: BucketAddress, bucket: Bucket) -> None:
        self._context, self._bucket = context, bucket
        self._files = StoredFiles(context, address.root, read_anyway=(CONTAINER,))  # no page that is known by itself
        self._sample: dict[bytes, list[Item]] = {}  # read before their turn, by path
        self._failures = 0  # in a row

    def items(self) -> Generator[Item, None, None]:
        """Yield the items of each object. Raises SourceError."""
        context, source, manifest = self._context, self._context.source, self._context.earlier.manifest
        entries, unlisted = self._bucket.entries()
        with closing(entries):
            if not entries and not unlisted and (manifest is None or source not in manifest.sources):
                raise SourceError(f"{source}: there are no objects of this name, or below it")
            self._files.note_lists(entry.path for entry in entries)
            total = sum(entry.size for entry in self._wanted(entries) if isinstance(entry, Entry))
            if total > context.limits.max_total_bytes:
                raise SourceError(f"{source}: larger than {context.limits.max_total_bytes:,} bytes")
            self._files.survey(lambda: self._wanted(entries), self._read_sample)
            for entry in (entry for same in _by_name(entries) for entry in same[1:] if entry.size):
                yield Skip(self._files.url(entry.path), "has the name of another object but for a slash at an end")
            for folder in unlisted:
                yield Failure(f"{self._files.url(folder.path)}/", folder.reason)
                yield from self._files.kept_below(folder.path, folder.reason)
            with closing(self._read_ahead(self._wanted(entries))) as items:
                for item in items:
                    yield from with_parts(item, context.limits.max_bytes, context.no_images)

    def _wanted(self, entries: Listing[Entry]) -> Iterator[Entry | Skip | Failure]:
        first = (same[0] for same in _by_name(entries))
        return self._files.wanted(first, _refusal, has_media_types=True)

    def _read_ahead(self, wanted: Iterable[Entry | Skip | Failure]) -> Generator[Item, None, None]:
        """Yield the items of each object in order, while the next ones are fetched."""
        concurrency = self._context.limits.concurrency
        ahead: deque[Future[_Fetched] | list[Item]] = deque()
        with ThreadPoolExecutor(concurrency, thread_name_prefix="objects") as pool:
            try:
                for entry in wanted:
                    ahead.append([entry] if isinstance(entry, Skip | Failure) else self._start(entry, pool))
                    if len(ahead) > concurrency:
                        yield from self._finish(ahead.popleft())
                while ahead:
                    yield from self._finish(ahead.popleft())
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _start(self, entry: Entry, pool: ThreadPoolExecutor) -> Future[_Fetched] | list[Item]:
        if (items := self._sample.pop(entry.path, None)) is not None:
            return items
        return [*self._files.known(entry.path, entry.version)] or pool.submit(self._fetch, entry)

    def _finish(self, started: Future[_Fetched] | list[Item]) -> list[Item]:
        if isinstance(started, list):
            return started
        items, error = started.result()
        self._failures = self._failures + 1 if error else 0
        if self._failures >= _MAX_FAILURES:
            raise SourceError(f"{self._context.source}: {_MAX_FAILURES} objects in a row could not be read ({error})")
        return items

    def _read_sample(self, entry: Entry) -> list[Item]:
        """Return the items of an object before its turn, when it is not fetched again."""
        known: list[Item] = [*self._files.known(entry.path, entry.version)]
        if not known:
            items, error = self._fetch(entry)
            if not error:  # else it is tried again
                known = self._sample[entry.path] = items
        return known

    def _fetch(self, entry: Entry) -> _Fetched:
        """Return the page of an object, or why there is none, or its records if the trouble may pass."""
        url = self._files.url(entry.path)
        has_type = content_type_of(entry.path.decode("utf-8", "replace")) is not None
        try:
            content = self._bucket.read(entry, None if has_type else CONTENT_TYPES)
        except FetchError as error:
            return _Fetched([Failure(url, str(error))])
        except FileNotFoundError:
            return _Fetched([Skip(url, "not there under this name: it was removed meanwhile, or ends with a slash")])
        except self._bucket.errors as error:
            reason = brief(error)
            return _Fetched([*self._files.kept(entry.path, reason)] or [Failure(url, reason)], reason)
        if isinstance(content, str):
            return _Fetched([Skip(url, f"media type {content or 'unknown'} is not read")])
        page = self._files.page(
            entry.path,
            content.body,
            content.version,
            content_type=content.content_type,
            charset=content.charset,
            last_modified=entry.last_modified,
        )
        return _Fetched([page])


def _by_name(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Yield the objects of each name, of which there may be several; first, one that has content."""
    for _, same in groupby(entries, key=attrgetter("path")):
        yield sorted(same, key=lambda entry: not entry.size)


def _refusal(entry: Entry) -> str:
    return "" if entry.size else "empty, as what marks a folder is"
